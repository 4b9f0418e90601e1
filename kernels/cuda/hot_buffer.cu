#include "kernels/cuda/hot_buffer.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/select_math.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int lookupThreads = 1024;
constexpr uint8_t inUse = 2; // a pick of this step; only while the kernel runs

/// A token on its way: its place among the misses, until its slot is known.
__device__ __forceinline__ int expected(int miss)
{
    return -2 - miss;
}

__global__ void __launch_bounds__(lookupThreads) hotLookupKernel(const HotLookup* lookups)
{
    __shared__ int scratch[33];
    __shared__ int lastVisited;
    allowDependentLaunch();
    const HotLookup l = lookups[blockIdx.x];
    waitForPreviousKernel();

    int misses = 0;
    for (int which = 0; which < l.numLists; ++which) {
        const HotList list = l.lists[which];
        const int picks = min(*list.numPicks, min(l.slots, hotMaxPicks));
        for (int base = 0; base < picks; base += lookupThreads) {
            const int i = base + threadIdx.x;
            const int token = i < picks ? list.picks[i] : 0;
            const int slot = i < picks ? l.slotOfToken[token] : 0;
            int found;
            const bool missing = slot == -1;
            const int miss = misses + rankOf(missing, scratch, found);
            if (missing) {
                l.missTokens[miss] = token;
                l.slotOfToken[token] = expected(miss);
            }
            if (i < picks)
                list.rowIds[i] = missing ? expected(miss) : slot;
            if (i < picks && slot >= 0)
                l.marks[slot] = inUse;
            misses += found;
            __syncthreads();
        }
    }

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
    for (int which = 0; which < l.numLists; ++which) {
        const HotList list = l.lists[which];
        const int picks = min(*list.numPicks, min(l.slots, hotMaxPicks));
        for (int i = threadIdx.x; i < picks; i += lookupThreads) {
            int slot = list.rowIds[i];
            if (slot < 0)
                list.rowIds[i] = slot = l.missSlots[expected(slot)];
            l.marks[slot] = 1;
        }
    }
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
