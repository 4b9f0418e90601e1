#pragma once

/// Key sketches: a token's key in `rank` coordinates, int4 with one fp16 scale, and the score of all tokens of a block
/// run against a few queries.
///
/// Tokens lie in blocks of 16 so that a 512-bit register holds the same coordinates of all 16 and no sum runs across
/// lanes. Byte 4 t + j of the block's p-th 64 bytes holds coordinates 8 p + j (low nibble) and 8 p + 4 + j (high) of
/// token t, codes -8 to 7 plus 8; 16 scales follow. At rank 64 a block takes 544 bytes, a token 34.

#include "kernels/cpu/cpu_features.h"

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cpu {

inline constexpr int sketchBlockTokens = 16;
inline constexpr int maxSketchRank = 256;

/// `rank`: a multiple of 8.
constexpr std::size_t sketchBlockBytes(int rank) { return std::size_t(rank) * 8 + 32; }

/// out[r] = sum_i basis[r][i] * (x[i] - mean[i]), with 16 partial sums. `mean` may be null.
/// Shapes   basis: (rank, dim), dim a multiple of 16; x, mean: (dim); out: (rank)
void project(Path path, int rank, int dim, const float* basis, const float* mean, const float* x, float* out);

/// Writes one token's coordinates (rank) into its lane of a block; the other lanes stay.
void writeSketch(int rank, const float* coordinates, std::uint8_t* block, int lane);

/// What writeSketch() kept of a token. For tests.
void readSketch(int rank, const std::uint8_t* block, int lane, float* coordinates);

/// A query in sketch coordinates, int8.
struct SketchQuery {
    alignas(64) std::int8_t codes[maxSketchRank] = {};
    float scale = 0.0f;       ///< of the codes, times the attention's own scale
    std::int32_t offset = 0;  ///< 8 * sum of codes: undoes the keys' plus 8
};

SketchQuery makeSketchQuery(int rank, const float* coordinates, float attentionScale);

/// scores[q][i] = scale_q * scale_i * (codes_i . codes_q), for all tokens of `numBlocks` blocks in a row. The product
/// of codes is an exact integer, so all paths give the same bits.
///
/// Shapes   queries: (numQueries); scores: numQueries pointers to (16 * numBlocks) floats each
void scoreSketches(Path path, int rank, const std::uint8_t* blocks, std::int64_t numBlocks, const SketchQuery* queries,
                   int numQueries, float* const* scores);

} // namespace octavo::kernels::cpu
