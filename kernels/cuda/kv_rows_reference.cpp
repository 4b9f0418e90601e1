#include "kernels/cuda/kv_rows.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace octavo::kernels::cuda
{
namespace
{

int codeOf(float x, float inverse)
{
    const float code = std::nearbyint(x * inverse);
    return code >= -8.0f ? int(std::min(code, 7.0f)) : -8;
}

void quantizeHalf(const float* x, std::uint8_t* codes, std::uint8_t* scales)
{
    for (int group = 0; group < 4; ++group, x += 64, codes += 32, scales += 2) {
        float peak = 0.0f;
        for (int i = 0; i < 64; ++i)
            peak = std::abs(x[i]) > std::abs(peak) ? x[i] : peak;
        double bestError = 0.0;
        __half bestScale{};
        for (const float factor : {1.0f, 0.93f, 0.86f, 0.79f}) {
            const __half half = __float2half(peak / -8.0f * factor);
            const float scale = __half2float(half), inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
            double error = 0.0;
            for (int i = 0; i < 64; ++i)
                error += std::pow(x[i] - double(scale) * codeOf(x[i], inverse), 2);
            if (factor == 1.0f || error < bestError) {
                bestError = error;
                bestScale = half;
            }
        }
        const float scale = __half2float(bestScale), inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        for (int i = 0; i < 32; ++i)
            codes[i] = std::uint8_t((codeOf(x[i], inverse) + 8) | (codeOf(x[i + 32], inverse) + 8) << 4);
        std::memcpy(scales, &bestScale, 2);
    }
}

void dequantizeHalf(const std::uint8_t* codes, const std::uint8_t* scales, float* x)
{
    for (int i = 0; i < kvHeadDim; ++i) {
        __half scale;
        std::memcpy(static_cast<void*>(&scale), scales + i / 64 * 2, 2);
        const int byte = codes[i / 64 * 32 + i % 32];
        x[i] = __half2float(scale) * float((i % 64 < 32 ? byte & 15 : byte >> 4) - 8);
    }
}

} // namespace

void referenceQuantizeRow(const float* key, const float* value, std::uint8_t* row)
{
    quantizeHalf(key, row, row + 256);
    quantizeHalf(value, row + 128, row + 264);
}

void referenceDequantizeRow(const std::uint8_t* row, float* key, float* value)
{
    dequantizeHalf(row, row + 256, key);
    dequantizeHalf(row + 128, row + 264, value);
}

} // namespace octavo::kernels::cuda
