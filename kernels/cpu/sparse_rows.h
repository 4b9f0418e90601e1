#pragma once

/// KV rows of long contexts, int4, as the host tier and the hot buffer hold them.
///
/// A row is one token's key and value of one KV head: key codes, value codes, key scales, value scales. Every 64 values
/// share an fp16 scale: value = scale * code. Codes run from -8 to 7 and are stored plus 8, two in a byte: the low
/// nibble is value i of its group, the high one value i + 32. At headDim 256 a row takes 272 bytes.

#include "kernels/cpu/cpu_features.h"

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cpu {

struct RowShape {
    int headDim = 256; ///< a multiple of 64, at most 512

    constexpr int groups() const { return headDim / 64; }
    constexpr std::size_t int4Bytes() const { return std::size_t(headDim) + 4 * std::size_t(groups()); }
};

/// Each group's scale is the one of a few that leaves the least squared error. NaN becomes some code, never a fault.
void quantizeRowInt4(Path path, RowShape shape, const float* key, const float* value, std::uint8_t* row);

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

} // namespace octavo::kernels::cpu
