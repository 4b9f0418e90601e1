#pragma once

/// How the CPU kernels want matrices: weights in panels of 16 outputs, activations as 16-bit integers.
///
/// A panel holds 16 outputs side by side, so that one 64-byte load serves 16 lanes and a row of activations is
/// broadcast, two int16 at a time. The same int8 panel stores weights (output, input), keys (token, dimension) and
/// values (dimension, token). Sums are exact integers: results depend neither on the tile shape nor on the path.

#include <cstdint>

namespace octavo::kernels::cpu {

inline constexpr int panelWidth = 16;
inline constexpr int maxTileRows = 12; ///< of any path

/// Inputs are taken eight at a time; within eight, activations stand in the order 0 4 1 5 2 6 3 7.
inline constexpr int panelDepth = 8;

constexpr int panelCount(int outputs) { return (outputs + panelWidth - 1) / panelWidth; }
constexpr int paddedDepth(int inputs) { return (inputs + panelDepth - 1) / panelDepth * panelDepth; }

/// Offset of (input k, lane) inside an int8 panel: per eight inputs two blocks of 16 lanes x 4 bytes.
constexpr std::int64_t int8PanelOffset(std::int64_t k, int lane)
{
    const int r = int(k % 8);
    return (k / 8) * 128 + ((r >> 1) & 1) * 64 + lane * 4 + (r & 1) + (r >= 4 ? 2 : 0);
}

/// y[m][n] = rowScale[m] * sum_g scale[g][n] * sum_{k in g} (code[n][k] - offset[g][n]) * a[m][k].
struct Int4Panels {
    const std::uint32_t* codes = nullptr;  ///< [panel][k/8][16]: eight two's complement nibbles, lowest first
    const std::uint16_t* scales = nullptr; ///< [panel][group][16], fp16
    const std::int8_t* offsets = nullptr;  ///< [panel][group][16], or null when all are zero
    int outputs = 0;
    int inputs = 0;    ///< padded, a multiple of 8
    int groupSize = 0; ///< a multiple of 8, at most 1024; the last group may be shorter
};

/// The same for signed bytes; group sums stay below 2^31 for groups of up to 256 inputs.
struct Int8Panels {
    const std::int8_t* codes = nullptr; ///< [panel][int8PanelOffset]
    const float* scales = nullptr;      ///< [panel][group][16]
    int outputs = 0;
    int inputs = 0;
    int groupSize = 0;
};

/// y[m][n] = sum_k w[n][k] * x[m][k] in float.
struct DensePanels {
    const void* values = nullptr; ///< [panel][k][16], bf16 or float
    bool bf16 = true;
    int outputs = 0;
    int inputs = 0;
};

/// Rows in tiles of nearly equal height, each at most `maxRows`; tile(i) gives first row and height.
struct RowTiles {
    int rows = 0;
    int maxRows = 1;

    constexpr int count() const { return (rows + maxRows - 1) / maxRows; }
    constexpr int begin(int i) const
    {
        const int n = count(), base = rows / n, extra = rows % n;
        return i * base + (i < extra ? i : extra);
    }
    constexpr int height(int i) const { return begin(i + 1) - begin(i); }
};

/// Activations: x[m][k] ~ scale[m] * values, |values| <= 32767.
/// Tile-major: the tile that begins at row b starts at b * inputs and holds [k/8][row of the tile][8].
struct QuantizedRows {
    std::int16_t* values = nullptr;
    float* scales = nullptr;
    int rows = 0;
    int inputs = 0; ///< padded, a multiple of 8
};

} // namespace octavo::kernels::cpu
