#pragma once

/// The token with the largest logit and the probability that softmax gives it, for drafts: what follows depends on how
/// sure the draft is.

#include "kernels/cuda/views.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr int peakBlocks = 32; ///< of one row

struct RowPeak {
    std::int32_t id; ///< the lowest index among the largest finite logits, -1 where none is finite
    float chance;    ///< 1 / sum_i exp(logits[i] - logits[id]); 0 where none is finite, NaN where one is NaN or +inf
};

/// Bytes of work space for `rows` rows, on 8.
constexpr std::size_t peakWorkspaceBytes(int rows)
{
    return std::size_t(rows) * peakBlocks * 16;
}

/// Shapes   logits: (rows, cols) fp32, all columns count.
/// Numerics sums in fp32 in an order that does not depend on the number of rows.
/// Stream   enqueues two kernels on `stream`; no rows do nothing.
[[nodiscard]] cudaError_t launchRowPeaks(MatrixView<const float> logits, void* workspace, RowPeak* peaks,
                                         cudaStream_t stream);

/// In double on the host.
RowPeak referenceRowPeak(const float* logits, int columns);

} // namespace octavo::kernels::cuda
