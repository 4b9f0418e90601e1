#include "kernels/cuda/elementwise.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/row_math.cuh"

#include <algorithm>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int headDim = kvHeadDim;
constexpr int normThreads = 256;
constexpr int normChunks = 8; // of 8 values per thread: dim up to 16,384

__global__ void __launch_bounds__(normThreads)
    addRmsNormKernel(MatrixView<__nv_bfloat16> hidden, MatrixView<const __nv_bfloat16> delta, const float* weight,
                     float eps, MatrixView<__nv_bfloat16> y)
{
    __shared__ float scratch[33];
    allowDependentLaunch();
    if (blockIdx.x == 0) {
        for (int line = threadIdx.x; line * 32 < hidden.cols; line += normThreads)
            prefetchLine(weight + line * 32);
    }
    waitForPreviousKernel();
    const int64_t row = blockIdx.x;
    uint4 kept[normChunks];
    float square = 0.0f;
#pragma unroll
    for (int c = 0; c < normChunks; ++c) {
        const int column = (c * normThreads + threadIdx.x) * 8;
        if (column >= hidden.cols)
            break;
        uint4* at = reinterpret_cast<uint4*>(hidden.data + row * hidden.stride + column);
        kept[c] = *at;
        uint32_t* words = reinterpret_cast<uint32_t*>(&kept[c]);
        if (delta.data) {
            const uint4 other = *reinterpret_cast<const uint4*>(delta.data + row * delta.stride + column);
            const uint32_t otherWords[4] = {other.x, other.y, other.z, other.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float2 h = unpackBf16(words[i]), d = unpackBf16(otherWords[i]);
                words[i] = packBf16(h.x + d.x, h.y + d.y);
            }
            *at = kept[c];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 h = unpackBf16(words[i]);
            square += h.x * h.x + h.y * h.y;
        }
    }
    const float scale = rsqrtf(blockSum(square, scratch) / hidden.cols + eps);
#pragma unroll
    for (int c = 0; c < normChunks; ++c) {
        const int column = (c * normThreads + threadIdx.x) * 8;
        if (column >= hidden.cols)
            break;
        const float4 w0 = *reinterpret_cast<const float4*>(weight + column);
        const float4 w1 = *reinterpret_cast<const float4*>(weight + column + 4);
        const float w[8] = {w0.x, w0.y, w0.z, w0.w, w1.x, w1.y, w1.z, w1.w};
        const uint32_t* words = reinterpret_cast<const uint32_t*>(&kept[c]);
        uint4 out;
        uint32_t* outWords = reinterpret_cast<uint32_t*>(&out);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 h = unpackBf16(words[i]);
            outWords[i] = packBf16(h.x * scale * w[2 * i], h.y * scale * w[2 * i + 1]);
        }
        *reinterpret_cast<uint4*>(y.data + row * y.stride + column) = out;
    }
}

/// One warp per head; a lane holds 8 dimensions, so lanes 0..3 rotate against lanes 4..7.
__global__ void qkNormRopeKernel(const QkRopeArgs args)
{
    allowDependentLaunch();
    if (threadIdx.x < 16)
        prefetchLine((threadIdx.x < 8 ? args.queryNorm : args.keyNorm) + threadIdx.x % 8 * 32);
    else if (threadIdx.x == 16)
        prefetchLine(args.frequencies);
    waitForPreviousKernel();
    const int lane = threadIdx.x % 32;
    const int64_t index = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    const int headsPerToken = args.heads + args.kvHeads;
    if (index >= int64_t(args.tokens) * headsPerToken)
        return;
    const int64_t token = index / headsPerToken;
    const int head = static_cast<int>(index % headsPerToken);
    const bool isQuery = head < args.heads;
    const int keyHead = head - args.heads;
    const __nv_bfloat16* source = isQuery ? args.queryGate + token * args.queryGateStride + head * 2 * headDim
                                          : args.key + token * args.keyStride + keyHead * headDim;
    __nv_bfloat16* target = isQuery ? args.queryOut + (token * args.heads + head) * headDim
                                    : args.keyOut + (token * args.kvHeads + keyHead) * headDim;
    const float* weight = isQuery ? args.queryNorm : args.keyNorm;
    *reinterpret_cast<uint4*>(target + lane * 8) =
        normAndRotate(*reinterpret_cast<const uint4*>(source + lane * 8),
                      headRotation(weight, static_cast<float>(args.positions[token]), args.frequencies), args.eps);
}

__global__ void siluMulKernel(MatrixView<const __nv_bfloat16> gateUp, MatrixView<__nv_bfloat16> y)
{
    allowDependentLaunch();
    waitForPreviousKernel();
    const int column = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (column >= y.cols)
        return;
    const __nv_bfloat16* row = gateUp.data + blockIdx.y * gateUp.stride;
    const uint4 gate = *reinterpret_cast<const uint4*>(row + column);
    const uint4 up = *reinterpret_cast<const uint4*>(row + y.cols + column);
    const uint32_t g[4] = {gate.x, gate.y, gate.z, gate.w}, u[4] = {up.x, up.y, up.z, up.w};
    uint32_t out[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 a = unpackBf16(g[i]), b = unpackBf16(u[i]);
        out[i] = packBf16(silu(a.x) * b.x, silu(a.y) * b.y);
    }
    *reinterpret_cast<uint4*>(y.data + blockIdx.y * y.stride + column) = uint4{out[0], out[1], out[2], out[3]};
}

__global__ void embeddingKernel(MatrixView<const __nv_bfloat16> table, const int32_t* ids, MatrixView<__nv_bfloat16> y)
{
    allowDependentLaunch();
    waitForPreviousKernel();
    const __nv_bfloat16* source = table.data + ids[blockIdx.x] * table.stride;
    for (int column = threadIdx.x * 8; column < y.cols; column += blockDim.x * 8)
        *reinterpret_cast<uint4*>(y.data + blockIdx.x * y.stride + column) =
            *reinterpret_cast<const uint4*>(source + column);
}

/// One block per (output, 8 rows of x). Every M adds in the same order: lanes over the inputs, then warps.
constexpr int gemvRows = 8;
constexpr int gemvThreads = 256;
__global__ void __launch_bounds__(gemvThreads)
    bf16GemvKernel(MatrixView<const __nv_bfloat16> x, MatrixView<const __nv_bfloat16> weights, void* y, int64_t yStride,
                   bool floatOutput)
{
    __shared__ float warpSums[gemvThreads / 32][gemvRows];
    allowDependentLaunch();
    waitForPreviousKernel();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int firstRow = blockIdx.y * gemvRows;
    const int rows = min(gemvRows, x.rows - firstRow);
    float sums[gemvRows] = {};
    const __nv_bfloat16* weightRow = weights.data + blockIdx.x * weights.stride;
    for (int column = threadIdx.x * 8; column < x.cols; column += gemvThreads * 8) {
        const uint4 bits = *reinterpret_cast<const uint4*>(weightRow + column);
        const uint32_t w[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int r = 0; r < gemvRows; ++r) {
            if (r < rows) {
                const uint4 input = *reinterpret_cast<const uint4*>(x.data + (firstRow + r) * x.stride + column);
                const uint32_t u[4] = {input.x, input.y, input.z, input.w};
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float2 a = unpackBf16(w[i]), b = unpackBf16(u[i]);
                    sums[r] += a.x * b.x;
                    sums[r] += a.y * b.y;
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < gemvRows; ++r) {
        const float sum = warpSum(sums[r]);
        if (lane == 0)
            warpSums[warp][r] = sum;
    }
    __syncthreads();
    if (threadIdx.x < rows) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < gemvThreads / 32; ++w)
            sum += warpSums[w][threadIdx.x];
        const int64_t offset = (firstRow + threadIdx.x) * yStride + blockIdx.x;
        if (floatOutput)
            static_cast<float*>(y)[offset] = sum;
        else
            static_cast<__nv_bfloat16*>(y)[offset] = __float2bfloat16_rn(sum);
    }
}

} // namespace

cudaError_t launchAddRmsNorm(MatrixView<__nv_bfloat16> hidden, MatrixView<const __nv_bfloat16> delta,
                             const float* weight, float eps, MatrixView<__nv_bfloat16> y, cudaStream_t stream)
{
    if (hidden.rows != y.rows || hidden.cols != y.cols || hidden.cols % 8 != 0 || hidden.cols <= 0 ||
        hidden.cols > normThreads * normChunks * 8 || hidden.stride % 8 != 0 || y.stride % 8 != 0)
        return cudaErrorInvalidValue;
    if (delta.data && (delta.rows != hidden.rows || delta.cols != hidden.cols || delta.stride % 8 != 0))
        return cudaErrorInvalidValue;
    if (hidden.rows == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(
        launchDependent(addRmsNormKernel, hidden.rows, normThreads, 0, stream, hidden, delta, weight, eps, y));
    return cudaGetLastError();
}

cudaError_t launchQkNormRope(const QkRopeArgs& args, cudaStream_t stream)
{
    if (args.tokens < 0 || args.heads <= 0 || args.kvHeads <= 0 || args.queryGateStride % 8 != 0 ||
        args.keyStride % 8 != 0)
        return cudaErrorInvalidValue;
    if (args.tokens == 0)
        return cudaSuccess;
    constexpr int warps = 4;
    const std::int64_t heads = std::int64_t{args.tokens} * (args.heads + args.kvHeads);
    const auto blocks = static_cast<unsigned>((heads + warps - 1) / warps);
    OCTAVO_CUDA_TRY(launchDependent(qkNormRopeKernel, blocks, warps * 32, 0, stream, args));
    return cudaGetLastError();
}

cudaError_t launchSiluMul(MatrixView<const __nv_bfloat16> gateUp, MatrixView<__nv_bfloat16> y, cudaStream_t stream)
{
    if (gateUp.rows != y.rows || gateUp.cols != 2 * y.cols || y.cols % 8 != 0 || y.cols <= 0 || y.stride % 8 != 0 ||
        gateUp.stride % 8 != 0)
        return cudaErrorInvalidValue;
    if (y.rows == 0)
        return cudaSuccess;
    constexpr int threads = 128;
    const dim3 grid((y.cols / 8 + threads - 1) / threads, y.rows);
    OCTAVO_CUDA_TRY(launchDependent(siluMulKernel, grid, threads, 0, stream, gateUp, y));
    return cudaGetLastError();
}

cudaError_t launchEmbedding(MatrixView<const __nv_bfloat16> table, const std::int32_t* ids, MatrixView<__nv_bfloat16> y,
                            cudaStream_t stream)
{
    if (table.cols != y.cols || y.cols % 8 != 0 || table.stride % 8 != 0 || y.stride % 8 != 0)
        return cudaErrorInvalidValue;
    if (y.rows == 0)
        return cudaSuccess;
    const int threads = std::min(256, (y.cols / 8 + 31) / 32 * 32);
    OCTAVO_CUDA_TRY(launchDependent(embeddingKernel, y.rows, threads, 0, stream, table, ids, y));
    return cudaGetLastError();
}

cudaError_t launchBf16Gemv(MatrixView<const __nv_bfloat16> x, MatrixView<const __nv_bfloat16> weights, void* y,
                           std::int64_t yStride, GemmOutput output, cudaStream_t stream)
{
    if (x.cols != weights.cols || yStride < weights.rows || x.cols % 8 != 0 || x.cols <= 0 || x.stride % 8 != 0 ||
        weights.stride % 8 != 0)
        return cudaErrorInvalidValue;
    if (x.rows == 0 || weights.rows == 0)
        return cudaSuccess;
    const dim3 grid(weights.rows, (x.rows + gemvRows - 1) / gemvRows);
    OCTAVO_CUDA_TRY(launchDependent(bf16GemvKernel, grid, gemvThreads, 0, stream, x, weights, y, yStride,
                                    output == GemmOutput::Float));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
