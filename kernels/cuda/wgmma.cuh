#pragma once

/// Products of a warpgroup (128 threads) on sm_90a, whose operands lie in shared memory: rows of 64 bf16 (128 bytes) in
/// blocks that begin on 1024 bytes, the 16-byte chunk c of row r at chunk c ^ (r % 8). Bodies vanish on other targets.

#include <cstdint>

namespace octavo::kernels::cuda
{

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define OCTAVO_WGMMA 1
#endif

/// Names a matrix in shared memory. `leading`: bytes between blocks of 64 columns where rows are what is summed over
/// (values), unused where columns are (queries, keys); groups of eight rows follow each other.
__device__ __forceinline__ uint64_t wgmmaMatrix(unsigned address, unsigned leading)
{
    constexpr uint64_t swizzle128 = 1, eightRows = 1024;
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(leading >> 4) << 16 | (eightRows >> 4) << 32 |
           swizzle128 << 62;
}

__device__ __forceinline__ void wgmmaBegin()
{
#ifdef OCTAVO_WGMMA
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}

__device__ __forceinline__ void wgmmaCommit()
{
#ifdef OCTAVO_WGMMA
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}

template <int Pending>
__device__ __forceinline__ void wgmmaWait()
{
#ifdef OCTAVO_WGMMA
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
#endif
}

/// Keeps the compiler from moving uses of sums across a wait.
template <int N>
__device__ __forceinline__ void wgmmaHold(float (&sums)[N][4])
{
#ifdef OCTAVO_WGMMA
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            asm volatile("" : "+f"(sums[n][i])::"memory");
#endif
}

/// Makes what this thread wrote to shared memory visible to the tensor cores, before a barrier.
__device__ __forceinline__ void wgmmaFenceShared()
{
#ifdef OCTAVO_WGMMA
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

// clang-format off
#define OCTAVO_SUM4(s, n) "+f"(s[n][0]), "+f"(s[n][1]), "+f"(s[n][2]), "+f"(s[n][3])
#define OCTAVO_SUM16(s, n) OCTAVO_SUM4(s, n), OCTAVO_SUM4(s, n + 1), OCTAVO_SUM4(s, n + 2), OCTAVO_SUM4(s, n + 3)
// clang-format on

/// s += (or =) A B^T: A 64 x 16, B 80 x 16, both with their columns summed over.
__device__ __forceinline__ void wgmma64x80(float (&s)[10][4], uint64_t a, uint64_t b, bool add)
{
#ifdef OCTAVO_WGMMA
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %42, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39}, "
                 "%40, %41, p, 1, 1, 0, 0;\n"
                 "}\n"
                 : OCTAVO_SUM16(s, 0), OCTAVO_SUM16(s, 4), OCTAVO_SUM4(s, 8), OCTAVO_SUM4(s, 9)
                 : "l"(a), "l"(b), "r"(int(add)));
#endif
}

/// s += A B: A 64 x 16 in registers, B 16 x 256 with its rows summed over.
__device__ __forceinline__ void wgmma64x256(float (&s)[32][4], const uint32_t (&a)[4], uint64_t b)
{
#ifdef OCTAVO_WGMMA
    asm volatile("{\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "{%128, %129, %130, %131}, %132, 1, 1, 1, 1;\n"
                 "}\n"
                 : OCTAVO_SUM16(s, 0), OCTAVO_SUM16(s, 4), OCTAVO_SUM16(s, 8), OCTAVO_SUM16(s, 12), OCTAVO_SUM16(s, 16),
                   OCTAVO_SUM16(s, 20), OCTAVO_SUM16(s, 24), OCTAVO_SUM16(s, 28)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

// clang-format off
#define OCTAVO_NAMES8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define OCTAVO_NAMES16 OCTAVO_NAMES8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define OCTAVO_NAMES24 OCTAVO_NAMES16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define OCTAVO_NAMES32 OCTAVO_NAMES24 ", %24, %25, %26, %27, %28, %29, %30, %31"

/// s += (or =) A B^T: A 64 x 16 in registers, B Columns x 16 with its columns summed over, Columns = 8 * Tiles. After
/// the names of the sums come those of what else the instruction reads: A, B, whether to add.
#define OCTAVO_WEIGHTS(Tiles, Columns, Names, A0, A1, A2, A3, B, Add, ...)                                           \
    __device__ __forceinline__ void wgmmaWeights(float (&s)[Tiles][4], const uint32_t (&a)[4], uint64_t b, bool add) \
    {                                                                                                                \
        OCTAVO_IF_WGMMA(                                                                                             \
        asm volatile("{\n"                                                                                           \
                     ".reg .pred p;\n"                                                                               \
                     "setp.ne.b32 p, " Add ", 0;\n"                                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" Columns "k16.f32.bf16.bf16 {" Names "}, "                   \
                     "{" A0 ", " A1 ", " A2 ", " A3 "}, " B ", p, 1, 1, 0;\n"                                        \
                     "}\n"                                                                                           \
                     : __VA_ARGS__                                                                                   \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));)                          \
    }
#ifdef OCTAVO_WGMMA
#define OCTAVO_IF_WGMMA(...) __VA_ARGS__
#else
#define OCTAVO_IF_WGMMA(...)
#endif

OCTAVO_WEIGHTS(2, "16", OCTAVO_NAMES8, "%8", "%9", "%10", "%11", "%12", "%13", OCTAVO_SUM4(s, 0), OCTAVO_SUM4(s, 1))
OCTAVO_WEIGHTS(3, "24", OCTAVO_NAMES8 ", %8, %9, %10, %11", "%12", "%13", "%14", "%15", "%16", "%17",
               OCTAVO_SUM4(s, 0), OCTAVO_SUM4(s, 1), OCTAVO_SUM4(s, 2))
OCTAVO_WEIGHTS(4, "32", OCTAVO_NAMES16, "%16", "%17", "%18", "%19", "%20", "%21", OCTAVO_SUM16(s, 0))
OCTAVO_WEIGHTS(5, "40", OCTAVO_NAMES16 ", %16, %17, %18, %19", "%20", "%21", "%22", "%23", "%24", "%25",
               OCTAVO_SUM16(s, 0), OCTAVO_SUM4(s, 4))
OCTAVO_WEIGHTS(6, "48", OCTAVO_NAMES24, "%24", "%25", "%26", "%27", "%28", "%29",
               OCTAVO_SUM16(s, 0), OCTAVO_SUM4(s, 4), OCTAVO_SUM4(s, 5))
OCTAVO_WEIGHTS(7, "56", OCTAVO_NAMES24 ", %24, %25, %26, %27", "%28", "%29", "%30", "%31", "%32", "%33",
               OCTAVO_SUM16(s, 0), OCTAVO_SUM4(s, 4), OCTAVO_SUM4(s, 5), OCTAVO_SUM4(s, 6))
OCTAVO_WEIGHTS(8, "64", OCTAVO_NAMES32, "%32", "%33", "%34", "%35", "%36", "%37",
               OCTAVO_SUM16(s, 0), OCTAVO_SUM16(s, 4))
// clang-format on

#undef OCTAVO_IF_WGMMA
#undef OCTAVO_WEIGHTS
#undef OCTAVO_NAMES32
#undef OCTAVO_NAMES24
#undef OCTAVO_NAMES16
#undef OCTAVO_NAMES8
#undef OCTAVO_SUM16
#undef OCTAVO_SUM4

} // namespace octavo::kernels::cuda
