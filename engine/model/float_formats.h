#pragma once

/// Between 16-bit floats and float. Widening is exact, narrowing goes to the nearest, ties to even.

#include <bit>
#include <cmath>
#include <cstdint>

namespace octavo::engine
{

inline float floatFromBf16(std::uint16_t bits)
{
    return std::bit_cast<float>(std::uint32_t(bits) << 16);
}

inline float floatFromHalf(std::uint16_t bits)
{
    const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00u) // infinity and NaN
        return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    if (magnitude < 0x0400u) // zero and subnormals: a multiple of 2^-24
        return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(float(magnitude) * 0x1p-24f));
    return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

/// Beyond the largest half: infinity.
inline std::uint16_t halfFromFloat(float value)
{
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = std::uint16_t(bits >> 16 & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return sign | 0x7e00u; // NaN
    if (magnitude >= 0x477ff000u) // what rounds to 65536
        return sign | 0x7c00u;
    if (magnitude < 0x38800000u) // below 2^-14: a multiple of 2^-24
        return sign | std::uint16_t(std::lrintf(std::bit_cast<float>(magnitude) * 0x1p24f));
    const std::uint32_t odd = magnitude >> 13 & 1u;
    return sign | std::uint16_t((magnitude - (112u << 23) + 0xfffu + odd) >> 13);
}

} // namespace octavo::engine
