#pragma once

/// Gated attention of many rows of one sequence, as prefill reads them: tensor cores over bf16 copies of the int4 rows.
///
/// Rows are brought to bf16 a stretch of tokens at a time, whatever the place they lie in; each stretch is read from L2
/// by all blocks and costs a hundredth of the attention to it. Between stretches the sums wait in memory, so the copy
/// stays small at any context.
///
/// Source   Dao 2023, arXiv:2307.08691: online softmax, a block of queries against tiles of keys.

#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cuda
{

/// A stretch of one layer's rows in bf16.
struct KvStretch {
    __nv_bfloat16* keys = nullptr;   ///< (kvHeads, capacity, 256)
    __nv_bfloat16* values = nullptr; ///< the same
    int capacity = 0;                ///< tokens
    int begin = 0, end = 0;          ///< tokens that it holds, by their position in the sequence
};

/// Rows begin .. end - 1 of the pages to bf16: scale * (code - 8), rounded once.
///
/// Shapes   pages as in kv_rows.h; at most `capacity` tokens.
/// Errors   cudaErrorInvalidValue for a stretch that does not fit.
/// Stream   enqueues on `stream`; an empty stretch does nothing.
[[nodiscard]] cudaError_t launchDequantizeRows(const RowPages& pages, int kvHeads, const KvStretch& stretch,
                                               cudaStream_t stream);

/// Which kernel: the device's best, the one of tiles of 64 keys (164 KB of shared memory), or the one of 32 that every
/// device from sm_86 on can run.
enum class PrefillPath { Auto, Tiles64, Tiles32 };

/// Rows that attend to all before them in their sequence and to themselves.
struct PrefillQueries {
    const __nv_bfloat16* query = nullptr; ///< (rows, heads * 256), normalised and rotated
    const __nv_bfloat16* gate = nullptr;  ///< value of (row, h, d) at gate[row * gateStride + h * gateHeadStride + d];
                                          ///< heads 16-byte aligned
    std::int64_t gateStride = 0, gateHeadStride = 0;
    int rows = 0, heads = 0, kvHeads = 0;
    int firstPosition = 0; ///< of row 0; row r attends to positions 0 .. firstPosition + r
};

inline constexpr int prefillTileRows = 128; ///< (row, head) pairs of a block

/// Floats of work space: sums and softmax numbers between stretches.
constexpr std::size_t prefillAttentionFloats(int rows, int heads, int kvHeads)
{
    const auto padded =
        std::size_t((rows * (heads / kvHeads) + prefillTileRows - 1) / prefillTileRows * prefillTileRows);
    return padded * std::size_t(kvHeads) * (kvHeadDim + 2);
}

/// out[r,h,:] = sigmoid(gate[r,h,:]) * sum_j softmax_j(q[r,h] . k_j / 16) v_j, KV head h / (heads / kvHeads), once the
/// stretch that holds the last row has been read. Stretches are given in order, from position 0 and without gaps.
///
/// Shapes   out: (rows, heads * 256) bf16, written by the last stretch alone. Stretches but the last end on multiples
///          of 64 from the first.
/// Numerics bf16 operands, fp32 sums and softmax; weights rounded to bf16 before they meet the values. A row's result
///          depends neither on the rows beside it nor on where a slice begins.
/// Errors   cudaErrorInvalidValue for shapes that do not fit.
/// Stream   enqueues on `stream`; no rows do nothing.
[[nodiscard]] cudaError_t launchPrefillAttention(const PrefillQueries& queries, const KvStretch& stretch,
                                                 float* workspace, __nv_bfloat16* out, PrefillPath path,
                                                 cudaStream_t stream);

/// The path for sm_90 (prefill_attention_sm90.cu); cudaErrorNotSupported on other devices and in builds without it.
[[nodiscard]] cudaError_t launchPrefillAttentionSm90(const PrefillQueries& queries, const KvStretch& stretch,
                                                     float* workspace, __nv_bfloat16* out, cudaStream_t stream);

} // namespace octavo::kernels::cuda
