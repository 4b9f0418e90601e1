#include "kernels/cpu/sparse_select.h"

#include "kernels/cpu/sparse_math.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace octavo::kernels::cpu {

namespace {

constexpr int lanes = 16;

LogSum logSumPlain(const float* scores, std::int64_t n)
{
    float maximum = scores[0];
    for (std::int64_t i = 1; i < n; ++i)
        maximum = std::max(maximum, scores[i]);
    float sums[lanes] = {};
    for (std::int64_t i = 0; i < n; ++i)
        sums[i % lanes] += expNonPositive(scores[i] - maximum);
    float sum = 0.0f;
    for (const float part : sums)
        sum += part;
    return {maximum, sum};
}

// Larger key first, then the lower index: one number, of which the larger is the better.
std::uint64_t candidate(float key, std::int64_t index)
{
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(key + 0.0f); // -0 becomes 0
    const std::uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (std::uint64_t(ordered) << 32) | std::uint32_t(~std::uint32_t(index));
}

// `out` has room for n.
std::int64_t collectPlain(const float* keys, std::int64_t n, float least, std::uint64_t* out)
{
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        if (keys[i] >= least)
            out[count++] = candidate(keys[i], i);
    }
    return count;
}

#if defined(__x86_64__)

#define OCTAVO_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

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

OCTAVO_AVX512 LogSum logSumAvx512(const float* scores, std::int64_t n)
{
    const std::int64_t whole = n / lanes * lanes;
    const auto tail = __mmask16((1u << (n - whole)) - 1);
    const __m512 lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    __m512 highest = _mm512_mask_loadu_ps(lowest, tail, scores + whole);
    for (std::int64_t i = 0; i < whole; i += lanes)
        highest = _mm512_max_ps(highest, _mm512_loadu_ps(scores + i));
    const float maximum = _mm512_reduce_max_ps(highest);
    __m512 sums = _mm512_setzero_ps();
    for (std::int64_t i = 0; i < whole; i += lanes)
        sums = _mm512_add_ps(sums, expNonPositive16(_mm512_sub_ps(_mm512_loadu_ps(scores + i), _mm512_set1_ps(maximum))));
    if (tail) {
        const __m512 last = _mm512_mask_loadu_ps(lowest, tail, scores + whole);
        sums = _mm512_add_ps(sums, expNonPositive16(_mm512_sub_ps(last, _mm512_set1_ps(maximum))));
    }
    alignas(64) float parts[lanes];
    _mm512_store_ps(parts, sums);
    float sum = 0.0f;
    for (const float part : parts)
        sum += part;
    return {maximum, sum};
}

OCTAVO_AVX512 void shareKeysAvx512(const float* const* scores, const float* logSums, int numHeads, std::int64_t n,
                                   float* keys)
{
    for (std::int64_t i = 0; i < n; i += lanes) {
        const auto mask = n - i >= lanes ? __mmask16(0xFFFF) : __mmask16((1u << (n - i)) - 1);
        __m512 key = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
        for (int h = 0; h < numHeads; ++h) {
            const __m512 score = _mm512_maskz_loadu_ps(mask, scores[h] + i);
            key = _mm512_max_ps(_mm512_sub_ps(score, _mm512_set1_ps(logSums[h])), key);
        }
        _mm512_mask_storeu_ps(keys + i, mask, key);
    }
}

OCTAVO_AVX512 std::int64_t collectAvx512(const float* keys, std::int64_t n, float least, std::uint64_t* out)
{
    const __m512 limit = _mm512_set1_ps(least);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; i += lanes) {
        const auto valid = n - i >= lanes ? __mmask16(0xFFFF) : __mmask16((1u << (n - i)) - 1);
        unsigned hits = _mm512_mask_cmp_ps_mask(valid, _mm512_maskz_loadu_ps(valid, keys + i), limit, _CMP_GE_OQ);
        for (; hits; hits &= hits - 1) {
            const std::int64_t at = i + std::countr_zero(hits);
            out[count++] = candidate(keys[at], at);
        }
    }
    return count;
}

#endif

// Writes the candidates that reach `least` to the front of the scratch and returns how many there are.
std::int64_t collect(Path path, const float* keys, std::int64_t n, float least, std::vector<std::uint64_t>& candidates)
{
    if (std::int64_t(candidates.size()) < n)
        candidates.resize(std::size_t(n));
#if defined(__x86_64__)
    if (path == Path::Avx512)
        return collectAvx512(keys, n, least, candidates.data());
#else
    (void)path;
#endif
    return collectPlain(keys, n, least, candidates.data());
}

} // namespace

LogSum logSum(Path path, const float* scores, std::int64_t n)
{
#if defined(__x86_64__)
    if (path == Path::Avx512)
        return logSumAvx512(scores, n);
#else
    (void)path;
#endif
    return logSumPlain(scores, n);
}

void shareKeys(Path path, const float* const* scores, const float* logSums, int numHeads, std::int64_t n, float* keys)
{
#if defined(__x86_64__)
    if (path == Path::Avx512)
        return shareKeysAvx512(scores, logSums, numHeads, n, keys);
#else
    (void)path;
#endif
    for (std::int64_t i = 0; i < n; ++i) {
        float key = -std::numeric_limits<float>::infinity();
        for (int h = 0; h < numHeads; ++h) {
            const float share = scores[h][i] - logSums[h];
            key = share > key ? share : key;
        }
        keys[i] = key;
    }
}

void selectLargest(Path path, const float* keys, std::int64_t n, std::int64_t k, SelectScratch& scratch,
                   std::vector<std::int32_t>& picks)
{
    picks.clear();
    if (k >= n) {
        for (std::int64_t i = 0; i < n; ++i)
            picks.push_back(std::int32_t(i));
        return;
    }
    if (k <= 0)
        return;
    // A sample guesses a limit that somewhat more than k keys reach; a wrong guess costs time, never a different answer.
    constexpr std::int64_t stride = 61;
    float least = -std::numeric_limits<float>::infinity();
    const std::int64_t sampled = (n + stride - 1) / stride;
    const std::int64_t wanted = k * 5 / (4 * stride) + 8;
    if (wanted < sampled) {
        scratch.sample.resize(std::size_t(sampled));
        for (std::int64_t i = 0; i < sampled; ++i)
            scratch.sample[std::size_t(i)] = keys[i * stride];
        std::nth_element(scratch.sample.begin(), scratch.sample.begin() + wanted, scratch.sample.end(), std::greater<>{});
        least = scratch.sample[std::size_t(wanted)];
    }
    std::int64_t count = collect(path, keys, n, least, scratch.candidates);
    if (count < k) {
        count = collect(path, keys, n, -std::numeric_limits<float>::infinity(), scratch.candidates);
        k = std::min(k, count); // NaN is never picked
    }
    const auto begin = scratch.candidates.begin();
    if (k < count)
        std::nth_element(begin, begin + k, begin + count, std::greater<>{});
    picks.reserve(std::size_t(k));
    for (std::int64_t i = 0; i < k; ++i)
        picks.push_back(std::int32_t(~std::uint32_t(begin[i])));
    std::sort(picks.begin(), picks.end());
}

} // namespace octavo::kernels::cpu
