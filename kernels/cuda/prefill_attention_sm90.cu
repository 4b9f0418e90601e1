#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/prefill_attention.h"
#include "kernels/cuda/prefill_softmax.cuh"
#include "kernels/cuda/wgmma.cuh"

/// Prefill attention on sm_90a: two warpgroups of 64 pairs each, whose products read queries, keys and values straight
/// from shared memory. While a tile's weights meet its values, the scores of the next tile are already there to be
/// weighed.

namespace octavo::kernels::cuda
{
namespace
{

constexpr int tileKeys = 64;
constexpr int blockColumns = 64; // of a block of rows of 128 bytes
constexpr int blocks = kvHeadDim / blockColumns;
constexpr int queryBlockBytes = prefillTileRows * 128, tileBlockBytes = tileKeys * 128;
constexpr int queryBytes = blocks * queryBlockBytes, tileBytes = blocks * tileBlockBytes;
constexpr int stages = 2;
constexpr int sharedBytes = queryBytes + 2 * stages * tileBytes + 1024; // the first block begins on 1024 bytes

/// Where 16-byte chunk `chunk` (0..31) of a row lies.
template <int BlockBytes>
__device__ __forceinline__ unsigned chunkAt(int row, int chunk)
{
    return chunk / 8 * BlockBytes + row * 128 + ((chunk % 8 ^ (row & 7)) * 16);
}

__global__ void __launch_bounds__(prefillThreads, 1)
    prefillAttentionSm90Kernel(const PrefillQueries q, const KvStretch stretch, float* workspace, __nv_bfloat16* out,
                               bool lastStretch)
{
    extern __shared__ __align__(128) uint8_t shared[];
    allowDependentLaunch();
    const PrefillBlock block(q, stretch);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, group = warp / 4;
    const unsigned queries = (sharedAddress(shared) + 1023) / 1024 * 1024;
    const unsigned keys = queries + queryBytes, values = keys + stages * tileBytes;
    const int64_t headAt = int64_t(block.kvHead) * stretch.capacity * kvHeadDim;
    const int tiles = (block.keys + tileKeys - 1) / tileKeys;
    waitForPreviousKernel();

    const auto loadTile = [&](const __nv_bfloat16* source, unsigned target, int tile) {
        if (tile >= tiles)
            return;
        const __nv_bfloat16* from = source + headAt + int64_t(tile) * tileKeys * kvHeadDim + lane * 8;
#pragma unroll
        for (int i = 0; i < tileKeys / 8; ++i) { // a row to a warp
            const int row = i * 8 + warp;
            const bool valid = tile * tileKeys + row < block.keys;
            copyAsync16(target + tile % stages * tileBytes + chunkAt<tileBlockBytes>(row, lane),
                        valid ? from + row * kvHeadDim : source, valid);
        }
    };
#pragma unroll
    for (int i = 0; i < prefillTileRows / 8; ++i) {
        const int row = i * 8 + warp, pair = block.first + row;
        const bool valid = pair < block.total;
        copyAsync16(queries + chunkAt<queryBlockBytes>(row, lane),
                    valid ? q.query + block.pairOffset(q, pair) + lane * 8 : q.query, valid);
    }
    loadTile(stretch.keys, keys, 0);
    copyAsyncCommit();
    loadTile(stretch.values, values, 0);
    loadTile(stretch.keys, keys, 1);
    copyAsyncCommit();

    const int pair = block.first + warp * 16 + lane / 4;
    PrefillSoftmax<tileKeys> softmax(block, q, stretch, pair);
    const PrefillKept kept(workspace, block, q.kvHeads);
    float sums[32][4];
    if (stretch.begin > 0) {
        loadSums(sums, kept, pair);
        softmax.load(kept.numbers, block.padded, pair);
    } else {
#pragma unroll
        for (int n = 0; n < 32; ++n)
            sums[n][0] = sums[n][1] = sums[n][2] = sums[n][3] = 0.0f;
    }
    float s[tileKeys / 8][4];
    uint32_t weights[tileKeys / 16][4];
    const auto score = [&](int tile) {
        const unsigned a = queries + group * 64 * 128, b = keys + tile % stages * tileBytes;
#pragma unroll
        for (int step = 0; step < kvHeadDim / 16; ++step)
            wgmma64x64(s, wgmmaMatrix(a + step / 4 * queryBlockBytes + step % 4 * 32, 16),
                       wgmmaMatrix(b + step / 4 * tileBlockBytes + step % 4 * 32, 16), step > 0);
    };
    const auto scaleSums = [&](const float(&rescale)[2]) {
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            sums[n][0] *= rescale[0], sums[n][1] *= rescale[0];
            sums[n][2] *= rescale[1], sums[n][3] *= rescale[1];
        }
    };

    float rescale[2];
    if (tiles > 0) {
        copyAsyncWait<1>();
        wgmmaFenceShared();
        __syncthreads();
        wgmmaBegin();
        score(0);
        wgmmaCommit();
        wgmmaWait<0>();
        wgmmaHold(s);
        if (softmax.weigh(s, 0, rescale))
            scaleSums(rescale);
#pragma unroll
        for (int step = 0; step < tileKeys / 16; ++step)
            weightFragment(s, step, weights[step]);
    }
    const auto meetValues = [&](int tile) {
#pragma unroll
        for (int step = 0; step < tileKeys / 16; ++step)
            wgmma64x256(sums, weights[step],
                        wgmmaMatrix(values + tile % stages * tileBytes + step * 16 * 128, tileBlockBytes));
    };
    for (int tile = 0; tile + 1 < tiles; ++tile) {
        copyAsyncWait<0>();
        wgmmaFenceShared();
        __syncthreads(); // these values and the next keys are there, and all have left those before
        loadTile(stretch.keys, keys, tile + 2);
        loadTile(stretch.values, values, tile + 1);
        copyAsyncCommit();
        wgmmaHold(sums);
        wgmmaHold(s);
        wgmmaBegin();
        score(tile + 1);
        wgmmaCommit();
        meetValues(tile);
        wgmmaCommit();
        wgmmaWait<1>();
        wgmmaHold(s);
        const bool changed = softmax.weigh(s, (tile + 1) * tileKeys, rescale);
        wgmmaWait<0>();
        wgmmaHold(sums);
        if (changed)
            scaleSums(rescale);
#pragma unroll
        for (int step = 0; step < tileKeys / 16; ++step)
            weightFragment(s, step, weights[step]);
    }
    if (tiles > 0) {
        copyAsyncWait<0>();
        wgmmaFenceShared();
        __syncthreads();
        wgmmaHold(sums);
        wgmmaBegin();
        meetValues(tiles - 1);
        wgmmaCommit();
        wgmmaWait<0>();
        wgmmaHold(sums);
    }
    copyAsyncWait<0>();
    if (lastStretch) {
        storeGated(sums, softmax, block, q, pair, out);
        return;
    }
    storeSums(sums, kept, pair);
    softmax.store(kept.numbers, block.padded, pair);
}

} // namespace

cudaError_t launchPrefillAttentionSm90(const PrefillQueries& q, const KvStretch& stretch, float* workspace,
                                       __nv_bfloat16* out, cudaStream_t stream)
{
    int device = 0, major = 0, minor = 0;
    OCTAVO_CUDA_TRY(cudaGetDevice(&device));
    OCTAVO_CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    OCTAVO_CUDA_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    if (major != 9 || minor != 0)
        return cudaErrorNotSupported;
    const bool last = stretch.end >= q.firstPosition + q.rows;
    if (!last && (stretch.end - stretch.begin) % tileKeys != 0)
        return cudaErrorInvalidValue;
    const int pairs = q.rows * (q.heads / q.kvHeads);
    const dim3 grid((pairs + prefillTileRows - 1) / prefillTileRows, q.kvHeads);
    OCTAVO_CUDA_TRY(
        cudaFuncSetAttribute(prefillAttentionSm90Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sharedBytes));
    OCTAVO_CUDA_TRY(launchDependent(prefillAttentionSm90Kernel, grid, prefillThreads, sharedBytes, stream, q, stretch,
                                    workspace, out, last));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
