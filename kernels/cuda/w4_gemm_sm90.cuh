#pragma once

/// What the W4 products of sm_90 share: which block has which units, how codes become operands, and what happens where
/// a tile ends. Two ways to the same bits: w4_gemm_ring.cu for few rows, w4_gemm_warpgroups.cu for many.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm.h"
#include "kernels/cuda/w4_gemm_ending.cuh"
#include "kernels/cuda/w4_gemm_internal.h"
#include "kernels/cuda/w4_gemm_parts.cuh"

namespace octavo::kernels::cuda
{

/// How the blocks of a launch share a product's units, 256 outputs x 128 inputs each, tile after tile.
struct Division {
    unsigned blocks, groups, units;

    __device__ __forceinline__ explicit Division(const W4GemmArgs& args)
        : blocks(gridDim.x)
        , groups(args.groups)
        , units((args.tiles + 1) / 2 * groups)
    {
    }
    // Products stay below 2^32: launchW4Sm90() looks.
    __device__ __forceinline__ int firstUnit(unsigned block) const { return static_cast<int>(block * units / blocks); }
    __device__ __forceinline__ int firstBlock(unsigned tile) const { return blockOf(tile * groups); }
    __device__ __forceinline__ int lastBlock(unsigned tile) const { return blockOf((tile + 1) * groups - 1); }

private:
    __device__ __forceinline__ int blockOf(unsigned unit) const
    {
        return static_cast<int>(((unit + 1) * blocks - 1) / units);
    }
};

/// Two of a word's nibbles, less 8, times 2^-6, exact. A bf16 whose upper byte is zero is its lower byte times 2^-133,
/// so that a nibble needs no shift to be the lower or the upper half of that byte.
__device__ __forceinline__ uint32_t nibblesToBf16(uint32_t word, uint32_t mask, uint32_t factor)
{
    uint32_t result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(result) : "r"(word & mask), "r"(factor), "r"(0xbe00be00u)); // - 2^-3
    return result;
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

/// Ends a warp's part of a tile: outputs warp * 32 .. + 31 of it, for all rows, as products of warps leave them;
/// `scales` are complete once their barrier's first phase has ended. Parts are added in the blocks' order, whoever adds
/// them.
template <int RowTiles>
__device__ __forceinline__ void finishTile(const W4GemmArgs& args, const Division& division,
                                           float (&sums)[2][RowTiles][4], int tile, int warp, const float* scales,
                                           unsigned scalesBarrier)
{
    constexpr int fragments = 2 * RowTiles; // float4s of a warp's sums
    const int lane = threadIdx.x % 32, block = blockIdx.x;
    const int first = division.firstBlock(tile), last = division.lastBlock(tile);
    // Parts of even and of odd tiles have places of their own, as a block may have one of either.
    float4* places = reinterpret_cast<float4*>(args.partials) + int64_t(tile % 2 * gridDim.x + first) * partFloat4s +
                     warp * fragments * 32 + lane;
    const auto present = [&](int octet) { return octet * 8 + lane % 4 * 2 < args.rows; };
    const auto putParts = [&] {
        float4* mine = places + (block - first) * partFloat4s;
#pragma unroll
        for (int i = 0; i < fragments; ++i)
            if (present(i % RowTiles))
                putPart(mine + i * 32, &sums[0][0][0] + i * 4);
    };
    // Who is idle after the tile may wait for others' parts. Where those are four blocks or more, each adds a
    // share of the parts; for few rows four do, so that the rest can go and make room for the next product.
    const int idle = last - first + (division.firstUnit(last + 1) == (tile + 1) * args.groups ? 1 : 0);
    if (idle >= 4) {
        putParts();
        const int sharing = RowTiles <= 2 ? 4 : idle, me = block - first;
        if (me >= sharing)
            return;
        int octet = (me + sharing - warp % sharing) % sharing;
        if (octet * 8 >= args.rows)
            return;
        const Ending end(args, scales, tile, warp);
        if (args.norms.squares)
            barrierWait(scalesBarrier, 0);
#pragma unroll 1
        for (; octet * 8 < args.rows; octet += sharing) {
            const uint4 before = end.before(octet);
            Octet total = {{-0.0f, -0.0f, -0.0f, -0.0f}, {-0.0f, -0.0f, -0.0f, -0.0f}};
            addParts<RowTiles <= 2 ? 4 : 8, 2, RowTiles * 32>(&total[0][0], places + octet * 32, last - first + 1,
                                                              [&](int) { return present(octet); });
            end.store(total, octet, before);
        }
        return;
    }
    // Else the block that has the tile's beginning, since that is the last thing it has.
    if (block != first)
        return putParts();
    const Ending end(args, scales, tile, warp);
    constexpr bool early = RowTiles == 1; // while parts are waited for, where there are registers
    uint4 before[RowTiles];
    if (early)
        before[0] = end.before(0);
    constexpr int batch = RowTiles == 1 ? 4 : RowTiles <= 4 ? 2 : 1;
    addParts<batch, fragments, 32>(&sums[0][0][0], places + partFloat4s, last - first,
                                   [&](int i) { return present(i % RowTiles); });
    if (!early)
#pragma unroll
        for (int octet = 0; octet < RowTiles; ++octet)
            before[octet] = end.before(octet);
    if (args.norms.squares)
        barrierWait(scalesBarrier, 0);
#pragma unroll
    for (int octet = 0; octet < RowTiles; ++octet) {
        Octet mine;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            mine[i / 4][i % 4] = sums[i / 4][octet][i % 4];
        if (octet * 8 < args.rows)
            end.store(mine, octet, before[octet]);
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
