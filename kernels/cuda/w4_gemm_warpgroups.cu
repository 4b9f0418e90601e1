#include "kernels/cuda/w4_gemm_internal.h"

/// W4A16 on sm_90a. A block's stages (256 outputs x 128 inputs: two units of weights and the same inputs of every row)
/// are filled by two threads, one for the weights and one for the inputs, and emptied by two warpgroups, a unit each.
/// Weights become bf16 in registers, once for all rows; inputs are read where they lie. Another warp finds the rows'
/// scales where a norm's is left to the product. Rows come in widths of eight, as every eight cost a unit time.
///
/// Sums of a block's even and odd units are kept apart and meet where a tile ends.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/w4_gemm_sm90.cuh"
#include "kernels/cuda/w4_gemm_unit.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int consumers = 8;                  // warps, 32 outputs each
constexpr int threads = (consumers + 4) * 32; // whole warpgroups: those that bring things come last

template <int RowTiles, int Stages>
struct Layout {
    static constexpr int rows = RowTiles * 8;
    static constexpr int blockBytes = rows * 128; // 64 inputs of every row, as wgmma.cuh has them
    static constexpr int weightsOffset = 2 * blockBytes;
    static constexpr int stageBytes = (weightsOffset + 2 * w4UnitBytes + 1023) / 1024 * 1024;
    static constexpr int barrierOffset = Stages * stageBytes;
    static constexpr int scalesOffset = barrierOffset + (2 * Stages + 1) * 8 + 8;
    static constexpr int bytes = scalesOffset + rows * 4 + 1024; // the last to begin on 1024
};

template <int RowTiles, int Stages>
__global__ void __launch_bounds__(threads, 1)
    w4GemmWarpgroupKernel(const __grid_constant__ W4GemmArgs args, const __grid_constant__ CUtensorMap inputs)
{
#ifdef OCTAVO_WGMMA
    using L = Layout<RowTiles, Stages>;
    extern __shared__ __align__(128) uint8_t whole[];
    uint8_t* shared = whole + (1024 - sharedAddress(whole) % 1024) % 1024;
    const unsigned base = sharedAddress(shared);
    const auto fullBarrier = [&](int slot) { return base + L::barrierOffset + slot * 8; };
    const auto emptyBarrier = [&](int slot) { return base + L::barrierOffset + (Stages + slot) * 8; };
    const unsigned scalesBarrier = base + L::barrierOffset + 2 * Stages * 8;
    float* scales = reinterpret_cast<float*>(shared + L::scalesOffset);
    const int lane = threadIdx.x % 32;
    const int warp = __shfl_sync(fullMask, threadIdx.x / 32, 0); // which the compiler then knows to be a warp's
    const Division division(args);
    const int begin = division.firstUnit(blockIdx.x), end = division.firstUnit(blockIdx.x + 1);

    allowDependentLaunch();
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < Stages; ++slot) {
            barrierInit(fullBarrier(slot), 2); // the weights' bytes, the inputs'
            barrierInit(emptyBarrier(slot), consumers);
        }
        barrierInit(scalesBarrier, 1);
        barrierInitFence();
    }
    __syncthreads();

    if (warp >= consumers) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
        RingAt<Stages> at;
        if (warp == consumers) { // weights, which do not depend on the kernel before
            if (lane != 0)
                return;
            const uint64_t once = streamingPolicy();
            int tile = begin / args.groups * 2, group = begin % args.groups;
            for (int unit = begin; unit < end; ++unit, at.advance()) {
                barrierWait(emptyBarrier(at.slot), at.phase ^ 1);
                const bool both = tile + 1 < args.tiles;
                const unsigned full = fullBarrier(at.slot), target = base + at.slot * L::stageBytes + L::weightsOffset;
                barrierArriveExpect(full, (both ? 2 : 1) * w4UnitBytes);
                const uint8_t* source = args.units + (int64_t(tile) * args.groups + group) * w4UnitBytes;
                bulkCopyStreaming(target, source, w4UnitBytes, full, once);
                if (both)
                    bulkCopyStreaming(target + w4UnitBytes, source + int64_t(args.groups) * w4UnitBytes, w4UnitBytes,
                                      full, once);
                if (++group == args.groups) {
                    group = 0;
                    tile += 2;
                }
            }
        } else if (warp == consumers + 1) { // inputs, zeros past their end; all others wait for these
            if (lane != 0)
                return;
            prefetchMap(&inputs);
            waitForPreviousKernel();
            int group = begin % args.groups;
            for (int unit = begin; unit < end; ++unit, at.advance()) {
                barrierWait(emptyBarrier(at.slot), at.phase ^ 1);
                const unsigned full = fullBarrier(at.slot), target = base + at.slot * L::stageBytes;
                barrierArriveExpect(full, 2 * L::blockBytes);
                bulkCopyBox(target, &inputs, group * w4GroupSize, 0, full);
                bulkCopyBox(target + L::blockBytes, &inputs, group * w4GroupSize + 64, 0, full);
                if (++group == args.groups)
                    group = 0;
            }
        } else if (warp == consumers + 2 && args.norms.squares) {
            waitForPreviousKernel();
            findScales(args, scales, L::rows, scalesBarrier);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
        const int laneRow = lane / 4;
        const unsigned codesOffset = L::weightsOffset + warp / 4 * w4UnitBytes + warp % 4 * 1024 + lane * 16;
        const unsigned scalesOffset = L::weightsOffset + warp / 4 * w4UnitBytes + 8192 + warp % 4 * 64 + laneRow * 8;
        RingAt<Stages> at;
        const auto waitForStage = [&] {
            barrierWait(fullBarrier(at.slot), at.phase);
            return base + at.slot * L::stageBytes;
        };
        unsigned stage = begin < end ? waitForStage() : base;
        int left = end - begin;
        Weights<RowTiles> weights(stage + codesOffset);
        const auto add = [&](float(&sums)[2][RowTiles][4]) {
            const unsigned current = stage, empty = emptyBarrier(at.slot);
            at.advance();
            --left;
            weights.addUnit(
                sums, current, current + codesOffset, current + scalesOffset,
                [&] {
                    if (left > 0)
                        stage = waitForStage();
                    return stage + codesOffset;
                },
                [&] {
                    __syncwarp();
                    if (lane == 0)
                        barrierArrive(empty);
                });
        };
        int unit = begin;
        int tile = begin / args.groups;
        for (int segmentBegin = begin; segmentBegin < end; ++tile) {
            const int tileEnd = (tile + 1) * args.groups;
            const int segmentEnd = min(tileEnd, end);
            float sums[2][RowTiles][4] = {}, odd[2][RowTiles][4] = {};
            if ((unit - begin) % 2 == 1) {
                add(odd);
                ++unit;
            }
            for (; unit + 1 < segmentEnd; unit += 2) {
                add(sums);
                add(odd);
            }
            if (unit < segmentEnd) {
                add(sums);
                ++unit;
            }
            segmentBegin = segmentEnd;
            if (tile * 2 + warp / 4 >= args.tiles)
                continue;
#pragma unroll
            for (int r = 0; r < 2; ++r)
#pragma unroll
                for (int t = 0; t < RowTiles; ++t)
#pragma unroll
                    for (int i = 0; i < 4; ++i) // never one operation with a product before: bits would differ
                        sums[r][t][i] = __fadd_rn(sums[r][t][i], odd[r][t][i]) * codeFactor;
            finishTile(args, division, sums, tile, warp, scales, scalesBarrier);
        }
    }
#endif
}

template <int RowTiles, int Stages>
cudaError_t launch(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    using L = Layout<RowTiles, Stages>;
    CUtensorMap inputs;
    OCTAVO_CUDA_TRY(describeRows(inputs, {args.x, {args.inFeatures, args.rows, 0}, {args.xStride, 0}}, L::rows));
    return launchW4Sm90(w4GemmWarpgroupKernel<RowTiles, Stages>, threads, L::bytes, args, blocks, stream, inputs);
}

} // namespace

bool deviceHasW4Warpgroups()
{
    int device = 0, major = 0, minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
           minor == 0 && canDescribeRows();
}

cudaError_t launchW4GemmWarpgroups(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    switch ((args.rows + 7) / 8) {
    case 1:
    case 2:
        return launch<2, 10>(args, blocks, stream);
    case 3:
        return launch<3, 9>(args, blocks, stream);
    case 4:
        return launch<4, 8>(args, blocks, stream);
    case 5:
        return launch<5, 7>(args, blocks, stream);
    case 6:
        return launch<6, 7>(args, blocks, stream);
    case 7:
        return launch<7, 6>(args, blocks, stream);
    default:
        return launch<8, 6>(args, blocks, stream);
    }
}

} // namespace octavo::kernels::cuda
