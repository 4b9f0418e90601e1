#pragma once

/// Gated DeltaNet over many rows of one sequence: chunks of 64 rows on tensor cores, as prefill reads them.
///
/// With G the sum of the gates since the chunk's start and S the state there, the rows' corrected values are
///     D = T diag(beta) (V - diag(exp G) K S),  T = (I + A)^-1,  A_ij = beta_i exp(G_i - G_j) k_i.k_j  for j < i,
/// and  O_i = exp(G_i) q_i S + sum_{j <= i} exp(G_i - G_j) (q_i.k_j) D_j,
///      S'  = exp(G_L) S + sum_j exp(G_L - G_j) k_j D_j.
/// Three launches: T of all chunks at once; D and the states, chunk after chunk, in which a value column never meets
/// another; O of all chunks at once with the gated norm. Keys and queries enter the tensor cores as they are stored,
/// their norms and gates are factors in fp32.
///
/// Source   Yang et al. 2024, arXiv:2412.06464.

#include "kernels/cuda/gdn_decode.h"

#include <cstddef>

namespace octavo::kernels::cuda
{

inline constexpr int gdnChunkRows = 64;

/// The rows of one slice, and the state that they move on.
struct GdnChunkInput {
    const __nv_bfloat16* qkv = nullptr;   ///< (rows, convDim), convolved, dense
    const __nv_bfloat16* beta = nullptr;  ///< (rows, valueHeads), raw b, smallStride apart
    const __nv_bfloat16* decay = nullptr; ///< (rows, valueHeads), raw a, smallStride apart
    std::int64_t smallStride = 0;
    const __nv_bfloat16* gate = nullptr; ///< (rows, valueDim), z, gateStride apart
    std::int64_t gateStride = 0;
    int rows = 0;
    float* state = nullptr;          ///< (valueHeads, 128 of key, 128 of value): read, then written
    __nv_bfloat16* output = nullptr; ///< (rows, valueDim): gated norm of o
};

constexpr int gdnChunks(int rows)
{
    return (rows + gdnChunkRows - 1) / gdnChunkRows;
}

/// Bytes of work space, which launches on one stream may share: T, gates and norms, D, and the state before each chunk.
constexpr std::size_t gdnChunkBytes(int rows, int valueHeads)
{
    constexpr std::size_t perChunk = 2 * gdnChunkRows * gdnChunkRows * 2 + 2 * gdnChunkRows * 4 +
                                     gdnChunkRows * gdnHeadDim * 2 + gdnHeadDim * gdnHeadDim * 2;
    return std::size_t(gdnChunks(rows)) * std::size_t(valueHeads) * perChunk;
}

/// Delta rule, read-out and gated RMSNorm of all rows.
///
/// Shapes   qkv, gate and output rows 16-byte aligned; workspace gdnChunkBytes(), 256-byte aligned.
/// Numerics the state stays in fp32; in the products that lead to the next state it, T and D enter as the sum of two
///          bf16 values, elsewhere as one. o is rounded to bf16 before the norm, as launchGdnDecode() does. Cut on
///          multiples of 64 rows, slices give the same bits.
/// Errors   cudaErrorInvalidValue for heads that do not divide or strides that are not aligned.
/// Stream   enqueues three kernels on `stream`; rows == 0 does nothing.
[[nodiscard]] cudaError_t launchGdnChunks(const GdnChunkInput& input, const GdnLayer& layer, std::uint8_t* workspace,
                                          cudaStream_t stream);

/// The chunked form in double on the host, to be held against referenceGdnDecode(), which goes row by row. Host
/// pointers in `layer`; values as that function takes them.
void referenceGdnChunks(double* state, const float* qkv, const float* beta, const float* decay, const float* gate,
                        int rows, const GdnLayer& layer, double* output);

} // namespace octavo::kernels::cuda
