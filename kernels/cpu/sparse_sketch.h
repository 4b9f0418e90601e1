#pragma once

/// Key sketches: a token's key in `rank` coordinates of falling weight, 4 bits each relative to how far that coordinate
/// usually goes, and what queries make of them. The upper two bits of the first coordinates, a third or so of the
/// bytes, decide which tokens are worth a look at the rest.
///
/// Codes    0 to 15 from most negative to most positive, finer near 0, as suits a normal distribution; the upper two
///          bits are a code of four steps by themselves. Byte b of the upper (or lower) bits holds four coordinates, in
///          bits 2 f and 2 f + 1 that of field f: for the leadBytes() first bytes coordinate leadBytes() * f + b.
/// Leads    those first bytes of the upper bits, in blocks of 16 tokens, so that a 512-bit register holds the same
///          coordinates of all 16 and no sum runs across lanes: bytes 4 p to 4 p + 3 of token t at 64 p + 4 t.
/// Rests    token by token, since few are read: all bytes of the lower bits, then what the leads lack of the upper
///          ones. At rank 64 a token takes 32 bytes, 12 of them leads.

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/sparse_priority.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cpu {

inline constexpr int sketchBlockTokens = 16;
inline constexpr int maxSketchRank = 256;

/// `rank`: a multiple of 16.
constexpr int leadBytes(int rank) { return std::min(rank / 4, 12); }
constexpr int restBytes(int rank) { return rank / 2 - leadBytes(rank); }
constexpr int leadBlockBytes(int rank) { return leadBytes(rank) * sketchBlockTokens; }
constexpr int sketchBytes(int rank) { return rank / 2; }

/// out[r] = sum_i basis[r][i] * (x[i] - mean[i]), with 16 partial sums. `mean` may be null.
/// Shapes   basis: (rank, dim), dim a multiple of 16; x, mean: (dim); out: (rank)
void project(Path path, int rank, int dim, const float* basis, const float* mean, const float* x, float* out);

/// The sketches of tokens in a row, from a block's first on.
struct SketchView {
    const std::uint8_t* leads = nullptr; ///< leadBlockBytes() each block
    const std::uint8_t* rests = nullptr; ///< restBytes() each token
};

/// Writes one token: into its lane of a block of leads, whose other lanes stay, and its rest. NaN becomes some code.
/// Shapes   coordinates, deviations (how far each usually goes): (rank)
void writeSketch(int rank, const float* coordinates, const float* deviations, std::uint8_t* leadBlock, int lane,
                 std::uint8_t* rest);

/// What writeSketch() kept of a token. For tests.
void readSketch(int rank, SketchView sketches, std::int64_t token, const float* deviations, float* coordinates);

/// A query in sketch coordinates, int8, times the deviations.
struct SketchQuery {
    alignas(64) std::int8_t codes[maxSketchRank] = {};   ///< by coordinate
    alignas(64) std::int8_t ordered[maxSketchRank] = {}; ///< by field, then byte
    float scale = 0.0f;      ///< of the codes' products, times the attention's own scale
    float leadUnit = 0.0f;   ///< by what a score rises, on average, with that of its leads by one
    std::int32_t offset = 0; ///< what a product has too much since keys are taken plus 128
};

/// Shapes   coordinates, deviations: (rank)
SketchQuery makeSketchQuery(int rank, const float* coordinates, const float* deviations, float attentionScale);

/// scores[q][i] = scale_q * (codes_i . codes_q), for all tokens of `numBlocks` blocks in a row. The product of codes is
/// an exact integer, so all paths give the same bits.
///
/// Shapes   queries: (numQueries); scores: numQueries pointers to (16 * numBlocks) floats each
void scoreSketches(Path path, int rank, SketchView sketches, std::int64_t numBlocks, const SketchQuery* queries,
                   int numQueries, float* const* scores);

/// Asks for the leads of one block.
void askForLeads(int rank, const std::uint8_t* leads);

/// Asks for the first leadsAhead bytes of leads that scoreCandidates() will be given next, since it asks for the rest
/// itself, and for a line of every 4 KiB of all its sketches: to find out where a page is takes longer than to read a
/// line of it.
inline constexpr int leadsAhead = 8192;
void askForCandidates(int rank, SketchView sketches, std::int64_t numBlocks);

/// The same by the leads alone, up to a constant and a factor of the query's, of every `stride`-th block from the
/// first.
/// Shapes   scores: numQueries pointers to (16 * numBlocks) integers each
void scoreLeads(Path path, int rank, const std::uint8_t* leads, std::int64_t numBlocks, std::int64_t stride,
                const SketchQuery* queries, int numQueries, std::int32_t* const* scores);

/// The candidates of `rule`, ascending, what their leads lack, and their scores by the whole sketch, as scoreSketches()
/// has them. Returns how many there are.
///
/// Shapes   first: the view's first token, a multiple of 16; tokens, lacks: room for 16 * numBlocks + 16; scores: the
///          same room each
std::int64_t scoreCandidates(Path path, int rank, SketchView sketches, std::int64_t numBlocks,
                             const SketchQuery* queries, int numQueries, const LeadRule& rule, std::int32_t first,
                             std::int32_t* tokens, float* lacks, float* const* scores);

} // namespace octavo::kernels::cpu
