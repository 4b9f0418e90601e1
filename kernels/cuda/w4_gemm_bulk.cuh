#pragma once

/// W4A16 on sm_90: sixteen warps consume a ring of stages at their own pace and take turns in refilling it by bulk
/// copies; no barrier holds the block together. A stage is 256 outputs x 128 inputs: two units and the same inputs of
/// every row.
///
/// Products are those of single warps, or for more than 32 rows those of warpgroups (sm_90a): four warps bring their
/// weights in registers and read the inputs from shared memory. Both give the same bits.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm.h"
#include "kernels/cuda/w4_gemm_internal.h"
#include "kernels/cuda/wgmma.cuh"

namespace octavo::kernels::cuda
{
namespace w4bulk
{

constexpr int warps = 16; // 8 over the outputs (32 each) x 2 over the inputs (64 each)
constexpr int threads = warps * 32;
[[maybe_unused]] constexpr int refillLag =
    2; // a stage is refilled two stages after its use, so that warps may drift apart
[[maybe_unused]] constexpr int tileOutputs = 256;
constexpr int inputRowBytes = w4GroupSize * 2 + 16; // padded: eight rows fall on different banks

template <int RowTiles, int Passes, int Stages, bool Warpgroups>
struct Layout {
    static constexpr int maxRows = RowTiles * 8 * Passes;
    // For warpgroups: two blocks of 64 inputs, rows of 128 bytes, as wgmma.cuh has them.
    static constexpr int inputBytes = Warpgroups ? maxRows * 256 : (maxRows * inputRowBytes + 127) / 128 * 128;
    static constexpr int align = Warpgroups ? 1024 : 128;
    static constexpr int stageBytes = (2 * w4UnitBytes + inputBytes + align - 1) / align * align;
    static constexpr int inputOffset = Warpgroups ? 0 : 2 * w4UnitBytes;
    static constexpr int unitOffset = Warpgroups ? inputBytes : 0;
    static constexpr int exchangeFloats = 2 * RowTiles * 4 * Passes * 32; // per warp pair
    static constexpr int exchangeOffset = Stages * stageBytes;
    static constexpr int barrierOffset = exchangeOffset + 8 * exchangeFloats * 4;
    static constexpr int bytes = barrierOffset + 2 * Stages * 8 + (Warpgroups ? align : 0);
};

// Both products stay below 2^32: launchW4GemmBulk() looks.
[[maybe_unused]] __device__ __forceinline__ int firstUnit(int block, int units, int blocks)
{
    return static_cast<int>(unsigned(block) * unsigned(units) / unsigned(blocks));
}

[[maybe_unused]] __device__ __forceinline__ int blockOf(int unit, int units, int blocks)
{
    return static_cast<int>((unsigned(unit + 1) * unsigned(blocks) - 1) / unsigned(units));
}

template <int RowTiles, int Passes, int Stages, int MinBlocks, bool Warpgroups>
__global__ void __launch_bounds__(threads, MinBlocks) w4GemmBulkKernel(const W4GemmArgs args)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    using L = Layout<RowTiles, Passes, Stages, Warpgroups>;
    extern __shared__ __align__(128) uint8_t whole[];
    uint8_t* shared = whole + (L::align - sharedAddress(whole) % L::align) % L::align;
    const unsigned base = sharedAddress(shared);
    const auto fullBarrier = [&](int slot) { return base + L::barrierOffset + slot * 8; };
    const auto emptyBarrier = [&](int slot) { return base + L::barrierOffset + (Stages + slot) * 8; };

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int wideTiles = (args.tiles + 1) / 2;
    const int units = wideTiles * args.groups;
    const int begin = firstUnit(blockIdx.x, units, gridDim.x);
    const int end = firstUnit(blockIdx.x + 1, units, gridDim.x);

    allowDependentLaunch();
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < Stages; ++slot) {
            barrierInit(fullBarrier(slot), 1 + 32); // the weights' bytes, and every lane of the refilling warp
            barrierInit(emptyBarrier(slot), warps);
        }
        barrierInitFence();
    }
    if (args.inFeatures % w4GroupSize != 0) { // inputs past the end meet scales of 0, but must not be NaN
        for (int i = threadIdx.x; i < L::exchangeOffset / 4; i += threads)
            reinterpret_cast<uint32_t*>(shared)[i] = 0;
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    }
    __syncthreads();

    const uint64_t once = streamingPolicy();
    const auto copyWeights = [&](int unit, int slot) { // one lane
        const int tile = unit / args.groups * 2, group = unit % args.groups;
        const bool both = tile + 1 < args.tiles;
        barrierArriveExpect(fullBarrier(slot), (both ? 2 : 1) * w4UnitBytes);
        const unsigned target = base + slot * L::stageBytes + L::unitOffset;
        const uint8_t* source = args.units + (int64_t(tile) * args.groups + group) * w4UnitBytes;
        bulkCopyStreaming(target, source, w4UnitBytes, fullBarrier(slot), once);
        if (both)
            bulkCopyStreaming(target + w4UnitBytes, source + int64_t(args.groups) * w4UnitBytes, w4UnitBytes,
                              fullBarrier(slot), once);
    };
    const auto copyInputs = [&](int unit, int slot) { // two rows at a time, 16 bytes a lane
        const int input = unit % args.groups * w4GroupSize + lane % 16 * 8;
        const unsigned inputs = base + slot * L::stageBytes + L::inputOffset;
        const __nv_bfloat16* source = args.x + input;
        if (input < args.inFeatures) {
#pragma unroll 4
            for (int row = lane / 16; row < args.rows; row += 2) {
                const unsigned target =
                    Warpgroups ? lane % 16 / 8 * (L::maxRows * 128) + row * 128 + ((lane % 8 ^ (row & 7)) * 16)
                               : row * inputRowBytes + lane % 16 * 16;
                copyAsync16(inputs + target, source + row * args.xStride);
            }
        }
        barrierArriveOnCopies(fullBarrier(slot));
    };
    const auto prefetchNext = [&] {
        const int nextUnits = (args.nextTiles + 1) / 2 * args.nextGroups;
        const int first = firstUnit(blockIdx.x, nextUnits, args.nextBlocks);
        const int stop = min(firstUnit(blockIdx.x + 1, nextUnits, args.nextBlocks), first + args.nextStages);
        for (int unit = first + lane; unit < stop; unit += 32) {
            const int tile = unit / args.nextGroups * 2;
            const uint8_t* source =
                args.nextUnits + (int64_t(tile) * args.nextGroups + unit % args.nextGroups) * w4UnitBytes;
            bulkPrefetch(source, w4UnitBytes);
            if (tile + 1 < args.nextTiles)
                bulkPrefetch(source + int64_t(args.nextGroups) * w4UnitBytes, w4UnitBytes);
        }
    };
    // The weights do not depend on the kernel before; the inputs do.
    if (warp < min(Stages, end - begin)) {
        if (lane == 0)
            copyWeights(begin + warp, warp);
        __syncwarp();
        waitForPreviousKernel();
        copyInputs(begin + warp, warp);
    }

    const int warpN = warp % 8;
    const int warpK = warp / 8;
    const int laneRow = lane / 4;
    float sums[Passes][2][RowTiles][4] = {};
    const int lastRefilled = max(begin, end - Stages + refillLag); // from here on the bus has room for the next product
    int slot = 0;
    unsigned parity = 0;
    int segmentBegin = begin;
    int group = begin % args.groups;
    int tile = begin / args.groups;
    for (int unit = begin; unit < end;) {
        const int refill = unit - refillLag + Stages;
        if (unit == lastRefilled && warp == (unit - begin) % warps && int(blockIdx.x) < args.nextBlocks)
            prefetchNext();
        if (warp == (unit - begin) % warps && unit - begin >= refillLag && refill < end) {
            const int refillSlot = slot >= refillLag ? slot - refillLag : slot - refillLag + Stages;
            barrierWait(emptyBarrier(refillSlot), slot >= refillLag ? parity : parity ^ 1);
            if (lane == 0)
                copyWeights(refill, refillSlot);
            __syncwarp();
            copyInputs(refill, refillSlot);
        }
        barrierWait(fullBarrier(slot), parity);
        const uint8_t* stage = shared + slot * L::stageBytes;
        const uint8_t* unitBytes = stage + L::unitOffset + warpN / 4 * w4UnitBytes;
        const uint8_t* codes = unitBytes + warpK * 4096 + warpN % 4 * 1024 + lane * 16;
        const uint4 words0 = *reinterpret_cast<const uint4*>(codes);
        const uint4 words1 = *reinterpret_cast<const uint4*>(codes + 512);
        const uint2 scaleBits = *reinterpret_cast<const uint2*>(unitBytes + 8192 + warpN % 4 * 64 + laneRow * 8);
        const uint32_t words[2][4] = {{words0.x, words0.y, words0.z, words0.w},
                                      {words1.x, words1.y, words1.z, words1.w}};
        const float2 scales0 = __half22float2(*reinterpret_cast<const __half2*>(&scaleBits.x));
        const float2 scales1 = __half22float2(*reinterpret_cast<const __half2*>(&scaleBits.y));
        if constexpr (Warpgroups) {
            wgmmaFenceShared(); // the inputs came by way of ordinary copies
            const unsigned inputs = sharedAddress(stage) + warpK * (L::maxRows * 128);
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                uint32_t a[4][4];
#pragma unroll
                for (int step = 0; step < 4; ++step)
                    int4WordToFragment(words[r][step], a[step]);
                const float2 scales = r == 0 ? scales0 : scales1;
#pragma unroll
                for (int pass = 0; pass < Passes; ++pass) {
                    float partial[RowTiles][4];
                    wgmmaHold(partial);
                    wgmmaBegin();
#pragma unroll
                    for (int step = 0; step < 4; ++step)
                        wgmmaWeights(partial, a[step], wgmmaMatrix(inputs + pass * RowTiles * 1024 + step * 32, 16),
                                     step > 0);
                    wgmmaCommit();
                    wgmmaWait<0>();
                    wgmmaHold(partial);
#pragma unroll
                    for (int t = 0; t < RowTiles; ++t)
#pragma unroll
                        for (int i = 0; i < 4; ++i)
                            sums[pass][r][t][i] += partial[t][i] * (i < 2 ? scales.x : scales.y);
                }
            }
        } else {
            const unsigned inputs =
                sharedAddress(stage) + L::inputOffset + (lane & 7) * inputRowBytes + warpK * 128 + lane / 8 * 16;
#pragma unroll
            for (int pass = 0; pass < Passes; ++pass) {
                float partial[2][RowTiles][4];
#pragma unroll
                for (int half = 0; half < 2; ++half) { // 32 inputs
                    uint32_t b[RowTiles][4];
#pragma unroll
                    for (int t = 0; t < RowTiles; ++t)
                        loadMatrix4(b[t], inputs + (pass * RowTiles + t) * 8 * inputRowBytes + half * 64);
#pragma unroll
                    for (int step = 0; step < 2; ++step) {
#pragma unroll
                        for (int r = 0; r < 2; ++r) {
                            uint32_t a[4];
                            int4WordToFragment(words[r][half * 2 + step], a);
#pragma unroll
                            for (int t = 0; t < RowTiles; ++t) {
                                if (half == 0 && step == 0)
                                    mmaBf16FromZero(partial[r][t], a, b[t][0], b[t][1]);
                                else
                                    mmaBf16(partial[r][t], a, b[t][step * 2], b[t][step * 2 + 1]);
                            }
                        }
                    }
                }
#pragma unroll
                for (int t = 0; t < RowTiles; ++t) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sums[pass][0][t][i] += partial[0][t][i] * (i < 2 ? scales0.x : scales0.y);
                        sums[pass][1][t][i] += partial[1][t][i] * (i < 2 ? scales1.x : scales1.y);
                    }
                }
            }
        }
        __syncwarp();
        if (lane == 0)
            barrierArrive(emptyBarrier(slot));
        if (++slot == Stages) {
            slot = 0;
            parity ^= 1;
        }

        ++unit;
        ++group;
        if (group != args.groups && unit != end)
            continue;

        // The two input halves meet: warpK 1 hands its sums over in fragment order.
        const int tileBegin = tile * args.groups;
        const int tileEnd = tileBegin + args.groups;
        float4* exchange =
            reinterpret_cast<float4*>(shared + L::exchangeOffset) + warpN * (L::exchangeFloats / 4) + lane;
        namedBarrier(1 + warpN, 64);
        if (warpK == 1) {
#pragma unroll
            for (int i = 0; i < Passes * 2 * RowTiles; ++i) {
                float* s = &sums[0][0][0][0] + i * 4;
                exchange[i * 32] = float4{s[0], s[1], s[2], s[3]};
            }
        }
        namedBarrier(1 + warpN, 64);
        const bool present = tile * 2 + warpN / 4 < args.tiles;
        if (warpK == 0 && present) {
#pragma unroll
            for (int i = 0; i < Passes * 2 * RowTiles; ++i) {
                float* s = &sums[0][0][0][0] + i * 4;
                const float4 other = exchange[i * 32];
                s[0] += other.x, s[1] += other.y, s[2] += other.z, s[3] += other.w;
            }
            // Blocks that share a tile: the one that has its beginning finishes it, since that is the last thing it
            // does, while the others had it first. They leave their sums and say so; it adds them in the blocks' order.
            constexpr int fragments = Passes * 2 * RowTiles;
            constexpr int slotFloat4s = tileOutputs * w4MaxRows / 4;
            float4* parts = reinterpret_cast<float4*>(args.partials) + warpN * fragments * 32 + lane;
            int* arrived = args.arrivals + tile * 8 + warpN;
            const bool owner = segmentBegin == tileBegin;
            if (!owner) {
                float4* mine = parts + int64_t(blockIdx.x) * slotFloat4s;
#pragma unroll
                for (int i = 0; i < fragments; ++i) {
                    float* s = &sums[0][0][0][0] + i * 4;
                    __stcg(mine + i * 32, float4{s[0], s[1], s[2], s[3]});
                }
                __syncwarp();
                if (lane == 0)
                    addRelease(arrived, 1);
            } else if (unit != tileEnd) {
                const int lastBlock = blockOf(tileEnd - 1, units, gridDim.x);
                const int others = lastBlock - static_cast<int>(blockIdx.x);
                if (lane == 0) {
                    while (loadAcquire(arrived) != others) {
                    }
                    *arrived = 0;
                }
                __syncwarp();
                constexpr int batch = fragments <= 2 ? 4 : fragments <= 8 ? 2 : 1; // loads in flight at once
                for (int block = blockIdx.x + 1; block <= lastBlock; block += batch) {
                    float4 values[batch][fragments];
#pragma unroll
                    for (int j = 0; j < batch; ++j) {
#pragma unroll
                        for (int i = 0; i < fragments; ++i)
                            values[j][i] = block + j <= lastBlock
                                               ? __ldcg(parts + int64_t(block + j) * slotFloat4s + i * 32)
                                               : float4{0.0f, 0.0f, 0.0f, 0.0f};
                    }
#pragma unroll
                    for (int j = 0; j < batch; ++j) {
#pragma unroll
                        for (int i = 0; i < fragments; ++i) {
                            float* s = &sums[0][0][0][0] + i * 4;
                            s[0] += values[j][i].x, s[1] += values[j][i].y;
                            s[2] += values[j][i].z, s[3] += values[j][i].w;
                        }
                    }
                }
            }
            if (owner) {
#pragma unroll
                for (int pass = 0; pass < Passes; ++pass)
#pragma unroll
                    for (int r = 0; r < 2; ++r)
#pragma unroll
                        for (int t = 0; t < RowTiles; ++t)
#pragma unroll
                            for (int i = 0; i < 4; ++i) {
                                const int row = (pass * RowTiles + t) * 8 + lane % 4 * 2 + (i & 1);
                                const int output = tile * tileOutputs + warpN * 32 + r * 16 + laneRow + (i < 2 ? 0 : 8);
                                if (row >= args.rows || output >= args.outFeatures)
                                    continue;
                                if (args.output == GemmOutput::Gated) {
                                    const int64_t at = row * args.yStride + output / 32 * 16 + output % 16;
                                    if (r == 0)
                                        static_cast<__nv_bfloat16*>(args.y)[at] =
                                            gatedProduct(sums[pass][0][t][i], sums[pass][1][t][i]);
                                    continue;
                                }
                                const int64_t offset = row * args.yStride + output;
                                if (args.output == GemmOutput::Float)
                                    static_cast<float*>(args.y)[offset] = sums[pass][r][t][i];
                                else
                                    static_cast<__nv_bfloat16*>(args.y)[offset] =
                                        __float2bfloat16_rn(sums[pass][r][t][i]);
                            }
            }
        }
#pragma unroll
        for (int i = 0; i < Passes * 2 * RowTiles * 4; ++i)
            (&sums[0][0][0][0])[i] = 0.0f;
        segmentBegin = unit;
        if (group == args.groups) {
            group = 0;
            ++tile;
        }
    }
#endif
}

template <int RowTiles, int Passes, int Stages, int MinBlocks, bool Warpgroups>
cudaError_t launchW4Bulk(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    constexpr int sharedBytes = Layout<RowTiles, Passes, Stages, Warpgroups>::bytes;
    const auto kernel = w4GemmBulkKernel<RowTiles, Passes, Stages, MinBlocks, Warpgroups>;
    OCTAVO_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes));
    OCTAVO_CUDA_TRY(launchDependent(kernel, blocks, threads, sharedBytes, stream, args));
    return cudaGetLastError();
}

} // namespace w4bulk
} // namespace octavo::kernels::cuda
