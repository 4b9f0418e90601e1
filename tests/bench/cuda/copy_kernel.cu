#include "tests/bench/cuda/copy_kernel.h"

namespace octavo::gpu
{
namespace
{

__global__ void copyKernel(const uint4* from, uint4* to, std::size_t chunks)
{
    const std::size_t stride = std::size_t(gridDim.x) * blockDim.x;
    std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < chunks; i += 4 * stride) {
        const uint4 a = __ldcs(from + i), b = __ldcs(from + i + stride);
        const uint4 c = __ldcs(from + i + 2 * stride), d = __ldcs(from + i + 3 * stride);
        __stcs(to + i, a);
        __stcs(to + i + stride, b);
        __stcs(to + i + 2 * stride, c);
        __stcs(to + i + 3 * stride, d);
    }
    for (; i < chunks; i += stride)
        to[i] = from[i];
}

} // namespace

cudaError_t launchCopy(const void* from, void* to, std::size_t bytes, int blocks, cudaStream_t stream)
{
    copyKernel<<<blocks, 512, 0, stream>>>(static_cast<const uint4*>(from), static_cast<uint4*>(to), bytes / 16);
    return cudaGetLastError();
}

} // namespace octavo::gpu
