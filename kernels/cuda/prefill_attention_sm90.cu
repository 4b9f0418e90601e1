#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/prefill_attention.h"
#include "kernels/cuda/prefill_softmax.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/wgmma.cuh"

/// Prefill attention on sm_90a: two warpgroups of 64 pairs each, whose products read queries, keys and values straight
/// from shared memory. While a tile's weights meet its values, the scores of the next tile are already there to be
/// weighed. A thread beside them keeps a ring of tiles filled, in the order in which they are read: the first keys,
/// then each tile's next keys and its values. In the end gates take the queries' place, and the results theirs.

namespace octavo::kernels::cuda
{
namespace
{

constexpr int tileKeys = 80;
constexpr int stages = 4;    // tiles of keys or values in the ring
constexpr int consumers = 8; // warps, 16 pairs each
constexpr int threads = (consumers + 4) * 32;

constexpr int columnBlocks = kvHeadDim / 64; // of 128 bytes a row, as wgmma.cuh has them
constexpr int queryBlockBytes = prefillTileRows * 128, tileBlockBytes = tileKeys * 128;
constexpr int queryBytes = columnBlocks * queryBlockBytes, tileBytes = columnBlocks * tileBlockBytes;
constexpr int barriersOffset = queryBytes + stages * tileBytes;
constexpr int sharedBytes = barriersOffset + 2 * stages * 8 + 1024; // the first block begins on 1024 bytes

struct Shared {
    unsigned queries;

    __device__ __forceinline__ unsigned tile(int slot) const { return queries + queryBytes + slot * tileBytes; }
    __device__ __forceinline__ unsigned full(int slot) const { return queries + barriersOffset + slot * 8; }
    __device__ __forceinline__ unsigned empty(int slot) const { return full(stages + slot); }
};

/// What the thread for copies does.
__device__ __forceinline__ void bringTiles(const Shared& shared, const CUtensorMap& keys, const CUtensorMap& values,
                                           int kvHead, int tiles)
{
    RingAt<stages> at;
    const auto bring = [&](const CUtensorMap& map, int tile) {
        barrierWait(shared.empty(at.slot), at.phase ^ 1);
        barrierArriveExpect(shared.full(at.slot), tileBytes);
#pragma unroll
        for (int block = 0; block < columnBlocks; ++block)
            bulkCopyStackedBox(shared.tile(at.slot) + block * tileBlockBytes, &map, block * 64, tile * tileKeys, kvHead,
                               shared.full(at.slot));
        at.advance();
    };
    if (tiles > 0)
        bring(keys, 0);
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles)
            bring(keys, tile + 1);
        bring(values, tile);
    }
}

/// A warpgroup's way through the ring, and its products there.
struct Consumer {
    Shared shared;
    unsigned queries; // of the warpgroup's 64 pairs
    RingAt<stages> at;

    /// The slot of the next tile, once it has come.
    __device__ __forceinline__ int next()
    {
        const int slot = at.slot;
        barrierWait(shared.full(slot), at.phase);
        at.advance();
        return slot;
    }
    __device__ __forceinline__ void release(int slot) const
    {
        if (threadIdx.x % 32 == 0)
            barrierArrive(shared.empty(slot));
    }
    /// Starts s = queries times the slot's keys.
    __device__ __forceinline__ void score(float (&s)[tileKeys / 8][4], int slot) const
    {
        wgmmaHold(s);
        wgmmaBegin();
#pragma unroll
        for (int step = 0; step < kvHeadDim / 16; ++step)
            wgmma64x80(s, wgmmaMatrix(queries + step / 4 * queryBlockBytes + step % 4 * 32, 16),
                       wgmmaMatrix(shared.tile(slot) + step / 4 * tileBlockBytes + step % 4 * 32, 16), step > 0);
        wgmmaCommit();
    }
    /// Starts sums += weights times the slot's values.
    __device__ __forceinline__ void meetValues(float (&sums)[32][4], const uint32_t (&weights)[tileKeys / 16][4],
                                               int slot) const
    {
        wgmmaHold(sums);
        wgmmaBegin();
#pragma unroll
        for (int step = 0; step < tileKeys / 16; ++step)
            wgmma64x256(sums, weights[step], wgmmaMatrix(shared.tile(slot) + step * 16 * 128, tileBlockBytes));
        wgmmaCommit();
    }
};

__device__ __forceinline__ void weightFragments(const float (&s)[tileKeys / 8][4],
                                                uint32_t (&weights)[tileKeys / 16][4])
{
#pragma unroll
    for (int step = 0; step < tileKeys / 16; ++step)
        weightFragment(s, step, weights[step]);
}

__device__ __forceinline__ void scaleSums(float (&sums)[32][4], const float (&rescale)[2])
{
#pragma unroll
    for (int n = 0; n < 32; ++n) {
        sums[n][0] *= rescale[0], sums[n][1] *= rescale[0];
        sums[n][2] *= rescale[1], sums[n][3] *= rescale[1];
    }
}

/// The lane's number, asked for anew: addresses made of it are not kept in registers through the main loop.
__device__ __forceinline__ int laneAgain()
{
    int lane;
    asm volatile("mov.u32 %0, %%laneid;\n" : "=r"(lane));
    return lane;
}

/// Calls visit(place, row, head, column) for every warpgroup's 64 pairs, a pair to a warp at a time and eight columns
/// to a lane, which lie at `place` among the queries. Row -1 behind the last pair; the head is one of the group's.
template <typename Visit>
__device__ __forceinline__ void visitPairs(const Shared& shared, const PrefillBlock& block, int warp, Visit&& visit)
{
    const int lane = laneAgain(), first = warp / 4 * 64 + warp % 4;
    const int mine = block.first + first + lane % 16 * 4; // a lane divides for each of the warp's sixteen
    const int myRow = mine < block.total ? mine / block.groupHeads : -1, myHead = mine % block.groupHeads;
#pragma unroll 4
    for (int i = 0; i < 16; ++i) {
        const int at = first + i * 4;
        visit(shared.queries + lane / 8 * queryBlockBytes + at * 128 + ((lane % 8 ^ (at & 7)) * 16),
              __shfl_sync(fullMask, myRow, i), __shfl_sync(fullMask, myHead, i), lane * 8);
    }
}

__device__ __forceinline__ void loadQueries(const Shared& shared, const PrefillBlock& block, const PrefillQueries& q,
                                            int warp)
{
    visitPairs(shared, block, warp, [&](unsigned place, int row, int head, int column) {
        const int64_t at = (int64_t(row) * q.heads + block.kvHead * block.groupHeads + head) * kvHeadDim + column;
        copyAsync16(place, row >= 0 ? q.query + at : q.query, row >= 0);
    });
    copyAsyncCommit();
}

__device__ __forceinline__ void loadGates(const Shared& shared, const PrefillBlock& block, const PrefillQueries& q,
                                          int warp)
{
    visitPairs(shared, block, warp, [&](unsigned place, int row, int head, int column) {
        const int64_t at = row * q.gateStride + (block.kvHead * block.groupHeads + head) * q.gateHeadStride + column;
        copyAsync16(place, row >= 0 ? q.gate + at : q.gate, row >= 0);
    });
    copyAsyncCommit();
}

/// Sums over the softmax's sum, times the gates' sigmoid, as bf16 to where the gates were.
__device__ __forceinline__ void gateSums(const Shared& shared, const float (&sums)[32][4],
                                         const PrefillSoftmax<tileKeys>& softmax, int warp)
{
    const int lane = laneAgain();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float inverse = 1.0f / warpSum<3>(softmax.sum[h]);
        const int row = warp * 16 + lane / 4 + 8 * h;
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            const unsigned place =
                shared.queries + n / 8 * queryBlockBytes + row * 128 + ((n % 8 ^ (row & 7)) * 16) + lane % 4 * 4;
            const float2 gate = unpackBf16(loadShared4(place));
            storeShared4(place, packBf16(__fdividef(sums[n][2 * h] * inverse, 1.0f + __expf(-gate.x)),
                                         __fdividef(sums[n][2 * h + 1] * inverse, 1.0f + __expf(-gate.y))));
        }
    }
}

__device__ __forceinline__ void storeResults(const Shared& shared, const PrefillBlock& block, const PrefillQueries& q,
                                             int warp, __nv_bfloat16* out)
{
    visitPairs(shared, block, warp, [&](unsigned place, int row, int head, int column) {
        const int64_t at = (int64_t(row) * q.heads + block.kvHead * block.groupHeads + head) * kvHeadDim + column;
        if (row >= 0)
            *reinterpret_cast<uint4*>(out + at) = loadShared16(place);
    });
}

__global__ void __launch_bounds__(threads, 1)
    prefillAttentionSm90Kernel(const PrefillQueries q, const KvStretch stretch,
                               const __grid_constant__ CUtensorMap keys, const __grid_constant__ CUtensorMap values,
                               float* workspace, __nv_bfloat16* out, bool lastStretch)
{
#ifdef OCTAVO_WGMMA
    extern __shared__ __align__(128) uint8_t bytes[];
    const Shared shared{(sharedAddress(bytes) + 1023) / 1024 * 1024};
    const int warp = __shfl_sync(fullMask, threadIdx.x / 32, 0); // which the compiler then knows to be a warp's
    allowDependentLaunch();
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < stages; ++slot) {
            barrierInit(shared.full(slot), 1);
            barrierInit(shared.empty(slot), consumers);
        }
        barrierInitFence();
    }
    __syncthreads();
    // Blocks with the most keys come first.
    const PrefillBlock block(q, stretch, int(blockIdx.x), int(gridDim.y - 1 - blockIdx.y), int(gridDim.y));
    const int tiles = (block.keys + tileKeys - 1) / tileKeys;
    if (warp >= consumers) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;\n");
        if (warp == consumers && threadIdx.x % 32 == 0) {
            prefetchMap(&keys);
            prefetchMap(&values);
            waitForPreviousKernel();
            bringTiles(shared, keys, values, block.kvHead, tiles);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;\n");
        const auto meetWarpgroup = [&] { namedBarrier(1 + warp / 4, 128); };
        waitForPreviousKernel();
        loadQueries(shared, block, q, warp);
        const int pair = block.first + warp * 16 + threadIdx.x % 32 / 4;
        PrefillSoftmax<tileKeys> softmax(block, q, stretch, pair);
        const PrefillKept kept(workspace, block, q.kvHeads);
        float sums[32][4] = {};
        if (stretch.begin > 0) {
            loadSums(sums, kept, pair);
            softmax.load(kept.numbers, block.padded, pair);
        }
        copyAsyncWait<0>();
        wgmmaFenceShared();
        meetWarpgroup();

        Consumer consumer{shared, shared.queries + warp / 4 * 64 * 128, {}};
        float s[tileKeys / 8][4], rescale[2];
        uint32_t weights[tileKeys / 16][4];
        if (tiles > 0) {
            const int keySlot = consumer.next();
            consumer.score(s, keySlot);
            wgmmaWait<0>();
            wgmmaHold(s);
            consumer.release(keySlot);
            if (softmax.weigh(s, 0, rescale))
                scaleSums(sums, rescale);
            weightFragments(s, weights);
        }
        for (int tile = 1; tile < tiles; ++tile) {
            const int keySlot = consumer.next();
            consumer.score(s, keySlot);
            const int valueSlot = consumer.next();
            consumer.meetValues(sums, weights, valueSlot);
            wgmmaWait<1>();
            wgmmaHold(s);
            consumer.release(keySlot);
            const bool changed = softmax.weigh(s, tile * tileKeys, rescale);
            wgmmaWait<0>();
            wgmmaHold(sums);
            consumer.release(valueSlot);
            if (changed)
                scaleSums(sums, rescale);
            weightFragments(s, weights);
        }
        if (lastStretch) {
            meetWarpgroup(); // all have left the queries
            loadGates(shared, block, q, warp);
        }
        if (tiles > 0) {
            consumer.meetValues(sums, weights, consumer.next());
            wgmmaWait<0>();
            wgmmaHold(sums);
        }
        if (lastStretch) {
            copyAsyncWait<0>();
            meetWarpgroup();
            gateSums(shared, sums, softmax, warp);
            meetWarpgroup();
            storeResults(shared, block, q, warp, out);
        } else {
            storeSums(sums, kept, pair);
            softmax.store(kept.numbers, block.padded, pair);
        }
    }
#endif
}

/// Keys or values of a stretch, a matrix to a KV head, zeros behind its end.
cudaError_t describe(CUtensorMap& map, const __nv_bfloat16* rows, const KvStretch& stretch, int kvHeads)
{
    const std::int64_t tokens = stretch.end - stretch.begin, capacity = stretch.capacity;
    return describeRows(map, {rows, {kvHeadDim, tokens, kvHeads}, {kvHeadDim, capacity * kvHeadDim}}, tileKeys);
}

} // namespace

cudaError_t launchPrefillAttentionSm90(const PrefillQueries& q, const KvStretch& stretch, float* workspace,
                                       __nv_bfloat16* out, cudaStream_t stream)
{
    int device = 0, major = 0, minor = 0;
    OCTAVO_CUDA_TRY(cudaGetDevice(&device));
    OCTAVO_CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    OCTAVO_CUDA_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    if (major != 9 || minor != 0 || !canDescribeRows())
        return cudaErrorNotSupported;
    const bool last = stretch.end >= q.firstPosition + q.rows;
    if (!last && (stretch.end - stretch.begin) % 64 != 0)
        return cudaErrorInvalidValue;
    CUtensorMap keys, values;
    OCTAVO_CUDA_TRY(describe(keys, stretch.keys, stretch, q.kvHeads));
    OCTAVO_CUDA_TRY(describe(values, stretch.values, stretch, q.kvHeads));
    OCTAVO_CUDA_TRY(
        cudaFuncSetAttribute(prefillAttentionSm90Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes));
    const int pairs = q.rows * (q.heads / q.kvHeads);
    const dim3 grid(q.kvHeads, (pairs + prefillTileRows - 1) / prefillTileRows);
    OCTAVO_CUDA_TRY(launchDependent(prefillAttentionSm90Kernel, grid, threads, sharedBytes, stream, q, stretch, keys,
                                    values, workspace, out, last));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
