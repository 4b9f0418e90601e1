#include "kernels/cuda/hot_buffer.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/select_math.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int lookupThreads = 1024;
constexpr uint8_t inUse = 2; // a pick of this step; only while the kernel runs

constexpr int roundsAhead = 8;  // whose loads are under way together
constexpr int listsAtOnce = 64; // kept in shared memory

/// A token on its way: its place among the misses, until its slot is known.
__device__ __forceinline__ int expected(int miss)
{
    return -2 - miss;
}

/// Some of a lookup's lists, and the rounds of a pick for each thread that the longest of them takes: 1 << shift.
struct Lists {
    HotList lists[listsAtOnce];
    int picks[listsAtOnce];
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
        const int picks = min(*list.numPicks, min(l.slots, hotMaxPicks));
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

/// A round: where a thread's pick is in the buffer, slot -1 being a miss; rowId: null without a pick. By all threads.
__device__ __forceinline__ void ask(const HotLookup& l, int32_t* rowId, int token, int slot, int& misses, int* scratch)
{
    int found;
    const bool missing = slot == -1;
    const int miss = misses + rankOf(missing, scratch, found);
    if (missing) {
        l.missTokens[miss] = token;
        l.slotOfToken[token] = expected(miss);
    }
    if (rowId)
        *rowId = missing ? expected(miss) : slot;
    if (rowId && slot >= 0)
        l.marks[slot] = inUse;
    misses += found;
    __syncthreads();
}

/// Row ids of one list's picks, or expected() of those to bring, which are appended to missTokens; returns how many.
__device__ __forceinline__ int askForOne(const HotLookup& l, const HotList& list, int picks, int* scratch)
{
    int misses = 0;
    for (int base = 0; base < picks; base += lookupThreads) {
        const int i = base + int(threadIdx.x);
        const int token = i < picks ? list.picks[i] : 0;
        ask(l, i < picks ? list.rowIds + i : nullptr, token, i < picks ? l.slotOfToken[token] : 0, misses, scratch);
    }
    return misses;
}

/// The same of all lists, one after the other.
__device__ __forceinline__ int askForAll(const HotLookup& l, Lists& taken, int* scratch)
{
    int misses = 0;
    for (int first = 0; first < l.numLists; first += listsAtOnce) {
        const int lists = takeLists(l, first, taken);
        for (int base = 0; base < lists << taken.shift; base += roundsAhead) {
            int tokens[roundsAhead], slots[roundsAhead], list;
#pragma unroll
            for (int r = 0; r < roundsAhead; ++r) {
                const int i = pickAt(taken, lists, base + r, list);
                tokens[r] = i >= 0 ? taken.lists[list].picks[i] : -1;
            }
#pragma unroll
            for (int r = 0; r < roundsAhead; ++r)
                slots[r] = tokens[r] >= 0 ? l.slotOfToken[tokens[r]] : 0;
#pragma unroll
            for (int r = 0; r < roundsAhead; ++r) {
                if (base + r >= lists << taken.shift)
                    break;
                const int i = pickAt(taken, lists, base + r, list);
                int slot = slots[r];
                if (slot == -1 && misses > 0) // a round before may have missed it too
                    slot = __ldcg(l.slotOfToken + tokens[r]);
                ask(l, i >= 0 ? taken.lists[list].rowIds + i : nullptr, tokens[r], slot, misses, scratch);
            }
        }
    }
    return misses;
}

/// Slots in place of what was expected(), and marks on all.
__device__ __forceinline__ void answerOne(const HotLookup& l, const HotList& list, int picks)
{
    for (int i = threadIdx.x; i < picks; i += lookupThreads) {
        int slot = list.rowIds[i];
        if (slot < 0)
            list.rowIds[i] = slot = l.missSlots[expected(slot)];
        l.marks[slot] = 1;
    }
}

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
            int brought[roundsAhead];
#pragma unroll
            for (int r = 0; r < roundsAhead; ++r)
                brought[r] = slots[r] < 0 ? l.missSlots[expected(slots[r])] : slots[r];
#pragma unroll
            for (int r = 0; r < roundsAhead; ++r) {
                const int i = pickAt(taken, lists, base + r, list);
                if (i < 0)
                    continue;
                if (slots[r] < 0)
                    taken.lists[list].rowIds[i] = brought[r];
                l.marks[brought[r]] = 1;
            }
        }
    }
}

__global__ void __launch_bounds__(lookupThreads) hotLookupKernel(const HotLookup* lookups)
{
    __shared__ int scratch[33];
    __shared__ int lastVisited;
    __shared__ Lists taken;
    allowDependentLaunch();
    const HotLookup l = lookups[blockIdx.x];
    waitForPreviousKernel();

    const bool one = l.numLists == 1; // has too few rounds to gain by loads ahead
    const HotList list = one ? l.lists[0] : HotList{};
    const int picks = one ? min(*list.numPicks, min(l.slots, hotMaxPicks)) : 0;
    const int misses = one ? askForOne(l, list, picks, scratch) : askForAll(l, taken, scratch);

    const int start = *l.hand;
    int placed = 0, next = start;
    const int width = min(lookupThreads, l.slots); // at most one round at a time: no slot is seen twice in one pass
    // The first round takes marks off, the second finds what it needs, wherever a pass begins.
    for (int64_t visited = 0; placed < misses && visited < 3 * int64_t(l.slots); visited += width) {
        const int slot = (next + int(threadIdx.x)) % l.slots;
        const bool seen = int(threadIdx.x) < width;
        const uint8_t mark = seen ? l.marks[slot] : inUse;
        int evictable;
        const int rank = rankOf(seen && mark == 0, scratch, evictable);
        const bool victim = seen && mark == 0 && placed + rank < misses;
        if (threadIdx.x == 0)
            lastVisited = width - 1;
        __syncthreads();
        if (victim && placed + rank == misses - 1)
            lastVisited = threadIdx.x; // the hand stops behind the last victim
        __syncthreads();
        if (seen && int(threadIdx.x) <= lastVisited && mark == 1)
            l.marks[slot] = 0;
        if (victim) {
            const int miss = placed + rank;
            const int old = l.tokenOfSlot[slot];
            if (old >= 0)
                l.slotOfToken[old] = -1;
            const int token = l.missTokens[miss];
            l.tokenOfSlot[slot] = token;
            l.slotOfToken[token] = slot;
            l.marks[slot] = inUse;
            l.missSlots[miss] = slot;
        }
        placed += min(evictable, misses - placed);
        next = (next + lastVisited + 1) % l.slots;
        __syncthreads();
    }
    if (one)
        answerOne(l, list, picks);
    else
        answerAll(l, taken);
    if (threadIdx.x == 0) {
        *l.hand = next;
        *l.numMisses = misses;
    }
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

cudaError_t launchHotLookup(const HotLookup* lookups, int numLookups, cudaStream_t stream)
{
    if (numLookups < 0)
        return cudaErrorInvalidValue;
    if (numLookups == 0)
        return cudaSuccess;
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
