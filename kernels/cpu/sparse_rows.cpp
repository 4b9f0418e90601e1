#include "kernels/cpu/sparse_rows.h"

#include "kernels/cpu/panels.h"
#include "kernels/cpu/sparse_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

float sumLanes(const float* v)
{
    // Pairwise, in the order of a 16-lane tree reduction.
    float half[8], quarter[4];
    for (int i = 0; i < 8; ++i)
        half[i] = v[i] + v[i + 8];
    for (int i = 0; i < 4; ++i)
        quarter[i] = half[i] + half[i + 4];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

[[gnu::always_inline]] inline void scoreRowsGeneric(RowShape shape, const std::uint8_t* const* rows, int numRows,
                                                    const float* queries, int numQueries, float scale, float* scores)
{
    const int groups = shape.groups();
    for (int i = 0; i < numRows; ++i) {
        const auto* codes = reinterpret_cast<const std::int8_t*>(rows[i]);
        const std::uint8_t* scales = rows[i] + 2 * shape.headDim;
        for (int q = 0; q < numQueries; ++q) {
            const float* query = queries + std::int64_t(q) * shape.headDim;
            float total[lanes] = {};
            for (int g = 0; g < groups; ++g) {
                float part[lanes] = {};
                for (int j = 0; j < 64; j += lanes) {
                    for (int l = 0; l < lanes; ++l)
                        part[l] += float(codes[64 * g + j + l]) * query[64 * g + j + l];
                }
                const float s = scaleAt(scales, g);
                for (int l = 0; l < lanes; ++l)
                    total[l] += part[l] * s;
            }
            scores[std::int64_t(q) * numRows + i] = sumLanes(total) * scale;
        }
    }
}

[[gnu::always_inline]] inline void addValuesGeneric(RowShape shape, const std::uint8_t* const* rows, int numRows,
                                                    int numQueries, const float* weights, float* out)
{
    const int groups = shape.groups();
    for (int i = 0; i < numRows; ++i) {
        const auto* codes = reinterpret_cast<const std::int8_t*>(rows[i]) + shape.headDim;
        const std::uint8_t* scales = rows[i] + 2 * shape.headDim + 2 * groups;
        for (int q = 0; q < numQueries; ++q) {
            float* sum = out + std::int64_t(q) * shape.headDim;
            for (int g = 0; g < groups; ++g) {
                const float w = weights[std::int64_t(q) * numRows + i] * scaleAt(scales, g);
                for (int j = 0; j < 64; ++j)
                    sum[64 * g + j] += float(codes[64 * g + j]) * w;
            }
        }
    }
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma,f16c"), optimize("O3"))) void
scoreRowsAvx2(RowShape shape, const std::uint8_t* const* rows, int numRows, const float* queries, int numQueries,
              float scale, float* scores)
{
    scoreRowsGeneric(shape, rows, numRows, queries, numQueries, scale, scores);
}

__attribute__((target("avx2,fma,f16c"), optimize("O3"))) void
addValuesAvx2(RowShape shape, const std::uint8_t* const* rows, int numRows, int numQueries, const float* weights,
              float* out)
{
    addValuesGeneric(shape, rows, numRows, numQueries, weights, out);
}

#define OCTAVO_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

OCTAVO_AVX512 inline __m512 load16(const std::int8_t* codes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes))));
}

OCTAVO_AVX512 inline float sumLanes(__m512 v)
{
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    const __m128 eighth = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(eighth, _mm_shuffle_ps(eighth, eighth, 1)));
}

template <int Q>
OCTAVO_AVX512 void scoreRowsAvx512(RowShape shape, const std::uint8_t* const* rows, int numRows, const float* queries,
                                   float scale, float* scores)
{
    const int groups = shape.groups();
    for (int i = 0; i < numRows; ++i) {
        const auto* codes = reinterpret_cast<const std::int8_t*>(rows[i]);
        const std::uint8_t* scales = rows[i] + 2 * shape.headDim;
        // Rows lie anywhere; the row eight ahead is asked for now.
        if (i + 8 < numRows) {
            const auto* ahead = reinterpret_cast<const char*>(rows[i + 8]);
            for (int line = 0; line < shape.headDim; line += 64)
                _mm_prefetch(ahead + line, _MM_HINT_T0);
            _mm_prefetch(ahead + 2 * shape.headDim, _MM_HINT_T0);
        }
        __m512 total[Q];
        for (int q = 0; q < Q; ++q)
            total[q] = _mm512_setzero_ps();
        for (int g = 0; g < groups; ++g) {
            __m512 part[Q];
            for (int q = 0; q < Q; ++q)
                part[q] = _mm512_setzero_ps();
            for (int j = 64 * g; j < 64 * g + 64; j += lanes) {
                const __m512 key = load16(codes + j);
                for (int q = 0; q < Q; ++q)
                    part[q] = _mm512_add_ps(part[q], _mm512_mul_ps(key, _mm512_loadu_ps(queries + q * shape.headDim + j)));
            }
            const __m512 s = _mm512_set1_ps(scaleAt(scales, g));
            for (int q = 0; q < Q; ++q)
                total[q] = _mm512_add_ps(total[q], _mm512_mul_ps(part[q], s));
        }
        for (int q = 0; q < Q; ++q)
            scores[std::int64_t(q) * numRows + i] = sumLanes(total[q]) * scale;
    }
}

template <int Q>
OCTAVO_AVX512 void addValuesAvx512(RowShape shape, const std::uint8_t* const* rows, int numRows, const float* weights,
                                   float* out)
{
    const int groups = shape.groups();
    for (int i = 0; i < numRows; ++i) {
        const auto* codes = reinterpret_cast<const std::int8_t*>(rows[i]) + shape.headDim;
        const std::uint8_t* scales = rows[i] + 2 * shape.headDim + 2 * groups;
        if (i + 8 < numRows) {
            const auto* ahead = reinterpret_cast<const char*>(rows[i + 8]) + shape.headDim;
            for (int line = 0; line < shape.headDim; line += 64)
                _mm_prefetch(ahead + line, _MM_HINT_T0);
        }
        for (int g = 0; g < groups; ++g) {
            const float s = scaleAt(scales, g);
            __m512 w[Q];
            for (int q = 0; q < Q; ++q)
                w[q] = _mm512_set1_ps(weights[std::int64_t(q) * numRows + i] * s);
            for (int j = 64 * g; j < 64 * g + 64; j += lanes) {
                const __m512 value = load16(codes + j);
                for (int q = 0; q < Q; ++q) {
                    float* sum = out + q * shape.headDim + j;
                    _mm512_storeu_ps(sum, _mm512_add_ps(_mm512_loadu_ps(sum), _mm512_mul_ps(value, w[q])));
                }
            }
        }
    }
}

OCTAVO_AVX512 void unpackAvx512(const std::uint8_t* packed, std::int8_t* codes, int count)
{
    const __m256i low = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8);
    for (int i = 0; i < count; i += 64) {
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed + i / 2));
        const __m256i first = _mm256_sub_epi8(_mm256_and_si256(bytes, low), eight);
        const __m256i second = _mm256_sub_epi8(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), low), eight);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), first);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i + 32), second);
    }
}

#endif

void unpackPlain(const std::uint8_t* packed, std::int8_t* codes, int count)
{
    for (int g = 0; g < count / 64; ++g) {
        for (int i = 0; i < 32; ++i) {
            codes[64 * g + i] = std::int8_t((packed[32 * g + i] & 15) - 8);
            codes[64 * g + i + 32] = std::int8_t((packed[32 * g + i] >> 4) - 8);
        }
    }
}

void scoreRows(Path path, RowShape shape, const std::uint8_t* const* rows, int numRows, const float* queries,
               int numQueries, float scale, float* scores)
{
#if defined(__x86_64__)
    if (path == Path::Avx512) {
        for (int q = 0; q < numQueries;) {
            const float* query = queries + std::int64_t(q) * shape.headDim;
            float* score = scores + std::int64_t(q) * numRows;
            const int left = numQueries - q;
            if (left >= 4) {
                scoreRowsAvx512<4>(shape, rows, numRows, query, scale, score);
                q += 4;
            } else if (left >= 2) {
                scoreRowsAvx512<2>(shape, rows, numRows, query, scale, score);
                q += 2;
            } else {
                scoreRowsAvx512<1>(shape, rows, numRows, query, scale, score);
                q += 1;
            }
        }
        return;
    }
    if (path == Path::Avx2)
        return scoreRowsAvx2(shape, rows, numRows, queries, numQueries, scale, scores);
#else
    (void)path;
#endif
    scoreRowsGeneric(shape, rows, numRows, queries, numQueries, scale, scores);
}

void addValues(Path path, RowShape shape, const std::uint8_t* const* rows, int numRows, int numQueries,
               const float* weights, float* out)
{
#if defined(__x86_64__)
    if (path == Path::Avx512) {
        for (int q = 0; q < numQueries;) {
            const float* weight = weights + std::int64_t(q) * numRows;
            float* sum = out + std::int64_t(q) * shape.headDim;
            const int left = numQueries - q;
            if (left >= 4) {
                addValuesAvx512<4>(shape, rows, numRows, weight, sum);
                q += 4;
            } else if (left >= 2) {
                addValuesAvx512<2>(shape, rows, numRows, weight, sum);
                q += 2;
            } else {
                addValuesAvx512<1>(shape, rows, numRows, weight, sum);
                q += 1;
            }
        }
        return;
    }
    if (path == Path::Avx2)
        return addValuesAvx2(shape, rows, numRows, numQueries, weights, out);
#else
    (void)path;
#endif
    addValuesGeneric(shape, rows, numRows, numQueries, weights, out);
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
#if defined(__x86_64__)
    if (path == Path::Avx512)
        unpackAvx512(int4Row, codes, 2 * shape.headDim);
    else
#else
    (void)path;
#endif
        unpackPlain(int4Row, codes, 2 * shape.headDim);
    std::memcpy(int8Row + 2 * shape.headDim, int4Row + shape.headDim, 4 * std::size_t(shape.groups()));
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

void attendRows(Path path, RowShape shape, const std::uint8_t* const* rows, int numRows, const float* queries,
                int numQueries, float scale, float* scores, float* out, float* maximum, float* sum)
{
    scoreRows(path, shape, rows, numRows, queries, numQueries, scale, scores);
    for (int q = 0; q < numQueries; ++q) {
        float* s = scores + std::int64_t(q) * numRows;
        float highest = s[0];
        for (int i = 1; i < numRows; ++i)
            highest = std::max(highest, s[i]);
        float total = 0.0f;
        for (int i = 0; i < numRows; ++i) {
            s[i] = expNonPositive(s[i] - highest);
            total += s[i];
        }
        maximum[q] = highest;
        sum[q] = total;
    }
    std::fill_n(out, std::int64_t(numQueries) * shape.headDim, 0.0f);
    addValues(path, shape, rows, numRows, numQueries, scores, out);
}

} // namespace octavo::kernels::cpu
