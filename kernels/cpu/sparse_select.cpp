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

// What collect() found: how many tokens, and the range of their ordered keys.
struct Collected {
    std::int64_t count = 0;
    std::uint32_t least = ~0u, most = 0;
};

// Puts the tokens whose key reaches `least` and that are no NaN in the scratch, which has room for n + 16.
Collected collectPlain(const SharedScores& shared, std::int64_t n, float least, SelectScratch& scratch,
                       std::int64_t stride)
{
    Collected found;
    for (std::int64_t i = 0; i < n; ++i) {
        bool number = false;
        for (int h = 0; h < shared.numHeads; ++h)
            number |= shared.scores[h][i] == shared.scores[h][i];
        const float key = keyOf(shared, i);
        if (!number || !(key >= least))
            continue;
        scratch.indices[std::size_t(found.count)] = std::int32_t(i);
        scratch.ordered[std::size_t(found.count)] = ordered(key);
        for (int h = 0; h < shared.numHeads; ++h)
            scratch.shares[std::size_t(h * stride + found.count)] = shared.scores[h][i] - shared.logSums[h];
        found.least = std::min(found.least, ordered(key));
        found.most = std::max(found.most, ordered(key));
        ++found.count;
    }
    return found;
}

// A candidate's place among all: its key, then its index from the end, so that the lower index wins.
std::uint64_t placeOf(const SelectScratch& scratch, std::int64_t i)
{
    return (std::uint64_t(scratch.ordered[std::size_t(i)]) << 32) | std::uint32_t(~std::uint32_t(i));
}

// Moves the candidates whose place reaches `limit` to the front and returns how many there are.
std::int64_t keepPlain(std::int64_t count, std::uint64_t limit, int numHeads, std::int64_t stride,
                       SelectScratch& scratch)
{
    std::int64_t taken = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        if (placeOf(scratch, i) < limit)
            continue;
        scratch.indices[std::size_t(taken)] = scratch.indices[std::size_t(i)];
        for (int h = 0; h < numHeads; ++h)
            scratch.shares[std::size_t(h * stride + taken)] = scratch.shares[std::size_t(h * stride + i)];
        ++taken;
    }
    return taken;
}

float sumSharesPlain(const float* shares, std::int64_t n)
{
    float sums[lanes] = {};
    for (std::int64_t i = 0; i < n; ++i)
        sums[i % lanes] += roughExp(std::min(0.0f, shares[i]));
    return sumLanes(sums);
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
    constexpr int strips = 4; // sums that do not wait for each other
    const std::int64_t whole = n / (strips * lanes) * (strips * lanes);
    const __m512i least = _mm512_set1_epi32(limit), one = _mm512_set1_epi32(1);
    __m512i sums[strips] = {};
    for (std::int64_t i = 0; i < whole; i += strips * lanes) {
#pragma GCC unroll 4
        for (int s = 0; s < strips; ++s)
            sums[s] = _mm512_mask_add_epi32(
                sums[s], _mm512_cmpge_epi32_mask(_mm512_loadu_si512(values + i + s * lanes), least), sums[s], one);
    }
    const std::int64_t count = _mm512_reduce_add_epi32(
        _mm512_add_epi32(_mm512_add_epi32(sums[0], sums[1]), _mm512_add_epi32(sums[2], sums[3])));
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
        sums = _mm512_add_ps(
            sums,
            _mm512_maskz_mov_ps(tail, roughExp16(_mm512_sub_ps(_mm512_maskz_loadu_ps(tail, scores + whole), shift))));
    return {maximum, sumLanes16(sums)};
}

OCTAVO_AVX512 void rangeAvx512(const std::int32_t* values, std::int64_t n, std::int32_t& least, std::int32_t& most)
{
    const std::int64_t whole = n / lanes * lanes;
    const auto tail = __mmask16((1u << (n - whole)) - 1);
    const __m512i first = _mm512_set1_epi32(values[0]);
    __m512i low = _mm512_mask_loadu_epi32(first, tail, values + whole), high = low;
    for (std::int64_t i = 0; i < whole; i += lanes) {
        const __m512i v = _mm512_loadu_si512(values + i);
        low = _mm512_min_epi32(low, v);
        high = _mm512_max_epi32(high, v);
    }
    least = _mm512_reduce_min_epi32(low);
    most = _mm512_reduce_max_epi32(high);
}

// ordered() of sixteen keys.
OCTAVO_AVX512 inline __m512i ordered16(__m512 key)
{
    const __m512i bits = _mm512_castps_si512(_mm512_add_ps(key, _mm512_setzero_ps()));
    const __m512i sign = _mm512_srai_epi32(bits, 31);
    return _mm512_xor_si512(bits, _mm512_or_si512(sign, _mm512_set1_epi32(std::int32_t(0x80000000u))));
}

OCTAVO_AVX512 Collected collectAvx512(const SharedScores& shared, std::int64_t n, float least, SelectScratch& scratch,
                                      std::int64_t stride)
{
    const __m512 limit = _mm512_set1_ps(least), nothing = _mm512_set1_ps(lowest);
    const __m512i counting = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i low = _mm512_set1_epi32(-1), high = _mm512_setzero_si512();
    Collected found;
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
        const __m512i keys = ordered16(key);
        low = _mm512_mask_min_epu32(low, hits, low, keys);
        high = _mm512_mask_max_epu32(high, hits, high, keys);
        _mm512_storeu_si512(scratch.indices.data() + found.count,
                            _mm512_maskz_compress_epi32(hits, _mm512_add_epi32(counting, _mm512_set1_epi32(int(i)))));
        _mm512_storeu_si512(scratch.ordered.data() + found.count, _mm512_maskz_compress_epi32(hits, keys));
        for (int h = 0; h < shared.numHeads; ++h) {
            const __m512 share = _mm512_sub_ps(_mm512_maskz_loadu_ps(valid, shared.scores[h] + i),
                                               _mm512_set1_ps(shared.logSums[h]));
            _mm512_storeu_ps(scratch.shares.data() + h * stride + found.count, _mm512_maskz_compress_ps(hits, share));
        }
        found.count += std::popcount(unsigned(hits));
    }
    found.least = _mm512_reduce_min_epu32(low);
    found.most = _mm512_reduce_max_epu32(high);
    return found;
}

OCTAVO_AVX512 std::int64_t keepAvx512(std::int64_t count, std::uint64_t limit, int numHeads, std::int64_t stride,
                                      SelectScratch& scratch)
{
    const __m512i key = _mm512_set1_epi32(std::int32_t(limit >> 32));
    const __m512i last = _mm512_set1_epi32(std::int32_t(~std::uint32_t(limit))); // index of that key to be taken
    const __m512i counting = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    std::int64_t taken = 0;
    for (std::int64_t i = 0; i < count; i += lanes) { // what is written has been read
        const auto valid = count - i >= lanes ? __mmask16(0xFFFF) : __mmask16((1u << (count - i)) - 1);
        const __m512i keys = _mm512_loadu_si512(scratch.ordered.data() + i);
        const __m512i index = _mm512_add_epi32(counting, _mm512_set1_epi32(int(i)));
        const __mmask16 equal = _mm512_mask_cmple_epu32_mask(_mm512_cmpeq_epi32_mask(keys, key), index, last);
        const auto hits = __mmask16(valid & (_mm512_cmpgt_epu32_mask(keys, key) | equal));
        _mm512_storeu_si512(scratch.indices.data() + taken,
                            _mm512_maskz_compress_epi32(hits, _mm512_loadu_si512(scratch.indices.data() + i)));
        for (int h = 0; h < numHeads; ++h) {
            float* shares = scratch.shares.data() + h * stride;
            _mm512_storeu_ps(shares + taken, _mm512_maskz_compress_ps(hits, _mm512_loadu_ps(shares + i)));
        }
        taken += std::popcount(unsigned(hits));
    }
    return taken;
}

OCTAVO_AVX512 float sumSharesAvx512(const float* shares, std::int64_t n)
{
    __m512 sums = _mm512_setzero_ps();
    for (std::int64_t i = 0; i < n; i += lanes) {
        const auto valid = n - i >= lanes ? __mmask16(0xFFFF) : __mmask16((1u << (n - i)) - 1);
        // A NaN gives the second operand.
        const __m512 share = _mm512_min_ps(_mm512_maskz_loadu_ps(valid, shares + i), _mm512_setzero_ps());
        sums = _mm512_add_ps(sums, _mm512_maskz_mov_ps(valid, roughExp16(share)));
    }
    return sumLanes16(sums);
}

#endif

Collected collect(Path path, const SharedScores& shared, std::int64_t n, float least, SelectScratch& scratch,
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

std::int64_t keep(Path path, std::int64_t count, std::uint64_t limit, int numHeads, std::int64_t stride,
                  SelectScratch& scratch)
{
#if defined(__x86_64__)
    if (path == Path::Avx512)
        return keepAvx512(count, limit, numHeads, stride, scratch);
#else
    (void)path;
#endif
    return keepPlain(count, limit, numHeads, stride, scratch);
}

float sumColumn(Path path, const float* shares, std::int64_t n)
{
#if defined(__x86_64__)
    if (path == Path::Avx512)
        return sumSharesAvx512(shares, n);
#else
    (void)path;
#endif
    return sumSharesPlain(shares, n);
}

// The k-th largest place of the candidates.
std::uint64_t limitOf(const Collected& found, std::int64_t k, SelectScratch& scratch)
{
    const std::int64_t count = found.count;
    const std::uint32_t least = found.least, most = found.most;
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
            scratch.boundary.push_back(placeOf(scratch, i));
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
    std::int32_t least = values[0], most = values[0];
#if defined(__x86_64__)
    if (path == Path::Avx512)
        rangeAvx512(values, n, least, most);
    else
#endif
    {
        const auto [low, high] = std::minmax_element(values, values + n);
        least = *low;
        most = *high;
    }
    std::int64_t reached = least, missed = std::int64_t(most) + 1; // by enough, by too few
    while (missed - reached > 1) {
        const auto middle = std::int32_t((reached + missed) / 2);
#if defined(__x86_64__)
        const std::int64_t count =
            path == Path::Avx512 ? countAvx512(values, n, middle) : countPlain(values, n, middle);
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
    // A sample guesses a limit that somewhat more than k keys reach; a wrong guess costs time, never a different
    // answer.
    constexpr std::int64_t stride = 61;
    float least = lowest;
    const std::int64_t sampled = (n + stride - 1) / stride, wanted = k * 5 / (4 * stride) + 8;
    if (wanted < sampled) {
        scratch.sample.resize(std::size_t(sampled));
        for (std::int64_t i = 0; i < sampled; ++i)
            scratch.sample[std::size_t(i)] = keyOf(shared, i * stride);
        std::nth_element(scratch.sample.begin(), scratch.sample.begin() + wanted, scratch.sample.end(),
                         std::greater<>{});
        least = scratch.sample[std::size_t(wanted)];
    }
    const std::int64_t capacity = n + lanes;
    if (std::int64_t(scratch.indices.size()) < capacity) {
        scratch.indices.resize(std::size_t(capacity));
        scratch.ordered.resize(std::size_t(capacity));
    }
    if (std::int64_t(scratch.shares.size()) < shared.numHeads * capacity)
        scratch.shares.resize(std::size_t(shared.numHeads * capacity));
    Collected found = collect(path, shared, n, least, scratch, capacity);
    if (found.count < k && least > lowest)
        found = collect(path, shared, n, lowest, scratch, capacity);
    k = std::min(k, found.count);
    if (k == 0)
        return;
    const std::int64_t taken = keep(path, found.count, limitOf(found, k, scratch), shared.numHeads, capacity, scratch);
    picks.assign(scratch.indices.begin(), scratch.indices.begin() + taken);
    for (int h = 0; h < shared.numHeads; ++h)
        kept[h] = sumColumn(path, scratch.shares.data() + h * capacity, taken);
}

void sumShares(const SharedScores& shared, const std::vector<std::int32_t>& tokens, float* sums)
{
    for (int h = 0; h < shared.numHeads; ++h) {
        float parts[lanes] = {};
        for (std::size_t i = 0; i < tokens.size(); ++i)
            parts[i % lanes] += roughExp(std::min(0.0f, shared.scores[h][tokens[i]] - shared.logSums[h]));
        sums[h] = sumLanes(parts);
    }
}

} // namespace octavo::kernels::cpu
