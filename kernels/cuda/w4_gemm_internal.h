#pragma once

/// Shared by the W4 products: cp.async for every device (w4_gemm.cu), bulk copies for sm_90 (w4_gemm_ring.cu).

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
};

inline constexpr int w4RingRows = 32; ///< rows of one launchW4GemmRing()

/// Whether the current device has sm_90's copies and the shared memory that they are used with (sm_120 has less).
bool deviceHasW4Ring();

/// `blocks`: that share the product, all of which get to run.
cudaError_t launchW4GemmRing(const W4GemmArgs& args, int blocks, cudaStream_t stream);

} // namespace octavo::kernels::cuda
