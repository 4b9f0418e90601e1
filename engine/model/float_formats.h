#pragma once

/// Widening of 16-bit floats to float; both are exact.

#include <bit>
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

} // namespace octavo::engine
