#pragma once

/// KV rows of the host tier (int4) and of the hot buffer (int8), and exact attention over rows scattered in memory.
///
/// A row is one token's key and value of one KV head: key codes, value codes, key scales, value scales. Every 64 values
/// share an fp16 scale: value = scale * code. Int4 codes run from -8 to 7 and are stored plus 8, two in a byte: the low
/// nibble is value i of its group, the high one value i + 32. At headDim 256 a row takes 272 bytes in int4, 528 in int8.
///
/// Numerics all paths give the same bits: integers where sums are long, no fused multiply-add.

#include "kernels/cpu/cpu_features.h"

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cpu {

struct RowShape {
    int headDim = 256; ///< a multiple of 64, at most 512

    constexpr int groups() const { return headDim / 64; }
    constexpr std::size_t int4Bytes() const { return std::size_t(headDim) + 4 * std::size_t(groups()); }
    constexpr std::size_t int8Bytes() const { return 2 * std::size_t(headDim) + 4 * std::size_t(groups()); }
};

/// Each group's scale is the one of a few that leaves the least squared error. NaN becomes some code, never a fault.
void quantizeRowInt4(RowShape shape, const float* key, const float* value, std::uint8_t* row);
void quantizeRowInt8(RowShape shape, const float* key, const float* value, std::uint8_t* row);

/// The same values as int8: lossless, since both formats have the same groups. Scales become positive.
void unpackRow(Path path, RowShape shape, const std::uint8_t* int4Row, std::uint8_t* int8Row);

/// Rows as a page of dense attention: codes in the panels that kernels.h describes, one scale per token for its key
/// and one for its value, as many tokens as rows, from token 0. The four scales of an int4 row become one, so a value
/// moves by up to 1/254 of its row's largest, a sixteenth of what int4 itself may be off by.
///
/// Shapes   rows: (count), count a multiple of 16; keys: panels of 16 tokens of headDim; values: panels of 16
///          dimensions of `pageTokens`; keyScales, valueScales: (count)
void unpackPage(Path path, RowShape shape, const std::uint8_t* const* rows, int count, int pageTokens,
                std::int8_t* keys, std::int8_t* values, float* keyScales, float* valueScales);

/// For tests and evaluation. `key`, `value`: (headDim).
void dequantizeInt4(RowShape shape, const std::uint8_t* row, float* key, float* value);
void dequantizeInt8(RowShape shape, const std::uint8_t* row, float* key, float* value);

/// A query as 16-bit integers in two bytes each, for products with int8 codes that stay exact.
struct RowQuery {
    alignas(64) std::int8_t high[512] = {};
    alignas(64) std::int8_t low[512] = {}; ///< value = scale * (256 * high + low)
    std::int32_t offsets[8] = {};          ///< by group: 128 * its integers' sum, since codes are taken plus 128
    float scale = 0.0f;                    ///< times the attention's own scale
};

RowQuery makeRowQuery(RowShape shape, const float* query, float attentionScale);

inline constexpr int maxAttendRows = 512;

/// Floats that attendRows() works in.
constexpr std::int64_t attendWorkFloats(RowShape shape, int numRows, int numQueries)
{
    const std::int64_t rows = (numRows + 15) / 16 * 16;
    return rows * (numQueries + 2 * shape.groups());
}

/// Attention of `numQueries` queries over `numRows` (1 to maxAttendRows) int8 rows, as one part of a softmax:
///   s[i] = scale * q . key[i];  maximum = max_i s[i];  sum = sum_i e^(s[i]-maximum);  out = sum_i e^(s[i]-maximum) value[i]
///
/// Shapes   out: (numQueries, headDim); work: attendWorkFloats(); maximum, sum: (numQueries)
/// Numerics products of a group are exact integers; e^s times a value's scale becomes a 15-bit integer relative to the
///          largest among these rows, as in dense attention.
void attendRows(Path path, RowShape shape, const std::uint8_t* const* rows, int numRows, const RowQuery* queries,
                int numQueries, float* work, float* out, float* maximum, float* sum);

} // namespace octavo::kernels::cpu
