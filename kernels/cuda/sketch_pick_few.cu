#include "kernels/cuda/sketch_pick_few.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/select_math.cuh"
#include "kernels/cuda/sketch_select.cuh"

#include <algorithm>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int threads = 512, warps = threads / 32;
constexpr int mostBlocks = 128, leastBlocks = 64; // of a query
constexpr int stripeGroups = 128; // a query's blocks take stripes in turn, so that they share what lies together
constexpr int stripeTokens = stripeGroups * sketchGroupTokens;
constexpr int stripeWords = stripeTokens / 32;
constexpr int maxStripes = sketchMaxTokens / stripeTokens;
constexpr int mostMembers = 256; // of an interval whose candidates are compared with each other
constexpr uint32_t absent = 0xffffffffu;
constexpr int tokenBits = 18, orderBits = tokenBits + 32;
constexpr int firstWidth = tokenBits + 18; // of candidates' first bins: 1 / 256 nat; the last one is open
static_assert(1 << tokenBits == sketchMaxTokens && stripeWords == 32 && sketchBins == 2 * threads);
static_assert(maxStripes <= threads && mostMembers <= threads);

constexpr int turnsOfBins = 3;

/// Where the blocks of a query meet, in L2.
struct Meeting {
    uint32_t bins[turnsOfBins][sketchBins];       ///< zero before and after
    uint32_t arrivals[turnsOfBins];               ///< of the blocks that have filled these bins; as well
    uint32_t lastArrivals, numMembers, unused[3]; ///< zero from the first time on that all have met
    uint64_t members[mostMembers];
    int counts[maxStripes]; ///< of every stripe's picks, without members
};
static_assert(sizeof(Meeting) <= sketchMeetingWords * 4);

__device__ __forceinline__ void arriveAt(uint32_t* arrivals)
{
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;\n" ::"l"(arrivals) : "memory");
}

__device__ __forceinline__ void awaitBlocks(const uint32_t* arrivals)
{
    if (threadIdx.x == 0) {
        uint32_t come;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(come) : "l"(arrivals) : "memory");
        } while (come < gridDim.x);
    }
    __syncthreads();
}

/// The bin of the k-th largest, how many lie above it and how many in it; bin -1 where there are fewer than k.
struct KthBin {
    int bin, above, inBin;
};

/// Bins are filled, read when all blocks have come, and cleared when all have come again. By all threads.
struct Turns {
    Meeting* meeting;
    uint32_t* own; ///< (sketchBins), in shared memory: zero but while they are counted
    int turn = 0;

    __device__ __forceinline__ uint32_t* bins() const { return meeting->bins[turn]; }
    /// Own counts to the query's; begins with a barrier.
    __device__ __forceinline__ void put() const
    {
        __syncthreads();
        for (int i = threadIdx.x; i < sketchBins; i += threads) {
            if (own[i])
                atomicAdd(&bins()[i], own[i]);
            own[i] = 0;
        }
    }
    __device__ __forceinline__ void arrive() const { arriveAt(&meeting->arrivals[turn]); }
    __device__ __forceinline__ void await() const
    {
        awaitBlocks(&meeting->arrivals[turn]);
        clearBefore();
    }
    /// Clears the bins of the turn before, which all blocks have read.
    __device__ __forceinline__ void clearBefore() const
    {
        const int before = (turn + turnsOfBins - 1) % turnsOfBins;
        if (blockIdx.x != 0)
            return;
        for (int i = threadIdx.x; i < sketchBins; i += threads)
            meeting->bins[before][i] = 0;
        if (threadIdx.x == 0)
            meeting->arrivals[before] = 0;
    }
    /// Every thread gets the same. Scratch: 33 ints.
    __device__ __forceinline__ KthBin kth(int k, int* scratch, KthBin* found)
    {
        const int highest = sketchBins - 1 - int(threadIdx.x) * 2; // bins descend with the thread
        if (threadIdx.x == 0)
            *found = KthBin{-1, 0, 0};
        const uint2 two = __ldcg(reinterpret_cast<const uint2*>(bins() + highest - 1));
        const int first = int(two.y), second = int(two.x);
        int total;
        const int above = exclusiveScan(first + second, scratch, total); // its barriers part the two writes
        if (above < k && above + first >= k)
            *found = KthBin{highest, above, first};
        else if (above + first < k && above + first + second >= k)
            *found = KthBin{highest - 1, above + first, second};
        __syncthreads();
        turn = (turn + 1) % turnsOfBins;
        return *found;
    }
};

/// A block's part of a query.
struct Part {
    const SketchQuery& query;
    int firstStripe, groups; ///< of the query; of the block

    __device__ __forceinline__ int stripeAt(int stripe) const { return firstStripe + stripe * gridDim.x + blockIdx.x; }
    __device__ __forceinline__ int groupAt(int i) const
    {
        return stripeAt(i / stripeGroups) * stripeGroups + i % stripeGroups;
    }
    __device__ __forceinline__ bool wanted(int i) const { return i < groups && groupWanted(groupAt(i), query); }
};

/// What a block keeps, in shared memory of partBytes().
struct Kept {
    Selection selection;
    uint32_t* distances; ///< (listed groups, 8): of tokens' keys from the threshold, or `absent`
    uint32_t* keys;      ///< (groups)
    uint32_t* taken;     ///< (stripes, 32): bits of tokens
    uint32_t* below;     ///< (stripes, 32): tokens taken in a stripe's lower words
    uint16_t* list;      ///< (listed groups)
};

__host__ __device__ constexpr int partBytes(int stripes, int kvHeads)
{
    return selectionBytes(kvHeads) + stripes * (stripeGroups * (sketchGroupTokens * 4 + 4 + 2) + 2 * stripeWords * 4);
}

__device__ __forceinline__ Kept keptAt(uint8_t* shared, int stripes, int kvHeads)
{
    Kept kept;
    kept.selection = selectionAt(shared, kvHeads);
    kept.distances = reinterpret_cast<uint32_t*>(shared + selectionBytes(kvHeads));
    kept.keys = kept.distances + stripes * stripeGroups * sketchGroupTokens;
    kept.taken = kept.keys + stripes * stripeGroups;
    kept.below = kept.taken + stripes * stripeWords;
    kept.list = reinterpret_cast<uint16_t*>(kept.below + stripes * stripeWords);
    return kept;
}

/// The heads' lines, then the keys of the block's groups, counted in `bins`.
template <int GroupHeads>
__device__ __forceinline__ void makeKeys(const Part& part, const Kept& kept, int heads, int kvHeads, uint32_t* bins)
{
    constexpr int early = GroupHeads ? 4 : 0, pairs = GroupHeads ? GroupHeads / 2 : 1;
    const SketchQuery& query = part.query;
    const int groupHeads = GroupHeads ? GroupHeads : heads / kvHeads, warp = threadIdx.x / 32;
    const int64_t headStride =
        int64_t(query.sketch.capacityTiles) * (sketchTileTokens / sketchGroupTokens) * groupHeads;
    const float2* lines = kept.selection.lines;
    __half2 ahead[early ? early : 1][pairs]; // a round's products on their way, first while the lines are made
    const auto load = [&](int i) {
        const bool wanted = part.wanted(i);
        const __half* maxima = query.maxima + int64_t(part.groupAt(i)) * groupHeads;
#pragma unroll
        for (int kvHead = 0; kvHead < early; ++kvHead) {
#pragma unroll
            for (int h = 0; h < pairs; ++h)
                ahead[kvHead][h] = wanted && kvHead < kvHeads
                                       ? *reinterpret_cast<const __half2*>(maxima + kvHead * headStride + 2 * h)
                                       : __half2{};
        }
    };
    load(threadIdx.x);
    for (int head = warp; head < heads; head += warps) {
        const float2 line = headLine(query, head, heads);
        if (threadIdx.x % 32 == 0) {
            kept.selection.lines[head / groupHeads * sketchMaxHeads + head % groupHeads] = line;
            if (blockIdx.x == 0)
                query.lines[head] = line;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < part.groups; i += threads) {
        float best = -INFINITY;
        const auto use = [&](float product, int kvHead, int h) {
            const float2 line = lines[kvHead * sketchMaxHeads + h];
            best = fmaxf(best, __fmaf_rn(product, line.x, line.y));
        };
#pragma unroll
        for (int kvHead = 0; kvHead < early; ++kvHead) {
#pragma unroll
            for (int h = 0; h < pairs; ++h) {
                if (kvHead < kvHeads) {
                    use(__low2float(ahead[kvHead][h]), kvHead, 2 * h);
                    use(__high2float(ahead[kvHead][h]), kvHead, 2 * h + 1);
                }
            }
        }
        load(i + threads);
        if (!part.wanted(i))
            continue;
        const __half* maxima = query.maxima + int64_t(part.groupAt(i)) * groupHeads;
        for (int kvHead = early; kvHead < kvHeads; ++kvHead) {
            for (int h = 0; h < groupHeads; ++h)
                use(__half2float(maxima[kvHead * headStride + h]), kvHead, h);
        }
        kept.keys[i] = keyOf(best, part.groupAt(i), query);
        atomicAdd(&bins[kept.keys[i] >> binShift], 1u);
    }
}

/// A key that the k-th largest group reaches, from bins that hold all groups: groupThreshold() of sketch_pick.cu.
__device__ __forceinline__ uint32_t findThreshold(const Part& part, const Kept& kept, Turns& turns, int* scratch,
                                                  KthBin* found)
{
    uint32_t threshold = 0;
    int k = part.query.k + 1; // the one behind the picks tells their lifts
    for (int shift = binShift;; shift -= binBits) {
        const KthBin bin = turns.kth(k, scratch, found);
        if (bin.bin < 0) // fewer groups than picks: all of them are looked at
            return threshold;
        threshold |= uint32_t(bin.bin) << shift;
        k -= bin.above;
        if (bin.inBin - k <= part.query.k / 2 || shift < binBits)
            return threshold;
        for (int i = threadIdx.x; i < part.groups; i += threads) {
            if (part.wanted(i) && kept.keys[i] >> shift == threshold >> shift)
                atomicAdd(&turns.own[kept.keys[i] >> (shift - binBits) & (sketchBins - 1)], 1u);
        }
        turns.put();
        turns.arrive();
        turns.await();
    }
}

/// Scores all tokens of the block's groups that reach the threshold; candidates, whose keys reach it, are counted.
/// Returns the number of these groups.
__device__ __forceinline__ int scoreTokens(const Part& part, const Kept& kept, uint32_t threshold, int kvHeads,
                                           uint32_t* bins, int* numListed)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < part.groups; i += threads) {
        const bool reaches = part.wanted(i) && kept.keys[i] >= threshold;
        const unsigned all = __ballot_sync(fullMask, reaches); // by whole warps
        int at = 0;
        if (lane == 0 && all)
            at = atomicAdd(numListed, __popc(all));
        at = __shfl_sync(fullMask, at, 0) + __popc(all & ((1u << lane) - 1));
        if (reaches) {
            kept.list[at] = uint16_t(i);
            if (at >= 2 * warps) // the others are read at once
                prefetchGroup(part.query, part.groupAt(i), kvHeads);
        }
    }
    __syncthreads();
    const int listed = *numListed;
    for (int pair = warp * 2; pair < listed; pair += warps * 2) {
        const bool both = pair + 1 < listed;
        const int first = part.groupAt(kept.list[pair]), second = both ? part.groupAt(kept.list[pair + 1]) : -1;
        forTokensOfGroups(part.query, kept.selection, kvHeads, first, second, [&](int token, uint32_t key) {
            const int t = lane % 4, tile = lane / 4 % 4, which = lane / 16;
            if (t >= 2 || (which == 1 && !both))
                return;
            const bool candidate = token >= 0 && key >= threshold;
            const uint32_t distance = candidate ? key - threshold : absent;
            kept.distances[(pair + which) * sketchGroupTokens + tile * 2 + t] = distance;
            if (candidate)
                atomicAdd(&bins[min(distance >> (firstWidth - tokenBits), sketchBins - 1u)], 1u);
        });
    }
    return listed;
}

/// use(place, token, distance) of the block's candidates; `place`: in its stripes.
template <typename Use>
__device__ __forceinline__ void forCandidates(const Part& part, const Kept& kept, int listed, Use&& use)
{
    for (int i = threadIdx.x; i < listed * sketchGroupTokens; i += threads) {
        const uint32_t distance = kept.distances[i];
        if (distance == absent)
            continue;
        const int group = kept.list[i / sketchGroupTokens], inGroup = i % sketchGroupTokens;
        const int inStripe = group % stripeGroups / blockGroups * sketchBlockTokens + group % blockGroups +
                             inGroup / 2 * sketchTileTokens + inGroup % 2 * 8;
        const int stripe = group / stripeGroups;
        use(stripe * stripeTokens + inStripe, part.stripeAt(stripe) * stripeTokens + inStripe, distance);
    }
}

/// What candidates are ordered by: the key, of equal ones the lower token first.
__device__ __forceinline__ uint64_t orderOf(uint32_t distance, int token)
{
    return uint64_t(distance) << tokenBits | uint32_t(sketchMaxTokens - 1 - token);
}

__device__ __forceinline__ int tokenOf(uint64_t order)
{
    return sketchMaxTokens - 1 - int(order & (sketchMaxTokens - 1));
}

/// The orders low .. high - 1, of which `members` candidates are; the `need`-th of them is the first that is not
/// picked.
struct Interval {
    uint64_t low = 0, high = 0;
    int members = 0, need = 0;
};

/// From bins that hold all candidates, of whom there are at least `ranks`, since as many groups reach the threshold and
/// a token of each with them; the last of `ranks` is looked for.
__device__ __forceinline__ Interval findInterval(const Part& part, const Kept& kept, int listed, int ranks,
                                                 Turns& turns, int* scratch, KthBin* found)
{
    Interval interval;
    interval.need = ranks;
    int width = firstWidth, bins = firstWidth; // both as powers of two; the last of the first bins is open
    for (bool first = true;; first = false) {
        const KthBin bin = turns.kth(interval.need, scratch, found);
        interval.need -= bin.above;
        interval.low += uint64_t(bin.bin) << bins;
        interval.members = bin.inBin;
        width = first && bin.bin == sketchBins - 1 ? orderBits : bins;
        interval.high = interval.low + (uint64_t(1) << width);
        if (bin.inBin <= mostMembers)
            return interval;
        bins = max(width - binBits, 0);
        forCandidates(part, kept, listed, [&](int, int token, uint32_t distance) {
            const uint64_t order = orderOf(distance, token);
            if (order >= interval.low && order < interval.high)
                atomicAdd(&turns.own[uint32_t((order - interval.low) >> bins)], 1u);
        });
        turns.put();
        turns.arrive();
        turns.await();
    }
}

/// Tokens taken in a stripe's lower words, by a warp; returns those of the stripe to the last lane.
__device__ __forceinline__ int countStripe(const Kept& kept, int stripe)
{
    const int at = stripe * stripeWords + threadIdx.x % 32;
    const int own = __popc(kept.taken[at]);
    int sum = own;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const int other = __shfl_up_sync(fullMask, sum, step);
        if (int(threadIdx.x % 32) >= step)
            sum += other;
    }
    kept.below[at] = uint32_t(sum - own);
    return sum;
}

/// blockIdx.y: the query. `stripes`: of a block.
template <int GroupHeads>
__global__ void __launch_bounds__(threads, 2)
    sketchPickFewKernel(const SketchQuery* queries, int heads, int kvHeads, int stripes)
{
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ uint32_t ownBins[sketchBins];
    __shared__ __align__(8) uint64_t members[mostMembers];
    __shared__ int counts[maxStripes]; // of every stripe's picks; then of those of lower stripes
    __shared__ int scratch[33];
    __shared__ KthBin found;
    __shared__ uint64_t firstLeft; // order of the first that is not picked
    __shared__ int numListed;
    allowDependentLaunch();
    const SketchQuery query = queries[blockIdx.y];
    const int warp = threadIdx.x / 32, groupHeads = heads / kvHeads;
    const int range = query.end - query.begin, k = min(min(query.k, sketchMaxPicks), range);
    const Part part{query, query.begin / stripeTokens, stripes * stripeGroups};
    const Kept kept = keptAt(shared, stripes, kvHeads);
    Meeting* const meeting = reinterpret_cast<Meeting*>(query.histogram);
    for (int i = threadIdx.x; i < sketchBins; i += threads)
        ownBins[i] = 0;
    for (int i = threadIdx.x; i < stripes * stripeWords; i += threads)
        kept.taken[i] = 0;
    for (int i = threadIdx.x; i < kvHeads * sketchMaxHeads; i += threads) {
        if (i % sketchMaxHeads >= groupHeads)
            kept.selection.lines[i] = float2{0.0f, -INFINITY};
    }
    if (threadIdx.x == 0)
        numListed = 0, firstLeft = 0;
    waitForPreviousKernel();
    if (blockIdx.x == 0 && threadIdx.x == 0)
        meeting->lastArrivals = meeting->numMembers = 0;
    if (range > 0)
        makeKeys<GroupHeads>(part, kept, heads, kvHeads, ownBins);
    if (k <= 0) {
        if (threadIdx.x == 0)
            *query.numPicks = 0;
        return;
    }
    Turns turns{meeting, ownBins};
    turns.put();
    turns.arrive();
    for (int kvHead = warp; kvHead < kvHeads; kvHead += warps) // while the others come
        prepareOperands(kept.selection, query, kvHead, groupHeads);
    turns.await();
    const uint32_t threshold = findThreshold(part, kept, turns, scratch, &found);
    const int listed = scoreTokens(part, kept, threshold, kvHeads, turns.bins(), &numListed);
    turns.arrive();
    turns.await();

    // What lies above the interval is picked; who of its members are, all blocks find when they have met once more.
    const bool behind = range > k; // there is one that is not picked
    const Interval interval = behind ? findInterval(part, kept, listed, k + 1, turns, scratch, &found) : Interval{};
    if (!behind)
        turns.turn = (turns.turn + 1) % turnsOfBins;
    forCandidates(part, kept, listed, [&](int place, int token, uint32_t distance) {
        const uint64_t order = orderOf(distance, token);
        if (order >= interval.high)
            atomicOr(&kept.taken[place / 32], 1u << place % 32);
        else if (order >= interval.low)
            meeting->members[atomicAdd(&meeting->numMembers, 1u)] = order;
    });
    __syncthreads();
    const int blocks = gridDim.x, allStripes = min(stripes * blocks, maxStripes);
    for (int stripe = warp; stripe < stripes; stripe += warps) {
        const int sum = countStripe(kept, stripe), at = stripe * blocks + blockIdx.x;
        if (threadIdx.x % 32 == 31 && at < maxStripes)
            meeting->counts[at] = sum;
    }
    arriveAt(&meeting->lastArrivals);
    awaitBlocks(&meeting->lastArrivals);
    turns.clearBefore();
    if (int(threadIdx.x) < allStripes)
        counts[threadIdx.x] = __ldcg(&meeting->counts[threadIdx.x]);
    if (int(threadIdx.x) < interval.members)
        members[threadIdx.x] = __ldcg(&meeting->members[threadIdx.x]);
    __syncthreads();
    if (int(threadIdx.x) < interval.members) {
        const uint64_t own = members[threadIdx.x];
        int before = 0;
        for (int i = 0; i < interval.members; ++i)
            before += members[i] > own;
        if (before == interval.need - 1)
            firstLeft = own;
        if (before < interval.need - 1) {
            const int token = tokenOf(own), stripe = token / stripeTokens - part.firstStripe;
            atomicAdd(&counts[stripe], 1);
            if (stripe % blocks == int(blockIdx.x))
                atomicOr(&kept.taken[stripe / blocks * stripeWords + token % stripeTokens / 32], 1u << token % 32);
        }
    }
    __syncthreads();

    // Ranks follow the token: by stripes, by words of a stripe, by bits.
    for (int stripe = warp; stripe < stripes; stripe += warps)
        countStripe(kept, stripe);
    int total;
    const int own = int(threadIdx.x) < allStripes ? counts[threadIdx.x] : 0;
    const int lower = exclusiveScan(own, scratch, total);
    if (int(threadIdx.x) < allStripes)
        counts[threadIdx.x] = lower;
    __syncthreads();
    const uint32_t level = behind ? uint32_t(firstLeft >> tokenBits) + threshold : 0;
    forCandidates(part, kept, listed, [&](int place, int token, uint32_t distance) {
        const uint32_t word = kept.taken[place / 32], bit = 1u << place % 32;
        if (!(word & bit))
            return;
        const int rank = counts[place / stripeTokens * blocks + int(blockIdx.x)] + int(kept.below[place / 32]) +
                         __popc(word & (bit - 1));
        query.picks[rank] = token;
        if (query.lifts) {
            const uint32_t key = distance + threshold - groupBoost(groupOfToken(token));
            query.lifts[rank] = key < level ? float(level - key) * (1.0f / sketchKeyUnit) : 0.0f;
        }
    });
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *query.numPicks = total;
}

} // namespace

cudaError_t launchSketchPickFew(const SketchQuery* queries, int numQueries, int heads, int kvHeads,
                                std::int64_t maxTokens, cudaStream_t stream)
{
    const int blocks = std::min(mostBlocks, deviceMultiprocessors() / numQueries);
    if (!deviceHasSm90() || blocks < leastBlocks)
        return cudaErrorNotSupported;
    const int groupHeads = heads / kvHeads;
    const auto kernel = groupHeads == 6   ? sketchPickFewKernel<6>
                        : groupHeads == 2 ? sketchPickFewKernel<2>
                                          : sketchPickFewKernel<0>;
    const int allStripes = int((maxTokens + stripeTokens - 1) / stripeTokens);
    const int stripes = (allStripes + blocks - 1) / blocks;
    const int bytes = partBytes(stripes, kvHeads);
    OCTAVO_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    int blocksAtOnce = 0; // of a multiprocessor
    OCTAVO_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocksAtOnce, kernel, threads, std::size_t(bytes)));
    if (blocksAtOnce < 2)
        return cudaErrorNotSupported;
    return launchDependent(kernel, dim3(blocks, numQueries), threads, bytes, stream, queries, heads, kvHeads, stripes);
}

} // namespace octavo::kernels::cuda
