#pragma once

/// Shared by the W4 products: cp.async for every device (w4_gemm.cu), bulk copies for sm_90 (w4_gemm_bulk.cuh), by warps
/// (w4_gemm_bulk.cu) or warpgroups (w4_gemm_sm90.cu).

#include "kernels/cuda/views.h"

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
    // What follows on the stream: each block fetches the first bytes of its part into L2 as it ends.
    const std::uint8_t* nextUnits;
    int nextTiles, nextGroups, nextBlocks, nextStages;
};

/// `warpgroups`: they may do the products of more than 32 rows.
cudaError_t launchW4GemmBulk(const W4GemmArgs& args, int blocks, bool warpgroups, cudaStream_t stream);
/// Up to 64 rows; cudaErrorNotSupported on devices other than sm_90.
cudaError_t launchW4GemmWarpgroups(const W4GemmArgs& args, int blocks, cudaStream_t stream);

} // namespace octavo::kernels::cuda
