/// The reading of a sketch: every head's sum over a chunk's tokens, and its largest product with each group of eight.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/sketch_math.cuh"

#include <type_traits>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int scanWarps = 8;
constexpr int warpBlocks = sketchChunkTokens / sketchBlockTokens / scanWarps;
constexpr int blockTiles = sketchBlockTokens / sketchTileTokens;
constexpr int blockBytes = blockTiles * sketchTileBytes;
constexpr int stageBytes = blockBytes + sketchBlockTokens * 2;
constexpr int columnTile = 8; // of the tensor core's narrow side

/// What a lane reads of a block of 64 tokens.
struct BlockWords {
    uint4 codes[blockTiles];
    uint4 scales; ///< of tokens g and g + 8 of each tile
};

/// Largest product so far and the sum relative to it, of columns 2 t and 2 t + 1 of each column tile.
template <int Tiles>
struct RunningSums {
    float top[Tiles][2], sum[Tiles][2];
};

/// Tiles: of eight columns; a column is a query head of one of the sequence's rows. A warp takes every eighth block of
/// the chunk, so that a block of threads reads on end. Ahead: blocks that a warp reads ahead in registers; Stages: in
/// shared memory, by sm_90's bulk copies. Neither changes a bit of the result. Resident: blocks of threads to a
/// multiprocessor.
template <int Tiles, int Ahead, int Stages, int Resident>
__global__ void __launch_bounds__(scanWarps * 32, Resident)
    sketchScanKernel(const SketchQuery* queries, const SketchRows* table, int heads, int kvHeads)
{
    __shared__ SketchOperand operands[Tiles][32];
    __shared__ float2 warpSums[scanWarps][Tiles * columnTile];
    extern __shared__ __align__(128) uint8_t ring[]; // (scanWarps, Stages, stageBytes)
    __shared__ __align__(8) uint64_t full[scanWarps][Stages > 0 ? Stages : 1];
    allowDependentLaunch();
    const SketchRows rows = table[blockIdx.z];
    const SketchQuery* own = queries + rows.first;
    const SketchView sketch = own->sketch;
    const int begin = own->begin, firstEnd = own->end, lastEnd = own[rows.count - 1].end;
    const int chunkBegin = blockIdx.x * sketchChunkTokens;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int g = lane / 4, t = lane % 4;
    const int kvHead = blockIdx.y;
    const int64_t tiles = sketch.capacityTiles;
    const uint8_t* codes =
        sketch.codes + (int64_t(kvHead) * tiles + chunkBegin / sketchTileTokens) * sketchTileBytes + lane * 16;
    const __half* scales = sketch.scales + int64_t(kvHead) * tiles * sketchTileTokens + chunkBegin + g * 8;
    const bool outside = chunkBegin >= lastEnd || chunkBegin + sketchChunkTokens <= begin;
    if (!outside) {
        // Only into L2: the step's own tokens are written by the kernel that may still run.
        const int block = lane / 16 * scanWarps + warp;
        if (chunkBegin + block * sketchBlockTokens < lastEnd)
            prefetchLine(codes - lane * 16 + block * blockTiles * sketchTileBytes + lane % 16 * 128);
    }
    if (Stages > 0 && lane == 0) {
        for (int i = 0; i < Stages; ++i)
            barrierInit(sharedAddress(&full[warp][i]), 1);
        barrierInitFence();
    }
    waitForPreviousKernel();
    if (outside)
        return;
    const auto copyBlock = [&](int i) {
        const int block = i * scanWarps + warp;
        if (lane != 0 || i >= warpBlocks || chunkBegin + block * sketchBlockTokens >= lastEnd)
            return;
        const unsigned barrier = sharedAddress(&full[warp][i % (Stages > 0 ? Stages : 1)]);
        const unsigned target = sharedAddress(ring + (warp * Stages + i % (Stages > 0 ? Stages : 1)) * stageBytes);
        barrierArriveExpect(barrier, stageBytes);
        bulkCopyStreaming(target, codes + block * blockBytes, blockBytes, barrier, streamingPolicy());
        bulkCopyStreaming(target + blockBytes, scales + block * sketchBlockTokens, sketchBlockTokens * 2, barrier,
                          streamingPolicy());
    };
    if constexpr (Stages > 0) {
        for (int i = 0; i < Stages; ++i)
            copyBlock(i);
    }

    const int groupHeads = heads / kvHeads, rowColumns = (groupHeads + 1) / 2 * 2;
    const auto queryOf = [&](int column) -> const SketchQuery* {
        const int row = column / rowColumns;
        return row < rows.count && column % rowColumns < groupHeads ? own + row : nullptr;
    };
    if (warp < Tiles) {
        const int column = warp * columnTile + g;
        const SketchQuery* query = queryOf(column);
        const int head = kvHead * groupHeads + column % rowColumns;
        operands[warp][lane] = sketchOperand(query ? query->projected + head * sketchRank : nullptr);
    }
    // Where the lane's pairs of columns go, and how far their row's tokens reach.
    __half* maxima[Tiles];
    int ends[Tiles];
    bool second[Tiles];
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
        const int column = n * columnTile + 2 * t;
        const SketchQuery* query = queryOf(column);
        maxima[n] = query ? query->maxima +
                                (int64_t(kvHead) * tiles * 2 + chunkBegin / sketchGroupTokens + g) * groupHeads +
                                column % rowColumns
                          : nullptr;
        ends[n] = query ? query->end : begin;
        second[n] = column % rowColumns + 1 < groupHeads;
    }
    const bool pairs = groupHeads % 2 == 0;
    __syncthreads();

    RunningSums<Tiles> running;
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
        running.top[n][0] = running.top[n][1] = noProduct;
        running.sum[n][0] = running.sum[n][1] = 0.0f;
    }
    const auto scoreBlock = [&](const BlockWords& words, int block, auto inside) {
        constexpr bool unchecked = decltype(inside)::value;
        SketchTile unpacked[blockTiles];
        float2 scale[blockTiles];
        const uint32_t scaleWords[4] = {words.scales.x, words.scales.y, words.scales.z, words.scales.w};
#pragma unroll
        for (int i = 0; i < blockTiles; ++i) {
            unpacked[i] = unpackTile(words.codes[i]);
            scale[i] = productScales(scaleWords[i]);
        }
        const int firstToken = chunkBegin + block * sketchBlockTokens + g;
#pragma unroll
        for (int n = 0; n < Tiles; ++n) {
            const SketchOperand operand = operands[n][lane];
            float u[blockTiles][4];
            float best[2] = {noProduct, noProduct};
#pragma unroll
            for (int i = 0; i < blockTiles; ++i) {
                sketchProducts(unpacked[i], operand, scale[i], u[i]);
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    if constexpr (!unchecked) {
                        const int token = firstToken + i * sketchTileTokens + e / 2 * 8;
                        if (token < begin || token >= ends[n])
                            u[i][e] = noProduct;
                    }
                    best[e % 2] = fmaxf(best[e % 2], u[i][e]);
                }
            }
            if (maxima[n]) {
                __half* at = maxima[n] + block * (sketchBlockTokens / sketchGroupTokens) * groupHeads;
                if (pairs) {
                    *reinterpret_cast<__half2*>(at) = __floats2half2_rn(best[0], best[1]);
                } else {
                    at[0] = __float2half_rn(best[0]);
                    if (second[n])
                        at[1] = __float2half_rn(best[1]);
                }
            }
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                if (!unchecked && best[c] == noProduct)
                    continue;
                const float slope = operand.slope[c];
                const float top = fmaxf(running.top[n][c], best[c]);
                const float shift = -(top * slope);
                float sum = running.sum[n][c] * exp2Approx(__fmaf_rn(running.top[n][c], slope, shift));
#pragma unroll
                for (int i = 0; i < blockTiles; ++i) {
                    sum = __fadd_rn(sum, __fadd_rn(exp2Approx(__fmaf_rn(u[i][c], slope, shift)),
                                                   exp2Approx(__fmaf_rn(u[i][c + 2], slope, shift))));
                }
                running.sum[n][c] = sum;
                running.top[n][c] = top;
            }
        }
    };
    const auto load = [&](int block, auto inside) {
        constexpr bool unchecked = decltype(inside)::value;
        BlockWords words{};
        if (unchecked || chunkBegin + block * sketchBlockTokens < lastEnd) {
#pragma unroll
            for (int i = 0; i < blockTiles; ++i)
                words.codes[i] =
                    __ldcs(reinterpret_cast<const uint4*>(codes + (block * blockTiles + i) * sketchTileBytes));
            words.scales = __ldcs(reinterpret_cast<const uint4*>(scales + block * sketchBlockTokens));
        }
        return words;
    };
    const auto scan = [&](auto inside) {
        constexpr bool unchecked = decltype(inside)::value;
        BlockWords next[Ahead > 0 ? Ahead : 1];
#pragma unroll
        for (int i = 0; i < Ahead; ++i)
            next[i] = load(i * scanWarps + warp, inside);
#pragma unroll(Ahead > 1 ? Ahead : 1)
        for (int i = 0; i < warpBlocks; ++i) {
            const int block = i * scanWarps + warp;
            BlockWords words;
            if constexpr (Stages > 0) {
                if (!unchecked && chunkBegin + block * sketchBlockTokens >= lastEnd)
                    break;
                barrierWait(sharedAddress(&full[warp][i % Stages]), i / Stages % 2);
                const uint8_t* stage = ring + (warp * Stages + i % Stages) * stageBytes;
#pragma unroll
                for (int j = 0; j < blockTiles; ++j)
                    words.codes[j] = *reinterpret_cast<const uint4*>(stage + j * sketchTileBytes + lane * 16);
                words.scales = *reinterpret_cast<const uint4*>(stage + blockBytes + g * 16);
                __syncwarp();
                copyBlock(i + Stages);
            } else if constexpr (Ahead > 0) {
                words = next[i % Ahead];
                if (i + Ahead < warpBlocks)
                    next[i % Ahead] = load((i + Ahead) * scanWarps + warp, inside);
            } else {
                words = load(block, inside);
            }
            if (unchecked || chunkBegin + block * sketchBlockTokens < lastEnd)
                scoreBlock(words, block, inside);
        }
    };
    // A chunk inside every row's range needs no look at each token.
    if (chunkBegin >= begin && chunkBegin + sketchChunkTokens <= firstEnd)
        scan(std::true_type{});
    else
        scan(std::false_type{});

#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            const float slope = operands[n][lane].slope[c];
            const float top = warpMax<28>(running.top[n][c]);
            const float scaled =
                running.top[n][c] == noProduct
                    ? 0.0f
                    : running.sum[n][c] * exp2Approx(__fmaf_rn(running.top[n][c], slope, -(top * slope)));
            const float total = warpSum<28>(scaled);
            if (g == 0)
                warpSums[warp][n * columnTile + 2 * t + c] = float2{top, total};
        }
    }
    __syncthreads();
    for (int column = threadIdx.x; column < Tiles * columnTile; column += scanWarps * 32) {
        const SketchQuery* query = queryOf(column);
        if (!query)
            continue;
        const float slope = operands[column / columnTile][column % columnTile / 2].slope[column % 2];
        float top = noProduct, total = 0.0f;
        for (int w = 0; w < scanWarps; ++w)
            top = fmaxf(top, warpSums[w][column].x);
        for (int w = 0; w < scanWarps; ++w) {
            const float2 part = warpSums[w][column];
            if (part.x != noProduct)
                total = __fadd_rn(total, part.y * exp2Approx(__fmaf_rn(part.x, slope, -(top * slope))));
        }
        query->logSums[int64_t(blockIdx.x) * heads + kvHead * groupHeads + column % rowColumns] =
            float2{top == noProduct ? -INFINITY : top * slope, total};
    }
}

} // namespace

cudaError_t launchSketchScan(const SketchQuery* queries, const SketchRows* rows, int numRows, int maxRows, int heads,
                             int kvHeads, std::int64_t maxTokens, cudaStream_t stream)
{
    if (numRows < 0 || maxRows < 1 || kvHeads <= 0 || heads <= 0 || heads % kvHeads != 0 ||
        heads / kvHeads > sketchMaxHeads || kvHeads > sketchMaxKvHeads || maxTokens < 0 ||
        maxTokens > sketchMaxTokens || numRows > 65535)
        return cudaErrorInvalidValue;
    const int columns = maxRows * ((heads / kvHeads + 1) / 2 * 2);
    if (columns > sketchMaxColumns)
        return cudaErrorInvalidValue;
    if (numRows == 0 || maxTokens == 0)
        return cudaSuccess;
    const dim3 grid(sketchChunks(maxTokens), kvHeads, numRows);
    const auto launch = [&](auto kernel, int stages) {
        const int bytes = scanWarps * stages * stageBytes;
        if (bytes > 0)
            OCTAVO_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
        return launchDependent(kernel, grid, scanWarps * 32, bytes, stream, queries, rows, heads, kvHeads);
    };
    if (columns > 24)
        return launch(sketchScanKernel<6, 0, 0, 2>, 0);
    if (columns > 16)
        return launch(sketchScanKernel<3, 1, 0, 2>, 0);
    if (columns > 8)
        return launch(sketchScanKernel<2, 1, 0, 2>, 0);
    // Few blocks hide less behind each other than behind what each reads ahead.
    if (numRows <= 2)
        return launch(sketchScanKernel<1, 1, 0, 2>, 0);
    return deviceHasSm90() ? launch(sketchScanKernel<1, 0, 2, 4>, 2) : launch(sketchScanKernel<1, 0, 0, 4>, 0);
}

} // namespace octavo::kernels::cuda
