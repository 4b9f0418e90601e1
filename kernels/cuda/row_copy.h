#pragma once

/// Rows from wherever they lie to wherever they go, in one launch: where both differ from step to step, and a recorded
/// step must find them in a table.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

/// One row; an array of these lies on the device and is read while the kernel before still runs. No row may be another
/// one's source and target. 16-byte aligned.
struct RowCopy {
    const void* from;
    void* to;
};

/// Errors   cudaErrorInvalidValue for sizes that are no multiple of 16.
/// Stream   one block per row on `stream`; no rows do nothing.
[[nodiscard]] cudaError_t launchCopyRows(const RowCopy* rows, int numRows, int rowBytes, cudaStream_t stream);

} // namespace octavo::kernels::cuda
