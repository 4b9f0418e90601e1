#include "kernels/cuda/gdn_decode.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm.h"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int convRowsPerBlock = 64;
constexpr int convRowsAhead = 8; // that a thread loads before it uses the first

constexpr int inputThreads = 256;
constexpr int projectionRows = 8; // of x at a time, a warp for each
static_assert(projectionRows == inputThreads / 32);
constexpr int fewRows = 32; // of x, up to which blocks of two outputs all run at once; with more they have four

/// Blocks of a layer's two small projections: eight rows each, and one output, or `many` where there are more rows than
/// that: an input is then loaded for more than one.
struct ProjectionGrid {
    int rowBlocks, outputBlocks;

    __host__ __device__ ProjectionGrid(int rows, int outputs, int many)
        : rowBlocks((rows + projectionRows - 1) / projectionRows)
        , outputBlocks(rows > projectionRows ? (2 * outputs + many - 1) / many : 2 * outputs)
    {
    }
    __host__ __device__ int blocks() const { return rowBlocks * outputBlocks; }
};

/// Sums over the warp of some values that every lane brings, a power of two up to 32: a lane gets the one with index
/// lane / (32 / Values). Values change hands by halves, so that each sum takes the additions of warpSum() alone.
template <int Values, int Bit = 16>
__device__ __forceinline__ float warpSums(const float (&values)[Values])
{
    if constexpr (Bit == 0) {
        return values[0];
    } else if constexpr (Values == 1) {
        const float sum[1] = {values[0] + __shfl_xor_sync(fullMask, values[0], Bit)};
        return warpSums<1, Bit / 2>(sum);
    } else {
        const bool upper = threadIdx.x & Bit;
        float sums[Values / 2];
#pragma unroll
        for (int i = 0; i < Values / 2; ++i) {
            const float kept = upper ? values[Values / 2 + i] : values[i];
            const float sent = upper ? values[i] : values[Values / 2 + i];
            sums[i] = kept + __shfl_xor_sync(fullMask, sent, Bit);
        }
        return warpSums<Values / 2, Bit / 2>(sums);
    }
}

/// Some outputs of the small bf16 projection for eight rows: lanes over the inputs, then warps, whatever M.
template <int Outputs, int Sums>
__device__ __forceinline__ void projectOutputs(const GdnProjection& p, int firstOutput, int first,
                                               float (&sumsOfWarps)[8][Sums], float (&scales)[projectionRows])
{
    constexpr int values = Outputs * projectionRows;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const __nv_bfloat16* weightRows[Outputs];
#pragma unroll
    for (int o = 0; o < Outputs; ++o)
        weightRows[o] = p.weights + int64_t(min(firstOutput + o, 2 * p.outputs - 1)) * p.x.cols;
    // Weights are on their way before the wait: in registers where these are not needed for more outputs.
    constexpr int chunks = Outputs == 1 ? 4 : 0; // of 2048 inputs
    uint4 weights[chunks ? chunks : 1];
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
        const int column = (c * inputThreads + int(threadIdx.x)) * 8;
        weights[c] = column < p.x.cols ? *reinterpret_cast<const uint4*>(weightRows[0] + column) : uint4{0, 0, 0, 0};
    }
    if (chunks == 0) {
        for (int column = threadIdx.x * 64; column < p.x.cols; column += inputThreads * 64) { // a line each
#pragma unroll
            for (int o = 0; o < Outputs; ++o)
                prefetchLine(weightRows[o] + column);
        }
    }
    waitForPreviousKernel();
    const int rows = min(projectionRows, p.x.rows - first);
    const __nv_bfloat16* x = p.x.data + first * p.x.stride;
    float sums[values] = {};
    const auto add = [&](int column, const uint4(&bits)[Outputs]) {
        uint4 inputs[projectionRows];
#pragma unroll
        for (int r = 0; r < projectionRows; ++r) {
            if (r < rows)
                inputs[r] = *reinterpret_cast<const uint4*>(x + r * p.x.stride + column);
        }
#pragma unroll
        for (int r = 0; r < projectionRows; ++r) {
            if (r < rows) {
                const uint32_t u[4] = {inputs[r].x, inputs[r].y, inputs[r].z, inputs[r].w};
#pragma unroll
                for (int o = 0; o < Outputs; ++o) {
                    const uint32_t w[4] = {bits[o].x, bits[o].y, bits[o].z, bits[o].w};
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const float2 a = unpackBf16(w[i]), b = unpackBf16(u[i]);
                        sums[o * projectionRows + r] += a.x * b.x;
                        sums[o * projectionRows + r] += a.y * b.y;
                    }
                }
            }
        }
    };
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
        const int column = (c * inputThreads + int(threadIdx.x)) * 8;
        const uint4 bits[Outputs] = {weights[c]};
        if (column < p.x.cols)
            add(column, bits);
    }
    for (int column = (chunks * inputThreads + int(threadIdx.x)) * 8; column < p.x.cols; column += inputThreads * 8) {
        uint4 bits[Outputs];
#pragma unroll
        for (int o = 0; o < Outputs; ++o)
            bits[o] = *reinterpret_cast<const uint4*>(weightRows[o] + column);
        add(column, bits);
    }
    const float ofWarp = warpSums(sums);
    if (lane % (32 / values) == 0)
        sumsOfWarps[warp][lane / (32 / values)] = ofWarp;
    if (p.squares) { // a warp for each row
        const int parts = p.x.cols / w4SquareValues;
        float sum = 0.0f;
        for (int at = lane; at < parts && warp < rows; at += 32)
            sum += p.squares[int64_t(first + warp) * parts + at];
        sum = warpSum(sum);
        if (lane == 0)
            scales[warp] = rsqrtf(sum / p.x.cols + p.eps);
    }
    __syncthreads();
    const int r = threadIdx.x % projectionRows, output = firstOutput + int(threadIdx.x) / projectionRows;
    if (int(threadIdx.x) < values && r < rows && output < 2 * p.outputs) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < inputThreads / 32; ++w)
            sum += sumsOfWarps[w][threadIdx.x];
        if (p.squares)
            sum *= scales[r];
        __nv_bfloat16* y = output < p.outputs ? p.y0 : p.y1;
        y[int64_t(first + r) * p.outputs + output % p.outputs] = __float2bfloat16_rn(sum);
    }
}

/// The first blocks each compute outputs of the projection, the others convolve: convBlocks of them each some rows of
/// one sequence.
template <int ManyOutputs>
__global__ void __launch_bounds__(inputThreads, 2)
    gdnInputKernel(const ConvSequence* sequences, int numSequences, int channels, const float* weights, int convBlocks,
                   const GdnProjection projection)
{
    __shared__ float sumsOfWarps[8][ManyOutputs * projectionRows], scales[projectionRows];
    allowDependentLaunch();
    const ProjectionGrid grid(projection.x.rows, projection.outputs, ManyOutputs);
    int block = blockIdx.x;
    if (block < grid.blocks()) {
        const int first = block / grid.outputBlocks * projectionRows;
        if (grid.rowBlocks == 1)
            projectOutputs<1>(projection, block, 0, sumsOfWarps, scales);
        else
            projectOutputs<ManyOutputs>(projection, block % grid.outputBlocks * ManyOutputs, first, sumsOfWarps,
                                        scales);
        return;
    }
    block -= grid.blocks();
    const ConvSequence s = sequences[block / convBlocks % numSequences];
    const int channel = (block % convBlocks * inputThreads + int(threadIdx.x)) * 2;
    const int chunk = block / convBlocks / numSequences, first = chunk * convRowsPerBlock;
    float4 w0{}, w1{};
    if (channel < channels) {
        w0 = *reinterpret_cast<const float4*>(weights + int64_t(channel) * 4);
        w1 = *reinterpret_cast<const float4*>(weights + int64_t(channel) * 4 + 4);
    }
    waitForPreviousKernel();
    if (channel >= channels || (first >= s.rows && chunk > 0))
        return;

    // Row t of the stream: history is -3 - pending .. -1 - pending, pending up to -1, input from 0.
    const auto bitsAt = [&](int t) -> uint32_t {
        const __nv_bfloat16* row;
        if (t >= 0)
            row = s.input + int64_t(t) * s.inputStride;
        else if (t >= -s.pendingRows)
            row = s.pending + int64_t(t + s.pendingRows) * channels;
        else
            row = s.history + int64_t(t + s.pendingRows + convHistory) * channels;
        return *reinterpret_cast<const uint32_t*>(row + channel);
    };

    const bool moves = chunk == 0 && s.pendingRows + s.storeRows > 0;
    uint32_t kept[convHistory] = {};
    if (moves) {
#pragma unroll
        for (int i = 0; i < convHistory; ++i)
            kept[i] = bitsAt(s.storeRows - convHistory + i);
    }
    float2 u0 = unpackBf16(bitsAt(first - 3)), u1 = unpackBf16(bitsAt(first - 2)), u2 = unpackBf16(bitsAt(first - 1));
    const int end = min(s.rows, first + convRowsPerBlock);
    for (int base = first; base < end; base += convRowsAhead) {
        uint32_t ahead[convRowsAhead];
#pragma unroll
        for (int i = 0; i < convRowsAhead; ++i)
            ahead[i] = base + i < end ? bitsAt(base + i) : 0;
#pragma unroll
        for (int i = 0; i < convRowsAhead; ++i) {
            if (base + i >= end)
                break;
            const float2 u3 = unpackBf16(ahead[i]);
            const float y0 = w0.x * u0.x + w0.y * u1.x + w0.z * u2.x + w0.w * u3.x;
            const float y1 = w1.x * u0.y + w1.y * u1.y + w1.z * u2.y + w1.w * u3.y;
            *reinterpret_cast<uint32_t*>(s.output + int64_t(base + i) * channels + channel) =
                packBf16(silu(y0), silu(y1));
            u0 = u1;
            u1 = u2;
            u2 = u3;
        }
    }
    if (moves) {
#pragma unroll
        for (int i = 0; i < convHistory; ++i)
            *reinterpret_cast<uint32_t*>(s.history + int64_t(i) * channels + channel) = kept[i];
    }
}

constexpr int blockThreads = 128;
constexpr int blockWarps = blockThreads / 32;
constexpr int warpRows = gdnHeadDim / blockWarps; // a quarter of the state's key rows
constexpr int maxTokens = 16;                     // staged at a time
static_assert(warpRows == 32, "groups of eight rows: part of the sums' rounding");

struct GdnShared {
    float k[maxTokens][gdnHeadDim]; // normalised
    float q[maxTokens][gdnHeadDim]; // normalised and scaled
    __nv_bfloat16 v[maxTokens][gdnHeadDim];
    float kq[maxTokens], decay[maxTokens], beta[maxTokens];
    // S^T k and S^T q of each quarter of the key rows, for two tokens in turn.
    float ofKey[2][blockWarps][gdnHeadDim], ofQuery[2][blockWarps][gdnHeadDim];
    float o[maxTokens][gdnHeadDim];
};

/// A block's work and what of it is a lane's: four value columns of a quarter of the state, from `firstKey` on.
struct GdnPlace {
    int head, keyHead, lane, warp, firstKey, column;

    __device__ __forceinline__ explicit GdnPlace(const GdnLayer& layer)
        : head(blockIdx.x)
        , keyHead(head / (layer.valueHeads / layer.keyHeads))
        , lane(threadIdx.x % 32)
        , warp(threadIdx.x / 32)
        , firstKey(warp * warpRows)
        , column(lane * 4)
    {
    }
};

/// Brings tokens base .. stop - 1 into shared memory: k and q normalised, decay and beta as they are used. A warp loads
/// `Ahead` tokens before it uses the first.
template <int Ahead>
__device__ __forceinline__ void stageTokens(GdnShared& shared, const GdnSequence& s, const GdnLayer& layer,
                                            const GdnPlace& place, int base, int stop)
{
    const int convDim = (2 * layer.keyHeads + layer.valueHeads) * gdnHeadDim;
    const int lane = place.lane;
    if (base + int(threadIdx.x) < stop) { // a token's scalars, a thread each
        const int t = base + int(threadIdx.x);
        const bool replay = t < s.pendingRows;
        const int64_t from = int64_t(replay ? t : t - s.pendingRows) * layer.valueHeads + place.head;
        const float b = __bfloat162float((replay ? s.pendingBeta : s.beta)[from]);
        const float x = __bfloat162float((replay ? s.pendingDecay : s.decay)[from]) + layer.dtBias[place.head];
        const float softplus = x > 20.0f ? x : log1pf(__expf(x));
        shared.decay[threadIdx.x] = __expf(-__expf(layer.aLog[place.head]) * softplus);
        shared.beta[threadIdx.x] = sigmoid(b);
    }
    for (int first = base + place.warp; first < stop; first += Ahead * blockWarps) {
        uint2 qBits[Ahead], kBits[Ahead], vBits[Ahead];
#pragma unroll
        for (int j = 0; j < Ahead; ++j) {
            const int t = min(first + j * blockWarps, stop - 1);
            const __nv_bfloat16* row =
                t < s.pendingRows ? s.pendingQkv + int64_t(t) * convDim : s.qkv + int64_t(t - s.pendingRows) * convDim;
            const auto chunk = [&](int head) {
                return *reinterpret_cast<const uint2*>(row + head * gdnHeadDim + lane * 4);
            };
            qBits[j] = chunk(place.keyHead);
            kBits[j] = chunk(layer.keyHeads + place.keyHead);
            vBits[j] = chunk(2 * layer.keyHeads + place.head);
        }
        float qq[Ahead], kk[Ahead], kq[Ahead];
#pragma unroll
        for (int j = 0; j < Ahead; ++j) {
            const float2 q0 = unpackBf16(qBits[j].x), q1 = unpackBf16(qBits[j].y);
            const float2 k0 = unpackBf16(kBits[j].x), k1 = unpackBf16(kBits[j].y);
            qq[j] = q0.x * q0.x + q0.y * q0.y + q1.x * q1.x + q1.y * q1.y;
            kk[j] = k0.x * k0.x + k0.y * k0.y + k1.x * k1.x + k1.y * k1.y;
            kq[j] = k0.x * q0.x + k0.y * q0.y + k1.x * q1.x + k1.y * q1.y;
        }
#pragma unroll
        for (int bit = 16; bit > 0; bit >>= 1) { // warpSum() of all, side by side
#pragma unroll
            for (int j = 0; j < Ahead; ++j) {
                qq[j] += __shfl_xor_sync(fullMask, qq[j], bit);
                kk[j] += __shfl_xor_sync(fullMask, kk[j], bit);
                kq[j] += __shfl_xor_sync(fullMask, kq[j], bit);
            }
        }
#pragma unroll
        for (int j = 0; j < Ahead; ++j) {
            const int at = first + j * blockWarps - base;
            if (base + at >= stop)
                break;
            const float2 q0 = unpackBf16(qBits[j].x), q1 = unpackBf16(qBits[j].y);
            const float2 k0 = unpackBf16(kBits[j].x), k1 = unpackBf16(kBits[j].y);
            const float kScale = rsqrtf(kk[j] + 1e-6f);
            const float qScale = rsqrtf(qq[j] + 1e-6f) * 0.08838834764831845f; // 128^-0.5
            *reinterpret_cast<float4*>(&shared.k[at][lane * 4]) =
                float4{k0.x * kScale, k0.y * kScale, k1.x * kScale, k1.y * kScale};
            *reinterpret_cast<float4*>(&shared.q[at][lane * 4]) =
                float4{q0.x * qScale, q0.y * qScale, q1.x * qScale, q1.y * qScale};
            *reinterpret_cast<uint2*>(&shared.v[at][lane * 4]) = vBits[j];
            if (lane == 0)
                shared.kq[at] = kq[j] * kScale * qScale;
        }
    }
}

/// A warp's part of S^T x in the lane's columns: groups of eight rows one by one, then even and odd groups.
__device__ __forceinline__ float4 warpProduct(const float4 (&state)[warpRows], const float* x)
{
    float4 sums[4] = {};
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
#pragma unroll
        for (int g = 0; g < 4; ++g) {
            const float4 x4 = *reinterpret_cast<const float4*>(x + g * 8 + i);
            const float xs[4] = {x4.x, x4.y, x4.z, x4.w};
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float4& row = state[g * 8 + i + j];
                sums[g].x += row.x * xs[j], sums[g].y += row.y * xs[j];
                sums[g].z += row.z * xs[j], sums[g].w += row.w * xs[j];
            }
        }
    }
    return {(sums[0].x + sums[2].x) + (sums[1].x + sums[3].x), (sums[0].y + sums[2].y) + (sums[1].y + sums[3].y),
            (sums[0].z + sums[2].z) + (sums[1].z + sums[3].z), (sums[0].w + sums[2].w) + (sums[1].w + sums[3].w)};
}

/// The warps' parts in the lane's columns together, in order.
__device__ __forceinline__ void addWarps(float (&sums)[4], const float (&parts)[blockWarps][gdnHeadDim], int column)
{
#pragma unroll
    for (int w = 0; w < blockWarps; ++w) {
        const float4 part = *reinterpret_cast<const float4*>(&parts[w][column]);
        sums[0] += part.x, sums[1] += part.y, sums[2] += part.z, sums[3] += part.w;
    }
}

/// Gated norm and store of the new ones among tokens base .. stop - 1, a warp a row.
__device__ __forceinline__ void storeOutputs(const GdnShared& shared, const GdnSequence& s, const GdnLayer& layer,
                                             const GdnPlace& place, int base, int stop)
{
    const int columns = place.head * gdnHeadDim + place.column;
    for (int t = max(base, s.pendingRows) + place.warp; t < stop; t += blockWarps) {
        const int row = t - s.pendingRows;
        const float4 o = *reinterpret_cast<const float4*>(&shared.o[t - base][place.column]);
        const float sum = warpSum(o.x * o.x + o.y * o.y + o.z * o.z + o.w * o.w);
        const float scale = rsqrtf(sum * (1.0f / gdnHeadDim) + layer.normEps);
        const uint2 zBits = *reinterpret_cast<const uint2*>(s.gate + int64_t(row) * s.gateStride + columns);
        const float2 z01 = unpackBf16(zBits.x), z23 = unpackBf16(zBits.y);
        const float4 w = *reinterpret_cast<const float4*>(layer.norm + place.column);
        *reinterpret_cast<uint2*>(s.output + int64_t(row) * layer.valueHeads * gdnHeadDim + columns) =
            uint2{packBf16(w.x * (o.x * scale) * silu(z01.x), w.y * (o.y * scale) * silu(z01.y)),
                  packBf16(w.z * (o.z * scale) * silu(z23.x), w.w * (o.w * scale) * silu(z23.y))};
    }
}

/// One block per (value head, sequence), the head's state in its registers: a warp has a quarter of the key rows, a
/// lane four columns of it, so that a row of k or q is read for four columns at a time and only quarters are exchanged.
/// `Blocks` of them share a multiprocessor; where that is two, registers are plenty.
template <int Blocks>
__global__ void __launch_bounds__(blockThreads, Blocks)
    gdnDecodeKernel(const GdnSequence* sequences, const GdnLayer layer)
{
    __shared__ GdnShared shared;
    allowDependentLaunch();
    const GdnSequence s = sequences[blockIdx.y];
    const GdnPlace place(layer);
    const int total = s.pendingRows + s.rows;
    const int column = place.column;

    float4 state[warpRows];
    float* stateAt = s.state + (int64_t(place.head) * gdnHeadDim + place.firstKey) * gdnHeadDim + column;
#pragma unroll
    for (int i = 0; i < warpRows; ++i)
        state[i] = *reinterpret_cast<const float4*>(stateAt + i * gdnHeadDim);
    if (threadIdx.x == 0)
        prefetchLine(layer.norm), prefetchLine(layer.aLog + place.head), prefetchLine(layer.dtBias + place.head);
    waitForPreviousKernel();
    if (total == 0)
        return;

    const int storeAt = s.pendingRows + s.storeRows;
    for (int base = 0; base < total; base += maxTokens) {
        const int stop = min(total, base + maxTokens);
        stageTokens<Blocks == 2 ? 3 : 1>(shared, s, layer, place, base, stop);
        __syncthreads();

        for (int t = base; t < stop; ++t) {
            const int at = t - base;
            const bool replay = t < s.pendingRows;
            *reinterpret_cast<float4*>(&shared.ofKey[t % 2][place.warp][column]) =
                warpProduct(state, &shared.k[at][place.firstKey]);
            if (!replay)
                *reinterpret_cast<float4*>(&shared.ofQuery[t % 2][place.warp][column]) =
                    warpProduct(state, &shared.q[at][place.firstKey]);
            __syncthreads(); // the other halves serve the next token, so one barrier is enough

            const uint2 vBits = *reinterpret_cast<const uint2*>(&shared.v[at][column]);
            const float e = shared.decay[at], beta = shared.beta[at];
            float r[4] = {};
            addWarps(r, shared.ofKey[t % 2], column);
            const float2 v01 = unpackBf16(vBits.x), v23 = unpackBf16(vBits.y);
            const float d[4] = {beta * (v01.x - e * r[0]), beta * (v01.y - e * r[1]), beta * (v23.x - e * r[2]),
                                beta * (v23.y - e * r[3])};
            if (!replay && place.warp == t % blockWarps) {
                float p[4] = {};
                addWarps(p, shared.ofQuery[t % 2], column);
                float o[4];
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    o[j] = __bfloat162float(__float2bfloat16_rn(e * p[j] + shared.kq[at] * d[j]));
                *reinterpret_cast<float4*>(&shared.o[at][column]) = float4{o[0], o[1], o[2], o[3]};
            }
            if (t >= storeAt && t + 1 == total)
                break; // nobody reads the state after the last row of a verify
#pragma unroll
            for (int i = 0; i < warpRows; i += 4) {
                const float4 k4 = *reinterpret_cast<const float4*>(&shared.k[at][place.firstKey + i]);
                const float k[4] = {k4.x, k4.y, k4.z, k4.w};
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    state[i + j].x = e * state[i + j].x + k[j] * d[0];
                    state[i + j].y = e * state[i + j].y + k[j] * d[1];
                    state[i + j].z = e * state[i + j].z + k[j] * d[2];
                    state[i + j].w = e * state[i + j].w + k[j] * d[3];
                }
            }
            if (t + 1 == storeAt) {
#pragma unroll
                for (int i = 0; i < warpRows; ++i)
                    *reinterpret_cast<float4*>(stateAt + i * gdnHeadDim) = state[i];
            }
        }
        __syncthreads();
        storeOutputs(shared, s, layer, place, base, stop);
    }
}

__global__ void __launch_bounds__(inputThreads)
    gdnKeepKernel(const ConvSequence* conv, const GdnSequence* gdn, int channels, int valueHeads)
{
    allowDependentLaunch();
    const ConvSequence c = conv[blockIdx.y];
    const GdnSequence g = gdn[blockIdx.y];
    waitForPreviousKernel();
    const int64_t row = blockIdx.x;
    if (c.storeRows != 0 || row >= c.rows)
        return;
    const auto* input = reinterpret_cast<const uint4*>(c.input + row * c.inputStride);
    const auto* qkv = reinterpret_cast<const uint4*>(g.qkv + row * channels);
    auto* keptInput = reinterpret_cast<uint4*>(c.pending + row * channels);
    auto* keptQkv = reinterpret_cast<uint4*>(g.pendingQkv + row * channels);
#pragma unroll 4
    for (int i = threadIdx.x; i < channels / 8; i += inputThreads) {
        const uint4 a = input[i], b = qkv[i];
        keptInput[i] = a;
        keptQkv[i] = b;
    }
    for (int i = threadIdx.x; i < valueHeads; i += inputThreads) {
        g.pendingBeta[row * valueHeads + i] = g.beta[row * valueHeads + i];
        g.pendingDecay[row * valueHeads + i] = g.decay[row * valueHeads + i];
    }
}

} // namespace

cudaError_t launchGdnConv(const ConvSequence* sequences, int numSequences, int maxRows, int channels,
                          const float* weights, const GdnProjection& projection, cudaStream_t stream)
{
    const MatrixView<const __nv_bfloat16>& x = projection.x;
    if (numSequences < 0 || maxRows < 0 || channels <= 0 || channels % 2 != 0 || projection.outputs < 0 ||
        (projection.outputs > 0 && (x.cols <= 0 || x.cols % 8 != 0 || x.stride % 8 != 0)))
        return cudaErrorInvalidValue;
    if (numSequences == 0)
        return cudaSuccess;
    const int chunks = maxRows > convRowsPerBlock ? (maxRows + convRowsPerBlock - 1) / convRowsPerBlock : 1;
    const int convBlocks = (channels / 2 + inputThreads - 1) / inputThreads;
    const int many = x.rows > fewRows ? 4 : 2;
    const ProjectionGrid projections(x.rows, projection.outputs, many);
    const int64_t blocks = projections.blocks() + int64_t{convBlocks} * numSequences * chunks;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    OCTAVO_CUDA_TRY(launchDependent(many == 4 ? gdnInputKernel<4> : gdnInputKernel<2>, dim3(unsigned(blocks)),
                                    inputThreads, 0, stream, sequences, numSequences, channels, weights, convBlocks,
                                    projection));
    return cudaGetLastError();
}

cudaError_t launchGdnDecode(const GdnSequence* sequences, int numSequences, const GdnLayer& layer, cudaStream_t stream)
{
    if (numSequences < 0 || layer.keyHeads <= 0 || layer.valueHeads % layer.keyHeads != 0 || layer.valueHeads <= 0)
        return cudaErrorInvalidValue;
    if (numSequences == 0)
        return cudaSuccess;
    const dim3 grid(layer.valueHeads, numSequences);
    const bool few = int64_t{layer.valueHeads} * numSequences <= 2 * int64_t{deviceMultiprocessors()};
    OCTAVO_CUDA_TRY(launchDependent(few ? gdnDecodeKernel<2> : gdnDecodeKernel<3>, grid, blockThreads, 0, stream,
                                    sequences, layer));
    return cudaGetLastError();
}

cudaError_t launchGdnKeep(const ConvSequence* conv, const GdnSequence* gdn, int numSequences, int maxRows,
                          const GdnLayer& layer, cudaStream_t stream)
{
    if (numSequences < 0 || maxRows < 0 || layer.keyHeads <= 0 || layer.valueHeads <= 0)
        return cudaErrorInvalidValue;
    if (numSequences == 0 || maxRows == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(launchDependent(gdnKeepKernel, dim3(maxRows, numSequences), inputThreads, 0, stream, conv, gdn,
                                    layer.convDim(), layer.valueHeads));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
