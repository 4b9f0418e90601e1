#pragma once

/// Device-side building blocks that several kernel families share. Everything here exists on sm_86 and later; what
/// needs sm_90 is compiled to nothing below it.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr unsigned fullMask = 0xffffffffu;

__device__ __forceinline__ unsigned sharedAddress(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// 16 bytes from global to shared memory, past L1; with `valid` false the 16 bytes become zero and nothing is read.
__device__ __forceinline__ void copyAsync16(unsigned target, const void* source, bool valid = true)
{
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copyAsyncCommit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

/// Waits until at most `Pending` of this thread's committed groups are under way.
template <int Pending>
__device__ __forceinline__ void copyAsyncWait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}

__device__ __forceinline__ uint4 loadShared16(unsigned address)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
}

__device__ __forceinline__ uint2 loadShared8(unsigned address)
{
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];\n" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ uint32_t loadShared4(unsigned address)
{
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(v) : "r"(address) : "memory");
    return v;
}

__device__ __forceinline__ void storeShared4(unsigned address, uint32_t v)
{
    asm volatile("st.shared.u32 [%0], %1;\n" ::"r"(address), "r"(v) : "memory");
}

/// Four 8x8 matrices of 16-bit values; lane l names the row l % 8 of matrix l / 8.
__device__ __forceinline__ void loadMatrix4(uint32_t (&r)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void loadMatrix4Transposed(uint32_t (&r)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/// Transposes an 8x8 matrix of 16-bit values that is spread over the warp as an mma fragment.
__device__ __forceinline__ uint32_t transposeMatrix(uint32_t value)
{
    uint32_t result;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(result) : "r"(value));
    return result;
}

/// c += a * b: a 16x16 (row-major fragment), b 16x8, bf16 operands, fp32 sums.
__device__ __forceinline__ void mmaBf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// c = a * b.
__device__ __forceinline__ void mmaBf16FromZero(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%10,%10,%10,%10};\n"
                 : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

/// d = a * b + c with fp16 operands.
__device__ __forceinline__ void mmaF16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                       const float (&c)[4])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%10,%11,%12,%13};\n"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]),
                   "f"(c[3]));
}

/// Nibbles `Index` and `Index + 4` of a word as a bf16 pair, less 8 and exact: 0x4300 | code is the bf16 128 + code.
template <int Index>
__device__ __forceinline__ uint32_t int4PairToBf16(uint32_t word)
{
    uint32_t biased;
    const uint32_t shifted = word >> (4 * Index);
    asm("lop3.b32 %0, %1, 0x000f000f, 0x43004300, 0xea;\n" : "=r"(biased) : "r"(shifted)); // (a & b) | c
    uint32_t result;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm("add.rn.bf16x2 %0, %1, %2;\n" : "=r"(result) : "r"(biased), "r"(0xc308c308u)); // - 136
#else
    asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(result) : "r"(biased), "r"(0x3f803f80u), "r"(0xc308c308u));
#endif
    return result;
}

/// The eight nibbles of a word as the A fragment of one 16x16 mma.
__device__ __forceinline__ void int4WordToFragment(uint32_t word, uint32_t (&a)[4])
{
    a[0] = int4PairToBf16<0>(word);
    a[1] = int4PairToBf16<1>(word);
    a[2] = int4PairToBf16<2>(word);
    a[3] = int4PairToBf16<3>(word);
}

__device__ __forceinline__ uint32_t packBf16(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ float2 unpackBf16(uint32_t pair)
{
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}

/// Sum over the lanes that differ in the bits of `Mask`; every lane gets it.
template <int Mask = 31>
__device__ __forceinline__ float warpSum(float value)
{
#pragma unroll
    for (int bit = 16; bit > 0; bit >>= 1) {
        if (Mask & bit)
            value += __shfl_xor_sync(fullMask, value, bit);
    }
    return value;
}

template <int Mask = 31>
__device__ __forceinline__ float warpMax(float value)
{
#pragma unroll
    for (int bit = 16; bit > 0; bit >>= 1) {
        if (Mask & bit)
            value = fmaxf(value, __shfl_xor_sync(fullMask, value, bit));
    }
    return value;
}

/// Sum over the block; every thread gets it. `scratch`: 33 floats that no one else touches between two calls'
/// barriers. The caller's threads must all arrive, and may reuse `scratch` after their next __syncthreads().
__device__ __forceinline__ float blockSum(float value, float* scratch)
{
    value = warpSum(value);
    const int warp = threadIdx.x / 32;
    const int warps = (blockDim.x + 31) / 32;
    if (threadIdx.x % 32 == 0)
        scratch[warp] = value;
    __syncthreads();
    if (warp == 0) {
        float sum = threadIdx.x < warps ? scratch[threadIdx.x] : 0.0f;
        sum = warpSum(sum);
        if (threadIdx.x == 0)
            scratch[32] = sum;
    }
    __syncthreads();
    return scratch[32];
}

__device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + __expf(-x));
}

__device__ __forceinline__ float silu(float x)
{
    return x / (1.0f + __expf(-x));
}

/// silu(gate) * up, each rounded to bf16 before, as if the two had been stored.
__device__ __forceinline__ __nv_bfloat16 gatedProduct(float gate, float up)
{
    const float2 pair = unpackBf16(packBf16(gate, up));
    return __float2bfloat16_rn(silu(pair.x) * pair.y);
}

/// Programmatic dependent launch (sm_90): the next kernel may start its prologue.
__device__ __forceinline__ void allowDependentLaunch()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

/// Waits until the kernel before this one has finished and its writes are visible.
__device__ __forceinline__ void waitForPreviousKernel()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

/// Starts to bring the line at `address` into L2, where the load after the wait then finds it.
__device__ __forceinline__ void prefetchLine(const void* address)
{
    asm volatile("prefetch.global.L2 [%0];\n" ::"l"(address));
}

/// Whether the current device has sm_90's bulk copies and programmatic dependent launch.
inline bool deviceHasSm90()
{
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

/// Of the current device; 1 where it cannot be asked.
inline int deviceMultiprocessors()
{
    int device = 0, count = 1;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return 1;
    return count;
}

/// Launches with programmatic stream serialization where the device has it: only for kernels that call
/// waitForPreviousKernel() before they touch what another kernel writes or reads.
template <typename... Params, typename... Args>
cudaError_t launchDependent(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t sharedBytes,
                            cudaStream_t stream, Args... args)
{
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = sharedBytes;
    config.stream = stream;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = deviceHasSm90() ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

} // namespace octavo::kernels::cuda
