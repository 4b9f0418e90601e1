#include "kernels/cuda/argmax.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/ordered_logit.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) rowPartKernel(MatrixView<const float> logits, int end, uint64_t* parts)
{
    __shared__ uint64_t warps[threads / 32];
    allowDependentLaunch();
    waitForPreviousKernel();
    const float* row = logits.data + blockIdx.y * logits.stride;
    uint64_t best = 0;
#pragma unroll 4
    for (int i = blockIdx.x * threads + threadIdx.x; i < end; i += argmaxBlocks * threads)
        best = larger(best, orderedKey(row[i], i));
    best = warpLargest(best);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < threads / 32; ++w)
            best = larger(best, warps[w]);
        parts[blockIdx.y * argmaxBlocks + blockIdx.x] = best;
    }
}

__global__ void __launch_bounds__(32) rowKernel(const uint64_t* parts, int32_t* ids)
{
    static_assert(argmaxBlocks == 32, "one part to a lane");
    allowDependentLaunch();
    waitForPreviousKernel();
    const uint64_t best = warpLargest(parts[blockIdx.x * argmaxBlocks + threadIdx.x]);
    if (threadIdx.x == 0)
        ids[blockIdx.x] = keyIndex(best);
}

} // namespace

cudaError_t launchArgmax(MatrixView<const float> logits, int end, std::uint64_t* workspace, std::int32_t* ids,
                         cudaStream_t stream)
{
    if (logits.rows < 0 || logits.rows > 65535 || end < 0 || end > logits.cols)
        return cudaErrorInvalidValue;
    if (logits.rows == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(
        launchDependent(rowPartKernel, dim3(argmaxBlocks, logits.rows), threads, 0, stream, logits, end, workspace));
    OCTAVO_CUDA_TRY(launchDependent(rowKernel, logits.rows, 32, 0, stream, workspace, ids));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
