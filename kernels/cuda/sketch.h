#pragma once

/// Key sketches: each key's product with a frozen basis of 64 directions, int4 with one fp16 scale per token and KV
/// head; scores of all tokens of a context against a query, made comparable between heads, as keys for select.h.
///
/// Layout   per KV head tiles of 16 tokens, 512 bytes of codes each in the order of the tensor cores' fragments, and
///          apart from them 16 fp16 scales a tile. A token owns whole bytes, so one can be appended alone.

#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr int sketchRank = 64;
inline constexpr int sketchTileTokens = 16;
inline constexpr int sketchTileBytes = 512;
inline constexpr int sketchChunkTokens = 2048; ///< tokens of one block of the scan
inline constexpr int sketchMaxHeads = 8;       ///< query heads per KV head

/// One attention layer's sketch of one sequence.
struct SketchView {
    std::uint8_t* codes = nullptr; ///< (kvHeads, capacityTiles, 512), 16-byte aligned
    __half* scales = nullptr;      ///< (kvHeads, capacityTiles * 16)
    std::int32_t capacityTiles = 0;
};

/// Writes the sketches of `keys` at token positions firstToken ...
///
/// Shapes   keys: (tokens, kvHeads * 256) bf16, normalised and rotated; basis: (kvHeads, 256, 64) fp32,
/// dimension-major;
///          means: (kvHeads, 256). Numerics: fp32; the largest coordinate takes code -8.
[[nodiscard]] cudaError_t launchSketchAppend(MatrixView<const __nv_bfloat16> keys, int kvHeads, const float* basis,
                                             const float* means, std::int64_t firstToken, const SketchView& sketch,
                                             cudaStream_t stream);

/// projected[q,h,c] = sum_d query[q,h,d] * basis[h / group, d, c] / 16, rounded to bf16: (queries, heads, 64).
[[nodiscard]] cudaError_t launchSketchProject(const __nv_bfloat16* query, int queries, int heads, int kvHeads,
                                              const float* basis, __nv_bfloat16* projected, cudaStream_t stream);

/// One query row of the scan; an array of these lies on the device. Buffers of different queries do not overlap, but
/// for `scores`: query q may use those of q - scoreBuffers, which keeps them in L2.
struct SketchQuery {
    SketchView sketch;
    const __nv_bfloat16* projected; ///< (heads, 64)
    std::int32_t begin, end;        ///< tokens to score, begin a multiple of 16: neither sinks nor recent ones
    __half* scores;                 ///< (kvHeads, capacityTiles * 16, heads / kvHeads), work space, may be shared
    float2* logSums;                ///< (sketchChunks(end), heads): maximum and sum of each chunk, work space
    std::uint32_t* keys;            ///< (capacityTiles * 16): out, [begin, end) written
    std::uint32_t* histogram;       ///< (4096): out, counts of keys >> 20. Must be zero at the start
};

constexpr int sketchChunks(std::int64_t tokens)
{
    return int((tokens + sketchChunkTokens - 1) / sketchChunkTokens);
}

/// keys[j] = fixed(max_h (s[h,j] - logsumexp_j s[h,j])), s[h,j] = projected[h] . sketch[j]: the log of the largest
/// share of attention that any head gives token j among the scored ones. fixed(v) = (v + 64) * 2^26, clamped to 0 ..
/// 2^32 - 1.
///
/// Numerics codes and projected queries exact in fp16 (queries below 2^16), sums and log-sum-exp in fp32; s rounded to
///          fp16 between the two kernels.
/// Errors   cudaErrorInvalidValue for heads that do not fit.
/// Stream   enqueues two kernels on `stream` for every scoreBuffers queries; maxTokens: no query's `end` is larger.
///          queries == 0 does nothing.
[[nodiscard]] cudaError_t launchSketchScore(const SketchQuery* queries, int numQueries, int heads, int kvHeads,
                                            std::int64_t maxTokens, int scoreBuffers, cudaStream_t stream);

/// The layout on the host, and the score in double from what the sketch holds. `codes`: (capacityTiles, 512) of one
/// head.
int sketchCodeAt(const std::uint8_t* codes, std::int64_t token, int coordinate);
void referenceSketchToken(const float* key, const float* basis, const float* mean, double* coordinates);
std::uint32_t sketchKey(double logShare);

} // namespace octavo::kernels::cuda
