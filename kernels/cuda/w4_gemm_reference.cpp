#include "kernels/cuda/w4_gemm.h"

#include <cuda_fp16.h>

#include <cassert>
#include <cstring>

namespace octavo::kernels::cuda
{
namespace
{

/// Where a weight lives: byte of the word that holds it, its nibble, and the byte of its scale.
struct W4Place {
    std::int64_t word;
    int nibble;
    std::int64_t scale;
};

W4Place placeOf(int inFeatures, int n, int k)
{
    const std::int64_t groups = (inFeatures + w4GroupSize - 1) / w4GroupSize;
    const std::int64_t unit = (n / w4TileRows) * groups + k / w4GroupSize;
    const int row = n % w4TileRows;
    const int input = k % w4GroupSize;
    const int warpN = row / 32, half = row % 32 / 16, row16 = row % 16;
    const int slice = input / 64, step = input % 64 / 16, input16 = input % 16;
    // The A fragment of m16n8k16: register i holds rows +8 (i odd) and inputs +8 (i >= 2).
    const int lane = (row16 % 8) * 4 + input16 % 8 / 2;
    const int reg = row16 / 8 + 2 * (input16 / 8);
    const std::int64_t base = unit * w4UnitBytes;
    return {base + slice * 4096 + warpN * 1024 + half * 512 + lane * 16 + step * 4, reg + 4 * (input16 % 2),
            base + 8192 + warpN * 64 + (row16 % 8) * 8 + half * 4 + (row16 / 8) * 2};
}

} // namespace

std::int64_t w4PackedBytes(int outFeatures, int inFeatures)
{
    return W4Matrix{nullptr, outFeatures, inFeatures}.bytes();
}

void clearW4(std::span<std::uint8_t> out)
{
    assert(out.size() % w4UnitBytes == 0 && "whole units only");
    for (std::size_t unit = 0; unit < out.size(); unit += w4UnitBytes) {
        std::memset(out.data() + unit, 0x88, 8192);
        std::memset(out.data() + unit + 8192, 0, 256);
    }
}

void packW4(const std::uint32_t* qweight, const std::uint16_t* scales, int outFeatures, int inFeatures,
            std::span<std::uint8_t> out, int firstOut)
{
    assert(inFeatures % 8 == 0 && "GPTQ packs eight inputs to a word");
    assert(std::int64_t(out.size()) >= w4PackedBytes(firstOut + outFeatures, inFeatures) && "room for every output");
    for (int k8 = 0; k8 < inFeatures / 8; ++k8) {
        for (int n = 0; n < outFeatures; ++n) {
            const std::uint32_t word = qweight[std::int64_t{k8} * outFeatures + n];
            const std::uint16_t scale = scales[std::int64_t{k8 * 8 / w4GroupSize} * outFeatures + n];
            // Inputs 2 j and 2 j + 1 go to the j-th of four lanes, into nibbles four apart.
            const W4Place place = placeOf(inFeatures, firstOut + n, k8 * 8);
            const std::uint32_t mask = 0x000f000fu << (4 * place.nibble);
            for (int j = 0; j < 4; ++j) {
                std::uint8_t* at = out.data() + place.word + j * 16;
                const std::uint32_t pair = word >> (8 * j);
                std::uint32_t target;
                std::memcpy(&target, at, 4);
                target = (target & ~mask) | ((pair & 15u) | (pair & 0xf0u) << 12) << (4 * place.nibble);
                std::memcpy(at, &target, 4);
            }
            if (k8 * 8 % w4GroupSize == 0)
                std::memcpy(out.data() + place.scale, &scale, 2);
        }
    }
}

int w4CodeAt(const std::uint8_t* units, int inFeatures, int n, int k)
{
    const W4Place place = placeOf(inFeatures, n, k);
    std::uint32_t word;
    std::memcpy(&word, units + place.word, 4);
    return (word >> (4 * place.nibble)) & 15;
}

std::uint16_t w4ScaleAt(const std::uint8_t* units, int inFeatures, int n, int k)
{
    std::uint16_t scale;
    std::memcpy(&scale, units + placeOf(inFeatures, n, k).scale, 2);
    return scale;
}

void referenceW4Gemm(const float* x, int rows, const std::uint8_t* units, int outFeatures, int inFeatures, double* y)
{
    for (int n = 0; n < outFeatures; ++n) {
        for (int m = 0; m < rows; ++m)
            y[std::int64_t{m} * outFeatures + n] = 0.0;
        for (int k = 0; k < inFeatures; ++k) {
            const __half_raw scale{w4ScaleAt(units, inFeatures, n, k)};
            const double weight = double(__half2float(__half(scale))) * (w4CodeAt(units, inFeatures, n, k) - 8);
            for (int m = 0; m < rows; ++m)
                y[std::int64_t{m} * outFeatures + n] += weight * x[std::int64_t{m} * inFeatures + k];
        }
    }
}

} // namespace octavo::kernels::cuda
