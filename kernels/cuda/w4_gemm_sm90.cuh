#pragma once

/// What the W4 products of sm_90 share: which block has which units, how codes become operands, and what happens where
/// a tile ends. Two ways to the same bits: w4_gemm_ring.cu for few rows, w4_gemm_warpgroups.cu for many.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm.h"
#include "kernels/cuda/w4_gemm_internal.h"

namespace octavo::kernels::cuda
{

inline constexpr int tileOutputs = 256;

// Both products stay below 2^32: launchW4Sm90() looks.
__device__ __forceinline__ int firstUnit(int block, int units, int blocks)
{
    return static_cast<int>(unsigned(block) * unsigned(units) / unsigned(blocks));
}

__device__ __forceinline__ int blockOf(int unit, int units, int blocks)
{
    return static_cast<int>((unsigned(unit + 1) * unsigned(blocks) - 1) / unsigned(units));
}

/// Two of a word's nibbles, less 8, times 2^-6, exact. A bf16 whose upper byte is zero is its lower byte times 2^-133,
/// so that a nibble needs no shift to be the lower or the upper half of that byte.
__device__ __forceinline__ uint32_t nibblesToBf16(uint32_t word, uint32_t mask, uint32_t factor)
{
    uint32_t result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(result) : "r"(word & mask), "r"(factor), "r"(0xbe00be00u)); // - 2^-3
    return result;
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

inline constexpr float codeFactor = 64.0f; // undoes the 2^-6

/// The eight nibbles of a word as a warp's A fragment, times 2^-6.
__device__ __forceinline__ void wordToFragment(uint32_t word, uint32_t (&a)[4])
{
    constexpr uint32_t low = 0x7f007f00u, high = 0x7d007d00u; // 2^127, 2^123
    a[0] = nibblesToBf16(word, 0x000f000fu, low);
    a[1] = nibblesToBf16(word, 0x00f000f0u, high);
    a[2] = nibblesToBf16(word >> 8, 0x000f000fu, low);
    a[3] = nibblesToBf16(word >> 8, 0x00f000f0u, high);
}

/// By one warp: the scales of rows whose norm is left to the product.
__device__ __forceinline__ void findScales(const W4GemmArgs& args, float* scales, int rows, unsigned barrier)
{
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int row = lane / 8; row < rows; row += 4) {
        const float scale = w4RowScale(args, row, row < args.rows);
        if (lane % 8 == 0)
            scales[row] = scale;
    }
    __syncwarp();
    if (lane == 0)
        barrierArrive(barrier);
}

/// Ends a warp's part of a tile: outputs warp * 32 .. + 31 of it, for all rows, as products of warps leave them. Blocks
/// up to `lastBlock` go on with what this one began; `scales` are complete once their barrier's first phase has ended.
template <int RowTiles>
__device__ __forceinline__ void finishTile(const W4GemmArgs& args, float (&sums)[2][RowTiles][4], int tile, int warp,
                                           bool owner, int lastBlock, const float* scales, unsigned scalesBarrier)
{
    constexpr int fragments = 2 * RowTiles; // float4s of a warp's sums
    const int lane = threadIdx.x % 32, laneRow = lane / 4;
    // Blocks that share a tile: the one that has its beginning finishes it, since that is the last thing it
    // does, while the others had it first. They leave their sums and say so; it adds them in the blocks'
    // order.
    constexpr int slotFloat4s = tileOutputs * w4MaxRows / 4;
    float4* parts = reinterpret_cast<float4*>(args.partials) + warp * fragments * 32 + lane;
    int* arrived = args.arrivals + tile * 8 + warp;
    if (!owner) {
        float4* mine = parts + int64_t(blockIdx.x) * slotFloat4s;
#pragma unroll
        for (int i = 0; i < fragments; ++i) {
            const float* s = &sums[0][0][0] + i * 4;
            __stcg(mine + i * 32, float4{s[0], s[1], s[2], s[3]});
        }
        __syncwarp();
        if (lane == 0)
            addRelease(arrived, 1);
        return;
    }
    float before[2][RowTiles][4], weight[2][2];
    const auto loadHidden = [&] {
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int output = tile * tileOutputs + warp * 32 + r * 16 + laneRow + half * 8;
                weight[r][half] = __ldg(args.norms.weight + output);
#pragma unroll
                for (int t = 0; t < RowTiles; ++t)
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        const int row = t * 8 + lane % 4 * 2 + i;
                        before[r][t][half * 2 + i] = row < args.rows ? w4Hidden(args, row, output) : 0.0f;
                    }
            }
    };
    constexpr bool early = RowTiles == 1; // while others' sums are waited for, where there are registers
    if (early && args.norms.hidden)
        loadHidden();
    if (lastBlock > static_cast<int>(blockIdx.x)) {
        if (lane == 0) {
            while (loadAcquire(arrived) != lastBlock - static_cast<int>(blockIdx.x)) {
            }
            *arrived = 0;
        }
        __syncwarp();
        constexpr int batch = fragments <= 2 ? 4 : fragments <= 4 ? 2 : 1; // loads in flight at once
        for (int block = blockIdx.x + 1; block <= lastBlock; block += batch) {
            float4 values[batch][fragments];
#pragma unroll
            for (int j = 0; j < batch; ++j)
#pragma unroll
                for (int i = 0; i < fragments; ++i)
                    values[j][i] = block + j <= lastBlock ? __ldcg(parts + int64_t(block + j) * slotFloat4s + i * 32)
                                                          : float4{0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int j = 0; j < batch; ++j)
#pragma unroll
                for (int i = 0; i < fragments; ++i) {
                    float* s = &sums[0][0][0] + i * 4;
                    s[0] += values[j][i].x, s[1] += values[j][i].y;
                    s[2] += values[j][i].z, s[3] += values[j][i].w;
                }
        }
    }
    if (args.norms.squares) {
        barrierWait(scalesBarrier, 0);
#pragma unroll
        for (int t = 0; t < RowTiles; ++t)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float scale = scales[t * 8 + lane % 4 * 2 + i];
#pragma unroll
                for (int r = 0; r < 2; ++r)
                    sums[r][t][i] *= scale, sums[r][t][2 + i] *= scale;
            }
    }
    if (args.norms.hidden) {
        if (!early)
            loadHidden();
#pragma unroll
        for (int t = 0; t < RowTiles; ++t)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = t * 8 + lane % 4 * 2 + i;
                float square = 0.0f;
#pragma unroll
                for (int at = 0; at < 4; ++at) {
                    const int r = at / 2, half = at % 2;
                    if (row < args.rows) {
                        const int output = tile * tileOutputs + warp * 32 + r * 16 + laneRow + half * 8;
                        const float hidden = w4AddResidual(args, row, output, sums[r][t][half * 2 + i],
                                                           before[r][t][half * 2 + i], weight[r][half]);
                        square += hidden * hidden;
                    }
                }
                square = warpSum<28>(square); // over the lanes of the row
                if (laneRow == 0 && row < args.rows)
                    args.norms.squaresOut[int64_t(row) * (args.outFeatures / w4SquareValues) + tile * 8 + warp] =
                        square;
            }
        return;
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int t = 0; t < RowTiles; ++t)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = t * 8 + lane % 4 * 2 + (i & 1);
                const int output = tile * tileOutputs + warp * 32 + r * 16 + laneRow + (i < 2 ? 0 : 8);
                if (row >= args.rows || output >= args.outFeatures)
                    continue;
                if (args.output == GemmOutput::Gated) {
                    const int64_t to = row * args.yStride + output / 32 * 16 + output % 16;
                    if (r == 0)
                        static_cast<__nv_bfloat16*>(args.y)[to] = gatedProduct(sums[0][t][i], sums[1][t][i]);
                    continue;
                }
                const int64_t to = row * args.yStride + output;
                if (args.output == GemmOutput::Float)
                    static_cast<float*>(args.y)[to] = sums[r][t][i];
                else
                    static_cast<__nv_bfloat16*>(args.y)[to] = __float2bfloat16_rn(sums[r][t][i]);
            }
}

/// Launches one of these kernels, which asks for more than half of the shared memory, so that no multiprocessor gets
/// two blocks while another gets none.
template <typename Kernel, typename... More>
cudaError_t launchW4Sm90(Kernel kernel, int threads, int sharedBytes, const W4GemmArgs& args, int blocks,
                         cudaStream_t stream, const More&... more)
{
    const int64_t units = int64_t{(args.tiles + 1) / 2} * args.groups;
    if ((units + 1) * blocks >= (int64_t{1} << 32))
        return cudaErrorInvalidValue;
    OCTAVO_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes));
    OCTAVO_CUDA_TRY(launchDependent(kernel, blocks, threads, sharedBytes, stream, args, more...));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
