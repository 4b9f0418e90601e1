#include "engine/speculation/draft_planner.h"

#include <algorithm>
#include <cstdlib>

namespace octavo::engine {

void DraftAcceptance::record(int matched, int accepted, bool rejected)
{
    for (int i = 0; i < accepted; ++i) {
        const auto at = std::size_t(bucket(matched + i));
        m_chance[at] += pace[at] * (1.0 - m_chance[at]);
    }
    if (rejected) {
        const auto at = std::size_t(bucket(matched + accepted));
        m_chance[at] -= pace[at] * m_chance[at];
    }
}

void DraftAcceptance::recordUnused(int matched)
{
    constexpr double pace = 0.01;
    const int at = bucket(matched);
    m_chance[std::size_t(at)] += pace * (start[std::size_t(at)] - m_chance[std::size_t(at)]);
}

void MtpAcceptance::record(float probability, bool accepted)
{
    constexpr double pace = 0.05;
    double& chance = m_chance[std::size_t(bucket(probability))];
    chance += pace * ((accepted ? 1.0 : 0.0) - chance);
}

double MtpAcceptance::yield(int depth) const
{
    constexpr double start = 0.75, weight = 2.0; // that it counts for, in passes
    double expected = start;
    for (int i = 0; i <= depth; ++i)
        expected = (m_kept[std::size_t(i)] + weight * expected) / (m_tried[std::size_t(i)] + weight);
    return expected;
}

void MtpAcceptance::recordPass(int depth, bool kept)
{
    constexpr double memory = 0.92;
    double& tried = m_tried[std::size_t(depth)];
    tried = memory * tried + 1.0;
    m_kept[std::size_t(depth)] = memory * m_kept[std::size_t(depth)] + (kept ? 1.0 : 0.0);
}

void MtpAcceptance::fade(int depth, double memory)
{
    for (int i = depth; i < deepest; ++i) {
        m_tried[std::size_t(i)] *= memory;
        m_kept[std::size_t(i)] *= memory;
    }
}

void MtpAcceptance::recordUntried(int depth)
{
    fade(depth, 0.95); // a failed try costs half a step, and a chain of two or three tokens two
}

void MtpAcceptance::recordUnused()
{
    fade(0, 0.99); // half a step: one in a hundred tokens is cheap
}

void StepCost::record(int rows, std::int64_t durationUs)
{
    constexpr double memory = 0.98;
    // How far a step that the system kept waiting is off says nothing of rows, only that it is: so the line goes where
    // about as many steps lie above it as below.
    constexpr double mostBeyond = 1.2;
    // Many on one side are no chance: steps are others now. Nor is a short one among the first, which are slow.
    constexpr int chance = 8;
    constexpr double known = 20.0; // steps
    const double x = rows, expected = us(rows), taken = double(durationUs);
    const int side = taken > expected * mostBeyond ? 1 : taken < expected / mostBeyond ? -1 : 0;
    m_beyond = side * m_beyond > 0 ? m_beyond + side : side;
    const bool believed = m_oneUs <= 0.0 || std::abs(m_beyond) > chance || (side < 0 && m_weight < known);
    const double y = believed ? taken : std::clamp(taken, expected / mostBeyond, expected * mostBeyond);
    m_weight = memory * m_weight + 1.0;
    m_rows = memory * m_rows + x;
    m_us = memory * m_us + y;
    m_rowsRows = memory * m_rowsRows + x * x;
    m_rowsUs = memory * m_rowsUs + x * y;
    const double spread = m_rowsRows - m_rows * m_rows / m_weight;
    if (spread < 0.5) { // all steps alike: what was known of rows fades, so that drafts are tried again some day
        constexpr double pace = 0.02;
        m_rowShare += pace * (usualShare - m_rowShare);
        m_oneUs = m_us / m_weight / (1.0 + m_rowShare * (m_rows / m_weight - 1.0));
        return;
    }
    const double perRow = (m_rowsUs - m_rows * m_us / m_weight) / spread;
    const double ofOne = m_us / m_weight + perRow * (1.0 - m_rows / m_weight);
    if (ofOne > 0.0) {
        m_rowShare = std::clamp(perRow / ofOne, 0.01, 1.0);
        m_oneUs = ofOne;
    }
}

void StepCost::fade(double oneUs)
{
    constexpr double pace = 0.01;
    if (m_oneUs <= 0.0 || oneUs <= 0.0)
        return;
    const double scale = 1.0 + pace * (oneUs / m_oneUs - 1.0);
    m_oneUs *= scale;
    m_us *= scale;
    m_rowsUs *= scale;
}

bool rowPays(const StepPlan& plan, double chance, const StepCost& cost)
{
    const double step = 1.0 + cost.rowShare() * (plan.rows - 1);
    return chance * step > cost.rowShare() * plan.expectedTokens;
}

namespace {

template <typename ChanceOf>
double bestRateOf(ChanceOf chanceOf, double draftCost, int most)
{
    double best = 1.0, tokens = 1.0, right = 1.0, cost = 1.0;
    for (int i = 0; i < most; ++i) {
        right *= chanceOf(i);
        tokens += right;
        cost += draftCost;
        best = std::max(best, tokens / cost);
    }
    return best;
}

} // namespace

double bestRate(double chance, double draftCost, int most)
{
    return bestRateOf([chance](int) { return chance; }, draftCost, most);
}

double bestRate(const DraftAcceptance& copies, int matched, double draftCost, int most)
{
    return bestRateOf([&](int i) { return copies.chance(matched + i); }, draftCost, most);
}

int passesThatPay(const StepPlan& plan, std::span<const MtpAcceptance* const> chains, const StepCost& cost,
                  double passShare, int most)
{
    double tokens = plan.expectedTokens, best = tokens / (1.0 + cost.rowShare() * (plan.rows - 1));
    int passes = 0;
    std::array<double, MtpAcceptance::deepest> perPass{};
    for (const MtpAcceptance* chain : chains) {
        double right = 1.0;
        for (int depth = 0; depth < MtpAcceptance::deepest; ++depth)
            perPass[std::size_t(depth)] += right *= chain->yield(depth);
    }
    for (int depth = 0; depth < std::min(most, MtpAcceptance::deepest); ++depth) {
        tokens += perPass[std::size_t(depth)];
        const int rows = plan.rows + int(chains.size()) * (depth + 1);
        const double rate = tokens / (1.0 + cost.rowShare() * (rows - 1) + passShare * (depth + 1));
        if (rate > best) {
            best = rate;
            passes = depth + 1;
        }
    }
    return passes;
}

} // namespace octavo::engine
