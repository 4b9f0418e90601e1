#pragma once

/// The number of a token that decides, with what attention gives it, whether a priority sample takes it. It depends on
/// the token's position alone and never changes, so that steps in a row take mostly the same tokens.
///
/// Numbers are u = (n + 1/2) / 2^24 with a different n for each of the first 2^20 tokens. Their upper 12 bits run
/// through the multiples of the golden ratio, so any stretch of a context has small and large ones alike, and do so
/// again in every period of 4,096 tokens, from another place on: rows that lie a power of two of bytes apart would
/// share a cache's set. The lower 12 bits differ from period to period, so that even of tokens that are taken one in a
/// hundred thousand times the right share is. What is added to a token's key is its boost, -log u.

#include <bit>
#include <cstdint>

namespace octavo::kernels::cpu {

inline constexpr int boostPeriod = 4096;

/// (2531 / 4096, 2528 / 4096 and 2654435769 / 2^32 are the golden ratio.) The places of 16 tokens from a multiple of 16
/// on follow each other.
inline constexpr std::uint32_t boostStep = 2531, boostShift = 2528, boostFineStep = 2654435769u;

/// A token's place in its period, below boostPeriod.
constexpr std::int32_t boostPlace(std::int32_t token)
{
    const auto t = std::uint32_t(token);
    return std::int32_t((t + (t >> 12) * boostShift) & 4095u);
}

/// -log(x / 2^24) within 4e-5, for 2^-1 <= x <= 2^24.
inline float negLog24(float x)
{
    const auto bits = std::bit_cast<std::int32_t>(x);
    const float t = std::bit_cast<float>((bits & 0x007FFFFF) | 0x3F800000) - 1.0f;
    float p = 0.15053320f + t * -0.044873955f;
    p = -0.26957801f + t * p;
    p = 0.44241858f + t * p;
    p = t + t * (1.0f - t) * p; // log2(1 + t), exact at both ends
    return (float(151 - (bits >> 23)) - p) * 0.69314718f;
}

/// n of a token.
constexpr std::uint32_t boostNumber(std::int32_t token)
{
    const std::uint32_t coarse = std::uint32_t(boostPlace(token)) * boostStep & 4095u;
    return coarse << 12 | ((std::uint32_t(token) >> 12) * boostFineStep + 0x80000000u) >> 20;
}

inline float boostOf(std::int32_t token)
{
    return negLog24(float(std::int32_t(boostNumber(token))) + 0.5f);
}

/// The largest boost of a token at this place, whichever the period.
inline float boostBound(std::int32_t place)
{
    return negLog24(float(std::int32_t((std::uint32_t(place) * boostStep & 4095u) << 12)) + 0.5f);
}

} // namespace octavo::kernels::cpu
