#include "kernels/cuda/hot_buffer.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/select_math.cuh"

#include <climits>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int lookupThreads = 1024;
constexpr int mostRounds = hotMaxPicks / lookupThreads; // of a pick for each thread, in one list
constexpr uint8_t inUse = 2;                            // a pick of this step; only while the kernels run

constexpr int roundsAhead = 8;  // whose loads are under way together
constexpr int listsAtOnce = 64; // kept in shared memory

constexpr int settled = -2; // in slotOfToken: a token that has its place among the misses

/// The same while places are given: of the threads that miss a token the lowest one's claim stays.
__device__ __forceinline__ int claim(int thread)
{
    return INT_MIN + thread;
}

__device__ __forceinline__ int picksOf(const HotLookup& l, const HotList& list)
{
    return min(*list.numPicks, min(l.slots, hotMaxPicks));
}

/// The calling thread's pick of a round.
__device__ __forceinline__ int pickOf(int round)
{
    return round * lookupThreads + int(threadIdx.x);
}

/// A slot for each of missTokens. By all threads, who see it behind; begins with a barrier.
__device__ __forceinline__ void makeRoom(const HotLookup& l, int misses, int* scratch, int* lastVisited)
{
    __syncthreads();
    int placed = 0, next = *l.hand;
    const int width = min(lookupThreads, l.slots); // at most one round at a time: no slot is seen twice in one pass
    // The first round takes marks off, the second finds what it needs, wherever a pass begins.
    for (int64_t visited = 0; placed < misses && visited < 3 * int64_t(l.slots); visited += width) {
        const int slot = (next + int(threadIdx.x)) % l.slots;
        const bool seen = int(threadIdx.x) < width;
        const uint8_t mark = seen ? l.marks[slot] : inUse;
        const int old = seen ? l.tokenOfSlot[slot] : -1;
        int evictable;
        const int rank = rankOf(seen && mark == 0, scratch, evictable);
        const bool victim = seen && mark == 0 && placed + rank < misses;
        if (threadIdx.x == 0)
            *lastVisited = width - 1;
        __syncthreads();
        if (victim && placed + rank == misses - 1)
            *lastVisited = threadIdx.x; // the hand stops behind the last victim
        __syncthreads();
        if (seen && int(threadIdx.x) <= *lastVisited && mark == 1)
            l.marks[slot] = 0;
        if (victim) {
            const int miss = placed + rank;
            if (old >= 0)
                l.slotOfToken[old] = -1;
            const int token = l.missTokens[miss];
            l.tokenOfSlot[slot] = token;
            l.slotOfToken[token] = slot;
            l.marks[slot] = inUse;
            l.missSlots[miss] = slot;
        }
        placed += min(evictable, misses - placed);
        next = (next + *lastVisited + 1) % l.slots;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        *l.hand = next;
        *l.numMisses = misses;
    }
}

/// Ranks of the set flags of all threads, round by round; returns their number. By all lookupThreads threads. Scratch:
/// (mostRounds + 1, 32), 16-byte aligned.
__device__ __forceinline__ int ranksOf(const bool (&flags)[mostRounds], int (&ranks)[mostRounds], int (*scratch)[32])
{
    static_assert(mostRounds == 4 && lookupThreads == 1024, "a lane of the first warp has four of the counts");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < mostRounds; ++r) {
        const unsigned ballot = __ballot_sync(fullMask, flags[r]);
        ranks[r] = __popc(ballot & ((1u << lane) - 1));
        if (lane == 0)
            scratch[r][warp] = __popc(ballot);
    }
    __syncthreads();
    if (warp == 0) {
        int4* counts = reinterpret_cast<int4*>(&scratch[0][0]) + lane;
        const int4 own = *counts;
        const int all = own.x + own.y + own.z + own.w;
        int sum = all;
#pragma unroll
        for (int step = 1; step < 32; step <<= 1) {
            const int other = __shfl_up_sync(fullMask, sum, step);
            if (lane >= step)
                sum += other;
        }
        const int lower = sum - all;
        *counts = int4{lower, lower + own.x, lower + own.x + own.y, lower + own.x + own.y + own.z};
        if (lane == 31)
            scratch[mostRounds][0] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < mostRounds; ++r)
        ranks[r] += scratch[r][warp];
    return scratch[mostRounds][0];
}

/// The whole lookup of a single list.
__device__ __forceinline__ void lookUpOne(const HotLookup& l, const HotList& list, int (*counts)[32], int* scratch,
                                          int* lastVisited)
{
    const int picks = picksOf(l, list);
    int tokens[mostRounds], slots[mostRounds], misses[mostRounds];
    bool missing[mostRounds];
#pragma unroll
    for (int r = 0; r < mostRounds; ++r)
        tokens[r] = pickOf(r) < picks ? list.picks[pickOf(r)] : -1;
#pragma unroll
    for (int r = 0; r < mostRounds; ++r)
        slots[r] = tokens[r] >= 0 ? l.slotOfToken[tokens[r]] : 0;
#pragma unroll
    for (int r = 0; r < mostRounds; ++r)
        missing[r] = slots[r] == -1;
    const int allMisses = ranksOf(missing, misses, counts);
    if (allMisses == 0 && threadIdx.x == 0)
        *l.numMisses = 0;
    if (allMisses > 0) {
#pragma unroll
        for (int r = 0; r < mostRounds; ++r) {
            if (missing[r])
                l.missTokens[misses[r]] = tokens[r];
            else if (tokens[r] >= 0)
                l.marks[slots[r]] = inUse;
        }
        makeRoom(l, allMisses, scratch, lastVisited);
#pragma unroll
        for (int r = 0; r < mostRounds; ++r)
            slots[r] = missing[r] ? l.missSlots[misses[r]] : slots[r];
    }
#pragma unroll
    for (int r = 0; r < mostRounds; ++r) {
        if (tokens[r] < 0)
            continue;
        list.rowIds[pickOf(r)] = slots[r];
        l.marks[slots[r]] = 1;
    }
}

/// The first of two kernels for lookups of several lists, a block per list: row ids of its picks, or -1. In missTokens
/// and missSlots each list has as many places as picks; there it leaves how many are missing, and which.
__global__ void __launch_bounds__(lookupThreads) hotFindKernel(const HotLookup* lookups)
{
    __shared__ int scratch[33];
    allowDependentLaunch();
    const HotLookup l = lookups[blockIdx.y];
    waitForPreviousKernel();
    if (int(blockIdx.x) >= l.numLists)
        return;
    const HotList list = l.lists[blockIdx.x];
    const int picks = picksOf(l, list);
    int slots[mostRounds];
#pragma unroll
    for (int r = 0; r < mostRounds; ++r)
        slots[r] = pickOf(r) < picks ? list.picks[pickOf(r)] : -1;
#pragma unroll
    for (int r = 0; r < mostRounds; ++r)
        slots[r] = slots[r] >= 0 ? l.slotOfToken[slots[r]] : 0;
    int lower = 0, place;
    for (int i = threadIdx.x; i < int(blockIdx.x); i += lookupThreads)
        lower += picksOf(l, l.lists[i]);
    exclusiveScan(lower, scratch, place);
    int misses = 0;
#pragma unroll
    for (int r = 0; r < mostRounds; ++r) {
        if (r * lookupThreads >= picks)
            break;
        int found;
        const int rank = rankOf(slots[r] == -1, scratch, found);
        if (pickOf(r) < picks) {
            list.rowIds[pickOf(r)] = slots[r];
            if (slots[r] >= 0)
                l.marks[slots[r]] = inUse;
            else
                l.missSlots[place + misses + rank] = pickOf(r);
        }
        misses += found;
    }
    if (threadIdx.x == 0 && picks > 0)
        l.missTokens[place] = misses;
}

/// Some of a lookup's lists, and the rounds of a pick for each thread that the longest of them takes: 1 << shift.
struct Lists {
    HotList lists[listsAtOnce];
    int picks[listsAtOnce];
    int places[listsAtOnce]; ///< of their first picks among those of all lists
    int ends[listsAtOnce];   ///< behind their missing picks, among those of these lists
    int shift;
};

/// Lists `first` .. first + listsAtOnce - 1 at most; returns how many. By all threads; begins and ends with a barrier.
__device__ __forceinline__ int takeLists(const HotLookup& l, int first, Lists& taken)
{
    const int lists = min(l.numLists - first, listsAtOnce);
    __syncthreads();
    if (threadIdx.x == 0)
        taken.shift = 0;
    __syncthreads();
    if (int(threadIdx.x) < lists) {
        const HotList list = l.lists[first + threadIdx.x];
        const int picks = picksOf(l, list);
        taken.lists[threadIdx.x] = list;
        taken.picks[threadIdx.x] = picks;
        const int rounds = (picks + lookupThreads - 1) / lookupThreads;
        atomicMax(&taken.shift, rounds > 1 ? 32 - __clz(rounds - 1) : 0);
    }
    __syncthreads();
    return lists;
}

/// A thread's pick of a round, list by list: where it is in its list, or -1.
__device__ __forceinline__ int pickAt(const Lists& taken, int lists, int round, int& list)
{
    list = round >> taken.shift;
    const int i = (round & ((1 << taken.shift) - 1)) * lookupThreads + int(threadIdx.x);
    return list < lists && i < taken.picks[list] ? i : -1;
}

/// From what hotFindKernel() left: tokens that are not here to missTokens, each once, in the lists' order; how many.
__device__ __forceinline__ int collectMisses(const HotLookup& l, Lists& taken, int* scratch)
{
    int misses = 0, firstPlace = 0;
    for (int first = 0; first < l.numLists; first += listsAtOnce) {
        const int lists = takeLists(l, first, taken);
        const int picks = int(threadIdx.x) < lists ? taken.picks[threadIdx.x] : 0;
        int allPicks, allMissing;
        const int place = firstPlace + exclusiveScan(picks, scratch, allPicks);
        const int missing = picks > 0 ? l.missTokens[place] : 0;
        const int begin = exclusiveScan(missing, scratch, allMissing);
        if (threadIdx.x < listsAtOnce) {
            taken.places[threadIdx.x] = place;
            taken.ends[threadIdx.x] = begin + missing;
        }
        firstPlace += allPicks;
        __syncthreads();
        for (int base = 0; base < allMissing; base += lookupThreads) {
            const int i = base + int(threadIdx.x);
            int token = -1;
            if (i < allMissing) {
                int list = 0;
#pragma unroll
                for (int step = listsAtOnce / 2; step > 0; step /= 2)
                    list += taken.ends[list + step - 1] <= i ? step : 0;
                const int inList = i - (list > 0 ? taken.ends[list - 1] : 0);
                token = taken.lists[list].picks[l.missSlots[taken.places[list] + inList]];
                if (__ldcg(l.slotOfToken + token) == settled) // by a round before
                    token = -1;
                else
                    atomicMin(l.slotOfToken + token, claim(int(threadIdx.x)));
            }
            __syncthreads();
            const bool own = token >= 0 && __ldcg(l.slotOfToken + token) == claim(int(threadIdx.x));
            int found;
            const int miss = misses + rankOf(own, scratch, found);
            if (own) {
                l.missTokens[miss] = token;
                l.slotOfToken[token] = settled;
            }
            misses += found;
            __syncthreads();
        }
    }
    return misses;
}

/// Slots in place of what was missing, and marks on all.
__device__ __forceinline__ void answerAll(const HotLookup& l, Lists& taken)
{
    for (int first = 0; first < l.numLists; first += listsAtOnce) {
        const int lists = takeLists(l, first, taken);
        for (int base = 0; base < lists << taken.shift; base += roundsAhead) {
            int slots[roundsAhead], list;
#pragma unroll
            for (int r = 0; r < roundsAhead; ++r) {
                const int i = pickAt(taken, lists, base + r, list);
                slots[r] = i >= 0 ? taken.lists[list].rowIds[i] : 0;
            }
#pragma unroll
            for (int r = 0; r < roundsAhead; ++r) {
                const int i = pickAt(taken, lists, base + r, list);
                if (i < 0)
                    continue;
                if (slots[r] < 0)
                    taken.lists[list].rowIds[i] = slots[r] = __ldcg(l.slotOfToken + taken.lists[list].picks[i]);
                l.marks[slots[r]] = 1;
            }
        }
    }
}

__global__ void __launch_bounds__(lookupThreads) hotLookupKernel(const HotLookup* lookups)
{
    __shared__ __align__(16) int counts[mostRounds + 1][32];
    __shared__ int scratch[33];
    __shared__ int lastVisited;
    __shared__ Lists taken;
    allowDependentLaunch();
    const HotLookup l = lookups[blockIdx.x];
    HotList only{};
    if (l.numLists == 1)
        only = l.lists[0];
    waitForPreviousKernel();
    if (l.numLists == 1) {
        lookUpOne(l, only, counts, scratch, &lastVisited);
        return;
    }
    const int misses = collectMisses(l, taken, scratch);
    makeRoom(l, misses, scratch, &lastVisited);
    answerAll(l, taken);
}

__global__ void __launch_bounds__(256) gatherKernel(const GatherMisses* sequences, int numSequences, int rowBytes)
{
    __shared__ int ends[gatherMaxSequences];
    __shared__ GatherMisses all[gatherMaxSequences];
    allowDependentLaunch();
    if (int(threadIdx.x) < numSequences)
        all[threadIdx.x] = sequences[threadIdx.x];
    waitForPreviousKernel();
    if (int(threadIdx.x) < numSequences)
        ends[threadIdx.x] = *all[threadIdx.x].count;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int s = 1; s < numSequences; ++s)
            ends[s] += ends[s - 1];
    }
    __syncthreads();
    const int chunksPerRow = rowBytes / 16;
    const int64_t chunks = int64_t(ends[numSequences - 1]) * chunksPerRow;
    const int64_t stride = int64_t(gridDim.x) * blockDim.x;
    for (int64_t chunk = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; chunk < chunks; chunk += stride) {
        const int row = static_cast<int>(chunk / chunksPerRow);
        const int inRow = static_cast<int>(chunk % chunksPerRow) * 16;
        int s = 0;
        while (row >= ends[s])
            ++s;
        const GatherMisses& g = all[s];
        const int miss = row - (s ? ends[s - 1] : 0);
        const int token = g.tokens[miss];
        const uint8_t* source = g.pages.pages ? g.pages.pages[token / rowPageTokens] + g.pages.offset +
                                                    int64_t(token % rowPageTokens) * rowBytes
                                              : g.hostRows + int64_t(token) * rowBytes;
        const uint4 value = __ldcv(reinterpret_cast<const uint4*>(source + inRow));
        *reinterpret_cast<uint4*>(g.rows + int64_t(g.slots[miss]) * rowBytes + inRow) = value;
    }
    if (blockIdx.x == 0 && int(threadIdx.x) < numSequences)
        atomicAdd(all[threadIdx.x].bytesRead, static_cast<unsigned long long>(*all[threadIdx.x].count) * rowBytes);
}

} // namespace

cudaError_t launchHotLookup(const HotLookup* lookups, int numLookups, int maxLists, cudaStream_t stream)
{
    if (numLookups < 0 || maxLists < 1 || numLookups > 65535)
        return cudaErrorInvalidValue;
    if (numLookups == 0)
        return cudaSuccess;
    if (maxLists > 1)
        OCTAVO_CUDA_TRY(launchDependent(hotFindKernel, dim3(maxLists, numLookups), lookupThreads, 0, stream, lookups));
    OCTAVO_CUDA_TRY(launchDependent(hotLookupKernel, numLookups, lookupThreads, 0, stream, lookups));
    return cudaGetLastError();
}

cudaError_t launchGatherMisses(const GatherMisses* misses, int numSequences, int rowBytes, int blocks,
                               cudaStream_t stream)
{
    if (numSequences < 0 || numSequences > gatherMaxSequences || rowBytes <= 0 || rowBytes % 16 != 0 || blocks < 0)
        return cudaErrorInvalidValue;
    if (numSequences == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(
        launchDependent(gatherKernel, blocks > 0 ? blocks : 264, 256, 0, stream, misses, numSequences, rowBytes));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
