#pragma once

/// Shared by the W4 products: cp.async for every device (w4_gemm.cu), bulk copies for sm_90 (w4_gemm_ring.cu), and
/// warpgroups for sm_90a (w4_gemm_warpgroups.cu).

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/views.h"
#include "kernels/cuda/w4_gemm.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

struct W4GemmArgs {
    const std::uint8_t* units;
    const __nv_bfloat16* x;
    std::int64_t xStride;
    void* y;
    std::int64_t yStride;
    float* partials;
    int* arrivals;
    int rows, outFeatures, inFeatures;
    int tiles, groups; // of 128 x 128
    GemmOutput output;
    W4Norms norms;
    bool wideRows; ///< rows of y may be stored 16 bytes at a time
};

/// A row's 1 / sqrt(mean of squares + eps), by the eight lanes that share l / 8 of a warp; all of them get it.
__device__ __forceinline__ float w4RowScale(const W4GemmArgs& args, int row, bool present)
{
    const int parts = args.inFeatures / w4SquareValues;
    float sum = 0.0f;
    for (int at = threadIdx.x % 8 * 4; at < parts && present; at += 32) {
        const float4 part = __ldcg(reinterpret_cast<const float4*>(args.norms.squares + int64_t(row) * parts + at));
        sum += (part.x + part.y) + (part.z + part.w);
    }
    return rsqrtf(warpSum<7>(sum) / args.inFeatures + args.norms.eps);
}

/// A value of the residual stream, past L1: warps that have not themselves waited for the kernel before may read it.
__device__ __forceinline__ float w4Hidden(const W4GemmArgs& args, int row, int output)
{
    const __nv_bfloat16* at = args.norms.hidden + int64_t(row) * args.outFeatures + output;
    return __uint_as_float(uint32_t(__ldcg(reinterpret_cast<const unsigned short*>(at))) << 16);
}

/// Adds y to its place in the residual stream and returns that; what the next product reads goes to args.y.
__device__ __forceinline__ float w4AddResidual(const W4GemmArgs& args, int row, int output, float y, float before,
                                               float weight)
{
    const float after = before + __bfloat162float(__float2bfloat16_rn(y));
    const __nv_bfloat16 hidden = __float2bfloat16_rn(after);
    const float rounded = __bfloat162float(hidden);
    args.norms.hidden[int64_t(row) * args.outFeatures + output] = hidden;
    static_cast<__nv_bfloat16*>(args.y)[row * args.yStride + output] = __float2bfloat16_rn(rounded * weight);
    return rounded;
}

inline constexpr int w4RingRows = 32;  ///< rows of one launchW4GemmRing()
inline constexpr int w4RingBest = 8;   ///< up to which it is the faster one where there are warpgroups
inline constexpr int w4RingUnits = 20; ///< and up to twice as many rows where a block has less than this of 256 x 128

/// Whether the current device has sm_90's copies and the shared memory that they are used with (sm_120 has less).
bool deviceHasW4Ring();

/// `blocks`: that share the product, all of which get to run.
cudaError_t launchW4GemmRing(const W4GemmArgs& args, int blocks, cudaStream_t stream);

/// Whether the current device has products of warpgroups, which are compiled for sm_90a alone.
bool deviceHasW4Warpgroups();

/// Up to w4MaxRows rows; the bits of launchW4GemmRing().
cudaError_t launchW4GemmWarpgroups(const W4GemmArgs& args, int blocks, cudaStream_t stream);

} // namespace octavo::kernels::cuda
