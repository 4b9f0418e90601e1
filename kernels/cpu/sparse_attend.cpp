#include "kernels/cpu/sparse_attend.h"

#include "kernels/cpu/sparse_avx512.h"
#include "kernels/cpu/sparse_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace octavo::kernels::cpu {

namespace {

constexpr int lanes = 16;
// So that the upper of two signed bytes ends at 127.
constexpr float largestInteger = 127.0f * 256.0f;

// What attendRows() lays out in its work space.
struct AttendWork {
    AttendWork(RowShape shape, int numRows, int numQueries, float* work)
        : paddedRows((numRows + 15) / 16 * 16)
        , scores(work)
        , valueScales(scores + std::int64_t(numQueries) * paddedRows)
        , weights(valueScales + std::int64_t(shape.groups()) * paddedRows)
        , lifts(weights + std::int64_t(shape.groups()) * paddedRows)
        , liftedShares(lifts + paddedRows)
    {}

    // False where there are none.
    bool takeLifts(const float* given, int numRows) const
    {
        if (!given)
            return false;
        std::copy_n(given, numRows, lifts);
        std::fill(lifts + numRows, lifts + paddedRows, 0.0f);
        return true;
    }

    int paddedRows;
    float* scores;      // (numQueries, paddedRows), then e^(score - maximum)
    float* valueScales; // (paddedRows, groups)
    float* weights;     // (paddedRows, groups), of one query
    float* lifts;        // (paddedRows)
    float* liftedShares; // (paddedRows): of a row's weight, what its lift makes of it
};

float inverseOf(float top)
{
    return top >= 1e-30f ? largestInteger / top : 0.0f;
}

// Code j of a group's 64, -8 to 7.
inline int codeAt(const std::uint8_t* group, int j)
{
    return (j < 32 ? group[j] & 15 : group[j - 32] >> 4) - 8;
}

[[gnu::always_inline]] inline void scoreRowsGeneric(RowShape shape, const std::uint8_t* const* rows, int numRows,
                                                    const RowQuery& query, float* scores)
{
    const int groups = shape.groups();
    for (int i = 0; i < numRows; ++i) {
        const std::uint8_t* scales = rows[i] + shape.headDim;
        float parts[8];
        for (int g = 0; g < groups; ++g) {
            const std::int8_t *high = query.high + 64 * g, *low = query.low + 64 * g;
            std::int32_t dot = 0;
            for (int j = 0; j < 64; ++j)
                dot += codeAt(rows[i] + 32 * g, j) * (256 * high[j] + low[j]);
            parts[g] = float(dot) * halfAt(scales, g);
        }
        float total = 0.0f;
        if (groups == 4) {
            total = (parts[0] + parts[1]) + (parts[2] + parts[3]);
        } else {
            for (int g = 0; g < groups; ++g)
                total += parts[g];
        }
        scores[i] = total * query.scale;
    }
}

// out = sum over rows of the weights' integers times the values, exactly, times each group's step.
[[gnu::always_inline]] inline void addValuesGeneric(RowShape shape, const std::uint8_t* const* rows, int numRows,
                                                    const float* weights, const float* tops, float* out)
{
    const int groups = shape.groups();
    for (int g = 0; g < groups; ++g) {
        std::int32_t sums[64] = {};
        const float inverse = inverseOf(tops[g]);
        for (int i = 0; i < numRows; ++i) {
            const std::uint8_t* codes = rows[i] + shape.headDim / 2 + 32 * g;
            const auto weight = std::int32_t(std::lrint(weights[std::int64_t(i) * groups + g] * inverse));
            for (int j = 0; j < 64; ++j)
                sums[j] += weight * codeAt(codes, j);
        }
        const float step = tops[g] / largestInteger;
        for (int j = 0; j < 64; ++j)
            out[64 * g + j] = float(sums[j]) * step;
    }
}

// Scores become e^(score - maximum).
void softmaxPlain(float* scores, int numRows, float& maximum, float& sum)
{
    maximum = scores[0];
    for (int i = 1; i < numRows; ++i)
        maximum = std::max(maximum, scores[i]);
    float sums[lanes] = {};
    for (int i = 0; i < numRows; ++i) {
        scores[i] = expNonPositive(scores[i] - maximum);
        sums[i % lanes] += scores[i];
    }
    sum = sumLanes(sums);
}

float sumLiftedPlain(const float* weights, const float* shares, int numRows)
{
    float sums[lanes] = {};
    for (int i = 0; i < numRows; ++i)
        sums[i % lanes] += weights[i] * shares[i];
    return sumLanes(sums);
}

[[gnu::always_inline]] inline void attendGeneric(RowShape shape, const std::uint8_t* const* rows, const float* lifts,
                                                 int numRows, const RowQuery* queries, int numQueries,
                                                 float* workSpace, float* out, float* maximum, float* sum, float* added)
{
    const AttendWork work(shape, numRows, numQueries, workSpace);
    const bool lifted = work.takeLifts(lifts, numRows);
    for (int i = 0; lifted && i < numRows; ++i)
        work.liftedShares[i] = 1.0f - expNonPositive(-lifts[i]);
    const int groups = shape.groups();
    for (int i = 0; i < numRows; ++i) {
        for (int g = 0; g < groups; ++g)
            work.valueScales[i * groups + g] = halfAt(rows[i] + shape.headDim, groups + g);
    }
    for (int q = 0; q < numQueries; ++q) {
        float* scores = work.scores + std::int64_t(q) * work.paddedRows;
        scoreRowsGeneric(shape, rows, numRows, queries[q], scores);
        for (int i = 0; lifted && i < numRows; ++i)
            scores[i] += work.lifts[i];
        softmaxPlain(scores, numRows, maximum[q], sum[q]);
        added[q] = lifted ? sumLiftedPlain(scores, work.liftedShares, numRows) : 0.0f;
        float tops[8] = {};
        for (int i = 0; i < numRows; ++i) {
            for (int g = 0; g < groups; ++g) {
                const float weight = scores[i] * work.valueScales[i * groups + g];
                work.weights[i * groups + g] = weight;
                tops[g] = std::max(tops[g], std::abs(weight));
            }
        }
        addValuesGeneric(shape, rows, numRows, work.weights, tops, out + std::int64_t(q) * shape.headDim);
    }
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma,f16c"))) void attendAvx2(RowShape shape, const std::uint8_t* const* rows,
                                                         const float* lifts, int numRows, const RowQuery* queries,
                                                         int numQueries, float* work, float* out, float* maximum,
                                                         float* sum, float* added)
{
    attendGeneric(shape, rows, lifts, numRows, queries, numQueries, work, out, maximum, sum, added);
}

// 272 bytes from a multiple of 16 on lie in five lines.
OCTAVO_AVX512 inline void prefetchRow(const std::uint8_t* row)
{
#pragma GCC unroll 5
    for (int line = 0; line < 272; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(row + line), _MM_HINT_T0);
}

// The 64 codes of a group, plus 8.
OCTAVO_AVX512 inline __m512i codesOf(const std::uint8_t* group)
{
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(group));
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(bytes), _mm256_srli_epi16(bytes, 4), 1);
    return _mm512_and_si512(both, _mm512_set1_epi8(15));
}

// Scores of two queries with rows of four groups; the rows' value scales go to the work space on the way.
OCTAVO_AVX512 void scorePairAvx512(const std::uint8_t* const* rows, int numRows, const RowQuery& first,
                                   const RowQuery& second, float* firstScores, float* secondScores, float* valueScales)
{
    __m512i high[2][4], low[2][4];
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
        high[0][g] = _mm512_load_si512(first.high + 64 * g);
        high[1][g] = _mm512_load_si512(second.high + 64 * g);
        low[0][g] = _mm512_load_si512(first.low + 64 * g);
        low[1][g] = _mm512_load_si512(second.low + 64 * g);
    }
    const __m256i offsets = _mm256_set_m128i(_mm_loadu_si128(reinterpret_cast<const __m128i*>(second.offsets)),
                                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(first.offsets)));
    constexpr int ahead = 8; // rows lie anywhere
    for (int i = 0; i < std::min(ahead, numRows); ++i)
        prefetchRow(rows[i]);
    for (int i = 0; i < numRows; ++i) {
        const std::uint8_t* row = rows[i];
        if (i + ahead < numRows)
            prefetchRow(rows[i + ahead]);
        __m512i dots[2][4];
#pragma GCC unroll 4
        for (int g = 0; g < 4; ++g) {
            const __m512i key = codesOf(row + 32 * g);
#pragma GCC unroll 2
            for (int q = 0; q < 2; ++q) {
                const __m512i upper = _mm512_dpbusd_epi32(_mm512_setzero_si512(), key, high[q][g]);
                dots[q][g] = _mm512_dpbusd_epi32(_mm512_slli_epi32(upper, 8), key, low[q][g]);
            }
        }
        // Eight registers to their eight sums: within the quarters first, then the quarters.
        __m512i quarters[2];
#pragma GCC unroll 2
        for (int q = 0; q < 2; ++q) {
            const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(dots[q][0], dots[q][1]),
                                               _mm512_unpackhi_epi32(dots[q][0], dots[q][1]));
            const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(dots[q][2], dots[q][3]),
                                               _mm512_unpackhi_epi32(dots[q][2], dots[q][3]));
            quarters[q] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        }
        const __m512i halves =
            _mm512_add_epi32(_mm512_shuffle_i32x4(quarters[0], quarters[1], _MM_SHUFFLE(1, 0, 1, 0)),
                             _mm512_shuffle_i32x4(quarters[0], quarters[1], _MM_SHUFFLE(3, 2, 3, 2)));
        const __m512i whole = _mm512_add_epi32(_mm512_shuffle_i32x4(halves, halves, _MM_SHUFFLE(2, 0, 2, 0)),
                                               _mm512_shuffle_i32x4(halves, halves, _MM_SHUFFLE(3, 1, 3, 1)));
        const __m256 sums = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm512_castsi512_si256(whole), offsets));
        const __m256 scales = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 256)));
        _mm_storeu_ps(valueScales + 4 * i, _mm256_extractf128_ps(scales, 1));
        const __m128 keyScales = _mm256_castps256_ps128(scales);
        const __m256 parts = _mm256_mul_ps(sums, _mm256_set_m128(keyScales, keyScales));
        const __m256 pairs = _mm256_hadd_ps(parts, parts), totals = _mm256_hadd_ps(pairs, pairs);
        firstScores[i] = _mm256_cvtss_f32(totals) * first.scale;
        secondScores[i] = _mm_cvtss_f32(_mm256_extractf128_ps(totals, 1)) * second.scale;
    }
}

OCTAVO_AVX512 void softmaxAvx512(float* scores, int numRows, int paddedRows, float& maximum, float& sum)
{
    for (int i = numRows; i < paddedRows; ++i)
        scores[i] = -std::numeric_limits<float>::infinity();
    __m512 highest = _mm512_loadu_ps(scores);
    for (int i = lanes; i < paddedRows; i += lanes)
        highest = _mm512_max_ps(highest, _mm512_loadu_ps(scores + i));
    maximum = _mm512_reduce_max_ps(highest);
    const __m512 shift = _mm512_set1_ps(maximum);
    __m512 sums = _mm512_setzero_ps();
    for (int i = 0; i < paddedRows; i += lanes) {
        const __m512 p = expNonPositive16(_mm512_sub_ps(_mm512_loadu_ps(scores + i), shift));
        _mm512_storeu_ps(scores + i, p);
        sums = _mm512_add_ps(sums, p);
    }
    sum = sumLanes16(sums);
}

OCTAVO_AVX512 void addLiftsAvx512(const float* lifts, int paddedRows, float* scores)
{
    for (int i = 0; i < paddedRows; i += lanes)
        _mm512_storeu_ps(scores + i, _mm512_add_ps(_mm512_loadu_ps(scores + i), _mm512_loadu_ps(lifts + i)));
}

// Rows beyond the last weigh nothing.
OCTAVO_AVX512 float sumLiftedAvx512(const float* weights, const float* shares, int paddedRows)
{
    __m512 sums = _mm512_setzero_ps();
    for (int i = 0; i < paddedRows; i += lanes)
        sums = _mm512_add_ps(sums, _mm512_mul_ps(_mm512_loadu_ps(weights + i), _mm512_loadu_ps(shares + i)));
    return sumLanes16(sums);
}

// Four groups' numbers from four rows of them.
OCTAVO_AVX512 inline __m128i sumQuarters(__m512i v)
{
    return _mm_add_epi32(_mm_add_epi32(_mm512_extracti32x4_epi32(v, 0), _mm512_extracti32x4_epi32(v, 1)),
                         _mm_add_epi32(_mm512_extracti32x4_epi32(v, 2), _mm512_extracti32x4_epi32(v, 3)));
}

// Weights of four groups as two signed bytes each: for every four rows 16 bytes, group by group. offsets: by group, 8
// times the sum of its weights' integers.
OCTAVO_AVX512 void weighAvx512(const float* probabilities, const float* valueScales, int paddedRows, float* weights,
                               std::int8_t* high, std::int8_t* low, float* tops, std::int32_t* offsets)
{
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512 highest = _mm512_setzero_ps();
    for (int i = 0; i < paddedRows; i += 4) {
        const __m512 p = _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(_mm_loadu_ps(probabilities + i)));
        const __m512 weight = _mm512_mul_ps(p, _mm512_loadu_ps(valueScales + 4 * i));
        _mm512_storeu_ps(weights + 4 * i, weight);
        highest = _mm512_max_ps(highest, _mm512_abs_ps(weight));
    }
    const __m128 top = _mm_max_ps(_mm_max_ps(_mm512_extractf32x4_ps(highest, 0), _mm512_extractf32x4_ps(highest, 1)),
                                  _mm_max_ps(_mm512_extractf32x4_ps(highest, 2), _mm512_extractf32x4_ps(highest, 3)));
    _mm_storeu_ps(tops, top);
    const __m512 inverse = _mm512_broadcast_f32x4(
        _mm_setr_ps(inverseOf(tops[0]), inverseOf(tops[1]), inverseOf(tops[2]), inverseOf(tops[3])));
    const __m128i byGroup = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i half = _mm512_set1_epi32(128);
    __m512i sums = _mm512_setzero_si512();
    for (int i = 0; i < paddedRows; i += 4) {
        const __m512i codes = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(weights + 4 * i), inverse));
        sums = _mm512_add_epi32(sums, codes);
        _mm_storeu_si128(
            reinterpret_cast<__m128i*>(high + 4 * i),
            _mm_shuffle_epi8(_mm512_cvtepi32_epi8(_mm512_srai_epi32(_mm512_add_epi32(codes, half), 8)), byGroup));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(low + 4 * i),
                         _mm_shuffle_epi8(_mm512_cvtepi32_epi8(codes), byGroup));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(offsets), _mm_slli_epi32(sumQuarters(sums), 3));
}

// Weights of one query's rows as weighAvx512() leaves them.
struct Weights {
    alignas(64) std::int8_t high[4 * maxAttendRows], low[4 * maxAttendRows];
    float tops[4];
    std::int32_t offsets[4];
};

// out = sum over rows of weight times value for Q queries and four groups. Four rows at a time: a lane of 32 bits holds
// one dimension of all four.
template <int Q>
OCTAVO_AVX512 void addValuesAvx512(const std::uint8_t* const* rows, int paddedRows, const Weights* weights, float* out)
{
    const __m512i nibble = _mm512_set1_epi8(15);
    for (int g = 0; g < 4; ++g) {
        __m512i upper[Q][4], lower[Q][4];
#pragma GCC unroll 2
        for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j)
                upper[q][j] = lower[q][j] = _mm512_setzero_si512();
        }
        for (int i = 0; i < paddedRows; i += 4) {
            __m256i v[4];
#pragma GCC unroll 4
            for (int t = 0; t < 4; ++t)
                v[t] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[i + t] + 128 + 32 * g));
            const __m256i a = _mm256_unpacklo_epi8(v[0], v[1]), b = _mm256_unpackhi_epi8(v[0], v[1]);
            const __m256i c = _mm256_unpacklo_epi8(v[2], v[3]), d = _mm256_unpackhi_epi8(v[2], v[3]);
            const __m512i first = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_unpacklo_epi16(a, c)),
                                                     _mm256_unpackhi_epi16(a, c), 1);
            const __m512i second = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_unpacklo_epi16(b, d)),
                                                      _mm256_unpackhi_epi16(b, d), 1);
            const __m512i values[4] = {_mm512_and_si512(first, nibble), _mm512_and_si512(second, nibble),
                                       _mm512_and_si512(_mm512_srli_epi16(first, 4), nibble),
                                       _mm512_and_si512(_mm512_srli_epi16(second, 4), nibble)};
#pragma GCC unroll 2
            for (int q = 0; q < Q; ++q) {
                std::int32_t h, l;
                std::memcpy(&h, weights[q].high + 4 * i + 4 * g, 4);
                std::memcpy(&l, weights[q].low + 4 * i + 4 * g, 4);
                const __m512i upperWeights = _mm512_set1_epi32(h), lowerWeights = _mm512_set1_epi32(l);
#pragma GCC unroll 4
                for (int j = 0; j < 4; ++j) {
                    upper[q][j] = _mm512_dpbusd_epi32(upper[q][j], values[j], upperWeights);
                    lower[q][j] = _mm512_dpbusd_epi32(lower[q][j], values[j], lowerWeights);
                }
            }
        }
#pragma GCC unroll 2
        for (int q = 0; q < Q; ++q) {
            const __m512 step = _mm512_set1_ps(weights[q].tops[g] / largestInteger);
            const __m512i offset = _mm512_set1_epi32(weights[q].offsets[g]);
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                const __m512i whole = _mm512_sub_epi32(
                    _mm512_add_epi32(_mm512_slli_epi32(upper[q][j], 8), lower[q][j]), offset);
                const __m512 context = _mm512_mul_ps(_mm512_cvtepi32_ps(whole), step);
                // Of a half's 32 dimensions register j % 2 holds 8 (j % 2) and on, 16 more, 4 more, 20 more.
                float* to = out + q * 256 + 64 * g + j / 2 * 32 + j % 2 * 8;
                _mm_storeu_ps(to, _mm512_extractf32x4_ps(context, 0));
                _mm_storeu_ps(to + 16, _mm512_extractf32x4_ps(context, 1));
                _mm_storeu_ps(to + 4, _mm512_extractf32x4_ps(context, 2));
                _mm_storeu_ps(to + 20, _mm512_extractf32x4_ps(context, 3));
            }
        }
    }
}

// Rows of 256 values, as this project's models have them.
OCTAVO_AVX512 void attendAvx512(const std::uint8_t* const* givenRows, const float* lifts, int numRows,
                                const RowQuery* queries, int numQueries, float* workSpace, float* out, float* maximum,
                                float* sum, float* added)
{
    const AttendWork work({256}, numRows, numQueries, workSpace);
    const bool lifted = work.takeLifts(lifts, numRows);
    for (int i = 0; lifted && i < work.paddedRows; i += lanes)
        _mm512_storeu_ps(
            work.liftedShares + i,
            _mm512_sub_ps(_mm512_set1_ps(1.0f),
                          expNonPositive16(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_loadu_ps(work.lifts + i)))));
    const std::uint8_t* rows[maxAttendRows];
    std::copy_n(givenRows, numRows, rows);
    std::fill(rows + numRows, rows + work.paddedRows, givenRows[0]); // their weights are 0
    std::fill(work.valueScales + 4 * numRows, work.valueScales + 4 * work.paddedRows, 0.0f);
    Weights weights[2];
    for (int q = 0; q < numQueries; q += 2) {
        const int count = std::min(2, numQueries - q);
        float* scores = work.scores + std::int64_t(q) * work.paddedRows;
        scorePairAvx512(rows, numRows, queries[q], queries[q + count - 1], scores,
                        count == 2 ? scores + work.paddedRows : scores, work.valueScales);
        for (int i = 0; i < count; ++i) {
            float* own = scores + i * work.paddedRows;
            if (lifted)
                addLiftsAvx512(work.lifts, work.paddedRows, own);
            softmaxAvx512(own, numRows, work.paddedRows, maximum[q + i], sum[q + i]);
            added[q + i] = lifted ? sumLiftedAvx512(own, work.liftedShares, work.paddedRows) : 0.0f;
            weighAvx512(own, work.valueScales, work.paddedRows, work.weights, weights[i].high, weights[i].low,
                        weights[i].tops, weights[i].offsets);
        }
        if (count == 2)
            addValuesAvx512<2>(rows, work.paddedRows, weights, out + std::int64_t(q) * 256);
        else
            addValuesAvx512<1>(rows, work.paddedRows, weights, out + std::int64_t(q) * 256);
    }
}

#endif

} // namespace

RowQuery makeRowQuery(RowShape shape, const float* query, float attentionScale)
{
    float peak = 0.0f;
    for (int i = 0; i < shape.headDim; ++i)
        peak = std::max(peak, std::abs(query[i]));
    const float scale = peak / largestInteger;
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    RowQuery result;
    for (int i = 0; i < shape.headDim; ++i) {
        const float x = query[i] * inverse;
        const int code = x == x ? int(std::lrint(std::clamp(x, -largestInteger, largestInteger))) : 0;
        const int high = (code + 128) >> 8;
        result.high[i] = std::int8_t(high);
        result.low[i] = std::int8_t(code - 256 * high);
        result.offsets[i / 64] += 8 * code;
    }
    result.scale = scale * attentionScale;
    return result;
}

void attendRows(Path path, RowShape shape, const std::uint8_t* const* rows, const float* lifts, int numRows,
                const RowQuery* queries, int numQueries, float* work, float* out, float* maximum, float* sum,
                float* added)
{
#if defined(__x86_64__)
    if (path == Path::Avx512 && shape.headDim == 256)
        return attendAvx512(rows, lifts, numRows, queries, numQueries, work, out, maximum, sum, added);
    if (path != Path::Plain)
        return attendAvx2(shape, rows, lifts, numRows, queries, numQueries, work, out, maximum, sum, added);
#else
    (void)path;
#endif
    attendGeneric(shape, rows, lifts, numRows, queries, numQueries, work, out, maximum, sum, added);
}

void askForRows(RowShape shape, const std::uint8_t* const* rows, int numRows)
{
    for (int i = 0; i < numRows; ++i) {
        for (std::size_t byte = 0; byte < shape.int4Bytes(); byte += 64)
            __builtin_prefetch(rows[i] + byte, 0, 2);
        __builtin_prefetch(rows[i] + shape.int4Bytes() - 1, 0, 2);
    }
}

} // namespace octavo::kernels::cpu
