#pragma once

/// Shared by the two W4 products: cp.async for every device (w4_gemm.cu), bulk copies for sm_90 (w4_gemm_bulk.cu).

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

cudaError_t launchW4GemmBulk(const W4GemmArgs& args, int blocks, cudaStream_t stream);

} // namespace octavo::kernels::cuda
