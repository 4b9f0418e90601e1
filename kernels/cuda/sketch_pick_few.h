#pragma once

/// From a scan's sums and maxima to the picks of few queries. For launchSketchPick() alone.

#include "kernels/cuda/sketch.h"

namespace octavo::kernels::cuda
{

/// One launch, whose blocks wait for each other where the way of many queries (sketch_pick.cu) ends a kernel; the same
/// bits. All blocks have to be there at once, so that each gets a multiprocessor, and two such launches room beside
/// each other: of a GPU, whichever programs share its multiprocessors at a time. Of a query's work space it needs
/// `histogram` and writes `lines`.
/// Errors   cudaErrorNotSupported, and nothing is launched, for more queries than leave each 64 blocks of this device,
///          where a multiprocessor has no room for two blocks, and below sm_90.
[[nodiscard]] cudaError_t launchSketchPickFew(const SketchQuery* queries, int numQueries, int heads, int kvHeads,
                                              std::int64_t maxTokens, cudaStream_t stream);

} // namespace octavo::kernels::cuda
