#include "kernels/cuda/sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace octavo::kernels::cuda
{

int sketchCodeAt(const std::uint8_t* codes, std::int64_t token, int coordinate)
{
    const int row = int(token % sketchTileTokens), byte = coordinate % 32;
    const int lane = row % 8 * 4 + byte % 16 / 4, word = row / 8 + byte / 16 * 2;
    const int value = codes[token / sketchTileTokens * sketchTileBytes + lane * 16 + word * 4 + byte % 4];
    return coordinate < 32 ? value & 15 : value >> 4;
}

void referenceSketchToken(const float* key, const float* basis, const float* mean, double* coordinates)
{
    for (int c = 0; c < sketchRank; ++c) {
        coordinates[c] = 0.0;
        for (int d = 0; d < kvHeadDim; ++d)
            coordinates[c] += (double(key[d]) - mean[d]) * basis[d * sketchRank + c];
    }
}

void referenceSketchQuery(const float* projected, double* query)
{
    float peak = 0.0f;
    for (int c = 0; c < sketchRank; ++c)
        peak = std::max(peak, std::abs(projected[c]));
    const float inverse = peak > 0.0f ? 127.0f / peak : 0.0f;
    for (int c = 0; c < sketchRank; ++c)
        query[c] = std::rint(projected[c] * inverse) * double(peak) / 127.0;
}

std::uint32_t sketchKey(double logShare)
{
    return std::uint32_t(std::min(std::max(logShare + 48.0, 0.0), 51.99999) * sketchKeyUnit);
}

std::uint32_t sketchBoost(std::int32_t token)
{
    const std::uint32_t group = std::uint32_t(token / sketchBlockTokens * 8 + token % 8);
    const std::uint32_t m = group * 2654435769u >> 17 << 1 | 1u; // 15 bits of the fraction, and a half more
    return sketchNegLog(m, 31 - std::countl_zero(m));
}

} // namespace octavo::kernels::cuda
