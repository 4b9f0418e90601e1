#pragma once

/// From sketch scores to picks: soft-max sums, keys that heads can share, the exact largest k.

#include "kernels/cpu/cpu_features.h"

#include <cstdint>
#include <vector>

namespace octavo::kernels::cpu {

struct LogSum {
    float maximum = 0.0f;
    float sum = 0.0f; ///< of e^(score - maximum)
};

/// Over `n` (>= 1) scores, with 16 partial sums: the same bits on every path.
LogSum logSum(Path path, const float* scores, std::int64_t n);

/// keys[i] = max over heads of scores[h][i] - logSums[h]: the log of the largest share of attention that any of the
/// heads gives token i. `scores`: numHeads pointers to n floats.
void shareKeys(Path path, const float* const* scores, const float* logSums, int numHeads, std::int64_t n, float* keys);

/// Scratch of selectLargest(), kept by the caller so that a step allocates nothing once it has grown.
struct SelectScratch {
    std::vector<std::uint64_t> candidates;
    std::vector<float> sample;
};

/// Indices of the `k` largest of `n` keys in ascending order, exactly; of equal keys the lower index wins. All indices
/// where k >= n. NaN is never picked.
void selectLargest(Path path, const float* keys, std::int64_t n, std::int64_t k, SelectScratch& scratch,
                   std::vector<std::int32_t>& picks);

} // namespace octavo::kernels::cpu
