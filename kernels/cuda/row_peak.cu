#include "kernels/cuda/row_peak.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/ordered_logit.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int threads = 256;

/// Of some columns: the best, and the sum of exp(logit - best's).
struct Part {
    uint64_t key;
    float sum;
    float unused;
};
static_assert(sizeof(Part) * peakBlocks == peakWorkspaceBytes(1));

/// exp(logit - largest), NaN for what no probability can be given.
__device__ __forceinline__ float weight(float logit, float largest)
{
    return logit == INFINITY ? NAN : expf(logit - largest);
}

__global__ void __launch_bounds__(threads) partKernel(MatrixView<const float> logits, Part* parts)
{
    __shared__ uint64_t warps[threads / 32];
    __shared__ float scratch[33];
    allowDependentLaunch();
    waitForPreviousKernel();
    const float* row = logits.data + blockIdx.y * logits.stride;
    uint64_t best = 0;
#pragma unroll 4
    for (int i = blockIdx.x * threads + threadIdx.x; i < logits.cols; i += peakBlocks * threads)
        best = larger(best, orderedKey(row[i], i));
    best = warpLargest(best);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = best;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < threads / 32; ++w)
        best = larger(best, warps[w]);
    const float largest = best ? keyValue(best) : 0.0f; // without a finite one only infinities and NaN are left
    float sum = 0.0f;
#pragma unroll 4
    for (int i = blockIdx.x * threads + threadIdx.x; i < logits.cols; i += peakBlocks * threads)
        sum += weight(row[i], largest);
    sum = blockSum(sum, scratch);
    if (threadIdx.x == 0)
        parts[blockIdx.y * peakBlocks + blockIdx.x] = {best, sum, 0.0f};
}

__global__ void __launch_bounds__(32) peakKernel(const Part* parts, RowPeak* peaks)
{
    static_assert(peakBlocks == 32, "one part to a lane");
    allowDependentLaunch();
    waitForPreviousKernel();
    const Part part = parts[blockIdx.x * peakBlocks + threadIdx.x];
    const uint64_t best = warpLargest(part.key);
    // A part without a finite logit counts as it is: 0 for -inf alone, NaN otherwise.
    const float sum = warpSum(part.key ? part.sum * expf(keyValue(part.key) - keyValue(best)) : part.sum);
    if (threadIdx.x == 0)
        peaks[blockIdx.x] = {keyIndex(best), best ? 1.0f / sum : 0.0f};
}

} // namespace

cudaError_t launchRowPeaks(MatrixView<const float> logits, void* workspace, RowPeak* peaks, cudaStream_t stream)
{
    if (logits.rows < 0 || logits.rows > 65535 || logits.cols < 0)
        return cudaErrorInvalidValue;
    if (logits.rows == 0)
        return cudaSuccess;
    Part* parts = static_cast<Part*>(workspace);
    OCTAVO_CUDA_TRY(launchDependent(partKernel, dim3(peakBlocks, logits.rows), threads, 0, stream, logits, parts));
    OCTAVO_CUDA_TRY(launchDependent(peakKernel, logits.rows, 32, 0, stream, parts, peaks));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
