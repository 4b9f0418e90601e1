#include "kernels/cuda/gdn_chunk.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int dim = gdnHeadDim;
constexpr int chunk = gdnChunkRows;

/// Parts of the work space; each chunk of each head has its own, heads outermost.
struct Work {
    __nv_bfloat16* inverse; // T diag(beta), (2, 64, 64): rounded to bf16, and what that left
    float* numbers;         // (2, 64): G, and the factor that makes a key one of length 1
    __nv_bfloat16* values;  // D, (64, 128)
    __nv_bfloat16* states;  // S before the chunk, (128, 128)
};

struct ChunkArgs {
    GdnChunkInput in;
    GdnLayer layer;
    Work work;
    int chunks;
};

/// Chunk c of 16 bytes in a row of shared memory, turned so that eight rows of one column fall on different banks.
/// Rows of 256, 128 and 64 bytes.
__device__ __forceinline__ unsigned at256(int row, int c)
{
    return row * 256 + ((c ^ (row & 7)) * 16);
}
__device__ __forceinline__ unsigned at128(int row, int c)
{
    return row * 128 + ((c ^ (row & 7)) * 16);
}
__device__ __forceinline__ unsigned at64(int row, int c)
{
    return row * 64 + ((c ^ (row >> 1 & 3)) * 16);
}

/// 64 rows of one head (256 bytes each) into shared memory, zero past `rows`; `Threads` of the block take part.
template <int Threads>
__device__ __forceinline__ void loadRows(unsigned target, const __nv_bfloat16* source, int64_t stride, int rows)
{
#pragma unroll
    for (int i = 0; i < chunk * 16 / Threads; ++i) {
        const int piece = i * Threads + int(threadIdx.x), row = piece / 16, c = piece % 16;
        const bool valid = row < rows;
        copyAsync16(target + at256(row, c), valid ? source + row * stride + c * 8 : source, valid);
    }
}

__device__ __forceinline__ void splitBf16(float x, float y, uint32_t& high, uint32_t& low)
{
    high = packBf16(x, y);
    const float2 rounded = unpackBf16(high);
    low = packBf16(x - rounded.x, y - rounded.y);
}

// ---- T of every chunk ------------------------------------------------------------------------------------------

constexpr int prepareThreads = 128;
constexpr int productStride = 68, inverseStride = 65; // floats: columns and rows fall on different banks

struct PrepareShared {
    uint8_t keys[chunk * 256];
    float product[chunk * productStride]; // A
    float inverse[chunk * inverseStride]; // T
    float sums[chunk], scale[chunk], beta[chunk];
};

/// One block per (chunk, value head).
__global__ void __launch_bounds__(prepareThreads) gdnPrepareKernel(const ChunkArgs args)
{
    extern __shared__ __align__(128) uint8_t shared[];
    PrepareShared& s = *reinterpret_cast<PrepareShared*>(shared);
    allowDependentLaunch();
    const int index = blockIdx.x, head = blockIdx.y;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int keyHead = head / (args.layer.valueHeads / args.layer.keyHeads);
    const int convDim = (2 * args.layer.keyHeads + args.layer.valueHeads) * dim;
    const int first = index * chunk, rows = min(chunk, args.in.rows - first);
    const float aLog = args.layer.aLog[head], dtBias = args.layer.dtBias[head];
    waitForPreviousKernel();

    const unsigned keys = sharedAddress(s.keys);
    loadRows<prepareThreads>(keys, args.in.qkv + int64_t(first) * convDim + (args.layer.keyHeads + keyHead) * dim,
                             convDim, rows);
    copyAsyncCommit();
    if (warp == 0) { // gates of rows 2 l and 2 l + 1, then their sums from the start
        float g[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = 2 * lane + i;
            g[i] = 0.0f;
            float beta = 0.0f;
            if (row < rows) {
                const int64_t from = int64_t(first + row) * args.in.smallStride + head;
                const float x = __bfloat162float(args.in.decay[from]) + dtBias;
                g[i] = -__expf(aLog) * (x > 20.0f ? x : log1pf(__expf(x)));
                beta = sigmoid(__bfloat162float(args.in.beta[from]));
            }
            s.beta[row] = beta;
        }
        float sum = g[0] + g[1];
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const float before = __shfl_up_sync(fullMask, sum, step);
            if (lane >= step)
                sum += before;
        }
        s.sums[2 * lane] = sum - g[1];
        s.sums[2 * lane + 1] = sum;
    }
    copyAsyncWait<0>();
    __syncthreads();
    { // a row to two lanes
        const int row = warp * 16 + lane / 2;
        float square = 0.0f;
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const uint4 bits = *reinterpret_cast<const uint4*>(s.keys + at256(row, lane % 2 * 8 + c));
            const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 two = unpackBf16(words[i]);
                square += two.x * two.x + two.y * two.y;
            }
        }
        square = warpSum<1>(square);
        if (lane % 2 == 0)
            s.scale[row] = row < rows ? rsqrtf(square + 1e-6f) : 0.0f;
    }
    __syncthreads();

    { // k_i.k_j of 16 rows to a warp, up to their diagonal
        float sums[8][4] = {};
#pragma unroll
        for (int step = 0; step < dim / 16; ++step) {
            uint32_t a[4];
            loadMatrix4(a, keys + at256(warp * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                if (n <= warp) {
                    uint32_t b[4];
                    loadMatrix4(b, keys + at256(n * 16 + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
                    mmaBf16(sums[2 * n], a, b[0], b[1]);
                    mmaBf16(sums[2 * n + 1], a, b[2], b[3]);
                }
            }
        }
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = warp * 16 + lane / 4 + i / 2 * 8, column = n * 8 + lane % 4 * 2 + i % 2;
                s.product[row * productStride + column] = column < row
                                                              ? s.beta[row] * __expf(s.sums[row] - s.sums[column]) *
                                                                    s.scale[row] * s.scale[column] * sums[n][i]
                                                              : 0.0f;
            }
        }
    }
    __syncthreads();
    if (threadIdx.x < chunk) { // (I + A) T = I, a column to a thread
        const int column = threadIdx.x;
        for (int i = 0; i < chunk; ++i) {
            float sums[4] = {i == column ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f};
            for (int j = 0; j < i;
                 j += 4) { // products are 0 from the diagonal on, entries of T not yet there are left out
                const float4 a = *reinterpret_cast<const float4*>(&s.product[i * productStride + j]);
                const float* t = &s.inverse[j * inverseStride + column];
                sums[0] -= a.x * t[0];
                sums[1] -= j + 1 < i ? a.y * t[inverseStride] : 0.0f;
                sums[2] -= j + 2 < i ? a.z * t[2 * inverseStride] : 0.0f;
                sums[3] -= j + 3 < i ? a.w * t[3 * inverseStride] : 0.0f;
            }
            s.inverse[i * inverseStride + column] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    }
    __syncthreads();
    const int64_t place = int64_t(head) * args.chunks + index;
    {
        const int row = threadIdx.x / 2, half = threadIdx.x % 2 * 32;
        uint4* to = reinterpret_cast<uint4*>(args.work.inverse + place * 2 * chunk * chunk + row * chunk + half);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            uint32_t high[4], low[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int column = half + c * 8 + 2 * i;
                splitBf16(s.inverse[row * inverseStride + column] * s.beta[column],
                          s.inverse[row * inverseStride + column + 1] * s.beta[column + 1], high[i], low[i]);
            }
            to[c] = uint4{high[0], high[1], high[2], high[3]};
            to[chunk * chunk / 8 + c] = uint4{low[0], low[1], low[2], low[3]};
        }
    }
    if (threadIdx.x < chunk) {
        args.work.numbers[place * 2 * chunk + threadIdx.x] = s.sums[threadIdx.x];
        args.work.numbers[place * 2 * chunk + chunk + threadIdx.x] = s.scale[threadIdx.x];
    }
}

// ---- D and the states, chunk after chunk ------------------------------------------------------------------------

constexpr int scanThreads = 256;
constexpr int scanColumns = 32; // of the values to a block
constexpr int inverseBytes = chunk * chunk * 2;

struct ScanStage {
    uint8_t keys[chunk * 256];
    uint8_t inverse[2][inverseBytes];
    uint8_t values[chunk * 64];
    float numbers[2 * chunk];
};
struct ScanShared {
    ScanStage stages[2];
    uint8_t state[2][dim * 64];      // S as two bf16, then the first half of each: exp(G_L - G) |k|^-1 D
    uint8_t residual[2][chunk * 64]; // V - exp(G) K S
};
static_assert(sizeof(ScanShared) <= 99 * 1024, "fits the smallest device");

/// One block per (32 value columns, value head). Warp w holds rows 16 w .. of the state as fragments.
__global__ void __launch_bounds__(scanThreads) gdnScanKernel(const ChunkArgs args)
{
    extern __shared__ __align__(128) uint8_t shared[];
    ScanShared& s = *reinterpret_cast<ScanShared*>(shared);
    allowDependentLaunch();
    const int firstColumn = blockIdx.x * scanColumns, head = blockIdx.y;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int keyHead = head / (args.layer.valueHeads / args.layer.keyHeads);
    const int convDim = (2 * args.layer.keyHeads + args.layer.valueHeads) * dim;
    const __nv_bfloat16* keyRows = args.in.qkv + (args.layer.keyHeads + keyHead) * dim;
    const __nv_bfloat16* valueRows = args.in.qkv + (2 * args.layer.keyHeads + head) * dim + firstColumn;
    waitForPreviousKernel();

    const auto load = [&](int index) {
        if (index < args.chunks) {
            ScanStage& stage = s.stages[index % 2];
            const int first = index * chunk, rows = min(chunk, args.in.rows - first);
            const int64_t place = int64_t(head) * args.chunks + index;
            loadRows<scanThreads>(sharedAddress(stage.keys), keyRows + int64_t(first) * convDim, convDim, rows);
            { // 64 rows of 64 bytes
                const int row = threadIdx.x / 4, c = threadIdx.x % 4;
                const bool valid = row < rows;
                copyAsync16(sharedAddress(stage.values) + at64(row, c),
                            valid ? valueRows + int64_t(first + row) * convDim + c * 8 : valueRows, valid);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) { // 2 x 64 rows of 128 bytes
                const int piece = i * scanThreads + int(threadIdx.x), row = piece / 8, c = piece % 8;
                copyAsync16(sharedAddress(stage.inverse[row / chunk]) + at128(row % chunk, c),
                            args.work.inverse + place * 2 * chunk * chunk + piece * 8);
            }
            if (threadIdx.x < 2 * chunk / 4)
                copyAsync16(sharedAddress(stage.numbers) + threadIdx.x * 16,
                            args.work.numbers + place * 2 * chunk + threadIdx.x * 4);
        }
        copyAsyncCommit();
    };
    load(0);

    float state[4][4]; // rows 16 w + g (+ 8), columns 8 n + 2 t (+ 1)
    float* stateAt = args.in.state + (int64_t(head) * dim + warp * 16 + g) * dim + firstColumn + 2 * t;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float2 two = *reinterpret_cast<const float2*>(stateAt + h * 8 * dim + n * 8);
            state[n][2 * h] = two.x, state[n][2 * h + 1] = two.y;
        }
    }
    const unsigned stateShared[2] = {sharedAddress(s.state[0]), sharedAddress(s.state[1])};
    const unsigned residualShared[2] = {sharedAddress(s.residual[0]), sharedAddress(s.residual[1])};
    const int tile = warp % 4,
              pairOfTiles = warp / 4; // 16 rows of the chunk x 16 columns to a warp, where rows are the chunk's

    for (int index = 0; index < args.chunks; ++index) {
        const ScanStage& stage = s.stages[index % 2];
        const int64_t place = int64_t(head) * args.chunks + index;
        const unsigned keys = sharedAddress(stage.keys);
        load(index + 1);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                uint32_t high, low;
                splitBf16(state[n][2 * h], state[n][2 * h + 1], high, low);
                const unsigned to = at64(warp * 16 + g + 8 * h, n) + t * 4;
                *reinterpret_cast<uint32_t*>(s.state[0] + to) = high;
                *reinterpret_cast<uint32_t*>(s.state[1] + to) = low;
            }
        }
        copyAsyncWait<1>();
        __syncthreads(); // this chunk and S are there

        // K S, and what it leaves of V.
        float d[2][4];
        {
            float sums[2][2][4] = {};
#pragma unroll
            for (int step = 0; step < dim / 16; ++step) {
                uint32_t a[4];
                loadMatrix4(a, keys + at256(tile * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
                for (int part = 0; part < 2; ++part) {
                    uint32_t b[4];
                    loadMatrix4Transposed(b,
                                          stateShared[part] + at64(step * 16 + lane % 16, 2 * pairOfTiles + lane / 16));
                    mmaBf16(sums[part][0], a, b[0], b[1]);
                    mmaBf16(sums[part][1], a, b[2], b[3]);
                }
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int row = tile * 16 + g + 8 * h;
                const float factor = __expf(stage.numbers[row]) * stage.numbers[chunk + row];
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    const unsigned at = at64(row, 2 * pairOfTiles + n) + t * 4;
                    const float2 v = unpackBf16(*reinterpret_cast<const uint32_t*>(stage.values + at));
                    uint32_t high, low;
                    splitBf16(v.x - factor * (sums[0][n][2 * h] + sums[1][n][2 * h]),
                              v.y - factor * (sums[0][n][2 * h + 1] + sums[1][n][2 * h + 1]), high, low);
                    *reinterpret_cast<uint32_t*>(s.residual[0] + at) = high;
                    *reinterpret_cast<uint32_t*>(s.residual[1] + at) = low;
                }
            }
        }
        { // S as the last launch will read it
            uint4* to = reinterpret_cast<uint4*>(args.work.states + place * dim * dim + firstColumn);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int piece = i * scanThreads + int(threadIdx.x), row = piece / 4, c = piece % 4;
                to[row * (dim / 8) + c] = *reinterpret_cast<const uint4*>(s.state[0] + at64(row, c));
            }
        }
        __syncthreads(); // the residual is there, and all have left S

        // D = T (V - ...): T ends at its diagonal.
        {
            float sums[3][2][4] = {};
#pragma unroll
            for (int step = 0; step < chunk / 16; ++step) {
                if (step <= tile) {
                    uint32_t a[2][4], b[2][4];
#pragma unroll
                    for (int part = 0; part < 2; ++part) {
                        loadMatrix4(a[part], sharedAddress(stage.inverse[part]) +
                                                 at128(tile * 16 + lane % 16, 2 * step + lane / 16));
                        loadMatrix4Transposed(b[part], residualShared[part] +
                                                           at64(step * 16 + lane % 16, 2 * pairOfTiles + lane / 16));
                    }
#pragma unroll
                    for (int n = 0; n < 2; ++n) {
                        mmaBf16(sums[0][n], a[0], b[0][2 * n], b[0][2 * n + 1]);
                        mmaBf16(sums[1][n], a[0], b[1][2 * n], b[1][2 * n + 1]);
                        mmaBf16(sums[2][n], a[1], b[0][2 * n], b[0][2 * n + 1]);
                    }
                }
            }
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    d[n][i] = sums[0][n][i] + (sums[1][n][i] + sums[2][n][i]);
        }
        const float end = stage.numbers[chunk - 1];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int row = tile * 16 + g + 8 * h;
            const float factor = __expf(end - stage.numbers[row]) * stage.numbers[chunk + row];
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int c = 2 * pairOfTiles + n;
                *reinterpret_cast<uint32_t*>(args.work.values + (place * chunk + row) * dim + firstColumn + c * 8 +
                                             2 * t) = packBf16(d[n][2 * h], d[n][2 * h + 1]);
                uint32_t high, low;
                splitBf16(d[n][2 * h] * factor, d[n][2 * h + 1] * factor, high, low);
                const unsigned at = at64(row, c) + t * 4;
                *reinterpret_cast<uint32_t*>(s.state[0] + at) = high;
                *reinterpret_cast<uint32_t*>(s.state[1] + at) = low;
            }
        }
        __syncthreads(); // D is there

        const float decay = __expf(end);
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                state[n][i] *= decay;
#pragma unroll
        for (int step = 0; step < chunk / 16; ++step) {
            uint32_t a[4]; // keys as columns
            loadMatrix4Transposed(a, keys + at256(step * 16 + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2));
#pragma unroll
            for (int part = 0; part < 2; ++part) {
#pragma unroll
                for (int n = 0; n < 2; ++n) {
                    uint32_t b[4];
                    loadMatrix4Transposed(b, stateShared[part] + at64(step * 16 + lane % 16, 2 * n + lane / 16));
                    mmaBf16(state[2 * n], a, b[0], b[1]);
                    mmaBf16(state[2 * n + 1], a, b[2], b[3]);
                }
            }
        }
        __syncthreads(); // all have left D and this chunk
    }
    copyAsyncWait<0>();
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int h = 0; h < 2; ++h)
            *reinterpret_cast<float2*>(stateAt + h * 8 * dim + n * 8) = float2{state[n][2 * h], state[n][2 * h + 1]};
    }
}

// ---- O of every chunk ---------------------------------------------------------------------------------------------

constexpr int outputThreads = 128;

struct OutputShared {
    uint8_t queries[chunk * 256], keys[chunk * 256], values[chunk * 256];
    uint8_t state[dim * 256];
    float numbers[2 * chunk];
};
static_assert(sizeof(OutputShared) <= 99 * 1024, "fits the smallest device");

/// One block per (chunk, value head), 16 rows to a warp.
__global__ void __launch_bounds__(outputThreads) gdnOutputKernel(const ChunkArgs args)
{
    extern __shared__ __align__(128) uint8_t shared[];
    OutputShared& s = *reinterpret_cast<OutputShared*>(shared);
    allowDependentLaunch();
    const int index = blockIdx.x, head = blockIdx.y;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int keyHead = head / (args.layer.valueHeads / args.layer.keyHeads);
    const int convDim = (2 * args.layer.keyHeads + args.layer.valueHeads) * dim;
    const int valueDim = args.layer.valueHeads * dim;
    const int first = index * chunk, rows = min(chunk, args.in.rows - first);
    const int64_t place = int64_t(head) * args.chunks + index;
    waitForPreviousKernel();

    const unsigned queries = sharedAddress(s.queries), keys = sharedAddress(s.keys), values = sharedAddress(s.values),
                   state = sharedAddress(s.state);
    const __nv_bfloat16* row0 = args.in.qkv + int64_t(first) * convDim;
    loadRows<outputThreads>(queries, row0 + keyHead * dim, convDim, rows);
    loadRows<outputThreads>(keys, row0 + (args.layer.keyHeads + keyHead) * dim, convDim, rows);
    if (threadIdx.x < 2 * chunk / 4)
        copyAsync16(sharedAddress(s.numbers) + threadIdx.x * 16,
                    args.work.numbers + place * 2 * chunk + threadIdx.x * 4);
    copyAsyncCommit();
    loadRows<outputThreads>(values, args.work.values + place * chunk * dim, dim, chunk);
    loadRows<outputThreads>(state, args.work.states + place * dim * dim, dim, chunk);
    loadRows<outputThreads>(state + chunk * 256, args.work.states + (place * dim + chunk) * dim, dim, chunk);
    copyAsyncCommit();
    copyAsyncWait<1>();
    __syncthreads();

    float queryScale[2]; // of rows g and g + 8: a row to two lanes, then to those that need it
    {
        const int row = warp * 16 + lane / 2;
        float square = 0.0f;
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            const uint4 bits = *reinterpret_cast<const uint4*>(s.queries + at256(row, lane % 2 * 8 + c));
            const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 two = unpackBf16(words[i]);
                square += two.x * two.x + two.y * two.y;
            }
        }
        const float scale = rsqrtf(warpSum<1>(square) + 1e-6f) * 0.08838834764831845f; // 128^-0.5
        queryScale[0] = __shfl_sync(fullMask, scale, 2 * g);
        queryScale[1] = __shfl_sync(fullMask, scale, 2 * g + 16);
    }
    float weights[8][4] = {}; // of the chunk's rows for each other, up to the diagonal
#pragma unroll
    for (int step = 0; step < dim / 16; ++step) {
        uint32_t a[4];
        loadMatrix4(a, queries + at256(warp * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            if (n <= warp) {
                uint32_t b[4];
                loadMatrix4(b, keys + at256(n * 16 + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
                mmaBf16(weights[2 * n], a, b[0], b[1]);
                mmaBf16(weights[2 * n + 1], a, b[2], b[3]);
            }
        }
    }
    const float sums0 = s.numbers[warp * 16 + g], sums1 = s.numbers[warp * 16 + g + 8];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = warp * 16 + g + i / 2 * 8, column = n * 8 + 2 * t + i % 2;
            weights[n][i] = column <= row ? weights[n][i] * __expf((i < 2 ? sums0 : sums1) - s.numbers[column]) *
                                                s.numbers[chunk + column]
                                          : 0.0f;
        }
    }
    copyAsyncWait<0>();
    __syncthreads();

    float o[16][4] = {};
#pragma unroll
    for (int step = 0; step < dim / 16; ++step) {
        uint32_t a[4];
        loadMatrix4(a, queries + at256(warp * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            uint32_t b[4];
            loadMatrix4Transposed(b, state + at256(step * 16 + lane % 16, 2 * n + lane / 16));
            mmaBf16(o[2 * n], a, b[0], b[1]);
            mmaBf16(o[2 * n + 1], a, b[2], b[3]);
        }
    }
    const float decay[2] = {__expf(sums0), __expf(sums1)};
#pragma unroll
    for (int n = 0; n < 16; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            o[n][i] *= decay[i / 2];
#pragma unroll
    for (int step = 0; step < chunk / 16; ++step) {
        if (step <= warp) {
            const uint32_t a[4] = {packBf16(weights[2 * step][0], weights[2 * step][1]),
                                   packBf16(weights[2 * step][2], weights[2 * step][3]),
                                   packBf16(weights[2 * step + 1][0], weights[2 * step + 1][1]),
                                   packBf16(weights[2 * step + 1][2], weights[2 * step + 1][3])};
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                uint32_t b[4];
                loadMatrix4Transposed(b, values + at256(step * 16 + lane % 16, 2 * n + lane / 16));
                mmaBf16(o[2 * n], a, b[0], b[1]);
                mmaBf16(o[2 * n + 1], a, b[2], b[3]);
            }
        }
    }

    // The gated norm over a row's 128 values, which four lanes hold.
    float square[2] = {};
#pragma unroll
    for (int n = 0; n < 16; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            o[n][i] = __bfloat162float(__float2bfloat16_rn(o[n][i] * queryScale[i / 2]));
            square[i / 2] += o[n][i] * o[n][i];
        }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float scale = rsqrtf(warpSum<3>(square[h]) * (1.0f / dim) + args.layer.normEps);
        const int row = warp * 16 + g + 8 * h;
        if (row >= rows)
            continue;
        const __nv_bfloat16* gate = args.in.gate + int64_t(first + row) * args.in.gateStride + head * dim + 2 * t;
        __nv_bfloat16* to = args.in.output + int64_t(first + row) * valueDim + head * dim + 2 * t;
#pragma unroll
        for (int n = 0; n < 16; ++n) {
            const float2 z = unpackBf16(*reinterpret_cast<const uint32_t*>(gate + n * 8));
            const float2 w = *reinterpret_cast<const float2*>(args.layer.norm + n * 8 + 2 * t);
            *reinterpret_cast<uint32_t*>(to + n * 8) =
                packBf16(w.x * (o[n][2 * h] * scale) * silu(z.x), w.y * (o[n][2 * h + 1] * scale) * silu(z.y));
        }
    }
}

} // namespace

cudaError_t launchGdnChunks(const GdnChunkInput& input, const GdnLayer& layer, std::uint8_t* workspace,
                            cudaStream_t stream)
{
    if (input.rows < 0 || layer.keyHeads <= 0 || layer.valueHeads <= 0 || layer.valueHeads % layer.keyHeads != 0 ||
        input.gateStride % 2 != 0 || input.smallStride < layer.valueHeads)
        return cudaErrorInvalidValue;
    if (input.rows == 0)
        return cudaSuccess;
    ChunkArgs args{input, layer, {}, gdnChunks(input.rows)};
    const std::size_t places = std::size_t(args.chunks) * std::size_t(layer.valueHeads);
    args.work.inverse = reinterpret_cast<__nv_bfloat16*>(workspace);
    args.work.states = args.work.inverse + places * 2 * chunk * chunk;
    args.work.values = args.work.states + places * dim * dim;
    args.work.numbers = reinterpret_cast<float*>(args.work.values + places * chunk * dim);
    const auto launch = [&](void (*kernel)(ChunkArgs), dim3 grid, int threads, std::size_t bytes) {
        OCTAVO_CUDA_TRY(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
        return launchDependent(kernel, grid, threads, bytes, stream, args);
    };
    const dim3 everyChunk(args.chunks, layer.valueHeads);
    OCTAVO_CUDA_TRY(launch(gdnPrepareKernel, everyChunk, prepareThreads, sizeof(PrepareShared)));
    OCTAVO_CUDA_TRY(launch(gdnScanKernel, dim3(dim / scanColumns, layer.valueHeads), scanThreads, sizeof(ScanShared)));
    OCTAVO_CUDA_TRY(launch(gdnOutputKernel, everyChunk, outputThreads, sizeof(OutputShared)));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
