#include "kernels/cuda/w4_gemm_bulk.cuh"

/// The products of warpgroups: compiled for sm_90a alone.

namespace octavo::kernels::cuda
{

cudaError_t launchW4GemmWarpgroups(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    using w4bulk::launchW4Bulk;
    int device = 0, major = 0, minor = 0;
    OCTAVO_CUDA_TRY(cudaGetDevice(&device));
    OCTAVO_CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    OCTAVO_CUDA_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    if (major != 9 || minor != 0)
        return cudaErrorNotSupported;
    return launchW4Bulk<4, 2, 4, 1, true>(args, blocks, stream);
}

} // namespace octavo::kernels::cuda
