#pragma once

/// KV rows in int4: one token's keys and values of all KV heads together, as host tier and hot buffer keep them.
///
/// Per head of 256 dimensions 272 bytes: 128 of key codes, 128 of value codes, 4 fp16 key scales, 4 fp16 value scales.
/// Every 64 values share a scale; codes run from -8 to 7 and are stored plus 8, value i of a group in the low nibble of
/// byte i, value i + 32 in the high one. The same bytes as the CPU's rows, so a context can move between devices.

#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr int kvHeadDim = 256;
inline constexpr int kvHeadBytes = 272;
inline constexpr int rowPageTokens = 512;

/// One layer's rows by token: token t at pages[t / 512] + offset + (t % 512) * row bytes. The table lies on the device,
/// the pages there or in mapped host memory.
struct RowPages {
    std::uint8_t* const* pages = nullptr;
    std::int64_t offset = 0; ///< of the layer in every page
};

/// Quantises `tokens` keys and values into rows at out + index * kvHeads * 272, index = rowIds[t], or t where null.
///
/// Shapes   keys, values: (tokens, kvHeads * 256) bf16, rows 16-byte aligned. out may lie in mapped host memory.
/// Numerics a group's scale is the one of four (the largest value's, and that times 0.93, 0.86, 0.79) that leaves the
///          least squared error; sums in fp32.
/// Stream   enqueues on `stream`; no rows do nothing.
[[nodiscard]] cudaError_t launchQuantizeRows(MatrixView<const __nv_bfloat16> keys,
                                             MatrixView<const __nv_bfloat16> values, int kvHeads,
                                             const std::int64_t* rowIds, std::uint8_t* out, cudaStream_t stream);

/// One head's row on the host.
void referenceQuantizeRow(const float* key, const float* value, std::uint8_t* row);
void referenceDequantizeRow(const std::uint8_t* row, float* key, float* value);

} // namespace octavo::kernels::cuda
