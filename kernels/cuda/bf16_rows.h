#pragma once

/// Few rows times a large bf16 matrix, as the head of a model whose head is not quantised: every weight is read once
/// for up to 64 rows.

#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr int bf16RowsMost = 64;

/// Whether launchBf16Rows() takes such a matrix.
constexpr bool bf16RowsFit(MatrixView<const __nv_bfloat16> weights)
{
    return weights.cols % 64 == 0 && weights.stride % 8 == 0;
}

/// y[r, n] = sum_k x[r, k] * weights[n, k].
///
/// Shapes   x: (rows, k), at most 64 rows, stride a multiple of 8; weights: (n, k); y: (rows, n) of stride yStride,
/// bf16
///          or fp32 (GemmOutput::Gated is none of them).
/// Numerics sums in fp32 in the order of k; a row's result does not depend on the other rows.
/// Errors   cudaErrorInvalidValue for shapes that do not fit.
/// Stream   enqueues on `stream`; no rows do nothing.
[[nodiscard]] cudaError_t launchBf16Rows(MatrixView<const __nv_bfloat16> x, MatrixView<const __nv_bfloat16> weights,
                                         void* y, std::int64_t yStride, GemmOutput output, cudaStream_t stream);

} // namespace octavo::kernels::cuda
