#pragma once

/// A Backend as the checks use it: what fails is counted, and tokens go in and logits come out as vectors.

#include "tests/gpu/gpu_harness.h"

#include "engine/backend/backend.h"

#include <algorithm>
#include <span>
#include <vector>

namespace octavo::gpu
{

using namespace engine;

inline int argmax(std::span<const float> logits)
{
    return int(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Runs the backend and counts its errors as failures.
class Driver
{
public:
    Driver(Report& report, Backend& backend)
        : m_report(report)
        , m_backend(backend)
    {
    }

    std::size_t vocab() const { return std::size_t(m_backend.config().vocabSize); }
    SlotId create(std::int64_t tokens) { return value(m_backend.createSequence(tokens)); }
    SlotId fork(SlotId slot, std::int64_t tokens) { return value(m_backend.forkSequence(slot, tokens)); }
    void destroy(SlotId slot) { m_backend.destroySequence(slot); }
    std::vector<float> prefill(SlotId slot, std::span<const TokenId> tokens)
    {
        std::vector<float> logits(vocab());
        const auto most = std::size_t(m_backend.maxPrefillSlice());
        for (std::size_t first = 0; first < tokens.size(); first += most) {
            const auto slice = tokens.subspan(first, std::min(most, tokens.size() - first));
            done(m_backend.prefill(slot, slice,
                                   first + slice.size() == tokens.size() ? std::span(logits) : std::span<float>()));
        }
        return logits;
    }
    std::vector<float> step(const std::vector<StepEntry>& entries)
    {
        std::size_t rows = 0;
        for (const StepEntry& entry : entries)
            rows += entry.tokens.size();
        std::vector<float> logits(rows * vocab());
        done(m_backend.step(entries, logits));
        return logits;
    }
    std::vector<float> step(SlotId slot, std::vector<TokenId> tokens) { return step({StepEntry{slot, tokens}}); }
    void commit(SlotId slot, int rows) { done(m_backend.commit(slot, rows)); }
    std::vector<TokenId> stepBest(const std::vector<StepEntry>& entries, TokenId endId)
    {
        std::size_t rows = 0;
        for (const StepEntry& entry : entries)
            rows += entry.tokens.size();
        std::vector<TokenId> best(rows);
        done(m_backend.stepBest(entries, endId, best));
        return best;
    }
    std::vector<DraftChain> draft(const std::vector<DraftEntry>& entries, float leastChance = 0.0f)
    {
        std::vector<DraftChain> chains(entries.size());
        done(m_backend.draft(entries, leastChance, chains));
        return chains;
    }
    DraftChain draft(SlotId slot, TokenId next, int most = 4, float leastChance = 0.0f)
    {
        return draft({DraftEntry{slot, next, most}}, leastChance)[0];
    }

private:
    SlotId value(const Result<SlotId>& result)
    {
        m_report.expect(result.has_value(), "backend: %s", result ? "" : result.error().message.c_str());
        return result ? *result : noSlot;
    }
    void done(const Result<void>& result)
    {
        m_report.expect(result.has_value(), "backend: %s", result ? "" : result.error().message.c_str());
    }

    Report& m_report;
    Backend& m_backend;
};

} // namespace octavo::gpu
