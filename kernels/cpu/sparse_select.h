#pragma once

/// From sketch scores to picks: soft-max sums, and the exact largest k of keys that heads share.

#include "kernels/cpu/cpu_features.h"

#include <cstdint>
#include <vector>

namespace octavo::kernels::cpu {

struct LogSum {
    float maximum = 0.0f;
    float sum = 0.0f; ///< of e^(score - maximum), each within 4%
};

/// Over `n` (>= 1) scores, with 16 partial sums: the same bits on every path.
LogSum roughLogSum(Path path, const float* scores, std::int64_t n);

/// The largest limit that at least `wanted` (>= 1) of `n` values reach; the least value where wanted >= n. n >= 1.
std::int32_t limitReachedBy(Path path, const std::int32_t* values, std::int64_t n, std::int64_t wanted);

inline constexpr int maxSharingHeads = 64;

/// What several heads think of the tokens. Token i's key is the largest of scores[h][i] - logSums[h]: the log of the
/// largest share of attention that any of the heads gives it.
struct SharedScores {
    const float* const* scores = nullptr; ///< (numHeads) pointers to n floats
    const float* logSums = nullptr;       ///< (numHeads)
    int numHeads = 1;                     ///< at most maxSharingHeads
};

/// Scratch of selectLargest(), kept by the caller so that a step allocates nothing once it has grown.
struct SelectScratch {
    std::vector<std::int32_t> indices; // candidates, ascending
    std::vector<float> shares;         // (numHeads, capacity): their scores[h] - logSums[h]
    std::vector<std::uint32_t> ordered; // their keys as numbers that compare alike
    std::vector<float> sample;
    std::vector<std::uint64_t> boundary;
};

/// Indices of the tokens with the `k` largest of `n` keys in ascending order, exactly; of equal keys the lower index
/// wins. All indices where k >= n. NaN is never picked. kept: (numHeads), the sum over the picks of e^(score - logSum),
/// each within 4%.
void selectLargest(Path path, const SharedScores& shared, std::int64_t n, std::int64_t k, SelectScratch& scratch,
                   std::vector<std::int32_t>& picks, float* kept);

/// sums: (numHeads), of e^(score - logSum) over some tokens, each within 4%.
void sumShares(const SharedScores& shared, const std::vector<std::int32_t>& tokens, float* sums);

} // namespace octavo::kernels::cpu
