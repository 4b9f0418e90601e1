#pragma once

/// Clusters of thread blocks on sm_90: their barrier, reads of each other's shared memory, launches. Bodies vanish
/// on older targets, whose kernels never call them.

#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{

/// The calling block's number in its cluster.
__device__ __forceinline__ int clusterRank()
{
    unsigned rank = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
#endif
    return int(rank);
}

/// The first half of clusterBarrier(): every thread that arrives has to wait once before it arrives again.
__device__ __forceinline__ void clusterArrive()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n" ::: "memory");
#endif
}

/// Its second half.
__device__ __forceinline__ void clusterWait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;\n" ::: "memory");
#endif
}

/// All threads of the cluster meet; what any of them wrote before, to shared memory of any block or to global memory,
/// all see behind it.
__device__ __forceinline__ void clusterBarrier()
{
    clusterArrive();
    clusterWait();
}

/// Where `shared`, an address in the calling block's shared memory, lies in that of block `rank`.
__device__ __forceinline__ unsigned clusterAddress(unsigned shared, int rank)
{
    unsigned address = shared;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(address) : "r"(shared), "r"(rank));
#endif
    return address;
}

/// From an address by clusterAddress().
__device__ __forceinline__ float clusterLoad(unsigned address)
{
    float value = 0.0f;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("ld.shared::cluster.f32 %0, [%1];\n" : "=f"(value) : "r"(address) : "memory");
#endif
    return value;
}

/// How many clusters of `blocks` blocks the device has room for at once; 0 where it has no such clusters. Prepares the
/// kernel for launchDependentClusters().
template <typename... Params>
int clusterRoom(void (*kernel)(Params...), int blocks, int threads, std::size_t sharedBytes)
{
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = sharedBytes;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {unsigned(blocks), 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
    int room = 0;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sharedBytes)) == cudaSuccess &&
        cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) == cudaSuccess &&
        cudaOccupancyMaxActiveClusters(&room, kernel, &config) == cudaSuccess)
        return room;
    cudaGetLastError(); // that of this question
    return 0;
}

/// As launchDependent(), the blocks along x a cluster.
template <typename... Params, typename... Args>
cudaError_t launchDependentClusters(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t sharedBytes,
                                    cudaStream_t stream, Args... args)
{
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = sharedBytes;
    config.stream = stream;
    cudaLaunchAttribute attributes[2]{};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {grid.x, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.attrs = attributes;
    config.numAttrs = 2;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

} // namespace octavo::kernels::cuda
