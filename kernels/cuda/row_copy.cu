#include "kernels/cuda/row_copy.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) copyRowsKernel(const RowCopy* rows, int chunks)
{
    allowDependentLaunch();
    const RowCopy row = rows[blockIdx.x];
    waitForPreviousKernel();
    for (int i = threadIdx.x; i < chunks; i += threads)
        static_cast<uint4*>(row.to)[i] = static_cast<const uint4*>(row.from)[i];
}

} // namespace

cudaError_t launchCopyRows(const RowCopy* rows, int numRows, int rowBytes, cudaStream_t stream)
{
    if (numRows < 0 || rowBytes < 0 || rowBytes % 16 != 0)
        return cudaErrorInvalidValue;
    if (numRows == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(launchDependent(copyRowsKernel, numRows, threads, 0, stream, rows, rowBytes / 16));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
