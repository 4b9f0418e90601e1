#include "kernels/cuda/w4_gemm.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm_internal.h"

#include <algorithm>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int threadsPerBlock = 512; // 4 warps over the outputs x 4 over the inputs
constexpr int stageGroups = 2;
constexpr int stageInputs = stageGroups * w4GroupSize;
constexpr int stageWeightBytes = stageGroups * w4UnitBytes;
constexpr int sumStride = w4TileRows + 4; // keeps a fragment's stores on different banks

/// Block b works on units [unitBegin(b), unitBegin(b + 1)) of tiles * groups.
__device__ __forceinline__ int unitBegin(int block, int units, int blocks)
{
    return static_cast<int>(int64_t(block) * units / blocks);
}

__device__ __forceinline__ int blockOfUnit(int unit, int units, int blocks)
{
    return static_cast<int>((int64_t(unit + 1) * blocks - 1) / units);
}

/// A unit by number and by its group within the tile.
struct Cursor {
    int unit;
    int group;

    /// Groups of the stage that starts here: it never crosses a tile nor the block's end.
    __device__ __forceinline__ int length(int groups, int end) const
    {
        return min(stageGroups, min(groups - group, end - unit));
    }
    __device__ __forceinline__ void advance(int by, int groups)
    {
        unit += by;
        group += by;
        if (group == groups)
            group = 0;
    }
};

template <int RowTiles, int Passes, int Stages>
__global__ void __launch_bounds__(threadsPerBlock, 1) w4GemmKernel(const W4GemmArgs args)
{
    constexpr int maxRows = RowTiles * 8 * Passes;
    constexpr int stageBytes = stageWeightBytes + maxRows * stageInputs * 2;
    extern __shared__ __align__(128) uint8_t shared[];

    const int tid = threadIdx.x;
    const int lane = tid % 32;
    const int warp = tid / 32;
    const int warpN = warp % 4;
    const int warpK = warp / 4;
    const int laneRow = lane / 4;
    const int laneCol = lane % 4;

    const int units = args.tiles * args.groups;
    const int begin = unitBegin(blockIdx.x, units, gridDim.x);
    const int end = unitBegin(blockIdx.x + 1, units, gridDim.x);

    const auto loadWeights = [&](int unit, int length, int slot) {
        const uint8_t* source = args.units + int64_t(unit) * w4UnitBytes;
        const unsigned target = sharedAddress(shared) + slot * stageBytes;
        for (int chunk = tid; chunk < length * (w4UnitBytes / 16); chunk += threadsPerBlock)
            copyAsync16(target + chunk * 16, source + chunk * 16);
    };
    const auto loadInputs = [&](int group, int length, int slot) {
        const unsigned target = sharedAddress(shared) + slot * stageBytes + stageWeightBytes;
        const int column = tid % 32; // 16 bytes each
        const int input = group * w4GroupSize + column * 8;
        const bool columnValid = input < args.inFeatures && column < length * 16;
#pragma unroll
        for (int first = 0; first < maxRows; first += threadsPerBlock / 32) {
            const int row = first + tid / 32;
            if (maxRows >= threadsPerBlock / 32 || row < maxRows) {
                const bool valid = columnValid && row < args.rows;
                const __nv_bfloat16* source = valid ? args.x + row * args.xStride + input : args.x;
                copyAsync16(target + row * (stageInputs * 2) + ((column ^ (row & 7)) * 16), source, valid);
            }
        }
    };

    allowDependentLaunch();
    // The weights do not depend on the kernel before; the inputs do.
    const Cursor start{begin, begin % args.groups};
    Cursor ahead = start;
#pragma unroll
    for (int slot = 0; slot < Stages - 1; ++slot) {
        if (ahead.unit < end) {
            const int length = ahead.length(args.groups, end);
            loadWeights(ahead.unit, length, slot);
            ahead.advance(length, args.groups);
        }
    }
    waitForPreviousKernel();
    __shared__ float scales[maxRows];
    if (args.norms.squares) { // seen by all after the first barrier below
        for (int row = tid / 8; row < maxRows; row += threadsPerBlock / 8) {
            const float scale = w4RowScale(args, row, row < args.rows);
            if (tid % 8 == 0)
                scales[row] = scale;
        }
    }
    ahead = start;
#pragma unroll
    for (int slot = 0; slot < Stages - 1; ++slot) {
        if (ahead.unit < end) {
            const int length = ahead.length(args.groups, end);
            loadInputs(ahead.group, length, slot);
            ahead.advance(length, args.groups);
        }
        copyAsyncCommit();
    }

    float sums[Passes][2][RowTiles][4] = {};
    int segmentBegin = begin;
    int slot = 0;
    for (Cursor at = start; at.unit < end;) {
        const int length = at.length(args.groups, end);
        copyAsyncWait<Stages - 2>();
        __syncthreads(); // this stage has arrived for all, and all have left the stage before

        if (ahead.unit < end) {
            const int aheadLength = ahead.length(args.groups, end);
            const int aheadSlot = slot == 0 ? Stages - 1 : slot - 1;
            loadWeights(ahead.unit, aheadLength, aheadSlot);
            loadInputs(ahead.group, aheadLength, aheadSlot);
            ahead.advance(aheadLength, args.groups);
        }
        copyAsyncCommit();

        uint8_t* stage = shared + slot * stageBytes;
        const int group = warpK / 2;
        if (group < length) {
            const uint8_t* unitBytes = stage + group * w4UnitBytes;
            const uint8_t* codes = unitBytes + (warpK % 2) * 4096 + warpN * 1024 + lane * 16;
            const uint4 words0 = *reinterpret_cast<const uint4*>(codes);
            const uint4 words1 = *reinterpret_cast<const uint4*>(codes + 512);
            const uint2 scaleBits = *reinterpret_cast<const uint2*>(unitBytes + 8192 + warpN * 64 + laneRow * 8);
            const float2 scales0 = __half22float2(*reinterpret_cast<const __half2*>(&scaleBits.x));
            const float2 scales1 = __half22float2(*reinterpret_cast<const __half2*>(&scaleBits.y));
            const uint32_t words[2][4] = {{words0.x, words0.y, words0.z, words0.w},
                                          {words1.x, words1.y, words1.z, words1.w}};
            const unsigned inputs = sharedAddress(stage + stageWeightBytes);
#pragma unroll
            for (int pass = 0; pass < Passes; ++pass) {
                float group4[2][RowTiles][4] = {};
#pragma unroll
                for (int half = 0; half < 2; ++half) { // 32 inputs
                    uint32_t a[2][2][4];
#pragma unroll
                    for (int step = 0; step < 2; ++step) {
                        int4WordToFragment(words[0][half * 2 + step], a[0][step]);
                        int4WordToFragment(words[1][half * 2 + step], a[1][step]);
                    }
#pragma unroll
                    for (int tile = 0; tile < RowTiles; ++tile) {
                        const int row = (pass * RowTiles + tile) * 8 + (lane & 7);
                        const int column = warpK * 8 + half * 4 + lane / 8;
                        uint32_t b[4];
                        loadMatrix4(b, inputs + row * (stageInputs * 2) + ((column ^ (lane & 7)) * 16));
                        mmaBf16(group4[0][tile], a[0][0], b[0], b[1]);
                        mmaBf16(group4[1][tile], a[1][0], b[0], b[1]);
                        mmaBf16(group4[0][tile], a[0][1], b[2], b[3]);
                        mmaBf16(group4[1][tile], a[1][1], b[2], b[3]);
                    }
                }
#pragma unroll
                for (int tile = 0; tile < RowTiles; ++tile) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sums[pass][0][tile][i] += group4[0][tile][i] * (i < 2 ? scales0.x : scales0.y);
                        sums[pass][1][tile][i] += group4[1][tile][i] * (i < 2 ? scales1.x : scales1.y);
                    }
                }
            }
        }

        const int tileBegin = at.unit - at.group;
        const int tileEnd = tileBegin + args.groups;
        at.advance(length, args.groups);
        if (at.unit == tileEnd || at.unit == end) {
            const int tile = tileBegin / args.groups;
            // The stage just read becomes the place where the four input slices meet, in fixed order.
            float* sum = reinterpret_cast<float*>(stage);
            __syncthreads();
            for (int turn = 0; turn < 4; ++turn) {
                if (warpK == turn) {
#pragma unroll
                    for (int pass = 0; pass < Passes; ++pass)
#pragma unroll
                        for (int half = 0; half < 2; ++half)
#pragma unroll
                            for (int t = 0; t < RowTiles; ++t)
#pragma unroll
                                for (int i = 0; i < 4; ++i) {
                                    const int row = (pass * RowTiles + t) * 8 + laneCol * 2 + (i & 1);
                                    const int output = warpN * 32 + half * 16 + laneRow + (i < 2 ? 0 : 8);
                                    float* target = sum + row * sumStride + output;
                                    const float value = sums[pass][half][t][i];
                                    *target = turn == 0 ? value : *target + value;
                                    sums[pass][half][t][i] = 0.0f;
                                }
                }
                __syncthreads();
            }
            const int firstOutput = tile * w4TileRows;
            const auto storeTile = [&](auto&& valueAt) {
                const bool gated = args.output == GemmOutput::Gated;
                const int width = gated ? w4TileRows / 2 : w4TileRows;
                const auto scaledAt = [&](int row, int output) {
                    const float value = valueAt(row, output);
                    return args.norms.squares ? value * scales[row] : value;
                };
                if (args.norms.hidden) { // a warp has 32 outputs of one row
                    for (int i = tid; i < args.rows * width; i += threadsPerBlock) {
                        const int row = i / width, output = firstOutput + i % width;
                        const float hidden =
                            w4AddResidual(args, row, output, scaledAt(row, i % width), w4Hidden(args, row, output),
                                          __ldg(args.norms.weight + output));
                        const float square = warpSum(hidden * hidden);
                        if (tid % 32 == 0)
                            args.norms.squaresOut[int64_t(row) * (args.outFeatures / w4SquareValues) +
                                                  output / w4SquareValues] = square;
                    }
                    return;
                }
                for (int i = tid; i < args.rows * width; i += threadsPerBlock) {
                    const int row = i / width, column = i % width;
                    const int output = gated ? column / 16 * 32 + column % 16 : column;
                    if (firstOutput + output >= args.outFeatures)
                        continue;
                    const float value = scaledAt(row, output);
                    const int64_t offset = row * args.yStride + (gated ? firstOutput / 2 : firstOutput) + column;
                    if (args.output == GemmOutput::Float)
                        static_cast<float*>(args.y)[offset] = value;
                    else
                        static_cast<__nv_bfloat16*>(args.y)[offset] =
                            gated ? gatedProduct(value, scaledAt(row, output + 16)) : __float2bfloat16_rn(value);
                }
            };
            if (segmentBegin == tileBegin && at.unit == tileEnd) {
                storeTile([&](int row, int output) { return sum[row * sumStride + output]; });
            } else {
                constexpr int64_t slotFloats = int64_t(w4TileRows) * w4MaxRows;
                float* mine = args.partials + (int64_t(blockIdx.x) * 2 + (begin >= tileBegin ? 0 : 1)) * slotFloats;
                for (int i = tid; i < args.rows * w4TileRows; i += threadsPerBlock)
                    mine[i] = sum[(i / w4TileRows) * sumStride + i % w4TileRows];
                __threadfence();
                __syncthreads();
                __shared__ bool last;
                const int firstBlock = blockOfUnit(tileBegin, units, gridDim.x);
                const int lastBlock = blockOfUnit(tileEnd - 1, units, gridDim.x);
                if (tid == 0) {
                    last = atomicAdd(args.arrivals + tile, 1) == lastBlock - firstBlock;
                    if (last)
                        args.arrivals[tile] = 0;
                }
                __syncthreads();
                if (last) {
                    __threadfence();
                    storeTile([&](int row, int output) {
                        float value = 0.0f;
                        for (int block = firstBlock; block <= lastBlock; ++block) {
                            const int part = unitBegin(block, units, gridDim.x) >= tileBegin ? 0 : 1;
                            value += __ldcg(args.partials + (int64_t(block) * 2 + part) * slotFloats +
                                            row * w4TileRows + output);
                        }
                        return value;
                    });
                }
            }
            segmentBegin = at.unit;
        }
        slot = slot + 1 == Stages ? 0 : slot + 1;
    }
}

template <int RowTiles, int Passes, int Stages>
cudaError_t launch(const W4GemmArgs& args, int blocks, cudaStream_t stream)
{
    constexpr int sharedBytes = Stages * (stageWeightBytes + RowTiles * 8 * Passes * stageInputs * 2);
    const auto kernel = w4GemmKernel<RowTiles, Passes, Stages>;
    OCTAVO_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes));
    OCTAVO_CUDA_TRY(launchDependent(kernel, blocks, threadsPerBlock, sharedBytes, stream, args));
    return cudaGetLastError();
}

} // namespace

cudaError_t launchW4Gemm(MatrixView<const __nv_bfloat16> x, const W4Matrix& weights, void* y, std::int64_t yStride,
                         GemmOutput output, const W4Workspace& workspace, cudaStream_t stream, const W4Norms& norms)
{
    const bool gated = output == GemmOutput::Gated;
    if (x.rows < 0 || x.rows > w4MaxRows || x.cols != weights.inFeatures || weights.inFeatures % 8 != 0 ||
        x.stride % 8 != 0 || weights.outFeatures <= 0 || weights.inFeatures <= 0 || workspace.blocks <= 0 ||
        (gated && weights.outFeatures % 32 != 0) || yStride < weights.outFeatures / (gated ? 2 : 1))
        return cudaErrorInvalidValue;
    if ((norms.squares && weights.inFeatures % w4GroupSize != 0) ||
        (norms.hidden &&
         (weights.outFeatures % w4TileRows != 0 || output != GemmOutput::Bf16 || !norms.weight || !norms.squaresOut)))
        return cudaErrorInvalidValue;
    const auto aligned = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
    const bool wideRows = weights.outFeatures % 32 == 0 && yStride % 8 == 0 && aligned(y);
    if (norms.hidden && !(wideRows && aligned(norms.hidden) && aligned(norms.weight)))
        return cudaErrorInvalidValue;
    if (x.rows == 0)
        return cudaSuccess;

    W4GemmArgs args{};
    args.units = weights.units;
    args.x = x.data;
    args.xStride = x.stride;
    args.y = y;
    args.yStride = yStride;
    args.partials = workspace.partials;
    args.arrivals = workspace.arrivals;
    args.rows = x.rows;
    args.outFeatures = weights.outFeatures;
    args.inFeatures = weights.inFeatures;
    args.tiles = weights.tiles();
    args.groups = weights.groups();
    args.output = output;
    args.norms = norms;
    args.wideRows = wideRows;

    if (workspace.path == W4Path::Auto && deviceHasW4Ring()) {
        const std::int64_t stages = std::int64_t{(args.tiles + 1) / 2} * args.groups;
        const int blocks = static_cast<int>(std::min<std::int64_t>(workspace.blocks, (stages + 1) / 2));
        const bool many =
            x.rows > 2 * w4RingBest || (x.rows > w4RingBest && stages >= std::int64_t{w4RingUnits} * blocks);
        if (many && deviceHasW4Warpgroups())
            return launchW4GemmWarpgroups(args, blocks, stream);
        for (int first = 0; first < x.rows; first += w4RingRows) {
            args.rows = std::min(w4RingRows, x.rows - first);
            args.x = x.data + first * x.stride;
            args.y = static_cast<std::uint8_t*>(y) + first * yStride * (output == GemmOutput::Float ? 4 : 2);
            const std::int64_t inputs = std::int64_t{first} * weights.inFeatures;
            const std::int64_t outputs = std::int64_t{first} * weights.outFeatures;
            if (norms.squares)
                args.norms.squares = norms.squares + inputs / w4SquareValues;
            if (norms.hidden) {
                args.norms.hidden = norms.hidden + outputs;
                args.norms.squaresOut = norms.squaresOut + outputs / w4SquareValues;
            }
            OCTAVO_CUDA_TRY(launchW4GemmRing(args, blocks, stream));
        }
        return cudaSuccess;
    }
    const std::int64_t units = std::int64_t{args.tiles} * args.groups;
    const int blocks = static_cast<int>(std::min<std::int64_t>(workspace.blocks, (units + 1) / 2));
    if (x.rows <= 8)
        return launch<1, 1, 4>(args, blocks, stream);
    if (x.rows <= 16)
        return launch<2, 1, 4>(args, blocks, stream);
    if (x.rows <= 32)
        return launch<4, 1, 3>(args, blocks, stream);
    return launch<4, 2, 2>(args, blocks, stream);
}

} // namespace octavo::kernels::cuda
