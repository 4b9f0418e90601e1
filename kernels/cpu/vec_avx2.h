#pragma once

/// Sixteen lanes on AVX2: two registers. Included by kernels_avx2.cpp alone.

#include <immintrin.h>

#include <cstdint>

namespace {

struct VecF {
    __m256 a, b;
};
struct VecI {
    __m256i a, b;
};

// Tile shapes that keep most accumulators in the 16 registers.
constexpr int maxRowTile = 4;
constexpr int wideRowTile = 0;
constexpr int quadRowTile = 0;
constexpr int gemmRows = 4;
constexpr int gemmVecs = 1;

inline VecF zeroF() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline VecI zeroI() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline VecF setF(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline VecI setI(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline VecF loadF(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void storeF(float* p, VecF x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
inline VecI loadI(const void* p)
{
    const auto* q = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
inline VecF operator+(VecF x, VecF y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline VecF operator-(VecF x, VecF y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline VecF operator*(VecF x, VecF y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline VecF operator/(VecF x, VecF y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline VecI operator+(VecI x, VecI y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
inline VecI operator-(VecI x, VecI y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
inline VecI mulI(VecI x, VecI y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
inline VecF fma(VecF x, VecF y, VecF z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
inline VecF sqrtF(VecF x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
inline VecF maxF(VecF x, VecF y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; } ///< a NaN in y stays
inline VecF minF(VecF x, VecF y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; } ///< a NaN in y stays
inline VecF toFloat(VecI x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
inline VecI roundToInt(VecF x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
inline VecI absBits(VecF x)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    return {_mm256_and_si256(_mm256_castps_si256(x.a), mask), _mm256_and_si256(_mm256_castps_si256(x.b), mask)};
}
inline VecI maxI(VecI x, VecI y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
inline VecF scaleByPowerOfTwo(VecF x, VecI n)
{
    return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.a), _mm256_slli_epi32(n.a, 23))),
            _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.b), _mm256_slli_epi32(n.b, 23)))};
}
/// Lanes below `count` from x, the others from y.
inline VecF firstLanes(int count, VecF x, VecF y)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256 maskA = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
    const __m256 maskB = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), lane));
    return {_mm256_blendv_ps(y.a, x.a, maskA), _mm256_blendv_ps(y.b, x.b, maskB)};
}
inline VecF loadHalf(const std::uint16_t* p)
{
    const auto* q = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
inline VecF loadBf16(const std::uint16_t* p)
{
    const auto* q = reinterpret_cast<const __m128i*>(p);
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q)), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(q + 1)), 16))};
}
inline VecI loadInt8(const std::int8_t* p)
{
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
/// The order of additions is the same on every path: lanes i and i+8, then +4, +2, +1.
inline float sumLanes(VecF x)
{
    const __m256 half = _mm256_add_ps(x.a, x.b);
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 two = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float maxLanes(VecF x)
{
    const __m256 half = _mm256_max_ps(x.a, x.b);
    const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 two = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline std::int32_t maxLanesI(VecI x)
{
    const __m256i half = _mm256_max_epi32(x.a, x.b);
    const __m128i quarter = _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i two = _mm_max_epi32(quarter, _mm_shuffle_epi32(quarter, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

/// Sixteen bits of each weight word that belong to field `Field`, sign-extended: int4 has four fields per 16-bit lane.
template <int Field>
inline VecI int4Field(VecI w)
{
    if constexpr (Field == 3)
        return {_mm256_srai_epi16(w.a, 12), _mm256_srai_epi16(w.b, 12)};
    else
        return {_mm256_srai_epi16(_mm256_slli_epi16(w.a, 12 - 4 * Field), 12),
                _mm256_srai_epi16(_mm256_slli_epi16(w.b, 12 - 4 * Field), 12)};
}
template <int Field>
inline VecI int8Field(VecI w)
{
    if constexpr (Field == 1)
        return {_mm256_srai_epi16(w.a, 8), _mm256_srai_epi16(w.b, 8)};
    else
        return {_mm256_srai_epi16(_mm256_slli_epi16(w.a, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(w.b, 8), 8)};
}
/// acc + w.lo * a[0] + w.hi * a[1] in every lane; a: two int16.
inline VecI dot2(VecI acc, VecI w, const std::int16_t* a)
{
    std::int32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    const __m256i x = _mm256_set1_epi32(pair);
    return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(w.a, x)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(w.b, x))};
}
inline __m128i interleavedEight(__m256i x)
{
    const __m128i lows = _mm_and_si128(_mm256_castsi256_si128(x), _mm_set1_epi32(0xffff));
    return _mm_or_si128(lows, _mm_slli_epi32(_mm256_extracti128_si256(x, 1), 16));
}
/// Sixteen integers as int16, each eight in the order 0 4 1 5 2 6 3 7; the second eight go to dst + stride.
inline void storeInterleaved(std::int16_t* dst, std::int64_t stride, VecI x)
{
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), interleavedEight(x.a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + stride), interleavedEight(x.b));
}

} // namespace
