#pragma once

/// The vector form of sparse_math.h, for the AVX-512 parts of the sparse kernels: the same operations in the same
/// order.

#if defined(__x86_64__)

#include <immintrin.h>

#define OCTAVO_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c")))

namespace octavo::kernels::cpu {

OCTAVO_AVX512 inline __m512 expNonPositive16(__m512 x)
{
    const __mmask16 positive = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_GT_OQ);
    const __m512 toNearest = _mm512_set1_ps(12582912.0f);
    const __m512 k =
        _mm512_sub_ps(_mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), toNearest), toNearest);
    __m512 r = _mm512_sub_ps(x, _mm512_mul_ps(k, _mm512_set1_ps(0.693359375f)));
    r = _mm512_sub_ps(r, _mm512_mul_ps(k, _mm512_set1_ps(-2.12194440e-4f)));
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(c));
    p = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(p, _mm512_mul_ps(r, r)), r), _mm512_set1_ps(1.0f));
    const __m512i exponent = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(k), _mm512_set1_epi32(127)), 23);
    return _mm512_maskz_mul_ps(positive, p, _mm512_castsi512_ps(exponent));
}

OCTAVO_AVX512 inline __m512 roughExp16(__m512 x)
{
    const __m512 bits = _mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(12102203.0f)), _mm512_set1_ps(1064866805.0f));
    return _mm512_castsi512_ps(_mm512_cvttps_epi32(_mm512_max_ps(bits, _mm512_setzero_ps())));
}

/// The same bits whatever the path: lanes i and i + 8, then i and i + 4, then the four as (0 + 2) + (1 + 3).
OCTAVO_AVX512 inline float sumLanes16(__m512 v)
{
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 eighth = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(eighth, _mm_shuffle_ps(eighth, eighth, 1)));
}

} // namespace octavo::kernels::cpu

#endif
