#pragma once

/// From sums and maxima to keys, and the tokens of single groups scored: what all ways to pick share.

#include "kernels/cuda/sketch_math.cuh"

namespace octavo::kernels::cuda
{

inline constexpr int blockGroups = sketchBlockTokens / sketchGroupTokens;
inline constexpr int blockTiles = sketchBlockTokens / sketchTileTokens;
inline constexpr int binBits = 10, binShift = 32 - binBits; // of sketchBins
static_assert(sketchBins == 1 << binBits);

/// The first token of a group that may be picked; it is one only if it is below the end and the block's end.
__device__ __forceinline__ int firstToken(int group, int begin)
{
    const int block = group / blockGroups * sketchBlockTokens;
    return max(block, begin) + group % blockGroups;
}

__device__ __forceinline__ bool groupWanted(int group, const SketchQuery& query)
{
    const int token = firstToken(group, query.begin);
    return token < query.end && token < (group / blockGroups + 1) * sketchBlockTokens;
}

__device__ __forceinline__ int groupOfToken(int token)
{
    return token / sketchBlockTokens * blockGroups + token % blockGroups;
}

/// What tokens of a group are picked by, boosted where that is asked for.
__device__ __forceinline__ uint32_t keyOf(float logShare2, int group, const SketchQuery& query)
{
    return max(sketchFixedKey(logShare2), query.floorKey) + (query.lifts ? groupBoost(group) : 0u);
}

/// A head's slope and the negative log of its sum, both to base 2.
__device__ __forceinline__ float2 headLine(const SketchQuery& query, int head, int heads)
{
    const int lane = threadIdx.x % 32;
    const float2 pair = unpackBf16(*reinterpret_cast<const uint32_t*>(query.projected + head * sketchRank + 2 * lane));
    const float peak = warpMax(fmaxf(fabsf(pair.x), fabsf(pair.y)));
    const int firstChunk = query.begin / sketchChunkTokens, lastChunk = (query.end - 1) / sketchChunkTokens;
    float maximum = -INFINITY, sum = 0.0f;
    for (int chunk = firstChunk + lane; chunk <= lastChunk; chunk += 32) {
        const float2 part = query.logSums[int64_t(chunk) * heads + head];
        const float larger = fmaxf(maximum, part.x);
        if (larger > -INFINITY)
            sum = sum * exp2Approx(maximum - larger) + part.y * exp2Approx(part.x - larger);
        maximum = larger;
    }
    const float all = warpMax(maximum);
    const float total = warpSum(maximum > -INFINITY ? sum * exp2Approx(maximum - all) : 0.0f);
    return {sketchSlope(peak), -(all + __log2f(total))};
}

/// All heads' operands and lines of a query, for forTokensOfGroups(). Shared memory of selectionBytes().
struct Selection {
    SketchOperand* operands; ///< (kvHeads, 32)
    float2* lines;           ///< (kvHeads, 8): of heads that are not there, (0, -infinity)
};

__host__ __device__ constexpr int selectionBytes(int kvHeads)
{
    return kvHeads * int(32 * sizeof(SketchOperand) + sketchMaxHeads * sizeof(float2));
}

__device__ __forceinline__ Selection selectionAt(void* shared, int kvHeads)
{
    SketchOperand* operands = static_cast<SketchOperand*>(shared);
    return {operands, reinterpret_cast<float2*>(operands + kvHeads * 32)};
}

/// A KV head's operands, by a warp.
__device__ __forceinline__ void prepareOperands(const Selection& selection, const SketchQuery& query, int kvHead,
                                                int groupHeads)
{
    const int lane = threadIdx.x % 32, h = lane / 4;
    selection.operands[kvHead * 32 + lane] =
        sketchOperand(h < groupHeads ? query.projected + (kvHead * groupHeads + h) * sketchRank : nullptr);
}

/// By all threads of the block, from the query's lines; a barrier has to follow.
__device__ __forceinline__ Selection prepareSelection(void* shared, const SketchQuery& query, int heads, int kvHeads)
{
    const Selection selection = selectionAt(shared, kvHeads);
    const int groupHeads = heads / kvHeads, lane = threadIdx.x % 32;
    for (int kvHead = threadIdx.x / 32; kvHead < kvHeads; kvHead += blockDim.x / 32) {
        prepareOperands(selection, query, kvHead, groupHeads);
        if (lane < sketchMaxHeads)
            selection.lines[kvHead * sketchMaxHeads + lane] =
                lane < groupHeads ? query.lines[kvHead * groupHeads + lane] : float2{0.0f, -INFINITY};
    }
    return selection;
}

/// Scores the tokens of two groups (or one and -1) by a warp: lanes with t = lane % 4 below 2 get use(token, key).
template <typename Use>
__device__ __forceinline__ void forTokensOfGroups(const SketchQuery& query, const Selection& selection, int kvHeads,
                                                  int group0, int group1, Use&& use)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    // Rows 0..3 and 8..11 of the product are the first group's tokens, the others the second's.
    const int group = g < 4 ? group0 : group1, tile = g % 4;
    const bool present = group >= 0;
    const int64_t tiles = query.sketch.capacityTiles;
    const int block = group / blockGroups, inBlock = group % blockGroups;
    const uint8_t* codes =
        query.sketch.codes + (int64_t(block) * blockTiles + tile) * sketchTileBytes + (inBlock * 4 + t) * 16;
    const __half* scales = query.sketch.scales + int64_t(block) * sketchBlockTokens + inBlock * 8 + tile * 2;
    float best[2] = {-INFINITY, -INFINITY};
#pragma unroll 4
    for (int kvHead = 0; kvHead < kvHeads; ++kvHead) {
        uint4 words{};
        uint32_t scale = 0;
        if (present) {
            words = *reinterpret_cast<const uint4*>(codes + kvHead * tiles * sketchTileBytes);
            scale = *reinterpret_cast<const uint32_t*>(scales + kvHead * tiles * sketchTileTokens);
        }
        float u[4];
        sketchProducts(unpackTile(words), selection.operands[kvHead * 32 + lane], productScales(scale), u);
        const float4 line = *reinterpret_cast<const float4*>(selection.lines + kvHead * sketchMaxHeads + 2 * t);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float2 rounded = __half22float2(__floats2half2_rn(u[2 * row], u[2 * row + 1]));
            best[row] =
                fmaxf(best[row], fmaxf(__fmaf_rn(rounded.x, line.x, line.y), __fmaf_rn(rounded.y, line.z, line.w)));
        }
    }
    const float first = warpMax<3>(best[0]), second = warpMax<3>(best[1]);
    const int token = block * sketchBlockTokens + tile * sketchTileTokens + inBlock + (t == 1 ? 8 : 0);
    const bool inside = present && t < 2 && token >= query.begin && token < query.end;
    use(inside ? token : -1, keyOf(t == 0 ? first : second, group, query));
}

/// Starts to bring what forTokensOfGroups() reads of a group.
__device__ __forceinline__ void prefetchGroup(const SketchQuery& query, int group, int kvHeads)
{
    const int64_t tiles = query.sketch.capacityTiles;
    const int block = group / blockGroups, inBlock = group % blockGroups;
    const uint8_t* codes = query.sketch.codes + int64_t(block) * blockTiles * sketchTileBytes + inBlock * 64;
    const __half* scales = query.sketch.scales + int64_t(block) * sketchBlockTokens + inBlock * 8;
    for (int kvHead = 0; kvHead < kvHeads; ++kvHead) {
#pragma unroll
        for (int tile = 0; tile < blockTiles; ++tile)
            prefetchLine(codes + (kvHead * tiles + tile) * sketchTileBytes);
        prefetchLine(scales + kvHead * tiles * sketchTileTokens);
    }
}

} // namespace octavo::kernels::cuda
