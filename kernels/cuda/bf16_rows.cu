#include "kernels/cuda/bf16_rows.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int warps = 8;
constexpr int warpOutputs = 16;
constexpr int chunk = 64;     // of k
constexpr int stages = 4;     // of the rows, in shared memory
constexpr int ahead = 2;      // chunks of weights in registers
constexpr int rowBytes = 192; // of a row's chunk: 128, and a gap that keeps two rows off each other's banks
constexpr int tileRows = 8;   // the tensor core's narrow side

/// A lane's 16-byte pieces of two rows of weights, for both halves of a chunk.
struct Weights {
    uint4 low[2], high[2]; ///< rows g, g + 8: columns 8 t .., 32 + 8 t ..
};

/// Weights are the product's rows and x its columns. A lane multiplies the columns that its own 16 bytes hold, of both,
/// so that neither is rearranged: k goes 8 t, 8 t + 1, 8 t + 2, ... through the steps.
template <int Tiles>
__global__ void __launch_bounds__(warps * 32, 2)
    bf16RowsKernel(MatrixView<const __nv_bfloat16> x, MatrixView<const __nv_bfloat16> weights, void* y, int64_t yStride,
                   bool floats)
{
    extern __shared__ __align__(128) uint8_t shared[]; // (stages, Tiles * 8, rowBytes)
    allowDependentLaunch();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int g = lane / 4, t = lane % 4;
    const int firstOutput = (blockIdx.x * warps + warp) * warpOutputs;
    const int chunks = weights.cols / chunk;
    const __nv_bfloat16* from[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) // the last ones are read again in place of what is not there
        from[i] = weights.data + int64_t(min(firstOutput + g + 8 * i, weights.rows - 1)) * weights.stride + 8 * t;
    const auto load = [&](int c) {
        Weights w;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            w.low[i] = __ldcs(reinterpret_cast<const uint4*>(from[i] + c * chunk));
            w.high[i] = __ldcs(reinterpret_cast<const uint4*>(from[i] + c * chunk + chunk / 2));
        }
        return w;
    };
    const auto copyRows = [&](int c) {
        if (c < chunks) {
            const unsigned target = sharedAddress(shared + c % stages * Tiles * tileRows * rowBytes);
            for (int i = threadIdx.x; i < Tiles * tileRows * 8; i += warps * 32) {
                const int row = i / 8, piece = i % 8;
                copyAsync16(target + row * rowBytes + piece * 16,
                            x.data + int64_t(min(row, x.rows - 1)) * x.stride + c * chunk + piece * 8, row < x.rows);
            }
        }
        copyAsyncCommit();
    };
    Weights next[ahead];
#pragma unroll
    for (int c = 0; c < ahead; ++c) // weights are nobody's output
        next[c] = load(min(c, chunks - 1));
    waitForPreviousKernel();
    for (int c = 0; c < stages - 1; ++c)
        copyRows(c);

    float sums[Tiles][4] = {};
    const auto multiply = [&](const Weights& w, int c) {
        copyAsyncWait<stages - 2>();
        __syncthreads();
        copyRows(c + stages - 1);
        const uint8_t* rows = shared + c % stages * Tiles * tileRows * rowBytes + g * rowBytes + t * 16;
#pragma unroll
        for (int n = 0; n < Tiles; ++n) {
            const uint4 low = *reinterpret_cast<const uint4*>(rows + n * tileRows * rowBytes);
            const uint4 high = *reinterpret_cast<const uint4*>(rows + n * tileRows * rowBytes + chunk / 2 * 2);
            mmaBf16(sums[n], {w.low[0].x, w.low[1].x, w.low[0].y, w.low[1].y}, low.x, low.y);
            mmaBf16(sums[n], {w.low[0].z, w.low[1].z, w.low[0].w, w.low[1].w}, low.z, low.w);
            mmaBf16(sums[n], {w.high[0].x, w.high[1].x, w.high[0].y, w.high[1].y}, high.x, high.y);
            mmaBf16(sums[n], {w.high[0].z, w.high[1].z, w.high[0].w, w.high[1].w}, high.z, high.w);
        }
    };
    int c = 0;
    for (; c + ahead <= chunks; c += ahead) {
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            const Weights w = next[i];
            next[i] = load(min(c + i + ahead, chunks - 1));
            multiply(w, c + i);
        }
    }
#pragma unroll
    for (int i = 0; i < ahead - 1; ++i) {
        if (c + i < chunks)
            multiply(next[i], c + i);
    }
    copyAsyncWait<0>();
#pragma unroll
    for (int n = 0; n < Tiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = n * tileRows + 2 * t + i % 2, output = firstOutput + g + i / 2 * 8;
            if (row >= x.rows || output >= weights.rows)
                continue;
            const int64_t at = row * yStride + output;
            if (floats)
                static_cast<float*>(y)[at] = sums[n][i];
            else
                static_cast<__nv_bfloat16*>(y)[at] = __float2bfloat16_rn(sums[n][i]);
        }
    }
}

} // namespace

cudaError_t launchBf16Rows(MatrixView<const __nv_bfloat16> x, MatrixView<const __nv_bfloat16> weights, void* y,
                           std::int64_t yStride, GemmOutput output, cudaStream_t stream)
{
    if (x.rows < 0 || x.rows > bf16RowsMost || x.cols != weights.cols || weights.rows <= 0 || weights.cols <= 0 ||
        !bf16RowsFit(weights) || x.stride % 8 != 0 || output == GemmOutput::Gated)
        return cudaErrorInvalidValue;
    if (x.rows == 0)
        return cudaSuccess;
    const int tiles = (x.rows + tileRows - 1) / tileRows;
    const auto kernel = tiles == 1   ? bf16RowsKernel<1>
                        : tiles == 2 ? bf16RowsKernel<2>
                        : tiles <= 4 ? bf16RowsKernel<4>
                                     : bf16RowsKernel<8>;
    const int room = tiles <= 2 ? tiles : tiles <= 4 ? 4 : 8;
    const int bytes = stages * room * tileRows * rowBytes;
    OCTAVO_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    const int blocks = (weights.rows + warps * warpOutputs - 1) / (warps * warpOutputs);
    OCTAVO_CUDA_TRY(launchDependent(kernel, blocks, warps * 32, bytes, stream, x, weights, y, yStride,
                                    output == GemmOutput::Float));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
