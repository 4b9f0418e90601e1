#pragma once

/// Gated attention of few query rows over int4 KV rows: all of a context, or its first and last tokens and those that
/// were picked.
///
/// Each (split of the rows, KV head, query row) is a block, or half of one where splits meet in their launch; they meet
/// by their log-sum-exp.

#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cuda
{

/// The rows that one query row attends to: tokens 0 .. sinks - 1 and recentBegin .. recentBegin + recent - 1 of the
/// pages, then `count` others. An array of these lies on the device and is read while the kernel before still runs.
struct AttentionRows {
    const std::uint8_t* rows = nullptr;   ///< row r at rows + r * kvHeads * 272, 16-byte aligned
    const std::int32_t* rowIds = nullptr; ///< (count), or null: rows 0 .. count - 1
    std::int32_t count = 0;
    std::int32_t sinks = 0, recentBegin = 0, recent = 0;
    RowPages pages{};
    std::int32_t rowsPerSplit = 0; ///< where not 0, instead of the shape's
    std::int32_t shift = 0;        ///< entry i of the array is query row i + shift
    /// (count): added to the scores that any head gives the `count` others; null: none. A row of lift log(n) stands for
    /// n.
    const float* lifts = nullptr;
};

struct AttentionShape {
    int queries = 0; ///< rows of the batch
    int heads = 0;
    int kvHeads = 0;      ///< heads / kvHeads at most 8
    int rowsPerSplit = 0; ///< a multiple of 64. Part of the result's rounding, so it may depend on a query's own length
                          ///< only. Where all queries have one of their own, the largest
    int maxSplits = 0; ///< no query has more than rowsPerSplit * maxSplits rows; at most 4096
};

/// How splits meet. Both ways give the same bits.
enum class AttentionWay {
    Best,   ///< in the launch itself where attentionMeets() says so
    Kernels ///< in a second kernel, by way of the work space
};

/// Whether splits meet in the launch itself, by clusters of blocks: where the current device is of sm_90 and has room
/// for all of them at once, up to 32 splits of 256 rows or less, or 16 of more.
bool attentionMeets(const AttentionShape& shape);

/// Floats of work space: for each split its sums and its two softmax numbers per head.
constexpr std::size_t attentionWorkspaceFloats(const AttentionShape& shape)
{
    return std::size_t(shape.queries) * std::size_t(shape.kvHeads) * std::size_t(shape.maxSplits) * 8 * (kvHeadDim + 2);
}

/// out[q,h,:] = sigmoid(gate[q,h,:]) * sum_j softmax_j(q[h] . k_j / 16 + lift_j) v_j, KV head h / (heads / kvHeads);
/// lift_j = 0 for first and last tokens.
///
/// Shapes   query: (queries, heads * 256), normalised and rotated; gate: value of (q, h, d) at
///          gate[q * gateStride + h * gateHeadStride + d]; out: (queries, heads * 256) bf16.
/// Numerics codes exact in bf16, scales in fp32 on the partial sums of 64; softmax in fp32; weights rounded to bf16
///          before they meet the values. A query of no rows gives zeros.
/// Errors   cudaErrorInvalidValue for shapes that do not fit.
/// Stream   enqueues one or two kernels on `stream`; queries == 0 does nothing.
[[nodiscard]] cudaError_t launchAttentionDecode(const AttentionRows* rows, const AttentionShape& shape,
                                                const __nv_bfloat16* query, const __nv_bfloat16* gate,
                                                std::int64_t gateStride, std::int64_t gateHeadStride, float* workspace,
                                                __nv_bfloat16* out, cudaStream_t stream,
                                                AttentionWay way = AttentionWay::Best);

/// One head in double on the host; keys, values: (count, 256); lifts: (count), or null.
void referenceAttentionHead(const float* query, const float* gate, const float* keys, const float* values,
                            std::int64_t keyStride, int count, double* out, const float* lifts = nullptr);

} // namespace octavo::kernels::cuda
