#include "kernels/cuda/prefill_attention.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/prefill_softmax.cuh"

#include <algorithm>
#include <limits>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int rowBytes = kvHeadDim * 2; // of a tile in shared memory: 32 chunks of 16 bytes
constexpr int queryBytes = prefillTileRows * rowBytes;

/// Chunk of a row, turned so that eight rows of one column fall on different banks.
__device__ __forceinline__ unsigned chunkAt(int row, int chunk)
{
    return row * rowBytes + ((chunk ^ (row & 7)) * 16);
}

/// Sums over the softmax's sum, gated, as bf16 to where they belong.
template <int TileKeys>
__device__ __forceinline__ void storeGated(const float (&sums)[32][4], const PrefillSoftmax<TileKeys>& softmax,
                                           const PrefillBlock& block, const PrefillQueries& q, int pair,
                                           __nv_bfloat16* out)
{
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float inverse = 1.0f / warpSum<3>(softmax.sum[h]);
        const int i = pair + 8 * h;
        if (i >= block.total)
            continue;
        const __nv_bfloat16* gate = q.gate + int64_t(i / block.groupHeads) * q.gateStride +
                                    (block.kvHead * block.groupHeads + i % block.groupHeads) * q.gateHeadStride + 2 * t;
        __nv_bfloat16* to = out + block.pairOffset(q, i) + 2 * t;
        uint32_t gates[32]; // all under way before the first store, which loads must not pass
#pragma unroll
        for (int n = 0; n < 32; ++n)
            gates[n] = *reinterpret_cast<const uint32_t*>(gate + n * 8);
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            const float2 g = unpackBf16(gates[n]);
            *reinterpret_cast<uint32_t*>(to + n * 8) =
                packBf16(sums[n][2 * h] * inverse * sigmoid(g.x), sums[n][2 * h + 1] * inverse * sigmoid(g.y));
        }
    }
}

/// One block per (128 pairs, KV head). A tile of keys and a tile of values lie in shared memory beside the queries: the
/// next keys arrive while the values are used, the next values while the keys are.
template <int TileKeys>
__global__ void __launch_bounds__(prefillThreads, 1)
    prefillAttentionKernel(const PrefillQueries q, const KvStretch stretch, float* workspace, __nv_bfloat16* out,
                           bool lastStretch)
{
    extern __shared__ __align__(128) uint8_t shared[];
    allowDependentLaunch();
    const PrefillBlock block(q, stretch, int(blockIdx.y), int(blockIdx.x), int(gridDim.x));
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned queries = sharedAddress(shared), keys = queries + queryBytes, values = keys + TileKeys * rowBytes;
    const int64_t headAt = int64_t(block.kvHead) * stretch.capacity * kvHeadDim;
    const int tiles = (block.keys + TileKeys - 1) / TileKeys;
    waitForPreviousKernel();

    const auto loadTile = [&](const __nv_bfloat16* source, unsigned target, int tile) {
        if (tile < tiles) {
            const __nv_bfloat16* from = source + headAt + int64_t(tile) * TileKeys * kvHeadDim + lane * 8;
#pragma unroll
            for (int i = 0; i < TileKeys / 8; ++i) { // a row to a warp
                const int row = i * 8 + warp;
                const bool valid = tile * TileKeys + row < block.keys;
                copyAsync16(target + chunkAt(row, lane), valid ? from + row * kvHeadDim : source, valid);
            }
        }
        copyAsyncCommit();
    };
#pragma unroll
    for (int i = 0; i < prefillTileRows / 8; ++i) {
        const int row = i * 8 + warp, pair = block.first + row;
        const bool valid = pair < block.total;
        copyAsync16(queries + chunkAt(row, lane), valid ? q.query + block.pairOffset(q, pair) + lane * 8 : q.query,
                    valid);
    }
    loadTile(stretch.keys, keys, 0);
    loadTile(stretch.values, values, 0);

    const int pair = block.first + warp * 16 + lane / 4;
    PrefillSoftmax<TileKeys> softmax(block, q, stretch, pair);
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

    for (int tile = 0; tile < tiles; ++tile) {
        copyAsyncWait<1>();
        __syncthreads(); // the keys are there
        float s[TileKeys / 8][4] = {};
#pragma unroll
        for (int step = 0; step < kvHeadDim / 16; ++step) {
            uint32_t a[4];
            loadMatrix4(a, queries + chunkAt(warp * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
            for (int n = 0; n < TileKeys / 16; ++n) {
                uint32_t b[4];
                loadMatrix4(b, keys + chunkAt(n * 16 + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
                mmaBf16(s[2 * n], a, b[0], b[1]);
                mmaBf16(s[2 * n + 1], a, b[2], b[3]);
            }
        }
        __syncthreads(); // all have left the keys
        loadTile(stretch.keys, keys, tile + 1);

        float rescale[2];
        if (softmax.weigh(s, tile * TileKeys, rescale)) {
#pragma unroll
            for (int n = 0; n < 32; ++n) {
                sums[n][0] *= rescale[0], sums[n][1] *= rescale[0];
                sums[n][2] *= rescale[1], sums[n][3] *= rescale[1];
            }
        }
        copyAsyncWait<1>();
        __syncthreads(); // the values are there
#pragma unroll
        for (int step = 0; step < TileKeys / 16; ++step) {
            uint32_t a[4];
            weightFragment(s, step, a);
#pragma unroll
            for (int n = 0; n < 16; ++n) {
                uint32_t b[4];
                loadMatrix4Transposed(b, values + chunkAt(step * 16 + lane % 16, 2 * n + lane / 16));
                mmaBf16(sums[2 * n], a, b[0], b[1]);
                mmaBf16(sums[2 * n + 1], a, b[2], b[3]);
            }
        }
        __syncthreads(); // all have left the values
        loadTile(stretch.values, values, tile + 1);
    }
    copyAsyncWait<0>();
    if (lastStretch) {
        storeGated(sums, softmax, block, q, pair, out);
        return;
    }
    storeSums(sums, kept, pair);
    softmax.store(kept.numbers, block.padded, pair);
}

template <int TileKeys>
cudaError_t launchTiles(const PrefillQueries& q, const KvStretch& stretch, float* workspace, __nv_bfloat16* out,
                        dim3 grid, bool last, cudaStream_t stream)
{
    constexpr int bytes = queryBytes + 2 * TileKeys * rowBytes;
    OCTAVO_CUDA_TRY(
        cudaFuncSetAttribute(prefillAttentionKernel<TileKeys>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    return launchDependent(prefillAttentionKernel<TileKeys>, grid, prefillThreads, bytes, stream, q, stretch, workspace,
                           out, last);
}

constexpr int dequantizeThreads = 256;
constexpr int rowsPerWarp = 4; // whose codes are all under way before the first is needed

/// A warp to a token's KV head: half of its lanes for the keys, half for the values, 8 bytes of codes each. Four
/// neighbours store 64 contiguous bytes at a time.
__global__ void __launch_bounds__(dequantizeThreads)
    dequantizeRowsKernel(const RowPages pages, int kvHeads, const KvStretch stretch)
{
    allowDependentLaunch();
    waitForPreviousKernel();
    const int lane = threadIdx.x % 32, part = lane % 16, group = part / 4;
    const int isValue = lane / 16;
    const int rows = (stretch.end - stretch.begin) * kvHeads;
    const int first = int(blockIdx.x * (dequantizeThreads / 32) + threadIdx.x / 32) * rowsPerWarp;
    uint2 codes[rowsPerWarp];
    __half scales[rowsPerWarp];
#pragma unroll
    for (int i = 0; i < rowsPerWarp; ++i) {
        const int index = min(first + i, rows - 1), position = stretch.begin + index / kvHeads;
        const uint8_t* row = pages.pages[position / rowPageTokens] + pages.offset +
                             int64_t(position % rowPageTokens * kvHeads + index % kvHeads) * kvHeadBytes;
        codes[i] = *reinterpret_cast<const uint2*>(row + lane * 8);
        scales[i] = *reinterpret_cast<const __half*>(row + 256 + isValue * 8 + group * 2);
    }
    __nv_bfloat16* const to = (isValue ? stretch.values : stretch.keys) + group * 64 + part % 4 * 8;
#pragma unroll
    for (int i = 0; i < rowsPerWarp; ++i) {
        if (first + i >= rows)
            return;
        // Byte j of a group holds values j and j + 32: two runs of eight.
        const float scale = __half2float(scales[i]);
        uint32_t low[4], high[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint32_t two = (j < 2 ? codes[i].x : codes[i].y) >> (j % 2 * 16); // bytes 2 j and 2 j + 1
            low[j] = packBf16(scale * (int(two & 15) - 8), scale * (int(two >> 8 & 15) - 8));
            high[j] = packBf16(scale * (int(two >> 4 & 15) - 8), scale * (int(two >> 12 & 15) - 8));
        }
        const int token = (first + i) / kvHeads, head = (first + i) % kvHeads;
        uint4* at = reinterpret_cast<uint4*>(to + (int64_t(head) * stretch.capacity + token) * kvHeadDim);
        at[0] = uint4{low[0], low[1], low[2], low[3]};
        at[4] = uint4{high[0], high[1], high[2], high[3]};
    }
}

bool fits(const PrefillQueries& q, const KvStretch& stretch)
{
    return q.rows >= 0 && q.kvHeads > 0 && q.heads > 0 && q.heads % q.kvHeads == 0 && q.firstPosition >= 0 &&
           stretch.begin >= 0 && stretch.end > stretch.begin && stretch.end - stretch.begin <= stretch.capacity &&
           q.gateStride % 8 == 0 && q.gateHeadStride % 8 == 0;
}

} // namespace

cudaError_t launchDequantizeRows(const RowPages& pages, int kvHeads, const KvStretch& stretch, cudaStream_t stream)
{
    if (kvHeads <= 0 || stretch.begin < 0 || stretch.end < stretch.begin ||
        stretch.end - stretch.begin > stretch.capacity)
        return cudaErrorInvalidValue;
    const std::int64_t rows = std::int64_t{stretch.end - stretch.begin} * kvHeads;
    constexpr int rowsPerBlock = dequantizeThreads / 32 * rowsPerWarp;
    if (rows > std::numeric_limits<int>::max() - rowsPerBlock)
        return cudaErrorInvalidValue;
    if (rows == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(launchDependent(dequantizeRowsKernel,
                                    static_cast<unsigned>((rows + rowsPerBlock - 1) / rowsPerBlock), dequantizeThreads,
                                    0, stream, pages, kvHeads, stretch));
    return cudaGetLastError();
}

cudaError_t launchPrefillAttention(const PrefillQueries& q, const KvStretch& stretch, float* workspace,
                                   __nv_bfloat16* out, PrefillPath path, cudaStream_t stream)
{
    if (!fits(q, stretch))
        return cudaErrorInvalidValue;
    if (q.rows == 0)
        return cudaSuccess;
    if (path == PrefillPath::Auto) {
        if (const cudaError_t status = launchPrefillAttentionSm90(q, stretch, workspace, out, stream);
            status != cudaErrorNotSupported)
            return status;
    }
    const bool last = stretch.end >= q.firstPosition + q.rows;
    if (!last && (stretch.end - stretch.begin) % 64 != 0)
        return cudaErrorInvalidValue;
    const int pairs = q.rows * (q.heads / q.kvHeads);
    const dim3 grid((pairs + prefillTileRows - 1) / prefillTileRows, q.kvHeads);
    int device = 0, sharedBytes = 0;
    OCTAVO_CUDA_TRY(cudaGetDevice(&device));
    OCTAVO_CUDA_TRY(cudaDeviceGetAttribute(&sharedBytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    const bool roomy = sharedBytes >= queryBytes + 2 * 64 * rowBytes;
    if (path == PrefillPath::Tiles64 && !roomy)
        return cudaErrorNotSupported;
    if (roomy && path != PrefillPath::Tiles32)
        OCTAVO_CUDA_TRY(launchTiles<64>(q, stretch, workspace, out, grid, last, stream));
    else
        OCTAVO_CUDA_TRY(launchTiles<32>(q, stretch, workspace, out, grid, last, stream));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
