#pragma once

/// Memory that is wanted soon. Products on several rows leave the memory bus mostly idle, so while they compute they
/// ask for these lines, a few at each step, and what comes next finds its data in the caches.
///
/// Asking reads nothing and never faults: a stale range costs time, no more.

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cpu {

struct AheadRange {
    const std::byte* begin = nullptr;
    std::int64_t bytes = 0;
};

/// A cursor over ranges; one per thread.
struct Ahead {
    const std::byte* next = nullptr;
    const std::byte* end = nullptr;
    const AheadRange* ranges = nullptr; ///< those after [next, end)
    int rangesLeft = 0;
    std::int64_t step = 0; ///< bytes to ask for at each step of eight inputs; a multiple of 64
    /// Where the product after the one at hand begins to read. Products of one row have no time to spare for ranges:
    /// they ask for their own weights ahead of time, and for the first of these at their end. May be null.
    const std::byte* then = nullptr;

    void takeRange()
    {
        if (next < end || rangesLeft == 0)
            return;
        next = ranges->begin;
        end = next + ranges->bytes;
        ++ranges;
        --rangesLeft;
    }
};

} // namespace octavo::kernels::cpu
