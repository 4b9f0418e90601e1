#pragma once

/// Scalar arithmetic that every path of the sparse kernels shares, so that all paths give the same bits: fp16 by
/// software, and an exp of multiplications and additions alone.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace octavo::kernels::cpu {

inline float halfToFloat(std::uint16_t half)
{
    const std::uint32_t sign = std::uint32_t(half & 0x8000) << 16;
    const std::uint32_t exponent = (half >> 10) & 31, mantissa = half & 0x3FF;
    if (exponent == 0) // zero and subnormals: mantissa * 2^-24
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(float(mantissa) * 0x1p-24f));
    if (exponent == 31)
        return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

/// The fp16 number at `index` of an array that starts anywhere.
inline float halfAt(const std::uint8_t* halves, int index)
{
    std::uint16_t half;
    std::memcpy(&half, halves + 2 * index, 2);
    return halfToFloat(half);
}

/// Rounds to nearest even; what is too large becomes the largest finite value, NaN zero.
inline std::uint16_t floatToHalf(float value)
{
    const auto sign = std::uint16_t((std::bit_cast<std::uint32_t>(value) >> 16) & 0x8000);
    const float magnitude = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu);
    if (!(magnitude < 65504.0f))
        return magnitude >= 65504.0f ? std::uint16_t(sign | 0x7BFF) : std::uint16_t(0);
    if (magnitude < 0x1p-14f) // subnormal: adding 0.5 aligns the last bit at 2^-24
        return std::uint16_t(sign | (std::bit_cast<std::uint32_t>(magnitude + 0.5f) - 0x3F000000u));
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
    const std::uint32_t rounded = bits + 0xFFF + ((bits >> 13) & 1);
    return std::uint16_t(sign | ((rounded - 0x38000000u) >> 13));
}

/// exp(x) for x <= 0, relative error below 2e-7; below -87 it is 0.
inline float expNonPositive(float x)
{
    if (!(x > -87.0f))
        return 0.0f;
    constexpr float toNearest = 12582912.0f; // 1.5 * 2^23
    const float k = (x * 1.44269504f + toNearest) - toNearest;
    float r = x - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    return p * std::bit_cast<float>(std::uint32_t(std::int32_t(k) + 127) << 23);
}

/// exp(x) for x <= 0 within 4%, by reading the bits of a line as a float; below -87 it is 0. For sums that only weigh
/// heads against each other: the error repeats with every factor of 2, so it cancels in their ratios.
inline float roughExp(float x)
{
    const float bits = x * 12102203.0f + 1064866805.0f;
    return std::bit_cast<float>(std::int32_t(bits > 0.0f ? bits : 0.0f));
}

/// In the order of a tree over 16 lanes.
inline float sumLanes(const float* v)
{
    float half[8], quarter[4];
    for (int i = 0; i < 8; ++i)
        half[i] = v[i] + v[i + 8];
    for (int i = 0; i < 4; ++i)
        quarter[i] = half[i] + half[i + 4];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

} // namespace octavo::kernels::cpu
