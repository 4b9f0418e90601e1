#pragma once

/// Exact attention over int4 rows scattered in memory.
///
/// Numerics all paths give the same bits: integers where sums are long, no fused multiply-add.

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/sparse_rows.h"

#include <cstdint>

namespace octavo::kernels::cpu {

/// A query as 16-bit integers in two bytes each, for products with int4 codes that stay exact.
struct RowQuery {
    alignas(64) std::int8_t high[512] = {};
    alignas(64) std::int8_t low[512] = {}; ///< value = scale * (256 * high + low)
    std::int32_t offsets[8] = {};          ///< by group: 8 * its integers' sum, since codes are stored plus 8
    float scale = 0.0f;                    ///< times the attention's own scale
};

RowQuery makeRowQuery(RowShape shape, const float* query, float attentionScale);

inline constexpr int maxAttendRows = 512;

/// Floats that attendRows() works in.
constexpr std::int64_t attendWorkFloats(RowShape shape, int numRows, int numQueries)
{
    const std::int64_t rows = (numRows + 15) / 16 * 16;
    return rows * (numQueries + 2 + 2 * shape.groups());
}

/// Attention of `numQueries` queries over `numRows` (1 to maxAttendRows) rows, as one part of a softmax:
///   s[i] = scale * q . key[i];  maximum = max_i s[i];
///   sum = sum_i e^(s[i]-maximum);  out = sum_i e^(s[i]-maximum) value[i]
///
/// With lifts (numRows), each >= 0, they are added to every query's scores; added = sum_i e^(s[i]-maximum) (1 -
/// e^-lift[i]) is what they add to the sum. Without, `lifts` is null and added 0.
///
/// Shapes   out: (numQueries, headDim); work: attendWorkFloats(); maximum, sum, added: (numQueries)
/// Numerics products of a group are exact integers; e^s times a value's scale becomes a 15-bit integer relative to the
///          largest among these rows, as in dense attention.
void attendRows(Path path, RowShape shape, const std::uint8_t* const* rows, const float* lifts, int numRows,
                const RowQuery* queries, int numQueries, float* work, float* out, float* maximum, float* sum,
                float* added);

/// Asks for rows that will be read in a moment, all at once: memory serves many at a time.
void askForRows(RowShape shape, const std::uint8_t* const* rows, int numRows);

} // namespace octavo::kernels::cpu
