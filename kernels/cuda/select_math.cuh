#pragma once

/// What selections by a block of threads share: sums and ranks over lower threads, and the bin of a histogram that
/// holds the k-th largest.

#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{

/// Sum over lower warps of what the last lane of each brings; `total` is of all. By all threads of the block. Scratch:
/// 33 ints; ends with a barrier.
__device__ __forceinline__ int sumOfLowerWarps(int ofWarp, int* scratch, int& total)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 31)
        scratch[warp] = ofWarp;
    __syncthreads();
    if (warp == 0) {
        const int own = lane < int(blockDim.x / 32) ? scratch[lane] : 0;
        int sum = own;
#pragma unroll
        for (int step = 1; step < 32; step <<= 1) {
            const int other = __shfl_up_sync(fullMask, sum, step);
            if (lane >= step)
                sum += other;
        }
        scratch[lane] = sum - own;
        if (lane == 31)
            scratch[32] = sum;
    }
    __syncthreads();
    const int lower = scratch[warp];
    total = scratch[32];
    __syncthreads();
    return lower;
}

/// Sum of the values of lower threads; `total` is everyone's. Scratch and barriers as above.
__device__ __forceinline__ int exclusiveScan(int value, int* scratch, int& total)
{
    const int lane = threadIdx.x % 32;
    int inclusive = value;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const int other = __shfl_up_sync(fullMask, inclusive, step);
        if (lane >= step)
            inclusive += other;
    }
    return sumOfLowerWarps(inclusive, scratch, total) + inclusive - value;
}

/// Rank of the calling thread among those with `flag`; `total` is their number. Scratch and barriers as above.
__device__ __forceinline__ int rankOf(bool flag, int* scratch, int& total)
{
    const unsigned ballot = __ballot_sync(fullMask, flag);
    return sumOfLowerWarps(__popc(ballot), scratch, total) + __popc(ballot & ((1u << threadIdx.x % 32) - 1));
}

/// The bin that holds the k-th largest, and how many lie above it. Every thread gets both. counts[] of `bins`, a
/// multiple of the block's threads, 16-byte aligned. The k-th exists.
template <int Bins, int Threads>
__device__ __forceinline__ int2 findBin(const uint32_t* counts, int k, int* scratch, int2* result)
{
    constexpr int each = Bins / Threads;
    const int highest = Bins - 1 - threadIdx.x * each; // descending with the thread
    int own = 0;
    if constexpr (each % 4 == 0) { // as few accesses as can be: threads' bins lie on the same banks
#pragma unroll
        for (int i = 0; i < each; i += 4) {
            const uint4 four = *reinterpret_cast<const uint4*>(counts + highest - i - 3);
            own += static_cast<int>(four.x + four.y + four.z + four.w);
        }
    } else {
#pragma unroll
        for (int i = 0; i < each; ++i)
            own += static_cast<int>(counts[highest - i]);
    }
    int total;
    int above = exclusiveScan(own, scratch, total);
    if (above < k && above + own >= k) {
        int bin = highest;
        while (above + static_cast<int>(counts[bin]) < k)
            above += static_cast<int>(counts[bin--]);
        *result = int2{bin, above};
    }
    __syncthreads();
    return *result;
}

} // namespace octavo::kernels::cuda
