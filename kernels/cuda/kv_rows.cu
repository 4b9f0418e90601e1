#include "kernels/cuda/kv_rows.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{
namespace
{

__device__ __forceinline__ int codeOf(float x, float inverse)
{
    return static_cast<int>(fminf(fmaxf(rintf(x * inverse), -8.0f), 7.0f)); // NaN becomes -8
}

/// One warp per (token, KV head, key or value): eight lanes to a group, eight values to a lane.
__global__ void quantizeRowsKernel(MatrixView<const __nv_bfloat16> keys, MatrixView<const __nv_bfloat16> values,
                                   int kvHeads, const int64_t* rowIds, uint8_t* out)
{
    allowDependentLaunch();
    waitForPreviousKernel();
    const int lane = threadIdx.x % 32;
    const int64_t index = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (index >= int64_t(keys.rows) * kvHeads * 2)
        return;
    const bool isValue = index % 2;
    const int head = static_cast<int>(index / 2 % kvHeads);
    const int64_t token = index / 2 / kvHeads;
    const auto& source = isValue ? values : keys;
    const uint4 bits =
        *reinterpret_cast<const uint4*>(source.data + token * source.stride + head * kvHeadDim + lane * 8);
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
            const float difference = x[i] - scale * codeOf(x[i], inverse);
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
        low |= uint32_t(codeOf(x[i], inverse) + 8) << (8 * i);
        high |= uint32_t(codeOf(x[4 + i], inverse) + 8) << (8 * i);
    }
    const uint32_t otherLow = __shfl_xor_sync(fullMask, low, 4);
    const uint32_t otherHigh = __shfl_xor_sync(fullMask, high, 4);
    uint8_t* row = out + ((rowIds ? rowIds[token] : token) * kvHeads + head) * kvHeadBytes;
    const int group = lane / 8;
    if ((lane & 4) == 0)
        *reinterpret_cast<uint2*>(row + (isValue ? 128 : 0) + group * 32 + lane % 4 * 8) =
            uint2{low | otherLow << 4, high | otherHigh << 4};
    if (lane % 8 == 0)
        *reinterpret_cast<__half*>(row + 256 + (isValue ? 8 : 0) + group * 2) = __float2half_rn(bestScale);
}

} // namespace

cudaError_t launchQuantizeRows(MatrixView<const __nv_bfloat16> keys, MatrixView<const __nv_bfloat16> values,
                               int kvHeads, const std::int64_t* rowIds, std::uint8_t* out, cudaStream_t stream)
{
    if (kvHeads <= 0 || keys.rows != values.rows || keys.cols != kvHeads * kvHeadDim || values.cols != keys.cols ||
        keys.stride % 8 != 0 || values.stride % 8 != 0)
        return cudaErrorInvalidValue;
    if (keys.rows == 0)
        return cudaSuccess;
    constexpr int warps = 4;
    const std::int64_t pieces = std::int64_t{keys.rows} * kvHeads * 2;
    const auto blocks = static_cast<unsigned>((pieces + warps - 1) / warps);
    OCTAVO_CUDA_TRY(
        launchDependent(quantizeRowsKernel, blocks, warps * 32, 0, stream, keys, values, kvHeads, rowIds, out));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
