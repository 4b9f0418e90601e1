#include "kernels/cuda/w4_gemm.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/device_utils.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int warps = 8;
constexpr int pieceRows = 16, pieceInputs = 64; // what one load of fragments covers
constexpr int rowBytes = pieceInputs * 2 + 16;  // in shared memory, padded: eight rows fall on different banks

/// One warp per piece, which it turns from fragments into whole lines of 128 bytes.
__global__ void __launch_bounds__(warps * 32)
    dequantizeKernel(const uint8_t* units, int groups, int firstOut, MatrixView<__nv_bfloat16> out, int gatedWidth)
{
    __shared__ __align__(16) uint8_t tiles[warps][pieceRows * rowBytes];
    allowDependentLaunch();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int piece = blockIdx.x * warps + warp;
    uint8_t* tile = tiles[warp];
    const int rowBase = firstOut / pieceRows * pieceRows + blockIdx.y * pieceRows;
    const bool inside = piece * pieceInputs < out.cols;
    if (inside) {
        const uint8_t* unit = units + (int64_t(rowBase / w4TileRows) * groups + piece / 2) * w4UnitBytes;
        const int warpN = rowBase % w4TileRows / 32, half = rowBase % 32 / 16;
        const uint4 bits =
            *reinterpret_cast<const uint4*>(unit + (piece % 2) * 4096 + warpN * 1024 + half * 512 + lane * 16);
        const uint32_t scaleBits =
            *reinterpret_cast<const uint32_t*>(unit + 8192 + warpN * 64 + (lane / 4) * 8 + half * 4);
        const float2 scales = __half22float2(*reinterpret_cast<const __half2*>(&scaleBits));
        const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            uint32_t a[4];
            int4WordToFragment(words[step], a);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float scale = i % 2 == 0 ? scales.x : scales.y;
                const float2 pair = unpackBf16(a[i]);
                *reinterpret_cast<uint32_t*>(tile + (lane / 4 + i % 2 * 8) * rowBytes + step * 32 + i / 2 * 16 +
                                             lane % 4 * 4) = packBf16(pair.x * scale, pair.y * scale);
            }
        }
    }
    __syncwarp();
    waitForPreviousKernel(); // a product may still read what lay there
    if (!inside)
        return;
    // Sixteen outputs of a gated pair are all gates or all values: gatedRow().
    const int target = gatedWidth > 0 ? rowBase / 32 * 16 + (rowBase % 32 < 16 ? 0 : gatedWidth) : rowBase - firstOut;
    const int column = piece * pieceInputs + lane % 8 * 8;
#pragma unroll
    for (int i = 0; i < pieceRows / 4; ++i) {
        const int row = i * 4 + lane / 8;
        const uint4 bits = *reinterpret_cast<const uint4*>(tile + row * rowBytes + lane % 8 * 16);
        if (rowBase + row < firstOut || rowBase + row >= firstOut + out.rows || column >= out.cols)
            continue;
        __nv_bfloat16* to = out.data + int64_t(target + row) * out.stride + column;
        if (out.stride % 8 == 0 && column + 8 <= out.cols) {
            *reinterpret_cast<uint4*>(to) = bits;
            continue;
        }
        const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
        for (int w = 0; w < 4 && column + 2 * w < out.cols; ++w)
            reinterpret_cast<uint32_t*>(to)[w] = words[w];
    }
}

} // namespace

cudaError_t launchW4Dequantize(const W4Matrix& weights, int firstOut, MatrixView<__nv_bfloat16> out,
                               cudaStream_t stream, int gatedWidth)
{
    if (firstOut < 0 || firstOut + out.rows > weights.outFeatures || out.cols != weights.inFeatures ||
        out.stride % 2 != 0 || out.cols % 2 != 0 ||
        (gatedWidth > 0 &&
         (firstOut != 0 || out.rows != weights.outFeatures || out.rows != 2 * gatedWidth || gatedWidth % 16 != 0)))
        return cudaErrorInvalidValue;
    if (out.rows == 0)
        return cudaSuccess;
    const int pieces = (out.cols + pieceInputs - 1) / pieceInputs;
    const int rowBlocks = (firstOut + out.rows + pieceRows - 1) / pieceRows - firstOut / pieceRows;
    const dim3 grid((pieces + warps - 1) / warps, rowBlocks);
    OCTAVO_CUDA_TRY(launchDependent(dequantizeKernel, grid, warps * 32, 0, stream, weights.units, weights.groups(),
                                    firstOut, out, gatedWidth));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
