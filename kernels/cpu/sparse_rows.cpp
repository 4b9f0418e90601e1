#include "kernels/cpu/sparse_rows.h"

#include "kernels/cpu/panels.h"
#include "kernels/cpu/sparse_math.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>

namespace octavo::kernels::cpu {

namespace {

constexpr int lanes = 16;

// Codes of one group of 64 for one scale, as floats, and the squared error they leave, in 16 partial sums, so that
// every vector width gives the same bits. NaN becomes -8.
[[gnu::always_inline]] inline float codesFor(const float* x, float scale, float* codes)
{
    constexpr float toNearest = 12582912.0f; // 1.5 * 2^23
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    float errors[lanes] = {};
    for (int i = 0; i < 64; i += lanes) {
        for (int l = 0; l < lanes; ++l) {
            float code = x[i + l] * inverse;
            code = code > -8.0f ? code : -8.0f;
            code = code < 7.0f ? code : 7.0f;
            code = (code + toNearest) - toNearest;
            const float difference = x[i + l] - scale * code;
            codes[i + l] = code;
            errors[l] += difference * difference;
        }
    }
    return sumLanes(errors);
}

// The scale that serves given codes best.
[[gnu::always_inline]] inline float scaleFor(const float* x, const float* codes)
{
    float products[lanes] = {}, squares[lanes] = {};
    for (int i = 0; i < 64; i += lanes) {
        for (int l = 0; l < lanes; ++l) {
            products[l] += x[i + l] * codes[i + l];
            squares[l] += codes[i + l] * codes[i + l];
        }
    }
    const float sum = sumLanes(squares);
    return sum > 0.0f ? sumLanes(products) / sum : 0.0f;
}

[[gnu::always_inline]] inline float largest(const float* x)
{
    float high[lanes], low[lanes];
    for (int l = 0; l < lanes; ++l)
        high[l] = low[l] = x[l];
    for (int i = lanes; i < 64; i += lanes) {
        for (int l = 0; l < lanes; ++l) {
            high[l] = x[i + l] > high[l] ? x[i + l] : high[l];
            low[l] = x[i + l] < low[l] ? x[i + l] : low[l];
        }
    }
    const float most = *std::max_element(high, high + lanes), least = *std::min_element(low, low + lanes);
    return most > -least ? most : least;
}

[[gnu::always_inline]] inline void quantizeGroup(const float* x, std::uint8_t* packed, std::uint16_t& scaleOut)
{
    // The largest value takes code -8, which symmetric codes would leave unused; a smaller scale clips it and serves
    // the others better. From the best of a few a step towards the least error.
    const float full = largest(x) / -8.0f;
    float codes[64], best[64], bestError = 0.0f, bestScale = 0.0f;
    bool first = true;
    const auto attempt = [&](float wanted) __attribute__((always_inline)) {
        const std::uint16_t half = floatToHalf(wanted);
        const float scale = halfToFloat(half), error = codesFor(x, scale, codes);
        if (!first && !(error < bestError))
            return;
        first = false;
        bestError = error;
        bestScale = scale;
        scaleOut = half;
        std::memcpy(best, codes, sizeof best);
    };
    for (const float factor : {1.0f, 0.93f, 0.86f, 0.79f, 0.72f})
        attempt(full * factor);
    for (int i = 0; i < 2 && bestScale != 0.0f; ++i)
        attempt(scaleFor(x, best));
    for (std::size_t i = 0; i < 32; ++i)
        packed[i] = std::uint8_t((int(best[i]) + 8) | ((int(best[i + 32]) + 8) << 4));
}

[[gnu::always_inline]] inline void quantizeGeneric(RowShape shape, const float* key, const float* value,
                                                   std::uint8_t* row)
{
    const int groups = shape.groups();
    for (int g = 0; g < 2 * groups; ++g) {
        std::uint16_t scale = 0;
        quantizeGroup(g < groups ? key + 64 * g : value + 64 * (g - groups), row + 32 * g, scale);
        std::memcpy(row + shape.headDim + 2 * g, &scale, 2);
    }
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) void quantizeAvx2(RowShape shape, const float* key, const float* value,
                                                  std::uint8_t* row)
{
    quantizeGeneric(shape, key, value, row);
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))) void
quantizeAvx512(RowShape shape, const float* key, const float* value, std::uint8_t* row)
{
    quantizeGeneric(shape, key, value, row);
}

#endif

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
            steps[g] = halfAt(scales, side * groups + g);
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

void quantizeRowInt4(Path path, RowShape shape, const float* key, const float* value, std::uint8_t* row)
{
    switch (path) {
#if defined(__x86_64__)
    case Path::Avx512: return quantizeAvx512(shape, key, value, row);
    case Path::Avx2: return quantizeAvx2(shape, key, value, row);
#endif
    default: return quantizeGeneric(shape, key, value, row);
    }
}

void dequantizeInt4(RowShape shape, const std::uint8_t* row, float* key, float* value)
{
    const std::uint8_t* scales = row + shape.headDim;
    for (int i = 0; i < 2 * shape.headDim; ++i) {
        const int group = i / 64, inGroup = i % 64;
        const std::uint8_t both = row[32 * group + inGroup % 32];
        const float x = halfAt(scales, group) * float((inGroup < 32 ? both & 15 : both >> 4) - 8);
        (i < shape.headDim ? key[i] : value[i - shape.headDim]) = x;
    }
}

} // namespace octavo::kernels::cpu
