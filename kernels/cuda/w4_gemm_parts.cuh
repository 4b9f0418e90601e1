#pragma once

/// How blocks of sm_90 hand each other their parts of a tile's sums, by way of L2. A place holds +0 until a value has
/// come, values that would be +0 come as -0, and who has read a place makes it +0 again. A value so says itself that it
/// is there: no counter, no fence, one way to L2 for who stores and one for who loads. Between products the kernels'
/// order keeps places apart: no block stores or looks for a part before its inputs have come, which wait for the
/// product before, and that has read all of its parts by then.

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm.h"

namespace octavo::kernels::cuda
{

__device__ __forceinline__ void putPart(float4* place, const float* sums)
{
    // x + -0, rounded down, is x, and -0 for both zeros.
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"l"(place), "f"(__fadd_rd(sums[0], -0.0f)),
                 "f"(__fadd_rd(sums[1], -0.0f)), "f"(__fadd_rd(sums[2], -0.0f)), "f"(__fadd_rd(sums[3], -0.0f))
                 : "memory");
}

__device__ __forceinline__ float4 peekPart(const float4* place)
{
    float4 v;
    asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];\n"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(place)
                 : "memory");
    return v;
}

__device__ __forceinline__ void clearPart(float4* place)
{
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %1, %1, %1};\n" ::"l"(place), "f"(0.0f) : "memory");
}

__device__ __forceinline__ bool hasCome(const float4& v)
{
    return __float_as_uint(v.x) != 0 && __float_as_uint(v.y) != 0 && __float_as_uint(v.z) != 0 &&
           __float_as_uint(v.w) != 0;
}

inline constexpr int tileOutputs = 2 * w4TileRows;              ///< of a block's tile: two units
inline constexpr int partFloat4s = tileOutputs * w4MaxRows / 4; ///< of a part

/// By a warp: sums (`Fragments` times four of each lane) += `parts` parts in this order, as they come; fragment i of
/// the first is at `places` + i * Step. `Batch` of them are under way at once. Lanes have nothing where present(i) is
/// false.
template <int Batch, int Fragments, int Step, typename Present>
__device__ __forceinline__ void addParts(float* sums, float4* places, int parts, Present&& present)
{
#pragma unroll 1
    for (; parts > 0; parts -= Batch, places += Batch * partFloat4s) {
        float4 values[Batch][Fragments];
        bool come;
        do {
            come = true;
#pragma unroll
            for (int j = 0; j < Batch; ++j)
#pragma unroll
                for (int i = 0; i < Fragments; ++i)
                    values[j][i] = j < parts && present(i) ? peekPart(places + j * partFloat4s + i * Step)
                                                           : float4{-0.0f, -0.0f, -0.0f, -0.0f};
#pragma unroll
            for (int j = 0; j < Batch; ++j)
#pragma unroll
                for (int i = 0; i < Fragments; ++i)
                    come &= hasCome(values[j][i]);
        } while (!__all_sync(fullMask, come));
#pragma unroll
        for (int j = 0; j < Batch; ++j)
#pragma unroll
            for (int i = 0; i < Fragments; ++i) {
                float* s = sums + i * 4;
                s[0] += values[j][i].x, s[1] += values[j][i].y;
                s[2] += values[j][i].z, s[3] += values[j][i].w;
                if (j < parts && present(i))
                    clearPart(places + j * partFloat4s + i * Step);
            }
    }
}

} // namespace octavo::kernels::cuda
