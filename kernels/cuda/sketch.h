#pragma once

/// Key sketches: each key's product with a frozen basis of 64 directions, int4 with one fp16 scale per token and KV
/// head; and the tokens of a context that a query's heads want most by their sketches.
///
/// Layout   per KV head tiles of 16 tokens, 512 bytes of codes each in the order of the tensor cores' fragments, and
///          apart from them the fp16 scales. Coordinates c and c + 32 share a byte, so a token owns whole words and can
///          be appended alone. sketchCodeAt() and sketchScaleIndex() say where what lies.

#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace octavo::kernels::cuda
{

inline constexpr int sketchRank = 64;
inline constexpr int sketchTileTokens = 16;
inline constexpr int sketchTileBytes = 512;
inline constexpr int sketchBlockTokens =
    64;                                     ///< the capacity is a multiple of it: four tiles, whose scales lie together
inline constexpr int sketchGroupTokens = 8; ///< of a block, those with the same remainder by 8; they share a maximum
inline constexpr int sketchChunkTokens = 4096; ///< tokens of one block of threads
inline constexpr int sketchMaxHeads = 8;       ///< query heads per KV head
inline constexpr int sketchMaxKvHeads = 16;
inline constexpr int sketchMaxColumns = 48;     ///< rows of a sequence x heads per KV head, that share one reading
inline constexpr int sketchMaxTokens = 1 << 18; ///< highest token + 1
inline constexpr int sketchMaxPicks = 4096;     ///< of a query
inline constexpr int sketchBins = 1024;         ///< of ten bits of a key
inline constexpr int sketchMeetingWords = 4096; ///< in which the blocks of a query meet
inline constexpr int sketchKeyUnit = 1 << 26;   ///< of a key: a nat

/// Tokens whose keys are kept for a query: all those of half as many groups more than picks. Beyond that the last of
/// three kernels scores anew; only keys that are equal bring it there.
__host__ __device__ constexpr std::int64_t sketchCandidates(int k)
{
    return std::int64_t{k + 1 + k / 2} * sketchGroupTokens;
}

/// One attention layer's sketch of one sequence.
struct SketchView {
    std::uint8_t* codes = nullptr;  ///< (kvHeads, capacityTiles, 512), 16-byte aligned
    __half* scales = nullptr;       ///< (kvHeads, capacityTiles * 16), 16-byte aligned
    std::int32_t capacityTiles = 0; ///< a multiple of 4
};

constexpr std::int64_t sketchScaleIndex(std::int64_t token)
{
    return token / sketchBlockTokens * sketchBlockTokens + token % 8 * 8 + token % sketchBlockTokens / 8;
}

constexpr int sketchChunks(std::int64_t tokens)
{
    return int((tokens + sketchChunkTokens - 1) / sketchChunkTokens);
}

/// Writes the sketches of `keys` at token positions firstToken ...
///
/// Shapes   keys: (tokens, kvHeads * 256) bf16, normalised and rotated; basis: (kvHeads, 256, 64) fp32,
///          dimension-major; means: (kvHeads, 256).
/// Numerics fp32; the largest coordinate takes code -8.
[[nodiscard]] cudaError_t launchSketchAppend(MatrixView<const __nv_bfloat16> keys, int kvHeads, const float* basis,
                                             const float* means, std::int64_t firstToken, const SketchView& sketch,
                                             cudaStream_t stream);

/// projected[q,h,c] = sum_d query[q,h,d] * basis[h / group, d, c] / 16, rounded to bf16: (queries, heads, 64).
[[nodiscard]] cudaError_t launchSketchProject(const __nv_bfloat16* query, int queries, int heads, int kvHeads,
                                              const float* basis, __nv_bfloat16* projected, cudaStream_t stream);

/// One query row and what its selection needs; an array of these lies on the device. Buffers of different queries do
/// not overlap.
struct SketchQuery {
    SketchView sketch;
    const __nv_bfloat16* projected; ///< (heads, 64)
    std::int32_t begin, end;        ///< tokens to pick from, begin a multiple of 16: neither sinks nor recent ones
    std::int32_t k;
    __half* maxima;           ///< (kvHeads, capacityTiles * 2, heads / kvHeads): of each group of tokens, work space
    float2* logSums;          ///< (sketchChunks(end), heads): maximum and sum of each chunk, work space
    float2* lines;            ///< (heads): what turns a product into a log share, work space
    std::uint32_t* groupKeys; ///< (capacityTiles * 2), work space of SketchWay::Kernels
    std::uint32_t* histogram; ///< (sketchMeetingWords), 8-byte aligned: zero before the first launch, then left alone
    uint2* candidates;        ///< (sketchCandidates(k)), work space of SketchWay::Kernels: keys and tokens
    std::int32_t* counters;   ///< (4): zero at the start; the last counts selections that scored all groups at the end
    std::int32_t* picks;      ///< (k): out, ascending
    std::int32_t* numPicks;   ///< out: min(k, sketchMaxPicks, end - begin)
    float* lifts = nullptr;   ///< (k): out, of each pick, for picks by priority; null: the largest keys are picked
    std::uint32_t floorKey = 0; ///< keys below count as this
};

/// How launchSketchPick() gets from sums to picks. Both ways give the same bits.
enum class SketchWay {
    Best,   ///< in one launch for so few queries that each has 64 multiprocessors, on sm_90
    Kernels ///< in three
};

/// Consecutive queries of one sequence, which share one reading of its sketch: same `sketch` and `begin`, and ends that
/// do not fall.
struct SketchRows {
    std::int32_t first, count; ///< count * heads per KV head (rounded up to even) is at most sketchMaxColumns
};

/// The k tokens with the largest keys, of equal keys the lower tokens.
///   key[j] = fixed(max_h (s[h,j] - logsumexp_j s[h,j])), s[h,j] = projected[h] . sketch[j],
/// the log of the largest share of attention that any head gives token j among the scored ones, not below floorKey;
/// fixed(v) = (v + 48) * 2^26, clamped to 0 .. 52 * 2^26.
///
/// With `lifts` the picks are a priority sample (Duffield, Lund, Thorup 2007) with the shares as importances: the k
/// largest of key[j] + sketchBoost(j), where the boost is fixed(-log u_j) for a number u_j in (0, 1) that never
/// changes. With tau the (k + 1)-th largest of these sums, a token has been picked with probability min(1, e^(key -
/// tau)), so that lift = max(0, tau - key) in nats, added to its exact scores, lets the picks' e^score and values
/// estimate those of all tokens, nearly without bias (tokens of a group share u): what is sure counts once, the rest
/// for others like it. Where all tokens are picked lifts are 0. Fixed numbers let consecutive queries pick mostly the
/// same tokens.
///
/// How      One reading leaves the sums and, of each eight tokens, every head's largest product. The k-th largest of
///          the groups' keys bounds the k-th largest of the tokens', so that only groups above it are scored again: k
///          and half as many at most, but for groups whose keys are equal, however flat attention is. The tokens of a
///          group share a boost, so that the bound is as tight as without.
/// Numerics a head's projected query in 8 bits with a scale of its own; products with the codes exact in integers, so
///          they depend on nothing else; rounded to fp16 before they become keys, sums and log-sum-exp in fp32. A query
///          gets the same picks whatever other rows it is read with.
/// Errors   cudaErrorInvalidValue for heads or tokens that do not fit.
/// Stream   enqueues two or four kernels on `stream`; maxTokens: no query's `end` is larger; maxRows: nor any count of
///          `rows`. Queries that no rows name are left out of the reading. numQueries == 0 does nothing. Two launches
///          may run beside each other on a GPU, not more.
[[nodiscard]] cudaError_t launchSketchPick(const SketchQuery* queries, int numQueries, const SketchRows* rows,
                                           int numRows, int maxRows, int heads, int kvHeads, std::int64_t maxTokens,
                                           cudaStream_t stream, SketchWay way = SketchWay::Best);

/// Its first kernel alone: sums and maxima.
[[nodiscard]] cudaError_t launchSketchScan(const SketchQuery* queries, const SketchRows* rows, int numRows, int maxRows,
                                           int heads, int kvHeads, std::int64_t maxTokens, cudaStream_t stream);

/// -log(m / 2^16) of an odd m below 2^16, in units of a key, to a thousandth; in integers, so that every device has the
/// same. `exponent`: of the largest power of two in m.
__host__ __device__ constexpr std::uint32_t sketchNegLog(std::uint32_t m, int exponent)
{
    const std::uint32_t f = (m << (15 - exponent)) & 32767u;
    const std::uint32_t p = (f * (32768u - f)) >> 15, h = 14057u - (5603u * f >> 15);
    const std::uint32_t bits = (std::uint32_t(16 - exponent) << 15) - f - (p * h >> 15);
    return (bits * 2839u) >> 1;
}

/// What a priority sample adds to a token's key. The groups' numbers are multiples of the golden ratio, so that each
/// stretch of a context is sampled evenly.
std::uint32_t sketchBoost(std::int32_t token);

/// The layout on the host, and what is kept, in double. `codes`: (capacityTiles, 512) of one head.
int sketchCodeAt(const std::uint8_t* codes, std::int64_t token, int coordinate);
void referenceSketchToken(const float* key, const float* basis, const float* mean, double* coordinates);
/// A projected query (64) as the scan sees it.
void referenceSketchQuery(const float* projected, double* query);
std::uint32_t sketchKey(double logShare);

} // namespace octavo::kernels::cuda
