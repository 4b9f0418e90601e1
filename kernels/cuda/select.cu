#include "kernels/cuda/select.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int filterThreads = 256;
constexpr int filterKeys = 4096; // of one block
constexpr int pickThreads = 1024;
constexpr int maxWords = selectMaxKeys / 32;
constexpr int wordsPerThread = maxWords / pickThreads;
constexpr int nearbyCandidates = 4096; // kept in shared memory
constexpr int tieBins = 1024;          // of ten bits of the key's low twenty

/// Sum of the values of lower threads; `total` is everyone's. Scratch: 33 ints; ends with a barrier.
__device__ __forceinline__ int exclusiveScan(int value, int* scratch, int& total)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int inclusive = value;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const int other = __shfl_up_sync(fullMask, inclusive, step);
        if (lane >= step)
            inclusive += other;
    }
    if (lane == 31)
        scratch[warp] = inclusive;
    __syncthreads();
    if (warp == 0) {
        const int own = lane < int(blockDim.x / 32) ? scratch[lane] : 0;
        int sum = own;
#pragma unroll
        for (int step = 1; step < 32; step <<= 1) {
            const int other = __shfl_up_sync(fullMask, sum, step);
            if (lane >= step)
                sum += other;
        }
        scratch[lane] = sum - own;
        if (lane == 31)
            scratch[32] = sum;
    }
    __syncthreads();
    const int result = scratch[warp] + inclusive - value;
    total = scratch[32];
    __syncthreads();
    return result;
}

/// The bin that holds the k-th largest, and how many lie above it. Every thread gets both. counts[] of `bins`, a
/// multiple of the block's threads, bins <= 4096. The k-th exists.
template <int Bins, int Threads>
__device__ __forceinline__ int2 findBin(const uint32_t* counts, int k, int* scratch, int2* result)
{
    constexpr int each = Bins / Threads;
    const int highest = Bins - 1 - threadIdx.x * each; // descending with the thread
    int own = 0;
#pragma unroll
    for (int i = 0; i < each; ++i)
        own += static_cast<int>(counts[highest - i]);
    int total;
    int above = exclusiveScan(own, scratch, total);
    if (above < k && above + own >= k) {
        int bin = highest;
        while (above + static_cast<int>(counts[bin]) < k)
            above += static_cast<int>(counts[bin--]);
        *result = int2{bin, above};
    }
    __syncthreads();
    return *result;
}

__global__ void __launch_bounds__(filterThreads) histogramKernel(const SelectQuery* queries)
{
    __shared__ uint32_t bins[selectBins];
    allowDependentLaunch();
    const SelectQuery query = queries[blockIdx.y];
    waitForPreviousKernel();
    const int first = blockIdx.x * filterKeys;
    if (first >= query.end || first + filterKeys <= query.begin)
        return;
    for (int i = threadIdx.x; i < selectBins; i += filterThreads)
        bins[i] = 0;
    __syncthreads();
    for (int i = max(first, query.begin) + threadIdx.x; i < min(query.end, first + filterKeys); i += filterThreads)
        atomicAdd(&bins[query.keys[i] >> 20], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < selectBins; i += filterThreads) {
        if (bins[i])
            atomicAdd(query.histogram + i, bins[i]);
    }
}

/// Marks what lies above the k-th's bin and gathers the bin itself.
__global__ void __launch_bounds__(filterThreads) filterKernel(const SelectQuery* queries)
{
    __shared__ int scratch[33];
    __shared__ int2 found;
    allowDependentLaunch();
    const SelectQuery query = queries[blockIdx.y];
    waitForPreviousKernel();
    const int first = blockIdx.x * filterKeys;
    const int k = min(query.k, query.end - query.begin);
    if (first >= query.end || first + filterKeys <= query.begin || k <= 0)
        return;
    const int bin = findBin<selectBins, filterThreads>(query.histogram, k, scratch, &found).x;
    constexpr int each = filterKeys / filterThreads;
    uint32_t keys[each];
#pragma unroll
    for (int j = 0; j < each; ++j) {
        const int i = first + j * filterThreads + int(threadIdx.x);
        keys[j] = i >= query.begin && i < query.end ? query.keys[i] : 0;
    }
#pragma unroll
    for (int j = 0; j < each; ++j) {
        const int i = first + j * filterThreads + int(threadIdx.x);
        const bool inside = i >= query.begin && i < query.end;
        const int keyBin = inside ? static_cast<int>(keys[j] >> 20) : -1;
        const unsigned above = __ballot_sync(fullMask, keyBin > bin);
        if (threadIdx.x % 32 == 0 && above)
            query.taken[i / 32] = static_cast<int>(above);
        if (keyBin == bin) {
            const int at = atomicAdd(query.counters, 1);
            if (at < selectMaxCandidates)
                query.candidates[at] = uint2{keys[j], static_cast<uint32_t>(i)};
        }
    }
}

__global__ void __launch_bounds__(pickThreads) pickKernel(const SelectQuery* queries)
{
    extern __shared__ uint32_t
        ties[]; // (maxWords): candidates whose key is the k-th itself, then the nearest candidates
    uint2* nearby = reinterpret_cast<uint2*>(ties + maxWords);
    __shared__ uint32_t bins[tieBins];
    __shared__ int scratch[33];
    __shared__ int2 found;
    allowDependentLaunch();
    const SelectQuery query = queries[blockIdx.x];
    waitForPreviousKernel();
    const int count = query.end - query.begin;
    const int k = min(query.k, count);
    if (k <= 0) {
        if (threadIdx.x == 0)
            *query.numPicks = 0;
        for (int i = threadIdx.x; i < selectBins; i += pickThreads)
            query.histogram[i] = 0;
        return;
    }
    for (int i = threadIdx.x; i < maxWords; i += pickThreads)
        ties[i] = 0;
    const int2 coarse = findBin<selectBins, pickThreads>(query.histogram, k, scratch, &found);
    const int candidates = query.counters[0];
    for (int i = threadIdx.x; i < min(candidates, nearbyCandidates); i += pickThreads)
        nearby[i] = query.candidates[i];
    __syncthreads();
    const auto forEachCandidate = [&](auto&& use) {
        if (candidates <= selectMaxCandidates) {
            for (int i = threadIdx.x; i < candidates; i += pickThreads) {
                const uint2 candidate = i < nearbyCandidates ? nearby[i] : query.candidates[i];
                use(static_cast<int>(candidate.y), candidate.x & 0xfffffu);
            }
        } else {
            for (int i = query.begin + int(threadIdx.x); i < query.end; i += pickThreads) {
                const uint32_t key = query.keys[i];
                if (static_cast<int>(key >> 20) == coarse.x)
                    use(i, key & 0xfffffu);
            }
        }
    };
    const auto count10 = [&](auto&& binOf) {
        __syncthreads();
        for (int i = threadIdx.x; i < tieBins; i += pickThreads)
            bins[i] = 0;
        __syncthreads();
        forEachCandidate([&](int, uint32_t low) {
            const int bin = binOf(low);
            if (bin >= 0)
                atomicAdd(&bins[bin], 1u);
        });
        __syncthreads();
    };
    int need = k - coarse.y;
    count10([](uint32_t low) { return static_cast<int>(low >> 10); });
    const int2 middle = findBin<tieBins, pickThreads>(bins, need, scratch, &found);
    need -= middle.y;
    count10([&](uint32_t low) { return static_cast<int>(low >> 10) == middle.x ? static_cast<int>(low & 1023) : -1; });
    const int2 fine = findBin<tieBins, pickThreads>(bins, need, scratch, &found);
    need -= fine.y; // so many of the equal keys, lowest index first
    const uint32_t threshold = uint32_t(middle.x) << 10 | uint32_t(fine.x);
    forEachCandidate([&](int index, uint32_t low) {
        if (low > threshold)
            atomicOr(query.taken + index / 32, 1 << (index % 32));
        else if (low == threshold)
            atomicOr(&ties[index / 32], 1u << (index % 32));
    });
    __threadfence_block();
    __syncthreads();

    // A thread owns a run of words, so that ranks follow the index.
    const int firstWord = threadIdx.x * wordsPerThread;
    int own = 0, total;
#pragma unroll
    for (int i = 0; i < wordsPerThread; ++i)
        own += __popc(ties[firstWord + i]);
    int left = need - exclusiveScan(own, scratch, total);
    uint32_t words[wordsPerThread];
    int picked = 0;
#pragma unroll
    for (int i = 0; i < wordsPerThread; ++i) {
        uint32_t tied = ties[firstWord + i];
        uint32_t word = static_cast<uint32_t>(__ldcg(query.taken + firstWord + i));
        query.taken[firstWord + i] = 0;
        while (tied && left > 0) {
            word |= tied & (~tied + 1);
            tied &= tied - 1;
            --left;
        }
        words[i] = word;
        picked += __popc(word);
    }
    int at = exclusiveScan(picked, scratch, total);
#pragma unroll
    for (int i = 0; i < wordsPerThread; ++i) {
        for (uint32_t word = words[i]; word; word &= word - 1)
            query.picks[at++] = (firstWord + i) * 32 + __ffs(static_cast<int>(word)) - 1;
    }
    for (int i = threadIdx.x; i < selectBins; i += pickThreads)
        query.histogram[i] = 0;
    if (threadIdx.x == 0) {
        *query.numPicks = total;
        query.counters[0] = 0;
    }
}

} // namespace

cudaError_t launchSelect(const SelectQuery* queries, int numQueries, std::int64_t maxKeys, SelectHistogram histogram,
                         cudaStream_t stream)
{
    if (numQueries < 0 || maxKeys < 0 || maxKeys > selectMaxKeys)
        return cudaErrorInvalidValue;
    if (numQueries == 0 || maxKeys == 0)
        return cudaSuccess;
    const dim3 grid(static_cast<unsigned>((maxKeys + filterKeys - 1) / filterKeys), numQueries);
    if (histogram == SelectHistogram::Missing)
        OCTAVO_CUDA_TRY(launchDependent(histogramKernel, grid, filterThreads, 0, stream, queries));
    OCTAVO_CUDA_TRY(launchDependent(filterKernel, grid, filterThreads, 0, stream, queries));
    constexpr int sharedBytes = maxWords * 4 + nearbyCandidates * 8;
    OCTAVO_CUDA_TRY(cudaFuncSetAttribute(pickKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes));
    OCTAVO_CUDA_TRY(launchDependent(pickKernel, numQueries, pickThreads, sharedBytes, stream, queries));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
