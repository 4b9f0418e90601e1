#include "kernels/cpu/sparse_rows.h"

#include "kernels/cpu/panels.h"
#include "kernels/cpu/sparse_avx512.h"
#include "kernels/cpu/sparse_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace octavo::kernels::cpu {

namespace {

constexpr int lanes = 16;

int clampedCode(float x, int low, int high)
{
    if (!(x > float(low)))
        return low;
    return x < float(high) ? int(std::lrint(x)) : high;
}

float largest(const float* x, int n)
{
    float best = 0.0f;
    for (int i = 0; i < n; ++i) {
        if (std::abs(x[i]) > std::abs(best))
            best = x[i];
    }
    return best;
}

// Codes of one group of 64 for one scale, and the squared error they leave.
float codesFor(const float* x, float scale, std::array<std::int8_t, 64>& codes)
{
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    float error = 0.0f;
    for (int i = 0; i < 64; ++i) {
        codes[std::size_t(i)] = std::int8_t(clampedCode(x[i] * inverse, -8, 7));
        const float difference = x[i] - scale * float(codes[std::size_t(i)]);
        error += difference * difference;
    }
    return error;
}

void quantizeGroupInt4(const float* x, std::uint8_t* packed, std::uint16_t& scaleOut)
{
    // The largest value takes code -8, which symmetric codes would leave unused; a smaller scale clips it and serves
    // the others better.
    const float full = largest(x, 64) / -8.0f;
    std::array<std::int8_t, 64> codes{}, best{};
    float bestError = 0.0f;
    bool first = true;
    for (const float factor : {1.0f, 0.93f, 0.86f, 0.79f}) {
        const std::uint16_t half = floatToHalf(full * factor);
        const float error = codesFor(x, halfToFloat(half), codes);
        if (first || error < bestError) {
            bestError = error;
            best = codes;
            scaleOut = half;
            first = false;
        }
    }
    for (std::size_t i = 0; i < 32; ++i)
        packed[i] = std::uint8_t((best[i] + 8) | ((best[i + 32] + 8) << 4));
}

struct Int4View {
    Int4View(RowShape shape, const std::uint8_t* row)
        : key(row)
        , value(row + shape.headDim / 2)
        , scales(row + shape.headDim)
    {}
    const std::uint8_t *key, *value, *scales;
};

float scaleAt(const std::uint8_t* scales, int index)
{
    std::uint16_t half;
    std::memcpy(&half, scales + 2 * index, 2);
    return halfToFloat(half);
}

// What attendRows() lays out in its work space.
struct AttendWork {
    AttendWork(RowShape shape, int numRows, int numQueries, float* work)
        : paddedRows((numRows + 15) / 16 * 16)
        , scores(work)
        , valueScales(scores + std::int64_t(numQueries) * paddedRows)
        , weights(valueScales + std::int64_t(shape.groups()) * paddedRows)
    {}
    int paddedRows;
    float* scores;           // (numQueries, paddedRows), then e^(score - maximum)
    float* valueScales;      // (paddedRows, groups)
    float* weights;          // (paddedRows, groups), of one query
};

constexpr float largestWeight = 32767.0f;

float inverseOf(float top)
{
    return top >= 1e-30f ? largestWeight / top : 0.0f;
}

[[gnu::always_inline]] inline void scoreRowsGeneric(RowShape shape, const std::uint8_t* const* rows, int numRows,
                                                    const RowQuery& query, float* scores)
{
    const int groups = shape.groups();
    for (int i = 0; i < numRows; ++i) {
        const auto* codes = reinterpret_cast<const std::int8_t*>(rows[i]);
        const std::uint8_t* scales = rows[i] + 2 * shape.headDim;
        float parts[8];
        for (int g = 0; g < groups; ++g) {
            std::int32_t dot = 0;
            for (int j = 64 * g; j < 64 * g + 64; ++j)
                dot += std::int32_t(codes[j]) * (256 * query.high[j] + query.low[j]);
            parts[g] = float(dot) * scaleAt(scales, g);
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
            const auto* codes = reinterpret_cast<const std::int8_t*>(rows[i]) + shape.headDim + 64 * g;
            const auto weight = std::int32_t(std::lrint(weights[std::int64_t(i) * groups + g] * inverse));
            for (int j = 0; j < 64; ++j)
                sums[j] += weight * codes[j];
        }
        const float step = tops[g] / largestWeight;
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

[[gnu::always_inline]] inline void attendGeneric(RowShape shape, const std::uint8_t* const* rows, int numRows,
                                                 const RowQuery* queries, int numQueries, float* workSpace, float* out,
                                                 float* maximum, float* sum)
{
    const AttendWork work(shape, numRows, numQueries, workSpace);
    const int groups = shape.groups();
    for (int i = 0; i < numRows; ++i) {
        for (int g = 0; g < groups; ++g)
            work.valueScales[i * groups + g] = scaleAt(rows[i] + 2 * shape.headDim, groups + g);
    }
    for (int q = 0; q < numQueries; ++q) {
        float* scores = work.scores + std::int64_t(q) * work.paddedRows;
        scoreRowsGeneric(shape, rows, numRows, queries[q], scores);
        softmaxPlain(scores, numRows, maximum[q], sum[q]);
        float tops[8] = {};
        for (int i = 0; i < numRows; ++i) {
            for (int g = 0; g < groups; ++g) {
                const float weight = scores[i] * work.valueScales[i * groups + g];
                work.weights[i * groups + g] = weight;
                tops[g] = std::max(tops[g], weight);
            }
        }
        addValuesGeneric(shape, rows, numRows, work.weights, tops, out + std::int64_t(q) * shape.headDim);
    }
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma,f16c"), optimize("O3"))) void
attendAvx2(RowShape shape, const std::uint8_t* const* rows, int numRows, const RowQuery* queries, int numQueries,
           float* work, float* out, float* maximum, float* sum)
{
    attendGeneric(shape, rows, numRows, queries, numQueries, work, out, maximum, sum);
}

OCTAVO_AVX512 inline void prefetchRow(const std::uint8_t* row)
{
    for (int line = 0; line < 576; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(row + line), _MM_HINT_T0);
}

// Scores of two queries with rows of four groups; the rows' value scales go to the work space on the way.
OCTAVO_AVX512 void scorePairAvx512(const std::uint8_t* const* rows, int numRows, const RowQuery& first,
                                   const RowQuery& second, float* firstScores, float* secondScores, float* valueScales)
{
    __m512i high[2][4], low[2][4];
    for (int g = 0; g < 4; ++g) {
        high[0][g] = _mm512_load_si512(first.high + 64 * g);
        high[1][g] = _mm512_load_si512(second.high + 64 * g);
        low[0][g] = _mm512_load_si512(first.low + 64 * g);
        low[1][g] = _mm512_load_si512(second.low + 64 * g);
    }
    const __m256i offsets = _mm256_set_m128i(_mm_loadu_si128(reinterpret_cast<const __m128i*>(second.offsets)),
                                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(first.offsets)));
    const __m512i plus128 = _mm512_set1_epi8(-128);
    constexpr int ahead = 6; // rows lie anywhere
    for (int i = 0; i < numRows; ++i) {
        const std::uint8_t* row = rows[i];
        if (i + ahead < numRows)
            prefetchRow(rows[i + ahead]);
        __m512i dots[2][4];
        for (int g = 0; g < 4; ++g) {
            const __m512i key = _mm512_xor_si512(_mm512_loadu_si512(row + 64 * g), plus128);
            for (int q = 0; q < 2; ++q) {
                const __m512i upper = _mm512_dpbusd_epi32(_mm512_setzero_si512(), key, high[q][g]);
                dots[q][g] = _mm512_dpbusd_epi32(_mm512_slli_epi32(upper, 8), key, low[q][g]);
            }
        }
        // Eight registers to their eight sums: within the quarters first, then the quarters.
        __m512i quarters[2];
        for (int q = 0; q < 2; ++q) {
            const __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(dots[q][0], dots[q][1]),
                                               _mm512_unpackhi_epi32(dots[q][0], dots[q][1]));
            const __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(dots[q][2], dots[q][3]),
                                               _mm512_unpackhi_epi32(dots[q][2], dots[q][3]));
            quarters[q] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        }
        const __m512i halves = _mm512_add_epi32(_mm512_shuffle_i32x4(quarters[0], quarters[1], _MM_SHUFFLE(1, 0, 1, 0)),
                                                _mm512_shuffle_i32x4(quarters[0], quarters[1], _MM_SHUFFLE(3, 2, 3, 2)));
        const __m512i whole = _mm512_add_epi32(_mm512_shuffle_i32x4(halves, halves, _MM_SHUFFLE(2, 0, 2, 0)),
                                               _mm512_shuffle_i32x4(halves, halves, _MM_SHUFFLE(3, 1, 3, 1)));
        const __m256 sums = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm512_castsi512_si256(whole), offsets));
        const __m256 scales = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 512)));
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

// Weights of four groups as two bytes each: for every four rows 16 bytes, group by group.
OCTAVO_AVX512 void weighAvx512(const float* probabilities, const float* valueScales, int paddedRows, float* weights,
                               std::uint8_t* high, std::uint8_t* low, float* tops)
{
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512 highest = _mm512_setzero_ps();
    for (int i = 0; i < paddedRows; i += 4) {
        const __m512 p = _mm512_permutexvar_ps(spread, _mm512_castps128_ps512(_mm_loadu_ps(probabilities + i)));
        const __m512 weight = _mm512_mul_ps(p, _mm512_loadu_ps(valueScales + 4 * i));
        _mm512_storeu_ps(weights + 4 * i, weight);
        highest = _mm512_max_ps(highest, weight);
    }
    __m128 top = _mm_max_ps(_mm_max_ps(_mm512_extractf32x4_ps(highest, 0), _mm512_extractf32x4_ps(highest, 1)),
                            _mm_max_ps(_mm512_extractf32x4_ps(highest, 2), _mm512_extractf32x4_ps(highest, 3)));
    _mm_storeu_ps(tops, top);
    const __m512 inverse =
        _mm512_broadcast_f32x4(_mm_setr_ps(inverseOf(tops[0]), inverseOf(tops[1]), inverseOf(tops[2]), inverseOf(tops[3])));
    const __m128i byGroup = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int i = 0; i < paddedRows; i += 4) {
        const __m512i codes = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(weights + 4 * i), inverse));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(high + 4 * i),
                         _mm_shuffle_epi8(_mm512_cvtepi32_epi8(_mm512_srli_epi32(codes, 8)), byGroup));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(low + 4 * i),
                         _mm_shuffle_epi8(_mm512_cvtepi32_epi8(codes), byGroup));
    }
}

// out = sum over rows of weight times value for Q queries and four groups. Four rows at a time: a lane of 32 bits holds
// one dimension of all four.
template <int Q>
OCTAVO_AVX512 void addValuesAvx512(const std::uint8_t* const* rows, int paddedRows, const std::uint8_t* high,
                                   const std::uint8_t* low, std::int64_t queryStride, const float* tops, float* out)
{
    for (int g = 0; g < 4; ++g) {
        __m512i upper[Q][4], lower[Q][4];
        for (int q = 0; q < Q; ++q) {
            for (int j = 0; j < 4; ++j)
                upper[q][j] = lower[q][j] = _mm512_setzero_si512();
        }
        for (int i = 0; i < paddedRows; i += 4) {
            __m512i v[4];
            for (int t = 0; t < 4; ++t)
                v[t] = _mm512_loadu_si512(rows[i + t] + 256 + 64 * g);
            const __m512i a = _mm512_unpacklo_epi8(v[0], v[1]), b = _mm512_unpackhi_epi8(v[0], v[1]);
            const __m512i c = _mm512_unpacklo_epi8(v[2], v[3]), d = _mm512_unpackhi_epi8(v[2], v[3]);
            const __m512i values[4] = {_mm512_unpacklo_epi16(a, c), _mm512_unpackhi_epi16(a, c),
                                       _mm512_unpacklo_epi16(b, d), _mm512_unpackhi_epi16(b, d)};
            for (int q = 0; q < Q; ++q) {
                std::int32_t h, l;
                std::memcpy(&h, high + q * queryStride + 4 * i + 4 * g, 4);
                std::memcpy(&l, low + q * queryStride + 4 * i + 4 * g, 4);
                const __m512i upperWeights = _mm512_set1_epi32(h), lowerWeights = _mm512_set1_epi32(l);
                for (int j = 0; j < 4; ++j) {
                    upper[q][j] = _mm512_dpbusd_epi32(upper[q][j], upperWeights, values[j]);
                    lower[q][j] = _mm512_dpbusd_epi32(lower[q][j], lowerWeights, values[j]);
                }
            }
        }
        for (int q = 0; q < Q; ++q) {
            const __m512 step = _mm512_set1_ps(tops[4 * q + g] / largestWeight);
            for (int j = 0; j < 4; ++j) {
                const __m512i whole = _mm512_add_epi32(_mm512_slli_epi32(upper[q][j], 8), lower[q][j]);
                const __m512 context = _mm512_mul_ps(_mm512_cvtepi32_ps(whole), step);
                // Quarter l of register j holds dimensions 16 l + 4 j and on.
                float* to = out + q * 256 + 64 * g + 4 * j;
                _mm_storeu_ps(to, _mm512_extractf32x4_ps(context, 0));
                _mm_storeu_ps(to + 16, _mm512_extractf32x4_ps(context, 1));
                _mm_storeu_ps(to + 32, _mm512_extractf32x4_ps(context, 2));
                _mm_storeu_ps(to + 48, _mm512_extractf32x4_ps(context, 3));
            }
        }
    }
}

// Rows of 256 values, as this project's models have them.
OCTAVO_AVX512 void attendAvx512(const std::uint8_t* const* givenRows, int numRows, const RowQuery* queries,
                                int numQueries, float* workSpace, float* out, float* maximum, float* sum)
{
    const AttendWork work({256}, numRows, numQueries, workSpace);
    const std::uint8_t* rows[maxAttendRows];
    std::copy_n(givenRows, numRows, rows);
    std::fill(rows + numRows, rows + work.paddedRows, givenRows[0]); // their weights are 0
    std::fill(work.valueScales + 4 * numRows, work.valueScales + 4 * work.paddedRows, 0.0f);
    const std::int64_t stride = 4 * std::int64_t(work.paddedRows);
    for (int q = 0; q < numQueries; q += 2) {
        const int count = std::min(2, numQueries - q);
        float* scores = work.scores + std::int64_t(q) * work.paddedRows;
        scorePairAvx512(rows, numRows, queries[q], queries[q + count - 1], scores,
                        count == 2 ? scores + work.paddedRows : scores, work.valueScales);
        alignas(64) std::uint8_t high[2 * 4 * maxAttendRows], low[2 * 4 * maxAttendRows];
        float tops[8];
        for (int i = 0; i < count; ++i) {
            float* own = scores + i * work.paddedRows;
            softmaxAvx512(own, numRows, work.paddedRows, maximum[q + i], sum[q + i]);
            weighAvx512(own, work.valueScales, work.paddedRows, work.weights, high + i * stride, low + i * stride,
                        tops + 4 * i);
        }
        if (count == 2)
            addValuesAvx512<2>(rows, work.paddedRows, high, low, stride, tops, out + std::int64_t(q) * 256);
        else
            addValuesAvx512<1>(rows, work.paddedRows, high, low, stride, tops, out + std::int64_t(q) * 256);
    }
}

// As unpackPlain(), 64 codes at a time; a group whose scale is negative changes its codes' sign.
OCTAVO_AVX512 void unpackAvx512(const std::uint8_t* packed, const std::uint8_t* scales, std::int8_t* codes, int groups)
{
    const __m256i low = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8);
    for (int g = 0; g < groups; ++g) {
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed + 32 * g));
        const __m256i negative = _mm256_set1_epi8(scales[2 * g + 1] & 0x80 ? -1 : 0);
        const __m256i first = _mm256_sub_epi8(_mm256_and_si256(bytes, low), eight);
        const __m256i second = _mm256_sub_epi8(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), low), eight);
        auto* out = reinterpret_cast<__m256i*>(codes + 64 * g);
        _mm256_storeu_si256(out, _mm256_sub_epi8(_mm256_xor_si256(first, negative), negative));
        _mm256_storeu_si256(out + 1, _mm256_sub_epi8(_mm256_xor_si256(second, negative), negative));
    }
}

#endif

void unpackPlain(const std::uint8_t* packed, const std::uint8_t* scales, std::int8_t* codes, int groups)
{
    for (int g = 0; g < groups; ++g) {
        const int sign = scales[2 * g + 1] & 0x80 ? -1 : 1;
        for (int i = 0; i < 32; ++i) {
            codes[64 * g + i] = std::int8_t(sign * ((packed[32 * g + i] & 15) - 8));
            codes[64 * g + i + 32] = std::int8_t(sign * ((packed[32 * g + i] >> 4) - 8));
        }
    }
}

// What one group's codes mean when its row's `largest` scale has 127 for its largest code.
struct GroupTables {
    alignas(16) std::int8_t values[16][16]; // (2 * groups), at most 16 of them, by stored code
    float keyScale, valueScale;
};

GroupTables tablesOf(RowShape shape, const std::uint8_t* int4Row)
{
    GroupTables tables;
    const int groups = shape.groups();
    const std::uint8_t* scales = int4Row + shape.headDim;
    for (int side = 0; side < 2; ++side) {
        float steps[8], largestStep = 0.0f;
        for (int g = 0; g < groups; ++g) {
            steps[g] = scaleAt(scales, side * groups + g);
            largestStep = std::max(largestStep, std::abs(steps[g]));
        }
        const float scale = largestStep * (8.0f / 127.0f);
        const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
        (side == 0 ? tables.keyScale : tables.valueScale) = scale;
        for (int g = 0; g < groups; ++g) {
            const float factor = steps[g] * inverse;
#if defined(__x86_64__)
            const __m128 f = _mm_set1_ps(factor), four = _mm_set1_ps(4.0f);
            __m128 codes = _mm_setr_ps(-8.0f, -7.0f, -6.0f, -5.0f);
            __m128i rounded[4];
            for (__m128i& quarter : rounded) {
                quarter = _mm_cvtps_epi32(_mm_mul_ps(codes, f));
                codes = _mm_add_ps(codes, four);
            }
            _mm_store_si128(reinterpret_cast<__m128i*>(tables.values[side * groups + g]),
                            _mm_packs_epi16(_mm_packs_epi32(rounded[0], rounded[1]),
                                            _mm_packs_epi32(rounded[2], rounded[3])));
#else
            for (int code = 0; code < 16; ++code)
                tables.values[side * groups + g][code] = std::int8_t(std::lrint(float(code - 8) * factor));
#endif
        }
    }
    return tables;
}

void mapCodesPlain(const std::uint8_t* packed, const GroupTables& tables, std::int8_t* codes, int count)
{
    for (int g = 0; g < count / 64; ++g) {
        for (int i = 0; i < 32; ++i) {
            codes[64 * g + i] = tables.values[g][packed[32 * g + i] & 15];
            codes[64 * g + i + 32] = tables.values[g][packed[32 * g + i] >> 4];
        }
    }
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) void mapCodesAvx2(const std::uint8_t* packed, const GroupTables& tables,
                                                  std::int8_t* codes, int count)
{
    const __m256i low = _mm256_set1_epi8(15);
    for (int g = 0; g < count / 64; ++g) {
        const __m256i table =
            _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(tables.values[g])));
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed + 32 * g));
        auto* out = reinterpret_cast<__m256i*>(codes + 64 * g);
        _mm256_storeu_si256(out, _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, low)));
        _mm256_storeu_si256(out + 1, _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low)));
    }
}

#endif

// Eight tokens' values of 16 dimensions, `stride` bytes apart, as 128 bytes of a value panel.
void storeValuePanel(const std::int8_t* values, std::size_t stride, std::int8_t* out)
{
#if defined(__x86_64__)
    __m128i rows[8];
    for (std::size_t t = 0; t < 8; ++t)
        rows[t] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + t * stride));
    for (int half = 0; half < 2; ++half) {
        const __m128i a = rows[2 * half], b = rows[2 * half + 1], c = rows[2 * half + 4], d = rows[2 * half + 5];
        const __m128i first = _mm_unpacklo_epi8(a, b), second = _mm_unpackhi_epi8(a, b);
        const __m128i third = _mm_unpacklo_epi8(c, d), fourth = _mm_unpackhi_epi8(c, d);
        auto* target = reinterpret_cast<__m128i*>(out + 64 * half);
        _mm_storeu_si128(target, _mm_unpacklo_epi16(first, third));
        _mm_storeu_si128(target + 1, _mm_unpackhi_epi16(first, third));
        _mm_storeu_si128(target + 2, _mm_unpacklo_epi16(second, fourth));
        _mm_storeu_si128(target + 3, _mm_unpackhi_epi16(second, fourth));
    }
#else
    for (int t = 0; t < 8; ++t) {
        for (int lane = 0; lane < panelWidth; ++lane)
            out[int8PanelOffset(t, lane)] = values[std::size_t(t) * stride + std::size_t(lane)];
    }
#endif
}

} // namespace

void unpackPage(Path path, RowShape shape, const std::uint8_t* const* rows, int count, int pageTokens,
                std::int8_t* keys, std::int8_t* values, float* keyScales, float* valueScales)
{
    const int dim = shape.headDim;
    std::int8_t codes[8][2 * 512];
    for (int token = 0; token < count; token += 8) {
        for (int t = 0; t < 8; ++t) {
            const std::uint8_t* row = rows[token + t];
            const GroupTables tables = tablesOf(shape, row);
            keyScales[token + t] = tables.keyScale;
            valueScales[token + t] = tables.valueScale;
#if defined(__x86_64__)
            if (path != Path::Plain)
                mapCodesAvx2(row, tables, codes[t], 2 * dim);
            else
#else
            (void)path;
#endif
                mapCodesPlain(row, tables, codes[t], 2 * dim);
            const int lane = (token + t) % panelWidth;
            std::int8_t* panel = keys + std::int64_t((token + t) / panelWidth) * panelWidth * dim + 4 * lane;
            for (int d = 0; d < dim; d += 8, panel += 128) {
                std::uint16_t pairs[4];
                std::memcpy(pairs, codes[t] + d, 8);
                const std::uint16_t first[2] = {pairs[0], pairs[2]}, second[2] = {pairs[1], pairs[3]};
                std::memcpy(panel, first, 4);
                std::memcpy(panel + 64, second, 4);
            }
        }
        for (int d = 0; d < dim; d += panelWidth)
            storeValuePanel(codes[0] + dim + d, sizeof codes[0],
                            values + std::int64_t(d / panelWidth) * panelWidth * pageTokens + token / 8 * 128);
    }
}

void quantizeRowInt4(RowShape shape, const float* key, const float* value, std::uint8_t* row)
{
    const int groups = shape.groups();
    std::uint8_t* scales = row + shape.headDim;
    for (int g = 0; g < 2 * groups; ++g) {
        const float* x = g < groups ? key + 64 * g : value + 64 * (g - groups);
        std::uint16_t scale = 0;
        quantizeGroupInt4(x, row + 32 * g, scale);
        std::memcpy(scales + 2 * g, &scale, 2);
    }
}

void quantizeRowInt8(RowShape shape, const float* key, const float* value, std::uint8_t* row)
{
    const int groups = shape.groups();
    std::uint8_t* scales = row + 2 * shape.headDim;
    for (int g = 0; g < 2 * groups; ++g) {
        const float* x = g < groups ? key + 64 * g : value + 64 * (g - groups);
        const std::uint16_t half = floatToHalf(std::abs(largest(x, 64)) / 127.0f);
        const float scale = halfToFloat(half);
        const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        for (int i = 0; i < 64; ++i)
            row[64 * g + i] = std::uint8_t(std::int8_t(clampedCode(x[i] * inverse, -127, 127)));
        std::memcpy(scales + 2 * g, &half, 2);
    }
}

void unpackRow(Path path, RowShape shape, const std::uint8_t* int4Row, std::uint8_t* int8Row)
{
    auto* codes = reinterpret_cast<std::int8_t*>(int8Row);
    const std::uint8_t* scales = int4Row + shape.headDim;
    const int groups = 2 * shape.groups();
#if defined(__x86_64__)
    if (path == Path::Avx512)
        unpackAvx512(int4Row, scales, codes, groups);
    else
#else
    (void)path;
#endif
        unpackPlain(int4Row, scales, codes, groups);
    for (int g = 0; g < groups; ++g) {
        int8Row[2 * shape.headDim + 2 * g] = scales[2 * g];
        int8Row[2 * shape.headDim + 2 * g + 1] = scales[2 * g + 1] & 0x7F;
    }
}

void dequantizeInt8(RowShape shape, const std::uint8_t* row, float* key, float* value)
{
    const auto* codes = reinterpret_cast<const std::int8_t*>(row);
    const std::uint8_t* scales = row + 2 * shape.headDim;
    for (int i = 0; i < shape.headDim; ++i) {
        key[i] = scaleAt(scales, i / 64) * float(codes[i]);
        value[i] = scaleAt(scales, shape.groups() + i / 64) * float(codes[shape.headDim + i]);
    }
}

void dequantizeInt4(RowShape shape, const std::uint8_t* row, float* key, float* value)
{
    std::array<std::uint8_t, 2 * 512 + 4 * 8> int8Row{};
    unpackRow(Path::Plain, shape, row, int8Row.data());
    dequantizeInt8(shape, int8Row.data(), key, value);
}

RowQuery makeRowQuery(RowShape shape, const float* query, float attentionScale)
{
    constexpr float largestInteger = 127.0f * 256.0f; // so that the upper byte ends at 127
    float peak = 0.0f;
    for (int i = 0; i < shape.headDim; ++i)
        peak = std::max(peak, std::abs(query[i]));
    const float scale = peak / largestInteger;
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    RowQuery result;
    for (int i = 0; i < shape.headDim; ++i) {
        const int code = clampedCode(query[i] * inverse, -32512, 32512);
        const int high = (code + 128) >> 8;
        result.high[i] = std::int8_t(high);
        result.low[i] = std::int8_t(code - 256 * high);
        result.offsets[i / 64] += 128 * code;
    }
    result.scale = scale * attentionScale;
    return result;
}

void attendRows(Path path, RowShape shape, const std::uint8_t* const* rows, int numRows, const RowQuery* queries,
                int numQueries, float* work, float* out, float* maximum, float* sum)
{
#if defined(__x86_64__)
    if (path == Path::Avx512 && shape.headDim == 256)
        return attendAvx512(rows, numRows, queries, numQueries, work, out, maximum, sum);
    if (path != Path::Plain)
        return attendAvx2(shape, rows, numRows, queries, numQueries, work, out, maximum, sum);
#else
    (void)path;
#endif
    attendGeneric(shape, rows, numRows, queries, numQueries, work, out, maximum, sum);
}

} // namespace octavo::kernels::cpu
