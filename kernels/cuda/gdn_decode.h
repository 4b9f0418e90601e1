#pragma once

/// Gated DeltaNet row by row (decode, verify, and prefill): depthwise convolution, delta rule and gated norm.
///
/// A verified draft may be rejected later, and the state cannot be undone. So the rows of a verify step are kept as
/// pending inputs, and the next launch first applies those that were accepted: one read and one write of the
/// state per round, whatever the number of drafts.
///
/// Source   Yang et al. 2024, arXiv:2412.06464. One pass per token: with e = exp(g) and the old state S,
///          r = e S^T k, d = beta (v - r), o = e S^T q + (k.q) d, then S = e S + k d^T.

#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr int gdnHeadDim = 128; ///< of keys and of values
inline constexpr int convHistory = 3;  ///< rows that the kernel-4 convolution looks back

/// Heads and constants of one layer. Value head h reads key head h / (valueHeads / keyHeads).
struct GdnLayer {
    int keyHeads = 0;
    int valueHeads = 0;
    const float* aLog = nullptr;   ///< (valueHeads)
    const float* dtBias = nullptr; ///< (valueHeads)
    const float* norm = nullptr;   ///< (128), plain weight of the gated RMSNorm
    float normEps = 1e-6f;

    int convDim() const { return (2 * keyHeads + valueHeads) * gdnHeadDim; }
    int valueDim() const { return valueHeads * gdnHeadDim; }
};

/// One sequence's part of the convolution; an array of these lies on the device.
struct ConvSequence {
    __nv_bfloat16* history;     ///< (3, channels), raw rows before the convolution, oldest first
    __nv_bfloat16* pending;     ///< (pendingRows, channels): accepted rows of the last verify, not yet in history
    const __nv_bfloat16* input; ///< (rows, channels), inputStride apart
    __nv_bfloat16* output;      ///< (rows, channels): silu(conv); must not overlap pending or input
    int pendingRows;
    int rows;
    int storeRows; ///< history ends after pending and this many of the new rows: 0 for a verify, rows when final
    std::int32_t inputStride; ///< elements
};

/// The two small projections of a layer, in bf16, that share the convolution's launch: y0 = x W[0 .. outputs)^T and
/// y1 = x W[outputs .. 2 outputs)^T. outputs 0: none.
struct GdnProjection {
    MatrixView<const __nv_bfloat16> x;      ///< rows 16-byte aligned, cols a multiple of 8
    const __nv_bfloat16* weights = nullptr; ///< (2 * outputs, x.cols)
    __nv_bfloat16* y0 = nullptr;            ///< (x.rows, outputs)
    __nv_bfloat16* y1 = nullptr;
    int outputs = 0;
    /// Where x lacks its norm's scale, sums of squares that give it (W4Norms): (x.rows, x.cols / w4SquareValues).
    const float* squares = nullptr;
    float eps = 0.0f; ///< of that norm
};

/// y[t,c] = silu(sum_j w[c,j] u[t-3+j,c]) over the stream history, pending, input; then moves history on.
///
/// Shapes   weights: (channels, 4) fp32. channels even. maxRows: no sequence has more new rows.
/// Numerics fp32 sums, one rounding to bf16. A row's result does not depend on how the stream was cut.
/// Stream   enqueues on `stream`; sequences == 0 does nothing. Descriptors and weights are read while the kernel before
///          still runs: they are not to be written by kernels of the same step.
[[nodiscard]] cudaError_t launchGdnConv(const ConvSequence* sequences, int numSequences, int maxRows, int channels,
                                        const float* weights, const GdnProjection& projection, cudaStream_t stream);

/// One sequence's part of the delta rule; an array of these lies on the device. Rows are dense.
struct GdnSequence {
    float* state;                ///< (valueHeads, 128 of key, 128 of value)
    __nv_bfloat16* pendingQkv;   ///< (pendingRows, convDim): convolved rows accepted from the last verify
    __nv_bfloat16* pendingBeta;  ///< (pendingRows, valueHeads), raw b
    __nv_bfloat16* pendingDecay; ///< (pendingRows, valueHeads), raw a
    const __nv_bfloat16* qkv;    ///< (rows, convDim), convolved
    const __nv_bfloat16* beta;   ///< (rows, valueHeads), raw b: before the sigmoid
    const __nv_bfloat16* decay;  ///< (rows, valueHeads), raw a
    const __nv_bfloat16* gate;   ///< (rows, valueDim), z; gateStride apart
    __nv_bfloat16* output;       ///< (rows, valueDim): gated norm of o
    int pendingRows;
    int rows;
    int storeRows; ///< the stored state is the one after pending and this many of the new rows: 0, or rows when final
    std::int32_t gateStride; ///< elements
};

/// Delta rule, read-out and gated RMSNorm of every row, in order.
///
/// Numerics state and sums fp32; o rounded to bf16 before the norm; one rounding at the store.
/// Errors   cudaErrorInvalidValue for heads that do not divide.
/// Stream   enqueues on `stream`; numSequences == 0 does nothing. Row counts are read on the device. Descriptors and
///          states are read while the kernel before still runs: two launches that share a state need a copy, an event
///          or a graph's end between them.
[[nodiscard]] cudaError_t launchGdnDecode(const GdnSequence* sequences, int numSequences, const GdnLayer& layer,
                                          cudaStream_t stream);

/// After both launches above: the rows of every sequence that stored none become its pending ones.
///
/// Shapes   the i-th of `conv` and of `gdn` are the same sequence's; pending has room for its rows, `maxRows` at most.
///          Rows of both and pending ones begin on 16 bytes.
/// Stream   enqueues on `stream`; numSequences == 0 does nothing.
[[nodiscard]] cudaError_t launchGdnKeep(const ConvSequence* conv, const GdnSequence* gdn, int numSequences, int maxRows,
                                        const GdnLayer& layer, cudaStream_t stream);

/// The same in double on the host. `history`: (3, channels) is moved on by all rows.
void referenceGdnConv(double* history, const float* input, int rows, int channels, const float* weights,
                      double* output);

/// Host pointers in `layer`. `state` is moved on by all rows; output before rounding.
void referenceGdnDecode(double* state, const float* qkv, const float* beta, const float* decay, const float* gate,
                        int rows, const GdnLayer& layer, double* output);

} // namespace octavo::kernels::cuda
