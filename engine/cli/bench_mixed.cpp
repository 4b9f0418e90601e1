#include "engine/cli/bench.h"
#include "engine/cli/common.h"
#include "engine/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <ostream>
#include <thread>

namespace octavo::cli {
namespace {

using engine::AgentId;
using engine::RequestId;
using engine::TokenId;
using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What arrives, counted from the engine's threads.
class Counter
{
public:
    engine::EventSink sink()
    {
        return [this](RequestId id, engine::Event&& event) {
            {
                const std::scoped_lock lock(m_mutex);
                if (const auto* text = std::get_if<engine::TextAppended>(&event))
                    m_tokens[id] += std::int64_t(text->tokens.size());
                else if (const auto* progress = std::get_if<engine::PrefillProgress>(&event))
                    m_read[id] = progress->done - progress->reused;
                else if (const auto* failed = std::get_if<engine::Failed>(&event))
                    m_failure = failed->error;
                if (std::holds_alternative<engine::Finished>(event) || std::holds_alternative<engine::Failed>(event))
                    ++m_ended;
            }
            m_changed.notify_all();
        };
    }

    std::int64_t tokens() const
    {
        const std::scoped_lock lock(m_mutex);
        std::int64_t sum = 0;
        for (const auto& [id, count] : m_tokens)
            sum += count;
        return sum;
    }

    std::int64_t read(RequestId id) const
    {
        const std::scoped_lock lock(m_mutex);
        const auto found = m_read.find(id);
        return found == m_read.end() ? 0 : found->second;
    }

    /// Until `holds`, a failure, or the time is up.
    template <typename Condition>
    void wait(double seconds, Condition holds)
    {
        std::unique_lock lock(m_mutex);
        m_changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return m_failure || holds(*this); });
    }

    std::size_t numWriting() const { return m_tokens.size(); } // under the lock, inside wait()
    int numEnded() const { return m_ended; }

    Result<void> result() const
    {
        const std::scoped_lock lock(m_mutex);
        if (m_failure)
            return *m_failure;
        return {};
    }

private:
    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::map<RequestId, std::int64_t> m_tokens, m_read;
    std::optional<Error> m_failure;
    int m_ended = 0;
};

/// Seconds of processor time that this process takes per second with nothing to do, once it has come to rest.
double idleLoad()
{
    auto loadOver = [](double seconds) {
        const std::clock_t before = std::clock();
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        return double(std::clock() - before) / CLOCKS_PER_SEC / seconds;
    };
    for (int tries = 0; tries < 40 && loadOver(0.25) > 0.004; ++tries) { // answers are still read into the contexts
    }
    return loadOver(3.0);
}

double worstGapMs(const engine::MetricsSnapshot& snapshot, AgentId reader)
{
    double worst = 0.0;
    for (const engine::DeviceMetrics& device : snapshot.devices) {
        for (const engine::AgentMetrics& agent : device.agents) {
            if (agent.agent != reader)
                worst = std::max(worst, agent.worstGapMs);
        }
    }
    return worst;
}

} // namespace

Result<void> runBenchMixed(const Arguments& arguments, Streams& streams)
{
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 250'000 - 1024, 64, longestContext));
    OCTAVO_TRY(const std::int64_t agents, arguments.integer("--agents", 8, 2, 32));
    OCTAVO_TRY(const double seconds, arguments.number("--seconds", 8.0, 0.5, 3600.0));
    OCTAVO_TRY(const auto engine, openEngine(arguments, streams));
    const TokenId endId = engine->tokenizer().endId();
    if (context >= engine->model().contextLimit)
        return Error{ErrorCode::InvalidArgument, "--context is " + std::to_string(context) + ", must be below "
                                                     + std::to_string(engine->model().contextLimit)};

    Counter counter;
    std::vector<RequestId> ids;
    auto submit = [&](std::int64_t agent, std::int64_t tokens, int maxNewTokens) -> Result<RequestId> {
        engine::GenerationRequest request;
        request.id = engine->nextRequestId();
        request.agent = AgentId(std::uint32_t(agent));
        request.prompt = uniqueTokens(tokens, endId, std::uint64_t(agent) + 1);
        request.maxNewTokens = maxNewTokens;
        request.drafts = false; // filler repeats itself, which would flatter the figures
        request.sampling.temperature = 1.0f;
        request.sampling.seed = std::uint64_t(agent);
        const RequestId id = request.id;
        ids.push_back(id);
        OCTAVO_CHECK(engine->submit(std::move(request), counter.sink()));
        return id;
    };
    auto endAll = [&] {
        for (const RequestId id : ids)
            engine->cancel(id);
        counter.wait(30.0, [&](const Counter& seen) { return seen.numEnded() == int(ids.size()); });
    };

    const std::int64_t writers = agents - 1;
    const int endless = int(std::min<std::int64_t>(engine->model().contextLimit - 1024, 1 << 20));
    for (std::int64_t agent = 0; agent < writers; ++agent)
        OCTAVO_CHECK(submit(agent, 512, endless));
    counter.wait(120.0, [&](const Counter& seen) { return seen.numWriting() == std::size_t(writers); });
    OCTAVO_CHECK(counter.result());

    auto measure = [&](double forSeconds) {
        const std::int64_t before = counter.tokens();
        const auto start = Clock::now();
        std::this_thread::sleep_for(std::chrono::duration<double>(forSeconds));
        return double(counter.tokens() - before) / secondsSince(start);
    };
    const double alone = measure(std::min(seconds / 2, 5.0));
    const auto start = Clock::now();
    OCTAVO_TRY(const RequestId reader, submit(writers, context, 0));
    const double beside = measure(seconds);
    const double readPerSecond = double(counter.read(reader)) / secondsSince(start);
    const engine::MetricsSnapshot snapshot = engine->metrics();
    std::int64_t readUs = 0, writeUs = 0;
    const std::int64_t sinceUs = snapshot.timeUs - std::int64_t(seconds * 1e6);
    for (const engine::DeviceMetrics& device : snapshot.devices) {
        for (const engine::WorkSpan& span : device.recentWork) {
            if (span.startUs >= sinceUs)
                (span.kind == engine::WorkSpan::Kind::Prefill ? readUs : writeUs) += span.durationUs;
        }
    }
    endAll();
    OCTAVO_CHECK(counter.result());
    const double idle = idleLoad();

    const double writeShare = readUs + writeUs > 0 ? double(writeUs) / double(readUs + writeUs) : 0.0;
    const double gap = worstGapMs(snapshot, AgentId(std::uint32_t(writers)));
    const double perShare = alone > 0.0 && writeShare > 0.0 ? beside / (alone * writeShare) : 0.0;
    const engine::DeviceMetrics& device = snapshot.devices.front();
    if (arguments.has("--json")) {
        const nlohmann::ordered_json line{{"bench", "mixed"},
                                          {"device", device.device},
                                          {"description", device.description},
                                          {"shape", engine->model().name},
                                          {"context", context},
                                          {"agents", agents},
                                          {"rows", 1},
                                          {"tokens_per_s", beside},
                                          {"tokens_per_s_without_reader", alone},
                                          {"compute_share_of_writers", writeShare},
                                          {"tokens_per_share", perShare},
                                          {"prefill_tokens_per_s", readPerSecond},
                                          {"worst_gap_ms", gap},
                                          {"idle_cpu_s_per_s", idle},
                                          {"command", reproducingCommand(arguments)}};
        streams.out << line.dump() << '\n';
        return {};
    }
    streams.out << "one reader of " << context << " tokens beside " << writers << " writers on " << device.device
                << "\n  worst gap between tokens   " << gap << " ms\n  writers together           " << beside
                << " tokens/s (" << alone << " without the reader)\n  their share of the compute " << writeShare
                << "\n  tokens per unit of compute " << perShare
                << " of what they reach alone\n  reader                     " << readPerSecond
                << " tokens/s\n  idle                       " << idle << " s of processor time per second\n";
    return {};
}

} // namespace octavo::cli
