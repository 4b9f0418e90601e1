#pragma once

/// W4A16 matrix product for few rows: y[m,n] = sum_k x[m,k] * W[n,k], W[n,k] = scale[k/128, n] * (code[n,k] - 8).
///
/// The weights lie in a device layout of their own: units of 128 outputs x 128 inputs, each 8192 bytes of codes in the
/// order of the tensor cores' fragments and then 128 fp16 scales, so that a block streams one unbroken run of bytes.

#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace octavo::kernels::cuda
{

inline constexpr int w4GroupSize = 128; ///< inputs that share a scale
inline constexpr int w4TileRows = 128;  ///< outputs of one unit
inline constexpr int w4UnitBytes = 8192 + 256;
inline constexpr int w4MaxRows = 64; ///< rows of x that one launch takes

/// A linear in the device layout. Outputs and inputs are padded to 128 with codes of 8 and scales of 0.
struct W4Matrix {
    const std::uint8_t* units = nullptr; ///< (tiles, groups) units, 16-byte aligned, on the device
    int outFeatures = 0;
    int inFeatures = 0;

    int tiles() const { return (outFeatures + w4TileRows - 1) / w4TileRows; }
    int groups() const { return (inFeatures + w4GroupSize - 1) / w4GroupSize; }
    std::int64_t bytes() const { return std::int64_t{tiles()} * groups() * w4UnitBytes; }
};

/// Bytes of an (outFeatures, inFeatures) linear in the device layout.
std::int64_t w4PackedBytes(int outFeatures, int inFeatures);

/// GPTQ packing to device layout, on the host. `qweight`: (inFeatures / 8, outFeatures) words, lowest nibble first
/// along the inputs; `scales`: fp16 bits (groups, outFeatures), signed. inFeatures must be a multiple of 8. `out`:
/// w4PackedBytes() for `totalOut` outputs; the linear becomes its outputs firstOut .. firstOut + outFeatures, so that
/// several linears with the same input can share one launch. `out` must start zeroed or hold earlier parts.
void packW4(const std::uint32_t* qweight, const std::uint16_t* scales, int outFeatures, int inFeatures,
            std::span<std::uint8_t> out, int firstOut = 0);

/// Row of a gated pair of linears (gate above, up below, `width` outputs each) that becomes output n of the product.
constexpr int gatedRow(int n, int width)
{
    return n / 32 * 16 + n % 16 + (n % 32 < 16 ? 0 : width);
}

/// Fills `out` with codes of 8 and scales of 0: every output is zero.
void clearW4(std::span<std::uint8_t> out);

/// Code (0..15) and fp16 scale bits of one weight in the device layout: the layout's definition, for tests and tools.
int w4CodeAt(const std::uint8_t* units, int inFeatures, int n, int k);
std::uint16_t w4ScaleAt(const std::uint8_t* units, int inFeatures, int n, int k);

/// Which kernel: the device's best, or the one that every device from sm_86 on can run.
enum class W4Path { Auto, Portable };

/// Work space of launchW4Gemm(): sums of blocks that share an output tile. Zeroed once before its first use; launches
/// on one stream may share it, if all go by one path. On sm_90 blocks that share a tile wait for each other, so all
/// blocks of a product must get to run: products of one device belong on one stream.
struct W4Workspace {
    float* partials = nullptr; ///< w4PartialFloats(blocks), 16-byte aligned. On sm_90 +0 between launches
    int* arrivals = nullptr;   ///< w4Arrivals() of the widest linear, zero between launches
    int blocks = 0;            ///< the device's multiprocessors. Part of the result's rounding, so keep it fixed
    W4Path path = W4Path::Auto;
};

constexpr std::size_t w4PartialFloats(int blocks)
{
    return std::size_t(blocks) * 2 * 2 * w4TileRows * w4MaxRows;
}

constexpr std::size_t w4Arrivals(int outFeatures)
{
    return std::size_t(outFeatures + 255) / 256 * 8;
}

inline constexpr int w4SquareValues = 32; ///< of a row, whose squares are summed up together

/// The RMSNorms before and after a product, taken along by it: x then lacks its norm's scale, which its rows' sums of
/// squares give; and instead of y, what comes of it in the residual stream is stored, ready for the next product.
struct W4Norms {
    const float* squares = nullptr;  ///< (M, inFeatures / w4SquareValues): x is hidden * weight, these are hidden's
    float eps = 0.0f;                ///< of the norm before
    __nv_bfloat16* hidden = nullptr; ///< (M, outFeatures), dense: hidden += y, and y becomes hidden * weight
    const float* weight = nullptr;   ///< (outFeatures), of the norm after
    float* squaresOut = nullptr;     ///< (M, outFeatures / w4SquareValues), of hidden
};

/// y = x W^T.
///
/// Shapes   x: (M, inFeatures) bf16, rows 16-byte aligned; y: (M, outFeatures) bf16 or float, (M, outFeatures / 2)
///          where gated, outFeatures then a multiple of 32; M <= 64.
/// Numerics codes exact in bf16, products summed in fp32 per group of 128, the fp16 scale applied to the sum. A row's
///          result does not depend on M nor on the other rows: every M adds in the same order. With norms y is rounded
///          to bf16 before it is added, the sum before it is squared or weighed, as launchAddRmsNorm() does.
/// Errors   cudaErrorInvalidValue for sizes that do not match, a workspace without blocks, norms over a width that is
///          no multiple of 128, and a norm after with an output other than bf16, or with rows of y or of the stream
///          that do not begin on 16 bytes.
/// Stream   enqueues on `stream`; M == 0 does nothing. On sm_90 the weights' first bytes are fetched while the kernel
///          before still runs.
[[nodiscard]] cudaError_t launchW4Gemm(MatrixView<const __nv_bfloat16> x, const W4Matrix& weights, void* y,
                                       std::int64_t yStride, GemmOutput output, const W4Workspace& workspace,
                                       cudaStream_t stream, const W4Norms& norms = {});

/// The product in double from the packed units on the host; y: (M, outFeatures).
void referenceW4Gemm(const float* x, int rows, const std::uint8_t* units, int outFeatures, int inFeatures, double* y);

/// W as bf16, (rows, inFeatures) row-major, for outputs firstOut .. firstOut + rows: scale * (code - 8), rounded once
/// (w4_dequant.cu). With `gatedWidth` all outputs of a gated pair come as gatedRow() has them: gates, then values.
/// Errors   cudaErrorInvalidValue for outputs that W does not have, and for a gated pair that is not taken whole.
[[nodiscard]] cudaError_t launchW4Dequantize(const W4Matrix& weights, int firstOut, MatrixView<__nv_bfloat16> out,
                                             cudaStream_t stream, int gatedWidth = 0);

} // namespace octavo::kernels::cuda
