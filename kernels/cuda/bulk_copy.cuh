#pragma once

/// mbarriers and bulk copies of sm_90. Bodies vanish on older targets, whose kernels never call them.

#include <cstdint>

namespace octavo::kernels::cuda
{

__device__ __forceinline__ void barrierInit(unsigned barrier, int arrivals)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
#endif
}

/// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void barrierInitFence()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void barrierArrive(unsigned barrier)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
#endif
}

/// One arrival, and `bytes` more that copies have to deliver before the phase ends.
__device__ __forceinline__ void barrierArriveExpect(unsigned barrier, unsigned bytes)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
#endif
}

/// Waits for the end of the phase with this parity.
__device__ __forceinline__ void barrierWait(unsigned barrier, unsigned parity)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "waiting:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra finished;\n"
                 "bra waiting;\n"
                 "finished:\n"
                 "}\n" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
#endif
}

/// `bytes` (a multiple of 16) from global to shared memory; the barrier counts them when they have arrived.
__device__ __forceinline__ void bulkCopy(unsigned target, const void* source, unsigned bytes, unsigned barrier)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(target),
        "l"(source), "r"(bytes), "r"(barrier)
        : "memory");
#endif
}

/// Marks what is read once: it leaves L2 first. For bulkCopyStreaming().
__device__ __forceinline__ uint64_t streamingPolicy()
{
    uint64_t policy = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));
#endif
    return policy;
}

__device__ __forceinline__ void bulkCopyStreaming(unsigned target, const void* source, unsigned bytes, unsigned barrier,
                                                  uint64_t policy)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;\n" ::"r"(target),
                 "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
#endif
}

/// A box of a matrix that a CUtensorMap describes, from column `x` and row `y` on, zeros where the matrix ends; the
/// barrier counts the bytes of the whole box.
__device__ __forceinline__ void bulkCopyBox(unsigned target, const void* map, int x, int y, unsigned barrier)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(target),
                 "l"(map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
#endif
}

/// The same of matrix `z` of a stack.
__device__ __forceinline__ void bulkCopyStackedBox(unsigned target, const void* map, int x, int y, int z,
                                                   unsigned barrier)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];\n" ::"r"(target),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                 : "memory");
#endif
}

/// Starts to bring a CUtensorMap to where copies look for it.
__device__ __forceinline__ void prefetchMap(const void* map)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
#endif
}

/// One arrival of the calling thread as soon as all its copyAsync16() so far have landed; counts as an expected one.
__device__ __forceinline__ void barrierArriveOnCopies(unsigned barrier)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(barrier) : "memory");
#endif
}

/// A place in a ring of stages and how often it has gone round, modulo 2.
template <int Stages>
struct RingAt {
    int slot = 0;
    unsigned phase = 0;

    __device__ __forceinline__ void advance()
    {
        if (++slot == Stages) {
            slot = 0;
            phase ^= 1;
        }
    }
};

/// A barrier among `threads` threads of the block that name the same `id` (1..15).
__device__ __forceinline__ void namedBarrier(int id, int threads)
{
    asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}

} // namespace octavo::kernels::cuda
