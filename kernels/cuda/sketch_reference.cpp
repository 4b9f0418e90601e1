#include "kernels/cuda/sketch.h"

#include <algorithm>
#include <cmath>

namespace octavo::kernels::cuda
{

int sketchCodeAt(const std::uint8_t* codes, std::int64_t token, int coordinate)
{
    const int row = int(token % sketchTileTokens);
    const int step = coordinate / 16, inStep = coordinate % 16;
    const int lane = row % 8 * 4 + inStep % 8 / 2;
    const int byte = row / 8 + 2 * (inStep % 2);
    const int value = codes[token / sketchTileTokens * sketchTileBytes + lane * 16 + step * 4 + byte];
    return inStep < 8 ? value & 15 : value >> 4;
}

void referenceSketchToken(const float* key, const float* basis, const float* mean, double* coordinates)
{
    for (int c = 0; c < sketchRank; ++c) {
        coordinates[c] = 0.0;
        for (int d = 0; d < kvHeadDim; ++d)
            coordinates[c] += (double(key[d]) - mean[d]) * basis[d * sketchRank + c];
    }
}

std::uint32_t sketchKey(double logShare)
{
    return std::uint32_t(std::min(std::max(logShare + 64.0, 0.0), 63.99999) * 67108864.0);
}

} // namespace octavo::kernels::cuda
