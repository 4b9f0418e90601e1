/// From a scan's sums and maxima to the picks: keys of groups, tokens of the groups that may hold picks, the picks.

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/select_math.cuh"
#include "kernels/cuda/sketch_pick_few.h"
#include "kernels/cuda/sketch_select.cuh"

#include <algorithm>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int groupThreads = 1024; // a group each, of every round
constexpr int groupRoundTokens = groupThreads * sketchGroupTokens;
constexpr int tokenThreads = 512; // a group each, of every round
constexpr int tokenRoundTokens = tokenThreads * sketchGroupTokens;
constexpr int tokenWarps = tokenThreads / 32;
constexpr int warpCandidates = 64; // that a warp gathers before it writes them
constexpr int pickThreads = 1024;
constexpr int maxWords = sketchMaxTokens / 32;
constexpr int wordsPerThread = maxWords / pickThreads;
constexpr int nearbyCandidates = 3072; // kept in shared memory
constexpr int pickAhead = 8;           // other candidates that a thread loads together
constexpr int firstBins = maxWords;    // of the keys above the threshold, and firstShift bits wide
constexpr int firstShift = 15;
constexpr int radixBins = 2048;
static_assert(sketchBins == groupThreads);
static_assert(firstBins * 4 == sketchMaxPicks * int(sizeof(uint2)));

enum Counter { Candidates, Arrivals, Threshold, Exhaustive }; // of SketchQuery::counters

/// The calling thread's place in a list that only grows: threads of a warp that come together take theirs at once.
__device__ __forceinline__ int appendTo(int* count)
{
    const unsigned together = __activemask();
    const int lane = threadIdx.x % 32, leader = __ffs(int(together)) - 1;
    int at = 0;
    if (lane == leader)
        at = atomicAdd(count, __popc(together));
    return __shfl_sync(together, at, leader) + __popc(together & ((1u << lane) - 1));
}

/// A key that the k-th largest group reaches, by one block: `bins` holds the groups of each bin. Heads without opinions
/// leave all keys in one or two bins, so it is looked at in finer ones until few groups more than k reach it.
__device__ __forceinline__ uint32_t groupThreshold(const SketchQuery& query, int firstGroup, int endGroup,
                                                   uint32_t* bins, int* scratch, int2* found)
{
    uint32_t threshold = 0;
    int k = query.k + 1; // the one behind the picks tells their lifts
    for (int shift = binShift; shift >= 0; shift -= binBits) {
        if (threadIdx.x == 0)
            *found = int2{-1, 0};
        const int2 bin = findBin<sketchBins, groupThreads>(bins, k, scratch, found); // its scan parts the two writes
        if (bin.x < 0) // fewer groups than picks: all of them are looked at
            break;
        threshold |= uint32_t(bin.x) << shift;
        k -= bin.y;
        const int beyond = int(bins[bin.x]) - k; // groups that reach the threshold, less the query's k
        if (beyond <= query.k / 2)
            break;
        __syncthreads();
        bins[threadIdx.x] = 0;
        __syncthreads();
        const int finer = shift - binBits;
        if (finer < 0)
            break;
#pragma unroll 8
        for (int group = firstGroup + threadIdx.x; group < endGroup; group += groupThreads) {
            const bool wanted = groupWanted(group, query); // else there may be no place for its key
            const uint32_t key = wanted ? __ldcg(query.groupKeys + group) : 0;
            if (wanted && key >> shift == threshold >> shift)
                atomicAdd(&bins[key >> finer & (sketchBins - 1)], 1u);
        }
        __syncthreads();
    }
    return threshold;
}

/// The keys of groups: a query's blocks take rounds of groups in turn. The block that ends last finds the key that the
/// k-th largest of them reaches.
template <int GroupHeads>
__global__ void __launch_bounds__(groupThreads) sketchGroupKernel(const SketchQuery* queries, int heads, int kvHeads)
{
    __shared__ uint32_t bins[sketchBins];
    __shared__ float2 lines[256];
    __shared__ int scratch[33];
    __shared__ int2 found;
    __shared__ bool isLast;
    allowDependentLaunch();
    const SketchQuery query = queries[blockIdx.y];
    const int firstRound = query.begin / groupRoundTokens, endRound = (query.end - 1) / groupRoundTokens + 1;
    bins[threadIdx.x] = 0;
    waitForPreviousKernel();
    if (firstRound + int(blockIdx.x) >= endRound)
        return;
    const int groupHeads = GroupHeads ? GroupHeads : heads / kvHeads;
    const int64_t headStride =
        int64_t(query.sketch.capacityTiles) * (sketchTileTokens / sketchGroupTokens) * groupHeads;
    constexpr int early = GroupHeads ? 4 : 0, pairs = GroupHeads ? GroupHeads / 2 : 1;
    __half2 ahead[early ? early : 1][pairs]; // a round's products on their way, first while the lines are made
    const auto groupOf = [&](int round) { return round * groupThreads + int(threadIdx.x); };
    const auto load = [&](int round) {
        const bool wanted = round < endRound && groupWanted(groupOf(round), query);
        const __half* maxima = query.maxima + int64_t(groupOf(round)) * groupHeads;
#pragma unroll
        for (int kvHead = 0; kvHead < early; ++kvHead) {
#pragma unroll
            for (int h = 0; h < pairs; ++h)
                ahead[kvHead][h] = wanted && kvHead < kvHeads
                                       ? *reinterpret_cast<const __half2*>(maxima + kvHead * headStride + 2 * h)
                                       : __half2{};
        }
    };
    load(firstRound + int(blockIdx.x));
    for (int head = threadIdx.x / 32; head < heads; head += groupThreads / 32) {
        const float2 line = headLine(query, head, heads);
        if (threadIdx.x % 32 == 0) {
            lines[head] = line;
            if (blockIdx.x == 0)
                query.lines[head] = line;
        }
    }
    __syncthreads();
    for (int round = firstRound + int(blockIdx.x); round < endRound; round += int(gridDim.x)) {
        const int group = groupOf(round);
        float best = -INFINITY;
        const auto use = [&](float product, int head) {
            best = fmaxf(best, __fmaf_rn(product, lines[head].x, lines[head].y));
        };
#pragma unroll
        for (int kvHead = 0; kvHead < early; ++kvHead) {
#pragma unroll
            for (int h = 0; h < pairs; ++h) {
                if (kvHead < kvHeads) {
                    use(__low2float(ahead[kvHead][h]), kvHead * groupHeads + 2 * h);
                    use(__high2float(ahead[kvHead][h]), kvHead * groupHeads + 2 * h + 1);
                }
            }
        }
        load(round + int(gridDim.x));
        if (!groupWanted(group, query))
            continue;
        const __half* maxima = query.maxima + int64_t(group) * groupHeads;
        for (int kvHead = early; kvHead < kvHeads; ++kvHead) {
            for (int h = 0; h < groupHeads; ++h)
                use(__half2float(maxima[kvHead * headStride + h]), kvHead * groupHeads + h);
        }
        const uint32_t key = keyOf(best, group, query);
        query.groupKeys[group] = key;
        atomicAdd(&bins[key >> binShift], 1u);
    }
    __syncthreads();
    if (bins[threadIdx.x])
        atomicAdd(query.histogram + threadIdx.x, bins[threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        isLast = atomicAdd(query.counters + Arrivals, 1) == min(int(gridDim.x), endRound - firstRound) - 1;
    __syncthreads();
    if (!isLast)
        return;
    __threadfence();
    bins[threadIdx.x] = __ldcg(query.histogram + threadIdx.x);
    query.histogram[threadIdx.x] = 0;
    __syncthreads();
    const uint32_t threshold =
        groupThreshold(query, firstRound * groupThreads, endRound * groupThreads, bins, scratch, &found);
    if (threadIdx.x == 0) {
        query.counters[Arrivals] = 0;
        query.counters[Threshold] = int(threshold);
    }
}

/// Keys of all tokens in the groups that reach the threshold: k of the tokens reach it at least. A query's blocks take
/// rounds of groups in turn; `listRoom`: groups of the rounds of one block.
__global__ void __launch_bounds__(tokenThreads, 2)
    sketchTokenKernel(const SketchQuery* queries, int heads, int kvHeads, int listRoom)
{
    extern __shared__ __align__(16) uint8_t shared[]; // the selection, then the list
    __shared__ uint2 gathered[tokenWarps][warpCandidates];
    __shared__ int listed;
    allowDependentLaunch();
    const SketchQuery query = queries[blockIdx.y];
    if (threadIdx.x == 0)
        listed = 0;
    waitForPreviousKernel();
    const int firstRound = query.begin / tokenRoundTokens + int(blockIdx.x);
    if (firstRound * tokenRoundTokens >= query.end || query.k <= 0)
        return;
    static_assert(sketchMaxTokens / sketchGroupTokens <= 1 << 16);
    uint16_t* list = reinterpret_cast<uint16_t*>(shared + selectionBytes(kvHeads));
    const uint32_t threshold = uint32_t(__ldcg(query.counters + Threshold));
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Selection selection = prepareSelection(shared, query, heads, kvHeads);
    __syncthreads();
    constexpr int ahead = 4; // rounds whose keys are loaded together
    for (int base = 0; base < listRoom; base += ahead * tokenThreads) {
        uint32_t keys[ahead];
        const auto groupAt = [&](int i) {
            return (firstRound + (base / tokenThreads + i) * int(gridDim.x)) * tokenThreads + int(threadIdx.x);
        };
        const auto wanted = [&](int i) { return base + i * tokenThreads < listRoom && groupWanted(groupAt(i), query); };
#pragma unroll
        for (int i = 0; i < ahead; ++i)
            keys[i] = wanted(i) ? query.groupKeys[groupAt(i)] : 0;
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const bool reaches = wanted(i) && keys[i] >= threshold;
            const unsigned all = __ballot_sync(fullMask, reaches);
            int at = 0;
            if (lane == 0 && all)
                at = atomicAdd(&listed, __popc(all));
            at = __shfl_sync(fullMask, at, 0) + __popc(all & ((1u << lane) - 1));
            if (reaches) {
                list[at] = uint16_t(groupAt(i));
                prefetchGroup(query, groupAt(i), kvHeads);
            }
        }
    }
    __syncthreads();
    const int room = int(sketchCandidates(query.k));
    int mine = 0; // candidates that the warp has gathered
    const auto write = [&] {
        __syncwarp();
        int at = 0;
        if (lane == 0)
            at = atomicAdd(query.counters + Candidates, mine);
        at = __shfl_sync(fullMask, at, 0);
        for (int i = lane; i < mine; i += 32) {
            if (at + i < room)
                query.candidates[at + i] = gathered[warp][i];
        }
        __syncwarp();
        mine = 0;
    };
    for (int pair = warp * 2; pair < listed; pair += tokenWarps * 2) {
        forTokensOfGroups(query, selection, kvHeads, list[pair], pair + 1 < listed ? list[pair + 1] : -1,
                          [&](int token, uint32_t key) {
                              const bool taken = token >= 0 && key >= threshold;
                              const unsigned all = __ballot_sync(fullMask, taken);
                              if (mine + __popc(all) > warpCandidates)
                                  write();
                              if (taken)
                                  gathered[warp][mine + __popc(all & ((1u << lane) - 1))] = uint2{key, uint32_t(token)};
                              mine += __popc(all);
                          });
    }
    if (mine > 0)
        write();
}

/// The k-th largest key among the candidates and how many of that key are needed, by radix.
template <typename ForEach>
__device__ __forceinline__ uint32_t kthKey(int& need, uint32_t* bins, int* scratch, int2* found, ForEach&& forEach)
{
    uint32_t prefix = 0;
    const auto narrow = [&](int shift, int bits, int above) { // above: bits that are known
        __syncthreads();
        for (int i = threadIdx.x; i < radixBins; i += pickThreads)
            bins[i] = 0;
        __syncthreads();
        forEach([&](int, uint32_t key) {
            if (above == 0 || key >> (32 - above) == prefix >> (32 - above))
                atomicAdd(&bins[key >> shift & ((1u << bits) - 1)], 1u);
        });
        __syncthreads();
        const int2 bin = findBin<radixBins, pickThreads>(bins, need, scratch, found);
        prefix |= uint32_t(bin.x) << shift;
        need -= bin.y;
    };
    narrow(21, 11, 0);
    narrow(10, 11, 11);
    narrow(0, 10, 22);
    return prefix;
}

/// The picks among the candidates, and their lifts.
__global__ void __launch_bounds__(pickThreads) sketchPickKernel(const SketchQuery* queries, int heads, int kvHeads)
{
    extern __shared__ __align__(16) uint8_t shared[];
    uint32_t* taken = reinterpret_cast<uint32_t*>(shared); // (maxWords): bits of the tokens
    uint32_t* bins = taken + maxWords;                     // (firstBins), or bits of equal tokens
    uint2* list = reinterpret_cast<uint2*>(bins);          // (sketchMaxPicks), later: keys and tokens that are taken
    uint2* members = list + sketchMaxPicks;                // (pickThreads): of the k-th's bin
    int* lower = reinterpret_cast<int*>(members); // (pickThreads), later: tokens taken in words of lower threads
    uint2* nearby = members + pickThreads;        // the first candidates, or operands where all tokens are scored
    __shared__ int scratch[33];
    __shared__ int2 found;
    __shared__ int numMembers, numListed;
    __shared__ uint32_t level; // key of the first that is not picked, or 0
    allowDependentLaunch();
    const SketchQuery query = queries[blockIdx.x];
    for (int i = threadIdx.x; i < maxWords + firstBins; i += pickThreads)
        taken[i] = 0;
    if (threadIdx.x == 0)
        numMembers = numListed = 0, level = 0;
    waitForPreviousKernel();
    const int range = query.end - query.begin, k = min(min(query.k, sketchMaxPicks), range);
    if (k <= 0) {
        if (threadIdx.x == 0)
            *query.numPicks = 0;
        return;
    }
    const int candidates = __ldcg(query.counters + Candidates), room = int(sketchCandidates(query.k));
    const uint32_t threshold = uint32_t(__ldcg(query.counters + Threshold));
#pragma unroll
    for (int i = 0; i < nearbyCandidates / pickThreads; ++i) { // beyond their number nobody looks
        if (int(threadIdx.x) + i * pickThreads < room)
            nearby[threadIdx.x + i * pickThreads] = __ldcg(query.candidates + threadIdx.x + i * pickThreads);
    }
    __syncthreads();
    const auto forEachListed = [&](auto&& use) {
        for (int i = threadIdx.x; i < min(candidates, nearbyCandidates); i += pickThreads)
            use(int(nearby[i].y), nearby[i].x);
        for (int base = nearbyCandidates; base < candidates; base += pickAhead * pickThreads) {
            uint2 some[pickAhead];
#pragma unroll
            for (int i = 0; i < pickAhead; ++i) {
                const int at = base + i * pickThreads + int(threadIdx.x);
                some[i] = at < candidates ? __ldcg(query.candidates + at) : uint2{};
            }
#pragma unroll
            for (int i = 0; i < pickAhead; ++i) {
                if (base + i * pickThreads + int(threadIdx.x) < candidates)
                    use(int(some[i].y), some[i].x);
            }
        }
    };
    const int ranks = min(k + 1, range); // keys are looked at down to that of the first that is not picked
    const bool behind = ranks > k;       // there is one
    const auto take = [&](int token, uint32_t key) {
        atomicOr(&taken[token / 32], 1u << (token % 32));
        list[appendTo(&numListed)] = uint2{key, uint32_t(token)};
    };
    bool done = false;
    if (candidates <= room) {
        const auto binOf = [&](uint32_t key) {
            return int(min((key - threshold) >> firstShift, uint32_t(firstBins - 1)));
        };
        forEachListed([&](int, uint32_t key) { atomicAdd(&bins[binOf(key)], 1u); });
        __syncthreads();
        const int2 bin = findBin<firstBins, pickThreads>(bins, ranks, scratch, &found);
        const int inBin = int(bins[bin.x]), need = ranks - bin.y;
        if (bin.x < firstBins - 1 && inBin <= pickThreads) {
            __syncthreads(); // the list takes the bins' place
            forEachListed([&](int token, uint32_t key) {
                if (binOf(key) > bin.x)
                    take(token, key);
                else if (binOf(key) == bin.x)
                    members[appendTo(&numMembers)] = uint2{key, uint32_t(token)};
            });
            __syncthreads();
            if (int(threadIdx.x) < inBin) {
                const uint2 own = members[threadIdx.x];
                int ahead = 0;
                for (int i = 0; i < inBin; ++i)
                    ahead += members[i].x > own.x || (members[i].x == own.x && members[i].y < own.y);
                if (ahead < need - int(behind))
                    take(int(own.y), own.x);
                else if (ahead < need)
                    level = own.x;
            }
            done = true;
        }
    }
    if (!done) { // many of one key, keys far apart, or more candidates than there is room for
        Selection selection{};
        const bool scored = candidates <= room;
        __syncthreads();
        if (!scored)
            selection = prepareSelection(nearby, query, heads, kvHeads);
        const auto forEach = [&](auto&& use) {
            if (scored) {
                forEachListed(use);
                return;
            }
            const int last = (query.end + sketchBlockTokens - 1) / sketchBlockTokens * blockGroups;
            for (int group = query.begin / sketchBlockTokens * blockGroups + int(threadIdx.x / 32) * 2; group < last;
                 group += pickThreads / 32 * 2) {
                const auto wanted = [&](int which) {
                    return groupWanted(which, query) && query.groupKeys[which] >= threshold ? which : -1;
                };
                const int group0 = wanted(group), group1 = wanted(group + 1);
                if (group0 >= 0 || group1 >= 0)
                    forTokensOfGroups(query, selection, kvHeads, group0, group1, [&](int token, uint32_t key) {
                        if (token >= 0 && key >= threshold)
                            use(token, key);
                    });
            }
        };
        int need = ranks;
        const uint32_t kth = kthKey(need, bins, scratch, &found, forEach);
        __syncthreads();
        for (int i = threadIdx.x; i < maxWords; i += pickThreads)
            bins[i] = 0;
        __syncthreads();
        forEach([&](int token, uint32_t key) {
            if (key == kth)
                atomicOr(&bins[token / 32], 1u << (token % 32));
        });
        __syncthreads();
        if (threadIdx.x == 0 && behind)
            level = kth;
        int own = 0, total;
        for (int i = 0; i < wordsPerThread; ++i)
            own += __popc(bins[threadIdx.x * wordsPerThread + i]);
        int left = need - int(behind) - exclusiveScan(own, scratch, total); // of the equal ones the lowest
        for (int i = 0; i < wordsPerThread; ++i) {
            const int word = threadIdx.x * wordsPerThread + i;
            for (uint32_t equal = bins[word]; equal && left > 0; equal &= equal - 1, --left)
                taken[word] |= equal & (~equal + 1);
        }
        __syncthreads(); // the list takes the bits' place
        forEach([&](int token, uint32_t key) {
            if (key > kth || (key == kth && taken[token / 32] >> token % 32 & 1))
                take(token, key);
        });
    }
    __syncthreads();

    // A thread owns a run of words, so that ranks follow the token.
    const int firstWord = threadIdx.x * wordsPerThread;
    int picked = 0, total;
#pragma unroll
    for (int i = 0; i < wordsPerThread; i += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(taken + firstWord + i);
        picked += __popc(four.x) + __popc(four.y) + __popc(four.z) + __popc(four.w);
    }
    lower[threadIdx.x] = exclusiveScan(picked, scratch, total);
    __syncthreads();
    const uint32_t tau = level;
    for (int i = threadIdx.x; i < total; i += pickThreads) {
        const uint32_t key = list[i].x;
        const int token = int(list[i].y), run = token / 32 / wordsPerThread;
        int rank = lower[run] + __popc(taken[token / 32] & ((1u << token % 32) - 1));
        for (int word = run * wordsPerThread; word < token / 32; ++word)
            rank += __popc(taken[word]);
        query.picks[rank] = token;
        if (query.lifts) {
            const uint32_t own = key - groupBoost(groupOfToken(token));
            query.lifts[rank] = own < tau ? float(tau - own) * (1.0f / sketchKeyUnit) : 0.0f;
        }
    }
    if (threadIdx.x == 0) {
        *query.numPicks = total;
        query.counters[Candidates] = 0;
        query.counters[Exhaustive] += candidates > room;
    }
}

} // namespace

cudaError_t launchSketchPick(const SketchQuery* queries, int numQueries, const SketchRows* rows, int numRows,
                             int maxRows, int heads, int kvHeads, std::int64_t maxTokens, cudaStream_t stream,
                             SketchWay way)
{
    if (numQueries < 0 || numQueries > 65535 || heads > 256)
        return cudaErrorInvalidValue;
    if (numQueries == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(launchSketchScan(queries, rows, numRows, maxRows, heads, kvHeads, maxTokens, stream));
    if (maxTokens == 0)
        return cudaSuccess;
    if (way == SketchWay::Best) {
        const cudaError_t status = launchSketchPickFew(queries, numQueries, heads, kvHeads, maxTokens, stream);
        if (status != cudaErrorNotSupported)
            return status;
    }
    const int groupHeads = heads / kvHeads;
    const auto groupKernel = groupHeads == 6   ? sketchGroupKernel<6>
                             : groupHeads == 2 ? sketchGroupKernel<2>
                                               : sketchGroupKernel<0>;
    // Few blocks to a query where there are many queries, as each of them first makes what all its groups need.
    const auto blocks = [&](int roundTokens, int perMultiprocessor) {
        const std::int64_t rounds = (maxTokens + roundTokens - 1) / roundTokens;
        return std::clamp<std::int64_t>(perMultiprocessor * deviceMultiprocessors() / numQueries, 1, rounds);
    };
    const dim3 groupGrid(static_cast<unsigned>(blocks(groupRoundTokens, 1)), numQueries);
    OCTAVO_CUDA_TRY(launchDependent(groupKernel, groupGrid, groupThreads, 0, stream, queries, heads, kvHeads));
    const dim3 tokenGrid(static_cast<unsigned>(blocks(tokenRoundTokens, 2)), numQueries);
    const int rounds = static_cast<int>((maxTokens + tokenRoundTokens - 1) / tokenRoundTokens);
    const int listRoom = (rounds + int(tokenGrid.x) - 1) / int(tokenGrid.x) * tokenThreads;
    const int tokenBytes = selectionBytes(kvHeads) + listRoom * int(sizeof(std::uint16_t));
    OCTAVO_CUDA_TRY(cudaFuncSetAttribute(sketchTokenKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, tokenBytes));
    OCTAVO_CUDA_TRY(launchDependent(sketchTokenKernel, tokenGrid, tokenThreads, tokenBytes, stream, queries, heads,
                                    kvHeads, listRoom));
    constexpr int pickBytes = (maxWords + firstBins) * 4 + (pickThreads + nearbyCandidates) * int(sizeof(uint2));
    static_assert(selectionBytes(sketchMaxKvHeads) <= nearbyCandidates * int(sizeof(uint2)));
    OCTAVO_CUDA_TRY(cudaFuncSetAttribute(sketchPickKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, pickBytes));
    OCTAVO_CUDA_TRY(
        launchDependent(sketchPickKernel, numQueries, pickThreads, pickBytes, stream, queries, heads, kvHeads));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
