#pragma once

/// The token with the largest logit, for greedy decoding without a copy of 248K logits per row to the host.

#include "kernels/cuda/views.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr int argmaxBlocks = 32; ///< of one row

/// Words of work space for `rows` rows.
constexpr std::size_t argmaxWorkspaceWords(int rows)
{
    return std::size_t(rows) * argmaxBlocks;
}

/// ids[r] = the lowest index among the largest finite logits[r, 0 .. end), -1 where none is finite.
///
/// Shapes   logits: (rows, at least end) fp32; end: ids from here on are padding of the vocabulary.
/// Errors   cudaErrorInvalidValue where end is beyond a row.
/// Stream   enqueues two kernels on `stream`; rows == 0 does nothing.
[[nodiscard]] cudaError_t launchArgmax(MatrixView<const float> logits, int end, std::uint64_t* workspace,
                                       std::int32_t* ids, cudaStream_t stream);

std::int32_t referenceArgmax(const float* logits, int end);

} // namespace octavo::kernels::cuda
