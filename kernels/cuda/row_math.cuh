#pragma once

/// What one warp does to one head of one token: norm and RoPE, int4 quantisation, packing of a sketch. Shared by the
/// launches that do one of these for many tokens and the one that does all for a step's rows.

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/sketch.h"

namespace octavo::kernels::cuda
{

inline constexpr int rotaryDim = 64;

/// What a lane of normAndRotate() needs beside the values: all of it is known before they are.
struct HeadRotation {
    float weight[8], sine[8], cosine[8];
};

__device__ __forceinline__ HeadRotation headRotation(const float* weight, float position, const float* frequencies)
{
    const int lane = threadIdx.x % 32;
    HeadRotation rotation{};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        rotation.weight[i] = weight[lane * 8 + i];
        if (lane < rotaryDim / 8)
            sincosf(position * frequencies[lane % 4 * 8 + i], &rotation.sine[i], &rotation.cosine[i]);
    }
    return rotation;
}

/// Lane l holds dimensions 8 l .. 8 l + 7 of a head; lanes 0..3 rotate against lanes 4..7. Returns them as bf16.
__device__ __forceinline__ uint4 normAndRotate(const uint4& bits, const HeadRotation& rotation, float eps)
{
    const int lane = threadIdx.x % 32;
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
    float x[8];
    float square = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpackBf16(words[i]);
        x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
        square += pair.x * pair.x + pair.y * pair.y;
    }
    const float scale = rsqrtf(warpSum(square) * (1.0f / kvHeadDim) + eps);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        x[i] *= scale * rotation.weight[i];
        const float other = __shfl_xor_sync(fullMask, x[i], 4);
        if (lane < rotaryDim / 8)
            x[i] = lane < 4 ? x[i] * rotation.cosine[i] - other * rotation.sine[i]
                            : x[i] * rotation.cosine[i] + other * rotation.sine[i];
    }
    return {packBf16(x[0], x[1]), packBf16(x[2], x[3]), packBf16(x[4], x[5]), packBf16(x[6], x[7])};
}

__device__ __forceinline__ int int4CodeOf(float x, float inverse)
{
    return static_cast<int>(fminf(fmaxf(rintf(x * inverse), -8.0f), 7.0f)); // NaN becomes -8
}

/// What a lane has to store of a quantised head: 8 bytes of codes (lanes without bit 2) and a scale (lanes l % 8 == 0).
struct QuantizedPart {
    uint2 codes;
    __half scale;
};

/// One head's keys or values, eight lanes to a group of 64 and eight values to a lane.
__device__ __forceinline__ QuantizedPart quantizeHead(const uint4& bits)
{
    const int lane = threadIdx.x % 32;
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
    float x[8];
    float peak = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpackBf16(words[i]);
        x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
#pragma unroll
    for (int bit = 1; bit < 8; bit <<= 1) { // of two equal magnitudes the first in the row wins
        const float other = __shfl_xor_sync(fullMask, peak, bit);
        const bool otherFirst = lane & bit;
        if (fabsf(other) > fabsf(peak) || (fabsf(other) == fabsf(peak) && otherFirst))
            peak = other;
    }
    float bestError = 0.0f, bestScale = 0.0f;
    for (int attempt = 0; attempt < 4; ++attempt) {
        const float factor = attempt == 0 ? 1.0f : attempt == 1 ? 0.93f : attempt == 2 ? 0.86f : 0.79f;
        const float scale = __half2float(__float2half_rn(peak / -8.0f * factor));
        const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        float error = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const float difference = x[i] - scale * int4CodeOf(x[i], inverse);
            error += difference * difference;
        }
        error = warpSum<7>(error);
        if (attempt == 0 || error < bestError) {
            bestError = error;
            bestScale = scale;
        }
    }
    const float inverse = bestScale != 0.0f ? 1.0f / bestScale : 0.0f;
    // Lane l < 4 of a group holds values 8 l.. of the low nibbles, lane l + 4 those of the high ones.
    uint32_t low = 0, high = 0; // codes 0..3 and 4..7, one to a byte
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        low |= uint32_t(int4CodeOf(x[i], inverse) + 8) << (8 * i);
        high |= uint32_t(int4CodeOf(x[4 + i], inverse) + 8) << (8 * i);
    }
    const uint32_t otherLow = __shfl_xor_sync(fullMask, low, 4);
    const uint32_t otherHigh = __shfl_xor_sync(fullMask, high, 4);
    return {uint2{low | otherLow << 4, high | otherHigh << 4}, __float2half_rn(bestScale)};
}

/// Stores a warp's quantised head in `row`, the 272 bytes of its KV head.
__device__ __forceinline__ void storeHead(const QuantizedPart& part, bool isValue, uint8_t* row)
{
    const int lane = threadIdx.x % 32, group = lane / 8;
    if ((lane & 4) == 0)
        *reinterpret_cast<uint2*>(row + (isValue ? 128 : 0) + group * 32 + lane % 4 * 8) = part.codes;
    if (lane % 8 == 0)
        *reinterpret_cast<__half*>(row + 256 + (isValue ? 8 : 0) + group * 2) = part.scale;
}

/// Stores a token's sketch; lane l holds coordinates 2 l and 2 l + 1.
__device__ __forceinline__ void storeSketch(float x0, float x1, const SketchView& sketch, int head, int64_t position)
{
    const int lane = threadIdx.x % 32;
    float peak = fabsf(x1) > fabsf(x0) ? x1 : x0;
#pragma unroll
    for (int bit = 1; bit < 32; bit <<= 1) {
        const float other = __shfl_xor_sync(fullMask, peak, bit);
        if (fabsf(other) > fabsf(peak) || (fabsf(other) == fabsf(peak) && (lane & bit)))
            peak = other;
    }
    const __half half = __float2half_rn(peak / -8.0f);
    const float scale = __half2float(half);
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    const uint32_t code0 = uint32_t(int4CodeOf(x0, inverse) + 8), code1 = uint32_t(int4CodeOf(x1, inverse) + 8);
    // Coordinates c and c + 32 share a byte; bytes 2 l and 2 l + 1 of a token lie in one of its words.
    const uint32_t other0 = __shfl_xor_sync(fullMask, code0, 16), other1 = __shfl_xor_sync(fullMask, code1, 16);
    if (lane < 16) {
        const int64_t tile = position / sketchTileTokens;
        const int row = static_cast<int>(position % sketchTileTokens);
        uint8_t* bytes = sketch.codes + (int64_t(head) * sketch.capacityTiles + tile) * sketchTileBytes +
                         (row % 8 * 4 + lane % 8 / 2) * 16 + (row / 8 + lane / 8 * 2) * 4 + lane % 2 * 2;
        *reinterpret_cast<uint16_t*>(bytes) =
            static_cast<uint16_t>(code0 | other0 << 4 | code1 << 8 | other1 << 12);
    }
    if (lane == 0) { // sketchScaleIndex()
        const int64_t at = position / sketchBlockTokens * sketchBlockTokens + position % 8 * 8 +
                           position % sketchBlockTokens / 8;
        sketch.scales[int64_t(head) * sketch.capacityTiles * sketchTileTokens + at] = half;
    }
}

} // namespace octavo::kernels::cuda
