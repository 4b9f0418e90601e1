#pragma once

/// Products of sketches with queries on the tensor cores, in integers: what the scan and the selection share.

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/sketch.h"

namespace octavo::kernels::cuda
{

/// The bits of the float 1.5 * 2^23: with an integer n below 2^22 added they are those of 1.5 * 2^23 + n, so that a sum
/// which starts there is a float without a conversion.
inline constexpr int sumStart = 0x4b400000;
inline constexpr float sumStartValue = 12582912.0f;
inline constexpr float productUnit = 1.0f / 1024.0f; // keeps products far below fp16's largest value
inline constexpr float noProduct = -1e30f;

__device__ __forceinline__ float exp2Approx(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
    return result;
}

/// d = a * b + c: a 16x32 of unsigned bytes, b 32x8 of signed ones.
__device__ __forceinline__ void mmaBytes(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int c0, int c1,
                                         int c2, int c3)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};\n"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c0), "r"(c1), "r"(c2), "r"(c3));
}

/// What turns a product into a score: s * log2(e) = product * slope. Above zero, also where the query is zero.
__device__ __forceinline__ float sketchSlope(float peak)
{
    return fmaxf(peak * (1.4426950408889634f / 127.0f / productUnit), 1e-20f);
}

/// Eight columns, a query head each, as a lane needs them.
struct SketchOperand {
    uint4 b;        ///< fragments of column lane / 4: of coordinates 0..31, then 32..63
    int start[2];   ///< of the sums of columns 2 t and 2 t + 1, t = lane % 4: less 8 for every code
    float slope[2]; ///< of the same
};

/// `query`: (64) of the lane's column lane / 4, or null where there is none.
__device__ __forceinline__ SketchOperand sketchOperand(const __nv_bfloat16* query)
{
    const int t = threadIdx.x % 4;
    float x[16];
    float peak = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const uint2 bits = query ? *reinterpret_cast<const uint2*>(query + i * 16 + t * 4) : uint2{0, 0};
        const float2 low = unpackBf16(bits.x), high = unpackBf16(bits.y);
        x[4 * i] = low.x, x[4 * i + 1] = low.y, x[4 * i + 2] = high.x, x[4 * i + 3] = high.y;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i)
        peak = fmaxf(peak, fabsf(x[i]));
    peak = warpMax<3>(peak);
    const float inverse = peak > 0.0f ? 127.0f / peak : 0.0f;
    uint32_t words[4] = {};
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int code = max(-127, min(127, __float2int_rn(x[i] * inverse))); // NaN becomes 0
        sum += code;
        words[i / 4] |= uint32_t(code & 255) << (8 * (i % 4));
    }
    sum += __shfl_xor_sync(fullMask, sum, 1);
    sum += __shfl_xor_sync(fullMask, sum, 2);
    const float slope = sketchSlope(peak);
    SketchOperand operand;
    operand.b = uint4{words[0], words[1], words[2], words[3]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        operand.start[i] = sumStart - 8 * __shfl_sync(fullMask, sum, 8 * t + 4 * i);
        operand.slope[i] = __shfl_sync(fullMask, slope, 8 * t + 4 * i);
    }
    return operand;
}

/// The codes of a lane's words, a byte each: rows g and g + 8 in turn.
struct SketchTile {
    uint32_t low[4], high[4];
};

__device__ __forceinline__ SketchTile unpackTile(const uint4& words)
{
    return {{words.x & 0x0f0f0f0fu, words.y & 0x0f0f0f0fu, words.z & 0x0f0f0f0fu, words.w & 0x0f0f0f0fu},
            {words.x >> 4 & 0x0f0f0f0fu, words.y >> 4 & 0x0f0f0f0fu, words.z >> 4 & 0x0f0f0f0fu,
             words.w >> 4 & 0x0f0f0f0fu}};
}

/// Products of a tile's 16 tokens and the operand's columns, times the tokens' scales: rounded once.
/// `scales`: of tokens g and g + 8, g = lane / 4.
__device__ __forceinline__ void sketchProducts(const SketchTile& tile, const SketchOperand& operand, float2 scales,
                                               float (&u)[4])
{
    int sums[4];
    mmaBytes(sums, tile.low, operand.b.x, operand.b.y, operand.start[0], operand.start[1], operand.start[0],
             operand.start[1]);
    mmaBytes(sums, tile.high, operand.b.z, operand.b.w, sums[0], sums[1], sums[2], sums[3]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float scale = i < 2 ? scales.x : scales.y;
        // The scale has 11 bits and 1.5 * 2^23 two, so that this product is exact.
        u[i] = __fmaf_rn(__int_as_float(sums[i]), scale, -(scale * sumStartValue));
    }
}

__device__ __forceinline__ float2 productScales(uint32_t pair)
{
    const float2 scales = __half22float2(*reinterpret_cast<const __half2*>(&pair));
    return {scales.x * productUnit, scales.y * productUnit};
}

/// sketchKey() on the device, of a log share to base 2.
__device__ __forceinline__ uint32_t sketchFixedKey(float logShare2)
{
    const float shifted = fminf(fmaxf(__fmaf_rn(logShare2, 0.6931471805599453f, 48.0f), 0.0f), 51.99999f);
    return static_cast<uint32_t>(shifted * float(sketchKeyUnit)); // NaN has become 0
}

/// sketchBoost() on the device, of a group of tokens.
__device__ __forceinline__ uint32_t groupBoost(int group)
{
    const uint32_t m = uint32_t(group) * 2654435769u >> 17 << 1 | 1;
    return sketchNegLog(m, 31 - __clz(int(m)));
}

} // namespace octavo::kernels::cuda
