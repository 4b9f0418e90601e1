#pragma once

/// Descriptions of rows for the copy engine of sm_90.

#include <cuda.h> // types alone: the driver's function is looked up
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

namespace octavo::kernels::cuda
{

/// Matrices of bf16 one behind the other, in elements.
struct RowStack {
    const __nv_bfloat16* data;
    std::array<std::int64_t, 3> sizes;   ///< columns, rows, matrices; 0 matrices: one, and a map of two dimensions
    std::array<std::int64_t, 2> strides; ///< between rows, between matrices
};

/// Whether the driver can describe rows.
[[nodiscard]] bool canDescribeRows();

/// A map whose boxes are 64 columns of `boxRows` rows of one matrix, zeros where it ends, as wgmma.cuh has them in
/// shared memory.
///
/// Errors   cudaErrorNotSupported where the driver lacks the function; cudaErrorInvalidValue for rows that it refuses:
///          strides that are no multiples of 16 bytes, more than 256 rows to a box.
[[nodiscard]] cudaError_t describeRows(CUtensorMap& map, const RowStack& rows, int boxRows);

} // namespace octavo::kernels::cuda
