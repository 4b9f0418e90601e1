#pragma once

/// Sixteen lanes in plain C++, for any processor. Included by kernels_plain.cpp alone.

#include <cmath>
#include <cstdint>

namespace {

struct VecF {
    float v[16];
};
struct VecI {
    std::int32_t v[16];
};

constexpr int maxRowTile = 4;
constexpr int wideRowTile = 0;
constexpr int quadRowTile = 0;
constexpr int gemmRows = 4;
constexpr int gemmVecs = 1;

template <typename Vec, typename Function>
inline Vec lanes(Function f)
{
    Vec r;
    for (int i = 0; i < 16; ++i)
        r.v[i] = f(i);
    return r;
}
inline VecF setF(float x) { return lanes<VecF>([&](int) { return x; }); }
inline VecI setI(std::int32_t x) { return lanes<VecI>([&](int) { return x; }); }
inline VecF zeroF() { return setF(0.0f); }
inline VecI zeroI() { return setI(0); }
inline VecF loadF(const float* p) { return lanes<VecF>([&](int i) { return p[i]; }); }
inline void storeF(float* p, VecF a) { __builtin_memcpy(p, a.v, sizeof a.v); }
inline VecI loadI(const void* p)
{
    VecI r;
    __builtin_memcpy(r.v, p, sizeof r.v);
    return r;
}
// Sums wrap on every path, so they are taken in unsigned arithmetic.
inline std::int32_t wrap(std::uint32_t x) { return std::int32_t(x); }
inline VecF operator+(VecF a, VecF b) { return lanes<VecF>([&](int i) { return a.v[i] + b.v[i]; }); }
inline VecF operator-(VecF a, VecF b) { return lanes<VecF>([&](int i) { return a.v[i] - b.v[i]; }); }
inline VecF operator*(VecF a, VecF b) { return lanes<VecF>([&](int i) { return a.v[i] * b.v[i]; }); }
inline VecF operator/(VecF a, VecF b) { return lanes<VecF>([&](int i) { return a.v[i] / b.v[i]; }); }
inline VecI operator+(VecI a, VecI b)
{
    return lanes<VecI>([&](int i) { return wrap(std::uint32_t(a.v[i]) + std::uint32_t(b.v[i])); });
}
inline VecI operator-(VecI a, VecI b)
{
    return lanes<VecI>([&](int i) { return wrap(std::uint32_t(a.v[i]) - std::uint32_t(b.v[i])); });
}
inline VecI mulI(VecI a, VecI b)
{
    return lanes<VecI>([&](int i) { return wrap(std::uint32_t(a.v[i]) * std::uint32_t(b.v[i])); });
}
/// Two roundings: a fused one would be a library call where the processor has no FMA.
inline VecF fma(VecF a, VecF b, VecF c) { return lanes<VecF>([&](int i) { return a.v[i] * b.v[i] + c.v[i]; }); }
inline VecF sqrtF(VecF a) { return lanes<VecF>([&](int i) { return std::sqrt(a.v[i]); }); }
inline VecF maxF(VecF a, VecF b) { return lanes<VecF>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
inline VecF minF(VecF a, VecF b) { return lanes<VecF>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; }); }
inline VecF toFloat(VecI a) { return lanes<VecF>([&](int i) { return float(a.v[i]); }); }
/// To nearest even for |x| < 2^22; zero for what is not finite.
inline VecI roundToInt(VecF a)
{
    return lanes<VecI>([&](int i) {
        const float magic = 12582912.0f;
        const float rounded = (a.v[i] + magic) - magic;
        return rounded > -4194304.0f && rounded < 4194304.0f ? std::int32_t(rounded) : 0;
    });
}
inline VecI absBits(VecF a)
{
    VecI r;
    __builtin_memcpy(r.v, a.v, sizeof r.v);
    return lanes<VecI>([&](int i) { return r.v[i] & 0x7fffffff; });
}
inline VecI maxI(VecI a, VecI b) { return lanes<VecI>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; }); }
inline VecF scaleByPowerOfTwo(VecF a, VecI n)
{
    VecI bits;
    __builtin_memcpy(bits.v, a.v, sizeof bits.v);
    bits = lanes<VecI>([&](int i) { return wrap(std::uint32_t(bits.v[i]) + (std::uint32_t(n.v[i]) << 23)); });
    VecF r;
    __builtin_memcpy(r.v, bits.v, sizeof r.v);
    return r;
}
/// Lanes below `count` from a, the others from b.
inline VecF firstLanes(int count, VecF a, VecF b)
{
    return lanes<VecF>([&](int i) { return i < count ? a.v[i] : b.v[i]; });
}
inline float floatOfBits(std::uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
inline float floatOfHalf(std::uint16_t h)
{
    const std::uint32_t sign = std::uint32_t(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 1023u;
    if (exponent == 0)
        return floatOfBits(sign | 0x3f800000u) * (float(mantissa) * 0x1p-24f);
    if (exponent == 31)
        return floatOfBits(sign | 0x7f800000u | (mantissa << 13));
    return floatOfBits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}
inline VecF loadHalf(const std::uint16_t* p) { return lanes<VecF>([&](int i) { return floatOfHalf(p[i]); }); }
inline VecF loadBf16(const std::uint16_t* p)
{
    return lanes<VecF>([&](int i) { return floatOfBits(std::uint32_t(p[i]) << 16); });
}
inline VecI loadInt8(const std::int8_t* p) { return lanes<VecI>([&](int i) { return std::int32_t(p[i]); }); }
/// The order of additions is the same on every path: lanes i and i+8, then +4, +2, +1.
inline float sumLanes(VecF a)
{
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i)
            a.v[i] += a.v[i + half];
    }
    return a.v[0];
}
inline float maxLanes(VecF a)
{
    float m = a.v[0];
    for (float x : a.v)
        m = x > m ? x : m;
    return m;
}
inline std::int32_t maxLanesI(VecI a)
{
    std::int32_t m = a.v[0];
    for (std::int32_t x : a.v)
        m = x > m ? x : m;
    return m;
}

/// Sixteen bits of each weight word that belong to field `Field`, sign-extended: int4 has four fields per 16-bit lane.
inline std::int32_t pack16(std::int32_t low, std::int32_t high)
{
    return wrap((std::uint32_t(low) & 0xffffu) | (std::uint32_t(high) << 16));
}
template <int Field>
inline VecI int4Field(VecI w)
{
    return lanes<VecI>([&](int i) {
        const auto word = std::uint32_t(w.v[i]);
        return pack16(wrap(word << (28 - 4 * Field)) >> 28, wrap(word << (12 - 4 * Field)) >> 28);
    });
}
template <int Field>
inline VecI int8Field(VecI w)
{
    return lanes<VecI>([&](int i) {
        const auto word = std::uint32_t(w.v[i]);
        return pack16(wrap(word << (24 - 8 * Field)) >> 24, wrap(word << (8 - 8 * Field)) >> 24);
    });
}
/// acc + w.lo * a[0] + w.hi * a[1] in every lane; a: two int16.
inline VecI dot2(VecI acc, VecI w, const std::int16_t* a)
{
    const std::int32_t low = a[0], high = a[1];
    return lanes<VecI>([&](int i) {
        const std::int32_t products = std::int16_t(w.v[i] & 0xffff) * low + (w.v[i] >> 16) * high;
        return wrap(std::uint32_t(acc.v[i]) + std::uint32_t(products));
    });
}
/// Sixteen integers as int16, each eight in the order 0 4 1 5 2 6 3 7; the second eight go to dst + stride.
inline void storeInterleaved(std::int16_t* dst, std::int64_t stride, VecI a)
{
    for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 4; ++i) {
            dst[half * stride + 2 * i] = std::int16_t(a.v[8 * half + i]);
            dst[half * stride + 2 * i + 1] = std::int16_t(a.v[8 * half + i + 4]);
        }
    }
}

} // namespace
