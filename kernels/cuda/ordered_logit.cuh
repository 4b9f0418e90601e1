#pragma once

/// Logits as integers that order like them, with their index: the largest key is the best token.

#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{

/// Orders by value, then by lower index; 0 stands for no value at all.
__device__ __forceinline__ uint64_t orderedKey(float value, int index)
{
    if (!isfinite(value))
        return 0;
    const uint32_t bits = __float_as_uint(value == 0.0f ? 0.0f : value); // -0 equals 0
    const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return uint64_t(ordered) << 32 | uint32_t(~index);
}

__device__ __forceinline__ int keyIndex(uint64_t key)
{
    return key ? static_cast<int>(~static_cast<uint32_t>(key)) : -1;
}

/// The value of a key that is not 0.
__device__ __forceinline__ float keyValue(uint64_t key)
{
    const uint32_t ordered = static_cast<uint32_t>(key >> 32);
    return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

__device__ __forceinline__ uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

__device__ __forceinline__ uint64_t warpLargest(uint64_t value)
{
#pragma unroll
    for (int bit = 16; bit > 0; bit >>= 1)
        value = larger(value, __shfl_xor_sync(fullMask, value, bit));
    return value;
}

} // namespace octavo::kernels::cuda
