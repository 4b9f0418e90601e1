#include "kernels/cpu/sparse_select.h"

#include "kernels/cpu/sparse_avx512.h"
#include "kernels/cpu/sparse_math.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace octavo::kernels::cpu {

namespace {

constexpr int lanes = 16;
constexpr float lowest = -std::numeric_limits<float>::infinity();

LogSum logSumPlain(const float* scores, std::int64_t n)
{
    float maximum = scores[0];
    for (std::int64_t i = 1; i < n; ++i)
        maximum = std::max(maximum, scores[i]);
    float sums[lanes] = {};
    for (std::int64_t i = 0; i < n; ++i)
        sums[i % lanes] += roughExp(scores[i] - maximum);
    return {maximum, sumLanes(sums)};
}

float keyOf(const SharedScores& shared, std::int64_t i)
{
    float key = lowest;
    for (int h = 0; h < shared.numHeads; ++h) {
        const float share = shared.scores[h][i] - shared.logSums[h];
        key = share > key ? share : key;
    }
    return key;
}

// A larger key is a larger number; -0 equals 0.
std::uint32_t ordered(float key)
{
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(key + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Puts the tokens whose key reaches `least` and that are no NaN in the scratch, which has room for n + 16, and returns
// how many there are.
std::int64_t collectPlain(const SharedScores& shared, std::int64_t n, float least, SelectScratch& scratch,
                          std::int64_t stride)
{
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        bool number = false;
        for (int h = 0; h < shared.numHeads; ++h)
            number |= shared.scores[h][i] == shared.scores[h][i];
        if (!number || !(keyOf(shared, i) >= least))
            continue;
        scratch.indices[std::size_t(count)] = std::int32_t(i);
        for (int h = 0; h < shared.numHeads; ++h)
            scratch.shares[std::size_t(h * stride + count)] = shared.scores[h][i] - shared.logSums[h];
        ++count;
    }
    return count;
}

std::int64_t countPlain(const std::int32_t* values, std::int64_t n, std::int32_t limit)
{
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i)
        count += values[i] >= limit;
    return count;
}

#if defined(__x86_64__)

OCTAVO_AVX512 std::int64_t countAvx512(const std::int32_t* values, std::int64_t n, std::int32_t limit)
{
    const std::int64_t whole = n / lanes * lanes;
    const __m512i least = _mm512_set1_epi32(limit);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < whole; i += lanes)
        count += std::popcount(unsigned(_mm512_cmpge_epi32_mask(_mm512_loadu_si512(values + i), least)));
    return count + countPlain(values + whole, n - whole, limit);
}

OCTAVO_AVX512 LogSum logSumAvx512(const float* scores, std::int64_t n)
{
    const std::int64_t whole = n / lanes * lanes;
    const auto tail = __mmask16((1u << (n - whole)) - 1);
    const __m512 nothing = _mm512_set1_ps(lowest);
    __m512 highest = _mm512_mask_loadu_ps(nothing, tail, scores + whole);
    for (std::int64_t i = 0; i < whole; i += lanes)
        highest = _mm512_max_ps(highest, _mm512_loadu_ps(scores + i));
    const float maximum = _mm512_reduce_max_ps(highest);
    const __m512 shift = _mm512_set1_ps(maximum);
    __m512 sums = _mm512_setzero_ps();
    for (std::int64_t i = 0; i < whole; i += lanes)
        sums = _mm512_add_ps(sums, roughExp16(_mm512_sub_ps(_mm512_loadu_ps(scores + i), shift)));
    if (tail)
        sums = _mm512_add_ps(sums, _mm512_maskz_mov_ps(tail, roughExp16(_mm512_sub_ps(
                                                                  _mm512_maskz_loadu_ps(tail, scores + whole), shift))));
    return {maximum, sumLanes16(sums)};
}

OCTAVO_AVX512 std::int64_t collectAvx512(const SharedScores& shared, std::int64_t n, float least,
                                         SelectScratch& scratch, std::int64_t stride)
{
    const __m512 limit = _mm512_set1_ps(least), nothing = _mm512_set1_ps(lowest);
    const __m512i counting = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; i += lanes) {
        const auto valid = n - i >= lanes ? __mmask16(0xFFFF) : __mmask16((1u << (n - i)) - 1);
        __m512 key = nothing;
        __mmask16 number = 0;
        for (int h = 0; h < shared.numHeads; ++h) {
            const __m512 share = _mm512_sub_ps(_mm512_maskz_loadu_ps(valid, shared.scores[h] + i),
                                               _mm512_set1_ps(shared.logSums[h]));
            number = __mmask16(number | _mm512_cmp_ps_mask(share, share, _CMP_ORD_Q));
            key = _mm512_max_ps(share, key); // a NaN gives the second operand
        }
        const __mmask16 hits = _mm512_mask_cmp_ps_mask(__mmask16(valid & number), key, limit, _CMP_GE_OQ);
        if (!hits)
            continue;
        _mm512_storeu_si512(scratch.indices.data() + count,
                            _mm512_maskz_compress_epi32(hits, _mm512_add_epi32(counting, _mm512_set1_epi32(int(i)))));
        for (int h = 0; h < shared.numHeads; ++h) {
            const __m512 share = _mm512_sub_ps(_mm512_maskz_loadu_ps(valid, shared.scores[h] + i),
                                               _mm512_set1_ps(shared.logSums[h]));
            _mm512_storeu_ps(scratch.shares.data() + h * stride + count, _mm512_maskz_compress_ps(hits, share));
        }
        count += std::popcount(unsigned(hits));
    }
    return count;
}

#endif

std::int64_t collect(Path path, const SharedScores& shared, std::int64_t n, float least, SelectScratch& scratch,
                     std::int64_t stride)
{
#if defined(__x86_64__)
    if (path == Path::Avx512)
        return collectAvx512(shared, n, least, scratch, stride);
#else
    (void)path;
#endif
    return collectPlain(shared, n, least, scratch, stride);
}

// The k-th largest of `count` candidates, as a number of 64 bits that a candidate must reach: its key, then its place
// from the end, so that the lower index wins.
std::uint64_t limitOf(std::int64_t count, std::int64_t k, SelectScratch& scratch)
{
    const auto place = [&](std::int64_t i) {
        return (std::uint64_t(scratch.ordered[std::size_t(i)]) << 32) | std::uint32_t(~std::uint32_t(i));
    };
    std::uint32_t least = ~0u, most = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        least = std::min(least, scratch.ordered[std::size_t(i)]);
        most = std::max(most, scratch.ordered[std::size_t(i)]);
    }
    constexpr int bins = 1024;
    const int shift = std::max(0, int(std::bit_width(most - least)) - 10);
    std::int64_t sizes[bins] = {};
    for (std::int64_t i = 0; i < count; ++i)
        ++sizes[(scratch.ordered[std::size_t(i)] - least) >> shift];
    int bin = bins - 1;
    std::int64_t above = 0; // candidates in larger bins
    while (above + sizes[bin] < k)
        above += sizes[bin--];
    scratch.boundary.clear();
    for (std::int64_t i = 0; i < count; ++i) {
        if (int((scratch.ordered[std::size_t(i)] - least) >> shift) == bin)
            scratch.boundary.push_back(place(i));
    }
    const auto last = scratch.boundary.begin() + (k - above - 1);
    std::nth_element(scratch.boundary.begin(), last, scratch.boundary.end(), std::greater<>{});
    return *last;
}

} // namespace

LogSum roughLogSum(Path path, const float* scores, std::int64_t n)
{
#if defined(__x86_64__)
    if (path == Path::Avx512)
        return logSumAvx512(scores, n);
#else
    (void)path;
#endif
    return logSumPlain(scores, n);
}

std::int32_t limitReachedBy(Path path, const std::int32_t* values, std::int64_t n, std::int64_t wanted)
{
    const auto [least, most] = std::minmax_element(values, values + n);
    std::int64_t reached = *least, missed = std::int64_t(*most) + 1; // by enough, by too few
    while (missed - reached > 1) {
        const auto middle = std::int32_t((reached + missed) / 2);
#if defined(__x86_64__)
        const std::int64_t count = path == Path::Avx512 ? countAvx512(values, n, middle) : countPlain(values, n, middle);
#else
        const std::int64_t count = countPlain(values, n, middle);
        (void)path;
#endif
        (count >= wanted ? reached : missed) = middle;
    }
    return std::int32_t(reached);
}

void selectLargest(Path path, const SharedScores& shared, std::int64_t n, std::int64_t k, SelectScratch& scratch,
                   std::vector<std::int32_t>& picks, float* kept)
{
    picks.clear();
    std::fill_n(kept, shared.numHeads, 0.0f);
    if (k <= 0)
        return;
    // A sample guesses a limit that somewhat more than k keys reach; a wrong guess costs time, never a different answer.
    constexpr std::int64_t stride = 61;
    float least = lowest;
    const std::int64_t sampled = (n + stride - 1) / stride, wanted = k * 5 / (4 * stride) + 8;
    if (wanted < sampled) {
        scratch.sample.resize(std::size_t(sampled));
        for (std::int64_t i = 0; i < sampled; ++i)
            scratch.sample[std::size_t(i)] = keyOf(shared, i * stride);
        std::nth_element(scratch.sample.begin(), scratch.sample.begin() + wanted, scratch.sample.end(), std::greater<>{});
        least = scratch.sample[std::size_t(wanted)];
    }
    const std::int64_t capacity = n + lanes;
    if (std::int64_t(scratch.indices.size()) < capacity)
        scratch.indices.resize(std::size_t(capacity));
    if (std::int64_t(scratch.shares.size()) < shared.numHeads * capacity)
        scratch.shares.resize(std::size_t(shared.numHeads * capacity));
    std::int64_t count = collect(path, shared, n, least, scratch, capacity);
    if (count < k && least > lowest)
        count = collect(path, shared, n, lowest, scratch, capacity);
    k = std::min(k, count);
    if (k == 0)
        return;
    if (std::int64_t(scratch.ordered.size()) < count)
        scratch.ordered.resize(std::size_t(count));
    for (std::int64_t i = 0; i < count; ++i) {
        float key = lowest;
        for (int h = 0; h < shared.numHeads; ++h)
            key = std::max(key, scratch.shares[std::size_t(h * capacity + i)]);
        scratch.ordered[std::size_t(i)] = ordered(key);
    }
    const std::uint64_t limit = limitOf(count, k, scratch);
    picks.reserve(std::size_t(k));
    std::int64_t taken = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        const std::uint64_t place =
            (std::uint64_t(scratch.ordered[std::size_t(i)]) << 32) | std::uint32_t(~std::uint32_t(i));
        if (place < limit)
            continue;
        picks.push_back(scratch.indices[std::size_t(i)]);
        for (int h = 0; h < shared.numHeads; ++h)
            scratch.shares[std::size_t(h * capacity + taken)] = scratch.shares[std::size_t(h * capacity + i)];
        ++taken;
    }
    for (int h = 0; h < shared.numHeads; ++h) {
        float sums[lanes] = {};
        for (std::int64_t i = 0; i < taken; ++i)
            sums[i % lanes] += roughExp(std::min(0.0f, scratch.shares[std::size_t(h * capacity + i)]));
        kept[h] = sumLanes(sums);
    }
}

} // namespace octavo::kernels::cpu
