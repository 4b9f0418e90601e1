#pragma once

/// KV rows of the host tier (int4) and of the hot buffer (int8), and exact attention over rows scattered in memory.
///
/// A row is one token's key and value of one KV head: key codes, value codes, key scales, value scales. Every 64 values
/// share an fp16 scale: value = scale * code. Int4 codes run from -8 to 7 and are stored plus 8, two in a byte: the low
/// nibble is value i of its group, the high one value i + 32. At headDim 256 a row takes 272 bytes in int4, 528 in int8.
///
/// Numerics all paths give the same bits: 16 partial sums per dot product, no fused multiply-add.

#include "kernels/cpu/cpu_features.h"

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cpu {

struct RowShape {
    int headDim = 256; ///< a multiple of 64, at most 512

    int groups() const { return headDim / 64; }
    std::size_t int4Bytes() const { return std::size_t(headDim) + 4 * std::size_t(groups()); }
    std::size_t int8Bytes() const { return 2 * std::size_t(headDim) + 4 * std::size_t(groups()); }
};

/// Each group's scale is the one of a few that leaves the least squared error. NaN becomes some code, never a fault.
void quantizeRowInt4(RowShape shape, const float* key, const float* value, std::uint8_t* row);
void quantizeRowInt8(RowShape shape, const float* key, const float* value, std::uint8_t* row);

/// The same values as int8: lossless, since both formats have the same groups.
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

/// Attention of `numQueries` queries over `numRows` int8 rows, as one part of a softmax:
///   s[i] = scale * q . key[i];  maximum = max_i s[i];  sum = sum_i e^(s[i]-maximum);  out = sum_i e^(s[i]-maximum) value[i]
///
/// Shapes   queries, out: (numQueries, headDim); scores (scratch): (numQueries, numRows); maximum, sum: (numQueries)
void attendRows(Path path, RowShape shape, const std::uint8_t* const* rows, int numRows, const float* queries,
                int numQueries, float scale, float* scores, float* out, float* maximum, float* sum);

} // namespace octavo::kernels::cpu
