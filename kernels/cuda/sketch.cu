#include "kernels/cuda/sketch.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/row_math.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int appendThreads = 256;        // 64 coordinates x 4
constexpr int appendPart = kvHeadDim / 4; // dimensions of one partial sum; the four add up in order for any Tokens

/// Tokens: of one block. Where there are few, four threads share a coordinate's dimensions instead of the tokens.
template <int Tokens>
__global__ void __launch_bounds__(appendThreads)
    sketchAppendKernel(MatrixView<const __nv_bfloat16> keys, int kvHeads, const float* basis, const float* means,
                       int64_t firstToken, const SketchView sketch)
{
    __shared__ float centred[Tokens][kvHeadDim];
    __shared__ float coordinates[Tokens][sketchRank + 1];
    __shared__ float parts[Tokens <= 4 ? 4 : 1][Tokens][sketchRank];
    allowDependentLaunch();
    waitForPreviousKernel();
    const int head = blockIdx.y;
    const int first = blockIdx.x * Tokens;
    const int count = min(Tokens, keys.rows - first);
    for (int i = threadIdx.x; i < count * kvHeadDim; i += appendThreads) {
        const int token = i / kvHeadDim, d = i % kvHeadDim;
        centred[token][d] = __bfloat162float(keys.data[(first + token) * keys.stride + head * kvHeadDim + d]) -
                            means[head * kvHeadDim + d];
    }
    __syncthreads();
    const int c = threadIdx.x % sketchRank, sub = threadIdx.x / sketchRank;
    const float* column = basis + int64_t(head) * kvHeadDim * sketchRank + c;
    if constexpr (Tokens <= 4) {
        float sums[Tokens] = {};
#pragma unroll 16
        for (int d = sub * appendPart; d < (sub + 1) * appendPart; ++d) {
            const float b = column[d * sketchRank];
#pragma unroll
            for (int i = 0; i < Tokens; ++i)
                sums[i] += b * centred[i][d];
        }
#pragma unroll
        for (int i = 0; i < Tokens; ++i)
            parts[sub][i][c] = sums[i];
        __syncthreads();
        if (sub < Tokens)
            coordinates[sub][c] = ((parts[0][sub][c] + parts[1][sub][c]) + parts[2][sub][c]) + parts[3][sub][c];
    } else {
        float totals[Tokens / 4] = {};
        for (int part = 0; part < 4; ++part) {
            float sums[Tokens / 4] = {};
#pragma unroll 8
            for (int d = part * appendPart; d < (part + 1) * appendPart; ++d) {
                const float b = column[d * sketchRank];
#pragma unroll
                for (int i = 0; i < Tokens / 4; ++i)
                    sums[i] += b * centred[i * 4 + sub][d];
            }
#pragma unroll
            for (int i = 0; i < Tokens / 4; ++i)
                totals[i] += sums[i];
        }
#pragma unroll
        for (int i = 0; i < Tokens / 4; ++i)
            coordinates[i * 4 + sub][c] = totals[i];
    }
    __syncthreads();

    // One warp per token: a lane packs coordinates 2 l and 2 l + 1.
    const int lane = threadIdx.x % 32;
    for (int token = threadIdx.x / 32; token < count; token += appendThreads / 32) {
        storeSketch(coordinates[token][2 * lane], coordinates[token][2 * lane + 1], sketch, head,
                    firstToken + first + token);
    }
}

__global__ void __launch_bounds__(128) sketchProjectKernel(const __nv_bfloat16* query, int heads, int kvHeads,
                                                           const float* basis, __nv_bfloat16* projected)
{
    __shared__ float q[kvHeadDim];
    __shared__ float halves[2][sketchRank];
    allowDependentLaunch();
    waitForPreviousKernel();
    const int64_t row = int64_t(blockIdx.y) * heads + blockIdx.x;
    for (int d = threadIdx.x; d < kvHeadDim; d += 128)
        q[d] = __bfloat162float(query[row * kvHeadDim + d]);
    __syncthreads();
    const int c = threadIdx.x % sketchRank, half = threadIdx.x / sketchRank;
    const float* column = basis + (int64_t(blockIdx.x / (heads / kvHeads)) * kvHeadDim + half * 128) * sketchRank + c;
    float sum = 0.0f;
#pragma unroll 16
    for (int d = 0; d < 128; ++d)
        sum += q[half * 128 + d] * column[d * sketchRank];
    halves[half][c] = sum;
    __syncthreads();
    if (half == 0)
        projected[row * sketchRank + c] = __float2bfloat16_rn((halves[0][c] + halves[1][c]) * 0.0625f);
}

} // namespace

cudaError_t launchSketchAppend(MatrixView<const __nv_bfloat16> keys, int kvHeads, const float* basis,
                               const float* means, std::int64_t firstToken, const SketchView& sketch,
                               cudaStream_t stream)
{
    if (kvHeads <= 0 || keys.cols != kvHeads * kvHeadDim || firstToken < 0 ||
        firstToken + keys.rows > std::int64_t{sketch.capacityTiles} * sketchTileTokens || sketch.capacityTiles % 4 != 0)
        return cudaErrorInvalidValue;
    if (keys.rows == 0)
        return cudaSuccess;
    const int blockTokens = keys.rows <= 4 ? 4 : 32;
    const auto kernel = keys.rows <= 4 ? sketchAppendKernel<4> : sketchAppendKernel<32>;
    const dim3 grid((keys.rows + blockTokens - 1) / blockTokens, kvHeads);
    OCTAVO_CUDA_TRY(
        launchDependent(kernel, grid, appendThreads, 0, stream, keys, kvHeads, basis, means, firstToken, sketch));
    return cudaGetLastError();
}

cudaError_t launchSketchProject(const __nv_bfloat16* query, int queries, int heads, int kvHeads, const float* basis,
                                __nv_bfloat16* projected, cudaStream_t stream)
{
    if (queries < 0 || kvHeads <= 0 || heads % kvHeads != 0 || heads <= 0)
        return cudaErrorInvalidValue;
    if (queries == 0)
        return cudaSuccess;
    OCTAVO_CUDA_TRY(launchDependent(sketchProjectKernel, dim3(heads, queries), 128, 0, stream, query, heads, kvHeads,
                                    basis, projected));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
