#include "kernels/cuda/w4_gemm_internal.h"

/// W4A16 on sm_90. A block's stages (256 outputs x 128 inputs: two units of weights and the same inputs of every row)
/// are filled by two warps, one for the weights and one for the inputs, and emptied by sixteen; one more finds the
/// rows' scales where a norm's is left to the product. The sixteen are two groups of eight that take units in turn, a
/// warp 32 outputs each; groups meet where a tile ends. Each group has half of the stages as a ring of its own: a warp
/// then sees every use of its stages, and a barrier's parity cannot deceive it.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm_sm90.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int groupWarps = 8; // over the outputs, 32 each
constexpr int consumers = 2 * groupWarps;
constexpr int threads = (consumers + 3) * 32;
constexpr int inputRowBytes = w4GroupSize * 2 + 16; // padded: eight rows fall on different banks

template <int RowTiles, int Stages>
struct Layout {
    static constexpr int inputOffset = 2 * w4UnitBytes;
    static constexpr int stageBytes = inputOffset + RowTiles * 8 * inputRowBytes;
    static constexpr int fragments = 2 * RowTiles; // float4s of a warp's sums
    static constexpr int exchangeOffset = Stages * stageBytes;
    static constexpr int barrierOffset = exchangeOffset + groupWarps * fragments * 32 * 16;
    static constexpr int scalesOffset = barrierOffset + (2 * Stages + 1) * 8;
    static constexpr int bytes = scalesOffset + RowTiles * 8 * 4;
};

/// A place in a group's ring and how often the ring has gone round, modulo 2.
template <int Depth>
struct RingAt {
    int slot; ///< of all stages
    int end;
    unsigned phase = 0;

    __device__ __forceinline__ explicit RingAt(int group)
        : slot(group * Depth)
        , end(slot + Depth)
    {
    }
    __device__ __forceinline__ void advance()
    {
        if (++slot == end) {
            slot -= Depth;
            phase ^= 1;
        }
    }
};

/// The rings of both groups, for a warp that fills them in turn.
template <int Depth>
struct Rings {
    RingAt<Depth> at{0}, other{1};

    __device__ __forceinline__ void advance()
    {
        at.advance();
        const RingAt<Depth> mine = at;
        at = other;
        other = mine;
    }
};

template <int RowTiles, int Stages>
__global__ void __launch_bounds__(threads, 1) w4GemmRingKernel(const __grid_constant__ W4GemmArgs args)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    using L = Layout<RowTiles, Stages>;
    extern __shared__ __align__(128) uint8_t shared[];
    const unsigned base = sharedAddress(shared);
    const auto fullBarrier = [&](int slot) { return base + L::barrierOffset + slot * 8; };
    const auto emptyBarrier = [&](int slot) { return base + L::barrierOffset + (Stages + slot) * 8; };
    const unsigned scalesBarrier = base + L::barrierOffset + 2 * Stages * 8;
    float* scales = reinterpret_cast<float*>(shared + L::scalesOffset);
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const Division division(args);
    const int begin = division.firstUnit(blockIdx.x), end = division.firstUnit(blockIdx.x + 1);

    allowDependentLaunch();
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < Stages; ++slot) {
            barrierInit(fullBarrier(slot), 1 + 32); // the weights' bytes, and every lane that brings inputs
            barrierInit(emptyBarrier(slot), groupWarps);
        }
        barrierInit(scalesBarrier, 1);
        barrierInitFence();
    }
    // Inputs past the end meet scales of 0 and rows past the end are not stored, but neither may be NaN at first.
    for (int i = threadIdx.x; i < Stages * RowTiles * 8 * (inputRowBytes / 16); i += threads) {
        const int slot = i / (RowTiles * 8 * (inputRowBytes / 16)), at = i % (RowTiles * 8 * (inputRowBytes / 16));
        *reinterpret_cast<uint4*>(shared + slot * L::stageBytes + L::inputOffset + at * 16) = uint4{0, 0, 0, 0};
    }
    __syncthreads();

    if (warp == consumers) { // weights, which do not depend on the kernel before
        if (lane != 0)
            return;
        const uint64_t once = streamingPolicy();
        Rings<Stages / 2> rings;
        int tile = begin / args.groups * 2, group = begin % args.groups;
        for (int unit = begin; unit < end; ++unit, rings.advance()) {
            const auto& at = rings.at;
            barrierWait(emptyBarrier(at.slot), at.phase ^ 1);
            const bool both = tile + 1 < args.tiles;
            const unsigned full = fullBarrier(at.slot), target = base + at.slot * L::stageBytes;
            barrierArriveExpect(full, (both ? 2 : 1) * w4UnitBytes);
            const uint8_t* source = args.units + (int64_t(tile) * args.groups + group) * w4UnitBytes;
            bulkCopyStreaming(target, source, w4UnitBytes, full, once);
            if (both)
                bulkCopyStreaming(target + w4UnitBytes, source + int64_t(args.groups) * w4UnitBytes, w4UnitBytes, full,
                                  once);
            if (++group == args.groups) {
                group = 0;
                tile += 2;
            }
        }
        return;
    }

    if (warp == consumers + 1) { // inputs; nobody else has to wait for the kernel before, since all wait for these
        waitForPreviousKernel();
        Rings<Stages / 2> rings;
        int group = begin % args.groups;
        for (int unit = begin; unit < end; ++unit, rings.advance()) {
            const auto& at = rings.at;
            barrierWait(emptyBarrier(at.slot), at.phase ^ 1);
            const int input = group * w4GroupSize + lane % 16 * 8; // two rows at a time, 16 bytes a lane
            const unsigned target = base + at.slot * L::stageBytes + L::inputOffset + lane % 16 * 16;
            if (input < args.inFeatures) {
#pragma unroll 4
                for (int row = lane / 16; row < args.rows; row += 2)
                    copyAsync16(target + row * inputRowBytes, args.x + row * args.xStride + input);
            }
            barrierArriveOnCopies(fullBarrier(at.slot));
            if (++group == args.groups)
                group = 0;
        }
        asm volatile("cp.async.wait_all;\n" ::: "memory"); // nothing of the warp's is under way when it ends
        return;
    }

    if (warp == consumers + 2) {
        if (args.norms.squares) {
            waitForPreviousKernel();
            findScales(args, scales, RowTiles * 8, scalesBarrier);
        }
        return;
    }

    const int warpN = warp % groupWarps, turn = warp / groupWarps;
    const int laneRow = lane / 4;
    float4* exchange = reinterpret_cast<float4*>(shared + L::exchangeOffset) + warpN * L::fragments * 32 + lane;
    // A warp's places in a stage. Four 8x8 matrices of inputs are read at a time: one row tile and 32 inputs, or two
    // row tiles and 16 inputs.
    constexpr bool paired = RowTiles > 1;
    const unsigned codesOffset = warpN / 4 * w4UnitBytes + warpN % 4 * 1024 + lane * 16;
    const unsigned scalesOffset = warpN / 4 * w4UnitBytes + 8192 + warpN % 4 * 64 + laneRow * 8;
    const unsigned inputsOffset =
        L::inputOffset + (paired ? (lane / 16 * 8 + (lane & 7)) * inputRowBytes + lane / 8 % 2 * 16
                                 : (lane & 7) * inputRowBytes + lane / 8 * 16);
    RingAt<Stages / 2> at(turn);
    int unit = begin + turn;
    int tile = begin / args.groups;
    for (int segmentBegin = begin; segmentBegin < end; ++tile) {
        const int tileEnd = (tile + 1) * args.groups;
        const int segmentEnd = min(tileEnd, end);
        float sums[2][RowTiles][4] = {};
        for (; unit < segmentEnd; unit += 2, at.advance()) {
            barrierWait(fullBarrier(at.slot), at.phase);
            const unsigned stage = base + at.slot * L::stageBytes;
            const unsigned codes = stage + codesOffset;
            const unsigned inputs = stage + inputsOffset;
            float partial[2][RowTiles][4];
#pragma unroll
            for (int slice = 0; slice < 2; ++slice) { // 64 inputs
                const uint4 words0 = loadShared16(codes + slice * 4096);
                const uint4 words1 = loadShared16(codes + slice * 4096 + 512);
                const uint32_t words[2][4] = {{words0.x, words0.y, words0.z, words0.w},
                                              {words1.x, words1.y, words1.z, words1.w}};
                uint32_t b[paired ? RowTiles / 2 : 1][4];
#pragma unroll
                for (int step = 0; step < 4; ++step) { // 16 inputs
                    if (paired) {
#pragma unroll
                        for (int t = 0; t < RowTiles / 2; ++t)
                            loadMatrix4(b[t], inputs + t * 16 * inputRowBytes + slice * 128 + step * 32);
                    } else if (step % 2 == 0) {
                        loadMatrix4(b[0], inputs + slice * 128 + step * 32);
                    }
#pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        uint32_t a[4];
                        wordToFragment(words[r][step], a);
#pragma unroll
                        for (int t = 0; t < RowTiles; ++t) {
                            const uint32_t(&from)[4] = b[paired ? t / 2 : 0];
                            const int i = paired ? t % 2 * 2 : step % 2 * 2;
                            if (slice == 0 && step == 0)
                                mmaBf16FromZero(partial[r][t], a, from[i], from[i + 1]);
                            else
                                mmaBf16(partial[r][t], a, from[i], from[i + 1]);
                        }
                    }
                }
            }
            const uint2 scaleBits = loadShared8(stage + scalesOffset);
            const float2 scales[2] = {__half22float2(*reinterpret_cast<const __half2*>(&scaleBits.x)),
                                      __half22float2(*reinterpret_cast<const __half2*>(&scaleBits.y))};
            __syncwarp();
            if (lane == 0)
                barrierArrive(emptyBarrier(at.slot));
#pragma unroll
            for (int r = 0; r < 2; ++r)
#pragma unroll
                for (int t = 0; t < RowTiles; ++t)
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        sums[r][t][i] += partial[r][t][i] * (i < 2 ? scales[r].x : scales[r].y);
        }

        // The two groups meet: the second hands its sums over in fragment order.
        namedBarrier(1 + warpN, 64);
        if (turn == 1) {
#pragma unroll
            for (int i = 0; i < L::fragments; ++i) {
                const float* s = &sums[0][0][0] + i * 4;
                exchange[i * 32] = float4{s[0], s[1], s[2], s[3]};
            }
        }
        namedBarrier(1 + warpN, 64);
        if (turn == 0 && tile * 2 + warpN / 4 < args.tiles) {
#pragma unroll
            for (int i = 0; i < L::fragments; ++i) {
                float* s = &sums[0][0][0] + i * 4;
                const float4 other = exchange[i * 32];
                s[0] = (s[0] + other.x) * codeFactor, s[1] = (s[1] + other.y) * codeFactor;
                s[2] = (s[2] + other.z) * codeFactor, s[3] = (s[3] + other.w) * codeFactor;
            }
            finishTile(args, division, sums, tile, warpN, scales, scalesBarrier);
        }
        segmentBegin = segmentEnd;
    }
#endif
}

template <int RowTiles, int Stages>
cudaError_t launch(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    static_assert(Stages % 2 == 0, "two rings");
    return launchW4Sm90(w4GemmRingKernel<RowTiles, Stages>, threads, Layout<RowTiles, Stages>::bytes, args, blocks,
                        stream);
}

} // namespace

bool deviceHasW4Ring()
{
    int device = 0, bytes = 0;
    return deviceHasSm90() && cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
           bytes >= Layout<4, 6>::bytes;
}

cudaError_t launchW4GemmRing(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    if (args.rows <= 8)
        return launch<1, 8>(args, blocks, stream);
    if (args.rows <= 16)
        return launch<2, 6>(args, blocks, stream);
    return launch<4, 6>(args, blocks, stream);
}

} // namespace octavo::kernels::cuda
