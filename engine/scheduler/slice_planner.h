#pragma once

/// How many tokens to read next, and whether to read or to write: the time budget of a worker.
///
/// A slice beside writing agents aims at `sliceBudgetUs`, so that none waits longer than a slice and a step; alone it
/// may take longer, as only cancelling waits for it. The rate is measured, since it falls as a context grows.

#include <cstdint>

namespace octavo::engine {

class SlicePlanner
{
public:
    struct Limits {
        std::int64_t sliceBudgetUs = 120'000;      ///< beside writers
        std::int64_t aloneBudgetUs = 300'000;      ///< nobody writes
        int largestSlice = 2048;                   ///< a multiple of 64
    };

    explicit SlicePlanner(const Limits& limits) : m_limits(limits) {}

    /// Tokens for the next slice with `left` to go: a multiple of 64, or all that is left.
    int sliceFor(std::int64_t left, bool besideWriters) const;

    void recordSlice(std::int64_t tokens, std::int64_t durationUs, bool besideWriters, bool shortRead);
    void recordStep(std::int64_t durationUs);

    /// Whether a slice may come before the next step: one step at least stands between two slices, and as much time
    /// goes to writing as a long read took.
    bool sliceIsDue() const { return m_stepsSinceSlice > 0 && m_owedToWritersUs <= 0; }

    double tokensPerSecond() const { return m_usPerToken > 0 ? 1e6 / m_usPerToken : 0.0; }

private:
    Limits m_limits;
    double m_usPerToken = 0.0;
    int m_lastSlice = 0;
    int m_stepsSinceSlice = 1;
    std::int64_t m_owedToWritersUs = 0;
};

} // namespace octavo::engine
