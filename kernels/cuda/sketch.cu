#include "kernels/cuda/sketch.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/row_math.cuh"

#include <algorithm>
#include <type_traits>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int scanWarps = 8;
constexpr int tilesPerWarp = sketchChunkTokens / sketchTileTokens / scanWarps;
constexpr int batchTiles = 4; // loads in flight, and scores that share one maximum
constexpr int keyThreads = 512;
constexpr int keyTokens = 2048; // of one block of the second kernel
constexpr int histogramBins = 4096;

/// (a & mask) | 0x6400 in both halves: of fp16 values 1024 + code, or 1024 + 16 * code from the high nibbles.
template <uint32_t Mask>
__device__ __forceinline__ uint32_t biasedCodes(uint32_t word)
{
    uint32_t result;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;\n" : "=r"(result) : "r"(word), "n"(Mask), "n"(0x64006400)); // (a & b) | c
    return result;
}

/// One query head's side of the product, in fp16: the high nibbles, coordinates 8..15 of each 16, arrive 16 times too
/// large, and every code too large by a constant, which the sum starts from.
struct SketchOperand {
    uint32_t b[4][2]; ///< B fragments of the lane's head
    float start[4];   ///< of the sums: minus the constants, for the lane's two heads
};

__device__ __forceinline__ SketchOperand sketchOperand(const __nv_bfloat16* projected, int groupHeads)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    SketchOperand operand{};
    float constant = 0.0f;
    if (g < groupHeads) {
        const __nv_bfloat16* q = projected + g * sketchRank + 2 * t;
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            const float2 low = unpackBf16(*reinterpret_cast<const uint32_t*>(q + step * 16));
            const float2 high = unpackBf16(*reinterpret_cast<const uint32_t*>(q + step * 16 + 8));
            const __half2 b0 = __floats2half2_rn(low.x, low.y);
            const __half2 b1 = __floats2half2_rn(high.x * 0.0625f, high.y * 0.0625f);
            operand.b[step][0] = *reinterpret_cast<const uint32_t*>(&b0);
            operand.b[step][1] = *reinterpret_cast<const uint32_t*>(&b1);
            const float2 r0 = __half22float2(b0), r1 = __half22float2(b1);
            constant -= 1032.0f * (r0.x + r0.y) + 1152.0f * (r1.x + r1.y); // 1024 + 8, 1024 + 16 * 8
        }
    }
    constant += __shfl_xor_sync(fullMask, constant, 1);
    constant += __shfl_xor_sync(fullMask, constant, 2);
    operand.start[0] = operand.start[2] = __shfl_sync(fullMask, constant, 8 * t);
    operand.start[1] = operand.start[3] = __shfl_sync(fullMask, constant, 8 * t + 4);
    return operand;
}

/// Products of a tile's 16 tokens and the group's heads, before the tokens' scales. A lane's word holds, for step i of
/// 16 coordinates, bytes of tokens g and g + 8 in turn.
__device__ __forceinline__ void scoreTile(const uint4& words, const SketchOperand& operand, float (&s)[4])
{
    const uint32_t w[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const uint32_t later = w[step] >> 8; // tokens 8..15
        const uint32_t a[4] = {biasedCodes<0x000f000f>(w[step]), biasedCodes<0x000f000f>(later),
                               biasedCodes<0x00f000f0>(w[step]), biasedCodes<0x00f000f0>(later)};
        if (step == 0)
            mmaF16(s, a, operand.b[step][0], operand.b[step][1], operand.start);
        else
            mmaF16(s, a, operand.b[step][0], operand.b[step][1], s);
    }
}

/// sketchKey() on the device.
__device__ __forceinline__ uint32_t sketchFixedKey(float logShare)
{
    const float shifted = fminf(fmaxf(logShare + 64.0f, 0.0f), 63.99999f); // NaN becomes 0
    return static_cast<uint32_t>(shifted * 67108864.0f);
}

constexpr int appendThreads = 256;        // 64 coordinates x 4
constexpr int appendPart = kvHeadDim / 4; // dimensions of one partial sum; the four add up in order for any Tokens

/// Tokens: of one block. Where there are few, four threads share a coordinate's dimensions instead of the tokens.
template <int Tokens>
__global__ void __launch_bounds__(appendThreads)
    sketchAppendKernel(MatrixView<const __nv_bfloat16> keys, int kvHeads, const float* basis, const float* means,
                       int64_t firstToken, const SketchView sketch)
{
    __shared__ float centred[Tokens][kvHeadDim];
    __shared__ float coordinates[Tokens][sketchRank + 1];
    __shared__ float parts[Tokens <= 4 ? 4 : 1][Tokens][sketchRank];
    allowDependentLaunch();
    waitForPreviousKernel();
    const int head = blockIdx.y;
    const int first = blockIdx.x * Tokens;
    const int count = min(Tokens, keys.rows - first);
    for (int i = threadIdx.x; i < count * kvHeadDim; i += appendThreads) {
        const int token = i / kvHeadDim, d = i % kvHeadDim;
        centred[token][d] = __bfloat162float(keys.data[(first + token) * keys.stride + head * kvHeadDim + d]) -
                            means[head * kvHeadDim + d];
    }
    __syncthreads();
    const int c = threadIdx.x % sketchRank, sub = threadIdx.x / sketchRank;
    const float* column = basis + int64_t(head) * kvHeadDim * sketchRank + c;
    if constexpr (Tokens <= 4) {
        float sums[Tokens] = {};
#pragma unroll 16
        for (int d = sub * appendPart; d < (sub + 1) * appendPart; ++d) {
            const float b = column[d * sketchRank];
#pragma unroll
            for (int i = 0; i < Tokens; ++i)
                sums[i] += b * centred[i][d];
        }
#pragma unroll
        for (int i = 0; i < Tokens; ++i)
            parts[sub][i][c] = sums[i];
        __syncthreads();
        if (sub < Tokens)
            coordinates[sub][c] = ((parts[0][sub][c] + parts[1][sub][c]) + parts[2][sub][c]) + parts[3][sub][c];
    } else {
        float totals[Tokens / 4] = {};
        for (int part = 0; part < 4; ++part) {
            float sums[Tokens / 4] = {};
#pragma unroll 8
            for (int d = part * appendPart; d < (part + 1) * appendPart; ++d) {
                const float b = column[d * sketchRank];
#pragma unroll
                for (int i = 0; i < Tokens / 4; ++i)
                    sums[i] += b * centred[i * 4 + sub][d];
            }
#pragma unroll
            for (int i = 0; i < Tokens / 4; ++i)
                totals[i] += sums[i];
        }
#pragma unroll
        for (int i = 0; i < Tokens / 4; ++i)
            coordinates[i * 4 + sub][c] = totals[i];
    }
    __syncthreads();

    // One warp per token: a lane packs coordinates 2 l and 2 l + 1.
    const int lane = threadIdx.x % 32;
    for (int token = threadIdx.x / 32; token < count; token += appendThreads / 32) {
        storeSketch(coordinates[token][2 * lane], coordinates[token][2 * lane + 1], sketch, head,
                    firstToken + first + token);
    }
}

__global__ void __launch_bounds__(128) sketchProjectKernel(const __nv_bfloat16* query, int heads, int kvHeads,
                                                           const float* basis, __nv_bfloat16* projected)
{
    __shared__ float q[kvHeadDim];
    __shared__ float halves[2][sketchRank];
    allowDependentLaunch();
    waitForPreviousKernel();
    const int64_t row = int64_t(blockIdx.y) * heads + blockIdx.x;
    for (int d = threadIdx.x; d < kvHeadDim; d += 128)
        q[d] = __bfloat162float(query[row * kvHeadDim + d]);
    __syncthreads();
    const int c = threadIdx.x % sketchRank, half = threadIdx.x / sketchRank;
    const float* column = basis + (int64_t(blockIdx.x / (heads / kvHeads)) * kvHeadDim + half * 128) * sketchRank + c;
    float sum = 0.0f;
#pragma unroll 16
    for (int d = 0; d < 128; ++d)
        sum += q[half * 128 + d] * column[d * sketchRank];
    halves[half][c] = sum;
    __syncthreads();
    if (half == 0)
        projected[row * sketchRank + c] = __float2bfloat16_rn((halves[0][c] + halves[1][c]) * 0.0625f);
}

/// Scores of one chunk of one KV head's tokens against its query heads, and the chunk's softmax numbers per head.
/// GroupHeads: query heads per KV head where known, else 0.
template <int GroupHeads>
__global__ void __launch_bounds__(scanWarps * 32, 4)
    sketchScanKernel(const SketchQuery* queries, int heads, int kvHeads)
{
    __shared__ float2 warpSums[scanWarps][sketchMaxHeads];
    allowDependentLaunch();
    const SketchQuery query = queries[blockIdx.z];
    waitForPreviousKernel();
    const int begin = query.begin, end = query.end;
    const int chunkBegin = blockIdx.x * sketchChunkTokens;
    if (chunkBegin >= end || chunkBegin + sketchChunkTokens <= begin)
        return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int g = lane / 4, t = lane % 4;
    const int kvHead = blockIdx.y;
    const int groupHeads = GroupHeads ? GroupHeads : heads / kvHeads;
    const int64_t tiles = query.sketch.capacityTiles;
    const uint8_t* codes = query.sketch.codes + int64_t(kvHead) * tiles * sketchTileBytes + lane * 16;
    const __half* scales = query.sketch.scales + int64_t(kvHead) * tiles * sketchTileTokens;
    __half* scores = query.scores + int64_t(kvHead) * tiles * sketchTileTokens * groupHeads;

    const SketchOperand operand =
        sketchOperand(query.projected + int64_t(kvHead) * groupHeads * sketchRank, groupHeads);
    float maximum[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    const int firstTile = chunkBegin / sketchTileTokens + warp * tilesPerWarp;
    const uint8_t* codesAt = codes + int64_t(firstTile) * sketchTileBytes;
    const __half* scalesAt = scales + firstTile * sketchTileTokens + g;
    __half* scoresAt = scores + int64_t(firstTile * sketchTileTokens + g) * groupHeads + 2 * t;
    // A chunk inside the range needs no look at each token.
    const bool interior = chunkBegin >= begin && chunkBegin + sketchChunkTokens <= end;
    const auto scoreBatch = [&](int batch, auto inside) {
        constexpr bool unchecked = decltype(inside)::value;
        uint4 words[batchTiles];
        __half scale[batchTiles][2];
#pragma unroll
        for (int i = 0; i < batchTiles; ++i) {
            const int tile = firstTile + batch + i;
            const bool present = unchecked || (tile * sketchTileTokens < end && tile * sketchTileTokens >= begin);
            words[i] = present ? __ldcs(reinterpret_cast<const uint4*>(codesAt + (batch + i) * sketchTileBytes))
                               : uint4{0, 0, 0, 0};
            scale[i][0] = present ? scalesAt[(batch + i) * sketchTileTokens] : __half{};
            scale[i][1] = present ? scalesAt[(batch + i) * sketchTileTokens + 8] : __half{};
        }
        float s[batchTiles][4];
        float batchMaximum[2] = {maximum[0], maximum[1]};
#pragma unroll
        for (int i = 0; i < batchTiles; ++i) {
            scoreTile(words[i], operand, s[i]);
            const int token = (firstTile + batch + i) * sketchTileTokens + g;
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                const float factor = __half2float(scale[i][row]);
                s[i][2 * row] *= factor;
                s[i][2 * row + 1] *= factor;
                if (unchecked || (token + row * 8 < end && token - g >= begin)) {
                    __half* at = scoresAt + ((batch + i) * sketchTileTokens + row * 8) * groupHeads;
                    if constexpr (GroupHeads != 0) {
                        if (2 * t < GroupHeads)
                            *reinterpret_cast<__half2*>(at) = __floats2half2_rn(s[i][2 * row], s[i][2 * row + 1]);
                    } else {
                        if (2 * t < groupHeads)
                            at[0] = __float2half_rn(s[i][2 * row]);
                        if (2 * t + 1 < groupHeads)
                            at[1] = __float2half_rn(s[i][2 * row + 1]);
                    }
                } else {
                    s[i][2 * row] = s[i][2 * row + 1] = -INFINITY;
                }
                batchMaximum[0] = fmaxf(batchMaximum[0], s[i][2 * row]);
                batchMaximum[1] = fmaxf(batchMaximum[1], s[i][2 * row + 1]);
            }
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (unchecked || batchMaximum[h] > -INFINITY) {
                sum[h] *= __expf(maximum[h] - batchMaximum[h]);
#pragma unroll
                for (int i = 0; i < batchTiles; ++i)
                    sum[h] += __expf(s[i][h] - batchMaximum[h]) + __expf(s[i][h + 2] - batchMaximum[h]);
                maximum[h] = batchMaximum[h];
            }
        }
    };
    if (interior) {
        for (int batch = 0; batch < tilesPerWarp; batch += batchTiles)
            scoreBatch(batch, std::true_type{});
    } else {
        for (int batch = 0; batch < tilesPerWarp; batch += batchTiles)
            scoreBatch(batch, std::false_type{});
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float all = warpMax<28>(maximum[h]);
        const float scaled = maximum[h] > -INFINITY ? sum[h] * __expf(maximum[h] - all) : 0.0f;
        const float total = warpSum<28>(scaled);
        if (g == 0)
            warpSums[warp][2 * t + h] = float2{all, total};
    }
    __syncthreads();
    if (threadIdx.x < groupHeads) {
        float all = -INFINITY, total = 0.0f;
        for (int w = 0; w < scanWarps; ++w)
            all = fmaxf(all, warpSums[w][threadIdx.x].x);
        for (int w = 0; w < scanWarps; ++w) {
            const float2 part = warpSums[w][threadIdx.x];
            if (part.x > -INFINITY)
                total += part.y * __expf(part.x - all);
        }
        query.logSums[int64_t(blockIdx.x) * heads + kvHead * groupHeads + threadIdx.x] = float2{all, total};
    }
}

/// The keys of 2048 tokens: the largest share over all heads, in fixed point, and how many fall in each bin.
template <int GroupHeads>
__global__ void __launch_bounds__(keyThreads) sketchKeyKernel(const SketchQuery* queries, int heads, int kvHeads)
{
    __shared__ uint32_t bins[histogramBins];
    __shared__ float logSum[256];
    allowDependentLaunch();
    const SketchQuery query = queries[blockIdx.y];
    waitForPreviousKernel();
    const int begin = query.begin, end = query.end;
    const int first = blockIdx.x * keyTokens;
    if (first >= end || first + keyTokens <= begin)
        return;
    for (int i = threadIdx.x; i < histogramBins; i += keyThreads)
        bins[i] = 0;
    const int firstChunk = begin / sketchChunkTokens, lastChunk = (end - 1) / sketchChunkTokens;
    const int lane = threadIdx.x % 32;
    for (int head = threadIdx.x / 32; head < heads; head += keyThreads / 32) {
        float maximum = -INFINITY, sum = 0.0f;
        for (int chunk = firstChunk + lane; chunk <= lastChunk; chunk += 32) {
            const float2 part = query.logSums[int64_t(chunk) * heads + head];
            const float larger = fmaxf(maximum, part.x);
            if (larger > -INFINITY)
                sum = sum * __expf(maximum - larger) + part.y * __expf(part.x - larger);
            maximum = larger;
        }
        const float all = warpMax(maximum);
        const float total = warpSum(maximum > -INFINITY ? sum * __expf(maximum - all) : 0.0f);
        if (lane == 0)
            logSum[head] = all + __logf(total);
    }
    __syncthreads();
    const int groupHeads = GroupHeads ? GroupHeads : heads / kvHeads;
    const int64_t headStride = int64_t(query.sketch.capacityTiles) * sketchTileTokens * groupHeads;
    for (int token = max(first, begin) + threadIdx.x; token < min(end, first + keyTokens); token += keyThreads) {
        float best = -INFINITY;
#pragma unroll 4
        for (int kvHead = 0; kvHead < kvHeads; ++kvHead) {
            const __half* scores = query.scores + kvHead * headStride + int64_t(token) * groupHeads;
            if constexpr (GroupHeads != 0) {
                __half2 pairs[GroupHeads / 2];
#pragma unroll
                for (int h = 0; h < GroupHeads / 2; ++h)
                    pairs[h] = *reinterpret_cast<const __half2*>(scores + 2 * h);
#pragma unroll
                for (int h = 0; h < GroupHeads / 2; ++h) {
                    const float2 pair = __half22float2(pairs[h]);
                    best = fmaxf(best, fmaxf(pair.x - logSum[kvHead * GroupHeads + 2 * h],
                                             pair.y - logSum[kvHead * GroupHeads + 2 * h + 1]));
                }
            } else {
                for (int h = 0; h < groupHeads; ++h)
                    best = fmaxf(best, __half2float(scores[h]) - logSum[kvHead * groupHeads + h]);
            }
        }
        const uint32_t key = sketchFixedKey(best);
        query.keys[token] = key;
        atomicAdd(&bins[key >> 20], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < histogramBins; i += keyThreads) {
        if (bins[i])
            atomicAdd(query.histogram + i, bins[i]);
    }
}

} // namespace

cudaError_t launchSketchAppend(MatrixView<const __nv_bfloat16> keys, int kvHeads, const float* basis,
                               const float* means, std::int64_t firstToken, const SketchView& sketch,
                               cudaStream_t stream)
{
    if (kvHeads <= 0 || keys.cols != kvHeads * kvHeadDim || firstToken < 0 ||
        firstToken + keys.rows > std::int64_t{sketch.capacityTiles} * sketchTileTokens)
        return cudaErrorInvalidValue;
    if (keys.rows == 0)
        return cudaSuccess;
    const int blockTokens = keys.rows <= 4 ? 4 : 32;
    const auto kernel = keys.rows <= 4 ? sketchAppendKernel<4> : sketchAppendKernel<32>;
    const dim3 grid((keys.rows + blockTokens - 1) / blockTokens, kvHeads);
    OCTAVO_CUDA_TRY(
        launchDependent(kernel, grid, appendThreads, 0, stream, keys, kvHeads, basis, means, firstToken, sketch));
    return cudaGetLastError();
}

cudaError_t launchSketchProject(const __nv_bfloat16* query, int queries, int heads, int kvHeads, const float* basis,
                                __nv_bfloat16* projected, cudaStream_t stream)
{
    if (queries < 0 || kvHeads <= 0 || heads % kvHeads != 0 || heads <= 0)
        return cudaErrorInvalidValue;
    if (queries == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(launchDependent(sketchProjectKernel, dim3(heads, queries), 128, 0, stream, query, heads, kvHeads,
                                    basis, projected));
    return cudaGetLastError();
}

cudaError_t launchSketchScore(const SketchQuery* queries, int numQueries, int heads, int kvHeads,
                              std::int64_t maxTokens, int scoreBuffers, cudaStream_t stream)
{
    if (scoreBuffers <= 0 || numQueries < 0 || kvHeads <= 0 || heads % kvHeads != 0 ||
        heads / kvHeads > sketchMaxHeads || heads > 256 || heads <= 0 || maxTokens < 0 ||
        maxTokens > (std::int64_t{1} << 30))
        return cudaErrorInvalidValue;
    if (numQueries == 0 || maxTokens == 0)
        return cudaSuccess;
    const int groupHeads = heads / kvHeads;
    const auto scanKernel = groupHeads == 6   ? sketchScanKernel<6>
                            : groupHeads == 2 ? sketchScanKernel<2>
                                              : sketchScanKernel<0>;
    const auto keyKernel = groupHeads == 6   ? sketchKeyKernel<6>
                           : groupHeads == 2 ? sketchKeyKernel<2>
                                             : sketchKeyKernel<0>;
    for (int first = 0; first < numQueries; first += scoreBuffers) {
        const int count = std::min(scoreBuffers, numQueries - first);
        const dim3 scanGrid(sketchChunks(maxTokens), kvHeads, count);
        OCTAVO_CUDA_TRY(
            launchDependent(scanKernel, scanGrid, scanWarps * 32, 0, stream, queries + first, heads, kvHeads));
        const dim3 keyGrid(static_cast<unsigned>((maxTokens + keyTokens - 1) / keyTokens), count);
        OCTAVO_CUDA_TRY(launchDependent(keyKernel, keyGrid, keyThreads, 0, stream, queries + first, heads, kvHeads));
    }
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
