#pragma once

/// What both prefill attention kernels share: how (row, head) pairs lie in a block, the online softmax of a warp's
/// sixteen of them, and how sums are kept between stretches.

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/prefill_attention.h"

namespace octavo::kernels::cuda
{

inline constexpr int prefillThreads = 256;                                // eight warps, 16 pairs each
inline constexpr float prefillSlack = 8.0f;                               // powers of two that weights may exceed 1 by
inline constexpr float prefillScoreScale = 0.0625f * 1.4426950408889634f; // 256^-0.5, and to base 2

/// 2^x with ex2's error of two units in the last place; 0 where the result would be denormal.
__device__ __forceinline__ float exp2Fast(float x)
{
#ifdef __CUDA_ARCH__
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
    return result;
#else
    return exp2f(x);
#endif
}

/// What a block works on. Pair i of a KV head is head i % groupHeads of row i / groupHeads.
struct PrefillBlock {
    int kvHead, groupHeads;
    int total;  // pairs of the KV head
    int first;  // pair of this block
    int keys;   // of the stretch that the block reads
    int padded; // pairs that sums are kept for

    /// Block `index` of the KV head's `blocks`.
    __device__ __forceinline__ PrefillBlock(const PrefillQueries& q, const KvStretch& stretch, int kvHead, int index,
                                            int blocks)
        : kvHead(kvHead)
        , groupHeads(q.heads / q.kvHeads)
        , total(q.rows * groupHeads)
        , first(index * prefillTileRows)
        , padded(blocks * prefillTileRows)
    {
        const int lastRow = (min(total, first + prefillTileRows) - 1) / groupHeads;
        keys = max(0, min(stretch.end, q.firstPosition + lastRow + 1) - stretch.begin);
    }
    /// The last key of the stretch that pair `i` sees.
    __device__ __forceinline__ int limit(const PrefillQueries& q, const KvStretch& stretch, int i) const
    {
        return min(q.firstPosition + min(i, total - 1) / groupHeads - stretch.begin, keys - 1);
    }
    __device__ __forceinline__ int64_t pairOffset(const PrefillQueries& q, int i) const // of its head in query and out
    {
        return (int64_t(i / groupHeads) * q.heads + kvHead * groupHeads + i % groupHeads) * kvHeadDim;
    }
};

/// A lane holds pairs g and g + 8 of its warp's sixteen: columns 8 n + 2 t, + 1 of fragment n.
template <int TileKeys>
struct PrefillSoftmax {
    float maximum[2], sum[2];
    int limit[2];

    __device__ __forceinline__ PrefillSoftmax(const PrefillBlock& block, const PrefillQueries& q,
                                              const KvStretch& stretch, int pair)
        : maximum{-INFINITY, -INFINITY}
        , sum{0.0f, 0.0f}
        , limit{block.limit(q, stretch, pair), block.limit(q, stretch, pair + 8)}
    {
    }

    /// Scores of keys firstKey .. become weights; `rescale` is what all sums so far are to be multiplied by. True where
    /// that is not 1 for every pair of the warp. Every pair has seen a key by the end of its first tile. A pair's
    /// maximum stays where it is until a score exceeds it by prefillSlack: most tiles then leave the sums as they are.
    __device__ __forceinline__ bool weigh(float (&s)[TileKeys / 8][4], int firstKey, float (&rescale)[2])
    {
        const int t = threadIdx.x % 4;
        if (firstKey + TileKeys - 1 > min(limit[0], limit[1])) {
#pragma unroll
            for (int n = 0; n < TileKeys / 8; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (firstKey + n * 8 + 2 * t + (i & 1) > limit[i / 2])
                        s[n][i] = -INFINITY;
                }
            }
        }
        float peak[2] = {s[0][0], s[0][2]};
#pragma unroll
        for (int n = 0; n < TileKeys / 8; ++n) {
            peak[0] = fmaxf(peak[0], fmaxf(s[n][0], s[n][1]));
            peak[1] = fmaxf(peak[1], fmaxf(s[n][2], s[n][3]));
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float here = warpMax<3>(peak[h]) * prefillScoreScale;
            const float newest = here > maximum[h] + prefillSlack ? here : maximum[h];
            rescale[h] = exp2Fast(maximum[h] - newest);
            maximum[h] = newest;
            sum[h] *= rescale[h];
        }
#pragma unroll
        for (int n = 0; n < TileKeys / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[n][i] = exp2Fast(fmaf(s[n][i], prefillScoreScale, -maximum[i / 2]));
            sum[0] += s[n][0] + s[n][1];
            sum[1] += s[n][2] + s[n][3];
        }
        return __any_sync(fullMask, rescale[0] != 1.0f || rescale[1] != 1.0f);
    }

    __device__ __forceinline__ void load(const float* numbers, int padded, int pair)
    {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            maximum[h] = numbers[pair + 8 * h];
            sum[h] = threadIdx.x % 4 == 0 ? numbers[padded + pair + 8 * h] : 0.0f;
        }
    }
    __device__ __forceinline__ void store(float* numbers, int padded, int pair)
    {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float all = warpSum<3>(sum[h]);
            if (threadIdx.x % 4 == 0) {
                numbers[pair + 8 * h] = maximum[h];
                numbers[padded + pair + 8 * h] = all;
            }
        }
    }
};

/// Weights of 16 keys as the A fragment that meets their values.
template <int Fragments>
__device__ __forceinline__ void weightFragment(const float (&s)[Fragments][4], int step, uint32_t (&a)[4])
{
    a[0] = packBf16(s[2 * step][0], s[2 * step][1]);
    a[1] = packBf16(s[2 * step][2], s[2 * step][3]);
    a[2] = packBf16(s[2 * step + 1][0], s[2 * step + 1][1]);
    a[3] = packBf16(s[2 * step + 1][2], s[2 * step + 1][3]);
}

/// Sums that wait between stretches: (kvHeads, padded, 256), then each KV head's maxima and sums.
struct PrefillKept {
    float *sums, *numbers;

    __device__ __forceinline__ PrefillKept(float* workspace, const PrefillBlock& block, int kvHeads)
        : sums(workspace + int64_t(block.kvHead) * block.padded * kvHeadDim)
        , numbers(workspace + int64_t(kvHeads) * block.padded * kvHeadDim + int64_t(block.kvHead) * 2 * block.padded)
    {
    }
};

__device__ __forceinline__ void loadSums(float (&out)[32][4], const PrefillKept& kept, int pair)
{
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < 32; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float2 two =
                *reinterpret_cast<const float2*>(kept.sums + int64_t(pair + 8 * h) * kvHeadDim + n * 8 + 2 * t);
            out[n][2 * h] = two.x, out[n][2 * h + 1] = two.y;
        }
    }
}

__device__ __forceinline__ void storeSums(const float (&out)[32][4], const PrefillKept& kept, int pair)
{
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < 32; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
            *reinterpret_cast<float2*>(kept.sums + int64_t(pair + 8 * h) * kvHeadDim + n * 8 + 2 * t) =
                float2{out[n][2 * h], out[n][2 * h + 1]};
    }
}

} // namespace octavo::kernels::cuda
