#pragma once

/// The small row-wise operations between matrix products: RMSNorm with the residual add, head norms with RoPE, SwiGLU's
/// gate, token embedding and the attention gate.

#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

/// hidden[t,i] += delta[t,i] (rounded to bf16), then y[t,i] = hidden[t,i] * rsqrt(mean_i(hidden[t,i]^2) + eps) *
/// weight[i].
///
/// Shapes   hidden, delta, y: (tokens, dim), rows 16-byte aligned; weight: (dim) fp32, the factor itself (1 + w already
///          added where the model has it so). delta.data may be null: nothing is added and hidden is not written.
/// Numerics bf16 in and out, sums in fp32, one rounding at each store. dim a multiple of 8, at most 16,384.
/// Errors   cudaErrorInvalidValue for sizes that do not match; else what the launch reports.
/// Stream   enqueues on `stream`; tokens == 0 does nothing.
/// Source   Zhang & Sennrich 2019, arXiv:1910.07467; eps inside the root.
[[nodiscard]] cudaError_t launchAddRmsNorm(MatrixView<__nv_bfloat16> hidden, MatrixView<const __nv_bfloat16> delta,
                                           const float* weight, float eps, MatrixView<__nv_bfloat16> y,
                                           cudaStream_t stream);

/// Attention's prologue: splits the query projection's rows into query and gate, normalises each query and key head
/// over its 256 dimensions and rotates the first 64 of them.
struct QkRopeArgs {
    const __nv_bfloat16* queryGate; ///< (tokens, queryGateStride): per head 256 query, then 256 gate
    std::int64_t queryGateStride;
    const __nv_bfloat16* key; ///< (tokens, keyStride): per KV head 256
    std::int64_t keyStride;
    const float* queryNorm;        ///< (256)
    const float* keyNorm;          ///< (256)
    const std::int32_t* positions; ///< (tokens), on the device
    const float* frequencies;      ///< (32): theta^(-2j/64)
    __nv_bfloat16* queryOut;       ///< (tokens, heads * 256), normalised and rotated
    __nv_bfloat16* keyOut;         ///< (tokens, kvHeads * 256)
    int tokens, heads, kvHeads;
    float eps;
};

/// Numerics fp32 throughout, angle = float(position) * frequency as the reference implementation has it, one rounding.
[[nodiscard]] cudaError_t launchQkNormRope(const QkRopeArgs& args, cudaStream_t stream);

/// y[t,i] = silu(gateUp[t,i]) * gateUp[t,dim + i]: gate and up lie side by side in a row of 2 * dim.
[[nodiscard]] cudaError_t launchSiluMul(MatrixView<const __nv_bfloat16> gateUp, MatrixView<__nv_bfloat16> y,
                                        cudaStream_t stream);

/// y[t,:] = table[ids[t],:]; ids on the device, each within the table.
[[nodiscard]] cudaError_t launchEmbedding(MatrixView<const __nv_bfloat16> table, const std::int32_t* ids,
                                          MatrixView<__nv_bfloat16> y, cudaStream_t stream);

/// y = x W^T with bf16 weights for few rows (up to 64): the projections too small or too precious for int4.
///
/// Shapes   x: (M, K), W: (N, K), y: (M, N) bf16 or float; K a multiple of 8, rows 16-byte aligned. fp32 sums in an
/// order
///          that does not depend on M.
[[nodiscard]] cudaError_t launchBf16Gemv(MatrixView<const __nv_bfloat16> x, MatrixView<const __nv_bfloat16> weights,
                                         void* y, std::int64_t yStride, GemmOutput output, cudaStream_t stream);

/// The formulas in double on the host.
void referenceAddRmsNorm(double* hidden, const float* delta, const float* weight, double eps, int tokens, int dim,
                         double* y);
void referenceHeadNormRope(const float* head, const float* weight, double eps, int position, const float* frequencies,
                           double* out);
double referenceSiluMul(double gate, double up);

} // namespace octavo::kernels::cuda
