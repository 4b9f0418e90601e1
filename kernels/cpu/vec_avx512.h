#pragma once

/// Sixteen lanes on AVX-512: one register. Included by kernels_avx512.cpp alone.

#include <immintrin.h>

#include <cstdint>

namespace {

struct VecF {
    __m512 v;
};
struct VecI {
    __m512i v;
};

// Tile shapes that keep every accumulator in one of 32 registers.
constexpr int maxRowTile = 12;
constexpr int wideRowTile = 12; ///< rows up to this take two panels at once
constexpr int quadRowTile = 6;  ///< rows up to this take four
constexpr int gemmRows = 6;
constexpr int gemmVecs = 4;

inline VecF zeroF() { return {_mm512_setzero_ps()}; }
inline VecI zeroI() { return {_mm512_setzero_si512()}; }
inline VecF setF(float x) { return {_mm512_set1_ps(x)}; }
inline VecI setI(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
inline VecF loadF(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void storeF(float* p, VecF a) { _mm512_storeu_ps(p, a.v); }
inline VecI loadI(const void* p) { return {_mm512_loadu_si512(p)}; }
inline VecF operator+(VecF a, VecF b) { return {_mm512_add_ps(a.v, b.v)}; }
inline VecF operator-(VecF a, VecF b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline VecF operator*(VecF a, VecF b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline VecF operator/(VecF a, VecF b) { return {_mm512_div_ps(a.v, b.v)}; }
inline VecI operator+(VecI a, VecI b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline VecI operator-(VecI a, VecI b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline VecI mulI(VecI a, VecI b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline VecF fma(VecF a, VecF b, VecF c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline VecF sqrtF(VecF a) { return {_mm512_sqrt_ps(a.v)}; }
inline VecF maxF(VecF a, VecF b) { return {_mm512_max_ps(a.v, b.v)}; } ///< a NaN in b stays
inline VecF minF(VecF a, VecF b) { return {_mm512_min_ps(a.v, b.v)}; } ///< a NaN in b stays
inline VecF toFloat(VecI a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline VecI roundToInt(VecF a) { return {_mm512_cvtps_epi32(a.v)}; }
inline VecI absBits(VecF a) { return {_mm512_and_si512(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffffff))}; }
inline VecI maxI(VecI a, VecI b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline VecF scaleByPowerOfTwo(VecF a, VecI n)
{
    return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), _mm512_slli_epi32(n.v, 23)))};
}
/// Lanes below `count` from a, the others from b.
inline VecF firstLanes(int count, VecF a, VecF b)
{
    const __mmask16 mask = count >= 16 ? __mmask16(0xffff) : count <= 0 ? __mmask16(0) : __mmask16((1u << count) - 1);
    return {_mm512_mask_blend_ps(mask, b.v, a.v)};
}
inline VecF loadHalf(const std::uint16_t* p)
{
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline VecF loadBf16(const std::uint16_t* p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline VecI loadInt8(const std::int8_t* p)
{
    return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
/// The order of additions is the same on every path: lanes i and i+8, then +4, +2, +1.
inline float sumLanes(VecF a)
{
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 two = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float maxLanes(VecF a) { return _mm512_reduce_max_ps(a.v); }
inline std::int32_t maxLanesI(VecI a) { return _mm512_reduce_max_epi32(a.v); }

/// Sixteen bits of each weight word that belong to field `Field`, sign-extended: int4 has four fields per 16-bit lane.
template <int Field>
inline VecI int4Field(VecI w)
{
    if constexpr (Field == 3)
        return {_mm512_srai_epi16(w.v, 12)};
    else
        return {_mm512_srai_epi16(_mm512_slli_epi16(w.v, 12 - 4 * Field), 12)};
}
template <int Field>
inline VecI int8Field(VecI w)
{
    if constexpr (Field == 1)
        return {_mm512_srai_epi16(w.v, 8)};
    else
        return {_mm512_srai_epi16(_mm512_slli_epi16(w.v, 8), 8)};
}
/// acc + w.lo * a[0] + w.hi * a[1] in every lane; a: two int16. In assembly since GCC 12 moves the sums of large tiles
/// from register to register and to the stack, which takes a quarter of a tile's time.
inline __attribute__((always_inline)) VecI dot2(VecI acc, VecI w, const std::int16_t* a)
{
    std::int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    asm("vpdpwssd %2, %1, %0" : "+v"(acc.v) : "v"(w.v), "v"(_mm512_set1_epi32(pair)));
    return acc;
}
/// Sixteen integers as int16, each eight in the order 0 4 1 5 2 6 3 7; the second eight go to dst + stride.
inline void storeInterleaved(std::int16_t* dst, std::int64_t stride, VecI a)
{
    const __m512i lows =
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 0, 0, 0, 0, 0, 0, 0, 0), a.v);
    const __m512i highs =
        _mm512_permutexvar_epi32(_mm512_setr_epi32(4, 5, 6, 7, 12, 13, 14, 15, 0, 0, 0, 0, 0, 0, 0, 0), a.v);
    const __m512i pairs =
        _mm512_or_si512(_mm512_and_si512(lows, _mm512_set1_epi32(0xffff)), _mm512_slli_epi32(highs, 16));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), _mm512_castsi512_si128(pairs));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + stride), _mm512_extracti32x4_epi32(pairs, 1));
}

} // namespace
