#include "kernels/cuda/w4_gemm_internal.h"

/// W4A16 on sm_90a. A block's stages (256 outputs x 128 inputs: two units of weights and the same inputs of every row)
/// are filled by three warps, one for the weights and two for the inputs, and emptied by two warpgroups, a unit each.
/// Weights become bf16 in registers, once for all rows; inputs are read where they lie. A fourth warp finds the rows'
/// scales where a norm's is left to the product.
///
/// Sums of a block's even and odd units are kept apart and meet where a tile ends.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm_sm90.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int consumers = 8; // warps, 32 outputs each
constexpr int inputWarps = 2;
constexpr int threads = (consumers + 4) * 32; // whole warpgroups

template <int RowTiles, int Stages>
struct Layout {
    static constexpr int rows = RowTiles * 8;
    static constexpr int blockBytes = rows * 128; // 64 inputs of every row, as wgmma.cuh has them
    static constexpr int weightsOffset = 2 * blockBytes;
    static constexpr int stageBytes = (weightsOffset + 2 * w4UnitBytes + 1023) / 1024 * 1024;
    static constexpr int barrierOffset = Stages * stageBytes;
    static constexpr int scalesOffset = barrierOffset + (2 * Stages + 1) * 8 + 8;
    static constexpr int bytes = scalesOffset + rows * 4 + 1024; // the last to begin on 1024
    static constexpr bool manyRegisters = RowTiles > 4;
};

/// A place in the ring of stages and how often it has gone round, modulo 2.
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

/// 16 outputs' weights of 64 inputs, as A fragments of four products.
using Fragments = uint32_t[4][4];

[[maybe_unused]] __device__ __forceinline__ void loadFragments(Fragments& a, unsigned codes)
{
    const uint4 bits = loadShared16(codes);
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int step = 0; step < 4; ++step)
        wordToFragment(words[step], a[step]);
}

/// partial += (or =) the fragments' weights times 64 inputs; goes on while the caller does.
template <int RowTiles>
__device__ __forceinline__ void startProducts(float (&partial)[RowTiles][4], const Fragments& a, unsigned inputs,
                                              bool add)
{
    wgmmaBegin();
#pragma unroll
    for (int step = 0; step < 4; ++step)
        wgmmaWeights(partial, a[step], wgmmaMatrix(inputs + step * 32, 16), add || step > 0);
    wgmmaCommit();
}

/// sums += the weights of a unit, scaled, times its inputs. `ahead` holds the unit's first fragments, and the next
/// unit's in the end: next() gives where their codes are, once they have come; release() once the stage has been read.
template <int RowTiles, typename Next, typename Release>
__device__ __forceinline__ void addUnit(float (&sums)[2][RowTiles][4], Fragments& ahead, unsigned inputs,
                                        unsigned codes, unsigned scalesAt, Next&& next, Release&& release)
{
    const uint2 scaleBits = loadShared8(scalesAt);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float partial[RowTiles][4];
        wgmmaHold(partial);
        startProducts(partial, ahead, inputs, false);
        Fragments second;
        loadFragments(second, codes + 4096 + r * 512);
        startProducts(partial, second, inputs + RowTiles * 1024, true);
        wgmmaWait<1>();
        loadFragments(ahead, r == 0 ? codes + 512 : next());
        wgmmaWait<0>();
        wgmmaHold(partial);
        if (r == 1)
            release();
        const float2 scales = __half22float2(*reinterpret_cast<const __half2*>(r == 0 ? &scaleBits.x : &scaleBits.y));
#pragma unroll
        for (int t = 0; t < RowTiles; ++t)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                sums[r][t][i] += partial[t][i] * (i < 2 ? scales.x : scales.y);
    }
}

template <int RowTiles, int Stages>
__global__ void __launch_bounds__(threads, 1) w4GemmWarpgroupKernel(const __grid_constant__ W4GemmArgs args)
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
    const int warp = threadIdx.x / 32;
    const int units = (args.tiles + 1) / 2 * args.groups;
    const int begin = firstUnit(blockIdx.x, units, gridDim.x);
    const int end = firstUnit(blockIdx.x + 1, units, gridDim.x);

    allowDependentLaunch();
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < Stages; ++slot) {
            barrierInit(fullBarrier(slot), 1 + 32 * inputWarps); // the weights' bytes, every lane that brings inputs
            barrierInit(emptyBarrier(slot), consumers);
        }
        barrierInit(scalesBarrier, 1);
        barrierInitFence();
    }
    // Inputs past the end meet scales of 0, but must not be NaN.
    if (args.inFeatures % w4GroupSize != 0) {
        for (int i = threadIdx.x; i < Stages * (L::weightsOffset / 16); i += threads) {
            const int slot = i / (L::weightsOffset / 16), at = i % (L::weightsOffset / 16);
            *reinterpret_cast<uint4*>(shared + slot * L::stageBytes + at * 16) = uint4{0, 0, 0, 0};
        }
        wgmmaFenceShared();
    }
    __syncthreads();

    if (warp >= consumers) {
        if constexpr (L::manyRegisters)
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
        } else if (warp <= consumers + inputWarps) { // inputs; all others wait for these
            waitForPreviousKernel();
            // Two rows at a time, 16 bytes a lane. A lane's rows are four apart, so that two places serve them all.
            const int firstRow = (warp - consumers - 1) * 2 + lane / 16;
            const unsigned block = lane % 16 / 8 * L::blockBytes;
            const unsigned even = block + firstRow * 128 + (lane % 8 ^ firstRow) * 16;
            const unsigned odd = block + (firstRow + 4) * 128 + (lane % 8 ^ (firstRow + 4)) * 16;
            const int64_t step = 4 * args.xStride;
            const __nv_bfloat16* first = args.x + firstRow * args.xStride + lane % 16 * 8;
            int group = begin % args.groups;
            for (int unit = begin; unit < end; ++unit, at.advance()) {
                barrierWait(emptyBarrier(at.slot), at.phase ^ 1);
                const unsigned target = base + at.slot * L::stageBytes;
                const __nv_bfloat16* source = first + group * w4GroupSize;
                const int present = group * w4GroupSize + lane % 16 * 8 < args.inFeatures ? args.rows - firstRow : 0;
#pragma unroll
                for (int i = 0; i < RowTiles * 2; ++i, source += step) {
                    if (4 * i < present)
                        copyAsync16(target + (i % 2 ? odd : even) + i / 2 * 1024, source);
                }
                barrierArriveOnCopies(fullBarrier(at.slot));
                if (++group == args.groups)
                    group = 0;
            }
            asm volatile("cp.async.wait_all;\n" ::: "memory"); // nothing of the warp's is under way when it ends
        } else if (args.norms.squares) {
            waitForPreviousKernel();
            findScales(args, scales, L::rows, scalesBarrier);
        }
    } else {
        if constexpr (L::manyRegisters)
            asm volatile("setmaxnreg.inc.sync.aligned.u32 232;\n");
        const int laneRow = lane / 4;
        const unsigned codesOffset = L::weightsOffset + warp / 4 * w4UnitBytes + warp % 4 * 1024 + lane * 16;
        const unsigned scalesOffset = L::weightsOffset + warp / 4 * w4UnitBytes + 8192 + warp % 4 * 64 + laneRow * 8;
        RingAt<Stages> at;
        const auto waitForStage = [&] {
            barrierWait(fullBarrier(at.slot), at.phase);
            wgmmaFenceShared(); // the inputs came by way of ordinary copies
            return base + at.slot * L::stageBytes;
        };
        unsigned stage = begin < end ? waitForStage() : base;
        int left = end - begin;
        Fragments ahead;
        loadFragments(ahead, stage + codesOffset);
        const auto add = [&](float(&sums)[2][RowTiles][4]) {
            const unsigned current = stage, empty = emptyBarrier(at.slot);
            at.advance();
            --left;
            addUnit(
                sums, ahead, current, current + codesOffset, current + scalesOffset,
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
            const int tileBegin = tile * args.groups, tileEnd = tileBegin + args.groups;
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
            const bool owner = segmentBegin == tileBegin;
            segmentBegin = segmentEnd;
            if (tile * 2 + warp / 4 >= args.tiles)
                continue;
#pragma unroll
            for (int r = 0; r < 2; ++r)
#pragma unroll
                for (int t = 0; t < RowTiles; ++t)
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        sums[r][t][i] = (sums[r][t][i] + odd[r][t][i]) * codeFactor;
            const int lastBlock = segmentEnd == tileEnd ? blockIdx.x : blockOf(tileEnd - 1, units, gridDim.x);
            finishTile(args, sums, tile, warp, owner, lastBlock, scales, scalesBarrier);
        }
    }
#endif
}

template <int RowTiles, int Stages>
cudaError_t launch(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    return launchW4Sm90(w4GemmWarpgroupKernel<RowTiles, Stages>, threads, Layout<RowTiles, Stages>::bytes, args, blocks,
                        stream);
}

} // namespace

bool deviceHasW4Warpgroups()
{
    int device = 0, major = 0, minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
           minor == 0;
}

cudaError_t launchW4GemmWarpgroups(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    if (args.rows <= 32)
        return launch<4, 8>(args, blocks, stream);
    return launch<8, 6>(args, blocks, stream);
}

} // namespace octavo::kernels::cuda
