#include "kernels/cuda/sketch.h"

#include <algorithm>
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
    return std::uint32_t(std::min(std::max(logShare + 64.0, 0.0), 63.99999) * 67108864.0);
}

std::vector<std::int32_t> referenceTailSample(const std::vector<std::int32_t>& picks, std::int32_t begin,
                                              std::int32_t end, std::int32_t stride)
{
    std::vector<std::int32_t> sample;
    for (std::int32_t token = begin; token < end; ++token) {
        if (token % stride == 0 && std::find(picks.begin(), picks.end(), token) == picks.end())
            sample.push_back(token);
    }
    return sample;
}

} // namespace octavo::kernels::cuda
