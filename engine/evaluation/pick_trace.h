#pragma once

/// Which rows decoding picked, step by step, and how many of them a hot buffer of some size would have held under three
/// rules: windowed CLOCK as HotBuffer has it, least recently used, and Belady's optimum, which knows the future.

#include "engine/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace octavo::engine
{

struct PickTrace {
    int lanes = 0;                                 ///< lists of all layers
    std::int64_t tokens = 0;                       ///< that may be picked, in each lane
    std::vector<std::vector<std::int32_t>> picks; ///< (steps, lanes): ascending

    std::int64_t steps() const { return lanes > 0 ? std::int64_t(picks.size()) / lanes : 0; }
};

/// A stream in which every step picks `picks` rows of each lane, a share `missRate` of them rows that were not picked
/// for as long as possible, in place of those picked longest. A buffer that holds a few steps' picks, but not nearly
/// all rows, misses just these. Fails with InvalidArgument where lanes have fewer than twice as many tokens as picks.
Result<PickTrace> syntheticTrace(int lanes, std::int64_t tokens, std::int64_t picks, std::int64_t steps,
                                 double missRate);

struct HitRates {
    double clock = 0.0, leastRecent = 0.0, optimum = 0.0;
};

/// Hit rates of a buffer of `rows` rows shared by all lanes, over all steps but the first `warmUp`. A step's own rows
/// are never evicted within it. Fails with InvalidArgument where `rows` is less than one step's picks.
Result<HitRates> replay(const PickTrace& trace, std::int64_t rows, std::int64_t warmUp);

} // namespace octavo::engine
