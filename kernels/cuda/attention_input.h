#pragma once

/// What an attention layer does with the projections of a step's rows before it attends, in one launch: head norms and
/// RoPE, the int4 row to where it is kept, the sketch of the key, the query on the sketch's basis.

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/sketch.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

/// Where one row of the step is kept; an array of these lies on the device.
struct RowTarget {
    std::uint8_t* row;     ///< kvHeads * 272 bytes on the device, 16-byte aligned
    std::uint8_t* hostRow; ///< the same in mapped host memory, or null
    SketchView sketch;     ///< of the row's sequence; codes null: no sketch is kept
    std::int64_t position; ///< of the token in the sketch
};

struct AttentionInput {
    QkRopeArgs rope;            ///< keyOut may be null
    const __nv_bfloat16* value; ///< (tokens, valueStride): per KV head 256
    std::int64_t valueStride;
    const RowTarget* targets; ///< (tokens), on the device
    const float* basis;       ///< (kvHeads, 256, 64), or null: neither sketches nor projections
    const float* means;       ///< (kvHeads, 256)
    __nv_bfloat16* projected; ///< (tokens, heads, 64)
};

/// The same bits as launchQkNormRope(), launchQuantizeRows() and launchSketchAppend() one after the other; the
/// projection adds four parts of 64 dimensions.
/// Errors   cudaErrorInvalidValue for more than eight query heads to a KV head.
/// Stream   enqueues on `stream`; no tokens do nothing. Targets, positions, frequencies, norms and basis are read while
///          the kernel before still runs.
[[nodiscard]] cudaError_t launchAttentionInput(const AttentionInput& input, cudaStream_t stream);

} // namespace octavo::kernels::cuda
