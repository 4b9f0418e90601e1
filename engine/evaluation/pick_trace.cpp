#include "engine/evaluation/pick_trace.h"

#include "engine/memory/hot_buffer.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

namespace octavo::engine
{

namespace
{

struct Counted {
    std::int64_t hits = 0, picks = 0;
    double rate() const { return picks > 0 ? double(hits) / double(picks) : 0.0; }
};

Result<double> clockRate(const PickTrace& trace, std::int64_t rows, std::int64_t warmUp)
{
    OCTAVO_TRY(HotBuffer buffer, HotBuffer::create(1, rows));
    std::vector<HotBuffer::LaneId> lanes;
    for (int lane = 0; lane < trace.lanes; ++lane)
        lanes.push_back(buffer.addLane(trace.tokens));
    Counted counted;
    for (std::int64_t step = 0; step < trace.steps(); ++step) {
        buffer.beginStep();
        const std::int64_t before = buffer.total().hits;
        std::int64_t picked = 0;
        for (int lane = 0; lane < trace.lanes; ++lane) {
            const auto& picks = trace.picks[std::size_t(step * trace.lanes + lane)];
            buffer.read(lanes[std::size_t(lane)], picks);
            picked += std::int64_t(picks.size());
        }
        if (step >= warmUp) {
            counted.hits += buffer.total().hits - before;
            counted.picks += picked;
        }
    }
    return counted.rate();
}

/// Evicts the row whose `rank` is smallest. Ranks: the step of last use, or minus the step of the next.
class RankedBuffer
{
public:
    RankedBuffer(const PickTrace& trace, std::int64_t rows)
        : m_tokens(trace.tokens), m_rows(rows), m_rank(std::size_t(trace.lanes) * std::size_t(trace.tokens), absent)
    {}

    /// Whether the row was there; from now on it is, with this rank.
    bool use(int lane, std::int32_t token, std::int64_t rank)
    {
        const std::int64_t row = lane * m_tokens + token;
        std::int64_t& known = m_rank[std::size_t(row)];
        const bool hit = known != absent;
        if (hit)
            m_order.erase({known, row});
        known = rank;
        m_order.insert({rank, row});
        return hit;
    }
    void shrink()
    {
        while (std::int64_t(m_order.size()) > m_rows) {
            m_rank[std::size_t(m_order.begin()->second)] = absent;
            m_order.erase(m_order.begin());
        }
    }

private:
    static constexpr std::int64_t absent = std::numeric_limits<std::int64_t>::min();
    std::int64_t m_tokens, m_rows;
    std::vector<std::int64_t> m_rank; // by row
    std::set<std::pair<std::int64_t, std::int64_t>> m_order;
};

/// By row and step, minus the step in which it is picked next.
std::vector<std::vector<std::int64_t>> nextUses(const PickTrace& trace)
{
    std::vector<std::vector<std::int64_t>> next(trace.picks.size());
    std::vector<std::int64_t> later(std::size_t(trace.lanes) * std::size_t(trace.tokens),
                                    std::numeric_limits<std::int32_t>::max());
    for (std::int64_t at = std::int64_t(trace.picks.size()) - 1; at >= 0; --at) {
        const std::int64_t lane = at % trace.lanes, step = at / trace.lanes;
        for (const std::int32_t token : trace.picks[std::size_t(at)]) {
            std::int64_t& use = later[std::size_t(lane * trace.tokens + token)];
            next[std::size_t(at)].push_back(-use);
            use = step;
        }
    }
    return next;
}

double rankedRate(const PickTrace& trace, std::int64_t rows, std::int64_t warmUp,
                  const std::vector<std::vector<std::int64_t>>* next)
{
    RankedBuffer buffer(trace, rows);
    Counted counted;
    for (std::int64_t step = 0; step < trace.steps(); ++step) {
        for (int lane = 0; lane < trace.lanes; ++lane) {
            const auto at = std::size_t(step * trace.lanes + lane);
            for (std::size_t i = 0; i < trace.picks[at].size(); ++i) {
                const bool hit = buffer.use(lane, trace.picks[at][i], next ? (*next)[at][i] : step);
                counted.hits += step >= warmUp && hit ? 1 : 0;
                counted.picks += step >= warmUp ? 1 : 0;
            }
        }
        buffer.shrink(); // after the step, whose rows stay to its end
    }
    return counted.rate();
}

} // namespace

Result<PickTrace> syntheticTrace(int lanes, std::int64_t tokens, std::int64_t picks, std::int64_t steps,
                                 double missRate)
{
    if (lanes < 1 || picks < 1 || tokens < 2 * picks || tokens > std::numeric_limits<std::int32_t>::max() ||
        !(missRate >= 0.0 && missRate <= 1.0))
        return Error{ErrorCode::InvalidArgument,
                     "A stream of " + std::to_string(picks) + " picks a step from " + std::to_string(tokens) +
                         " tokens with a miss rate of " + std::to_string(missRate) +
                         " cannot be made; at least twice as many tokens as picks and a rate "
                         "from 0 to 1 are needed"};
    PickTrace trace{lanes, tokens, {}};
    for (std::int64_t step = 0; step < steps; ++step) {
        // A window that goes on through the tokens, round and round; lanes begin apart.
        const auto moved = std::int64_t(missRate * double(picks) * double(step));
        for (int lane = 0; lane < lanes; ++lane) {
            auto& row = trace.picks.emplace_back();
            for (std::int64_t i = 0; i < picks; ++i)
                row.push_back(std::int32_t((lane * tokens / lanes + moved + i) % tokens));
            std::ranges::sort(row);
        }
    }
    return trace;
}

Result<HitRates> replay(const PickTrace& trace, std::int64_t rows, std::int64_t warmUp)
{
    std::int64_t most = 0;
    for (std::int64_t step = 0; step < trace.steps(); ++step) {
        std::int64_t picked = 0;
        for (int lane = 0; lane < trace.lanes; ++lane)
            picked += std::int64_t(trace.picks[std::size_t(step * trace.lanes + lane)].size());
        most = std::max(most, picked);
    }
    if (rows < most)
        return Error{ErrorCode::InvalidArgument, "A buffer of " + std::to_string(rows) + " rows is too small for " +
                                                     std::to_string(most) + " picks of one step"};
    HitRates rates;
    OCTAVO_TRY(rates.clock, clockRate(trace, rows, warmUp));
    rates.leastRecent = rankedRate(trace, rows, warmUp, nullptr);
    const auto next = nextUses(trace);
    rates.optimum = rankedRate(trace, rows, warmUp, &next);
    return rates;
}

} // namespace octavo::engine
