#include "kernels/cpu/sparse_sketch.h"

#include "kernels/cpu/sparse_avx512.h"
#include "kernels/cpu/sparse_boost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace octavo::kernels::cpu {

namespace {

// Steps between the codes of one side, in deviations. Of four, the fourth bounds the finer two-bit code and is where
// four levels serve a normal distribution best; the others split its halves, wider further out.
constexpr float steps[7] = {0.245f, 0.491f, 0.736f, 0.982f, 1.32f, 1.72f, 2.26f};
// What each code stands for, in levelUnits of a deviation.
constexpr float levelUnit = 1.0f / 32.0f;
constexpr std::int8_t levels[16] = {-84, -63, -48, -37, -27, -20, -12, -4, 4, 12, 20, 27, 37, 48, 63, 84};
// By how many of these a level rises with the two-bit code: the slope of the best line for a normal distribution.
constexpr float leadStep = 31.6f;
// Where a query's scores are all alike, its leads need a unit too: a smaller one tells nothing apart.
constexpr float leastLeadUnit = 1e-6f;

int codeOf(float x)
{
    const float size = std::abs(x);
    int step = 0;
    for (const float bound : steps)
        step += size >= bound;
    return x < 0.0f ? 7 - step : 8 + step;
}

int coordinateAt(int rank, int byte, int field)
{
    const int leads = leadBytes(rank), others = rank / 4 - leads;
    return byte < leads ? leads * field + byte : 4 * leads + others * field + byte - leads;
}

// Where a token's lead byte is in its block.
int placeOf(int byte, int lane)
{
    return byte / 4 * 64 + lane * 4 + byte % 4;
}

std::uint8_t upperAt(int rank, const std::uint8_t* leadBlock, int lane, const std::uint8_t* rest, int byte)
{
    const int leads = leadBytes(rank);
    return byte < leads ? leadBlock[placeOf(byte, lane)] : rest[rank / 4 + byte - leads];
}

std::int32_t leadDot(int rank, const std::uint8_t* block, int lane, const SketchQuery& query)
{
    std::int32_t dot = 0;
    for (int b = 0; b < leadBytes(rank); ++b) {
        for (int f = 0; f < 4; ++f)
            dot += ((block[placeOf(b, lane)] >> (2 * f)) & 3) * query.codes[leadBytes(rank) * f + b];
    }
    return dot;
}

float wholeScore(int rank, const std::uint8_t* leadBlock, int lane, const std::uint8_t* rest, const SketchQuery& query)
{
    std::int32_t dot = 0;
    for (int b = 0; b < rank / 4; ++b) {
        const std::uint8_t upper = upperAt(rank, leadBlock, lane, rest, b);
        for (int f = 0; f < 4; ++f) {
            const int code = ((upper >> (2 * f)) & 3) * 4 + ((rest[b] >> (2 * f)) & 3);
            dot += levels[code] * query.ordered[rank / 4 * f + b];
        }
    }
    return float(dot) * query.scale;
}

void scorePlain(int rank, SketchView sketches, std::int64_t numBlocks, const SketchQuery* queries, int numQueries,
                float* const* scores)
{
    for (std::int64_t token = 0; token < numBlocks * sketchBlockTokens; ++token) {
        const std::uint8_t* block = sketches.leads + token / sketchBlockTokens * leadBlockBytes(rank);
        for (int q = 0; q < numQueries; ++q)
            scores[q][token] = wholeScore(rank, block, int(token % sketchBlockTokens),
                                          sketches.rests + token * restBytes(rank), queries[q]);
    }
}

void leadsPlain(int rank, const std::uint8_t* leads, std::int64_t numBlocks, std::int64_t stride,
                const SketchQuery* queries, int numQueries, std::int32_t* const* scores)
{
    for (std::int64_t b = 0; b < numBlocks; ++b) {
        for (int t = 0; t < sketchBlockTokens; ++t) {
            for (int q = 0; q < numQueries; ++q)
                scores[q][b * sketchBlockTokens + t] =
                    leadDot(rank, leads + b * stride * leadBlockBytes(rank), t, queries[q]);
        }
    }
}

// Whether a token's place in a period lets its leads' scores pass any limit. Not all that do are candidates.
bool mayPass(const LeadRule& rule, const std::int32_t* scores, int numQueries, std::int32_t token)
{
    for (int q = 0; q < numQueries; ++q) {
        if (scores[q] >= rule.boostedLimits[q * boostPeriod + boostPlace(token)])
            return true;
    }
    return false;
}

std::int64_t candidatesPlain(int rank, SketchView sketches, std::int64_t numBlocks, const SketchQuery* queries,
                             int numQueries, const LeadRule& rule, std::int32_t first, std::int32_t* tokens,
                             float* lacks, float* const* scores)
{
    std::int64_t count = 0;
    for (std::int32_t token = 0; token < numBlocks * sketchBlockTokens; ++token) {
        const std::uint8_t* block = sketches.leads + token / sketchBlockTokens * leadBlockBytes(rank);
        const int lane = token % sketchBlockTokens;
        std::int32_t leads[maxSharingHeads];
        for (int q = 0; q < numQueries; ++q)
            leads[q] = leadDot(rank, block, lane, queries[q]);
        if (!mayPass(rule, leads, numQueries, first + token))
            continue;
        const float lack = lackOf(rule, leads, numQueries);
        if (boostOf(first + token) < lack)
            continue;
        tokens[count] = first + token;
        lacks[count] = lack;
        for (int q = 0; q < numQueries; ++q)
            scores[q][count] =
                wholeScore(rank, block, lane, sketches.rests + std::int64_t(token) * restBytes(rank), queries[q]);
        ++count;
    }
    return count;
}

constexpr int lanes = 16;
constexpr int maxDim = 512;

[[gnu::always_inline]] inline void projectGeneric(int rank, int dim, const float* basis, const float* mean,
                                                  const float* x, float* out)
{
    alignas(64) float centred[maxDim];
    for (int i = 0; i < dim; ++i)
        centred[i] = mean ? x[i] - mean[i] : x[i];
    for (int r = 0; r < rank; ++r) {
        const float* row = basis + std::int64_t(r) * dim;
        float sums[lanes] = {};
        for (int i = 0; i < dim; i += lanes) {
            for (int l = 0; l < lanes; ++l)
                sums[l] += row[i + l] * centred[i + l];
        }
        float sum = 0.0f;
        for (const float part : sums)
            sum += part;
        out[r] = sum;
    }
}

#if defined(__x86_64__)

__attribute__((target("avx2,fma,f16c"), optimize("O3"))) void
projectAvx2(int rank, int dim, const float* basis, const float* mean, const float* x, float* out)
{
    projectGeneric(rank, dim, basis, mean, x, out);
}

__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"), optimize("O3"))) void
projectAvx512(int rank, int dim, const float* basis, const float* mean, const float* x, float* out)
{
    projectGeneric(rank, dim, basis, mean, x, out);
}

// The lead products of B blocks in a row with Q queries.
template <int Q, int B>
OCTAVO_AVX512 inline void leadDots(const std::uint8_t* block, const SketchQuery* queries, __m512i (&dot)[B][Q])
{
    constexpr int parts = leadBytes(64) / 4;
    const __m512i two = _mm512_set1_epi8(3);
#pragma GCC unroll 4
    for (int b = 0; b < B; ++b) {
#pragma GCC unroll 8
        for (int q = 0; q < Q; ++q)
            dot[b][q] = _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (int p = 0; p < parts; ++p) {
        __m512i packed[B];
#pragma GCC unroll 4
        for (int b = 0; b < B; ++b)
            packed[b] = _mm512_loadu_si512(block + b * leadBlockBytes(64) + 64 * p);
#pragma GCC unroll 4
        for (int f = 0; f < 4; ++f) {
            __m512i upper[B];
#pragma GCC unroll 4
            for (int b = 0; b < B; ++b)
                upper[b] = _mm512_and_si512(f == 0 ? packed[b] : _mm512_srli_epi16(packed[b], unsigned(2 * f)), two);
#pragma GCC unroll 8
            for (int q = 0; q < Q; ++q) {
                std::int32_t four;
                std::memcpy(&four, queries[q].codes + 4 * parts * f + 4 * p, 4);
                const __m512i codes = _mm512_set1_epi32(four);
#pragma GCC unroll 4
                for (int b = 0; b < B; ++b)
                    dot[b][q] = _mm512_dpbusd_epi32(dot[b][q], upper[b], codes);
            }
        }
    }
}

template <int Q>
OCTAVO_AVX512 void leadsAvx512(const std::uint8_t* leads, std::int64_t numBlocks, std::int64_t stride,
                               const SketchQuery* queries, std::int32_t* const* scores)
{
    constexpr int ahead = 8;
    for (std::int64_t b = 0; b < numBlocks; ++b) {
        const std::uint8_t* block = leads + b * stride * leadBlockBytes(64);
        if (b + ahead < numBlocks) {
            for (int line = 0; line < leadBlockBytes(64); line += 64)
                _mm_prefetch(reinterpret_cast<const char*>(block + ahead * stride * leadBlockBytes(64) + line),
                             _MM_HINT_T0);
        }
        __m512i dot[1][Q];
        leadDots<Q, 1>(block, queries, dot);
        for (int q = 0; q < Q; ++q)
            _mm512_storeu_si512(scores[q] + b * sketchBlockTokens, dot[0][q]);
    }
}

// The products of a token's 64 levels, plus 128 each, with queries, in 16 parts. leads: of its lane.
template <int Q>
OCTAVO_AVX512 inline void wholeParts(const std::uint8_t* leads, const std::uint8_t* rest, const __m512i* queries,
                                     __m512i* parts)
{
    const __m512i shifts = _mm512_setr_epi64(0, 0, 0x0002000200020002, 0x0002000200020002, 0x0004000400040004,
                                             0x0004000400040004, 0x0006000600060006, 0x0006000600060006);
    const __m512i two = _mm512_set1_epi8(3);
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(levels)), _mm_set1_epi8(-128)));
    static_assert(leadBytes(64) == 12, "four bytes of the upper bits follow the lower ones");
    std::int32_t bytes[4];
    std::memcpy(bytes, leads, 4);
    std::memcpy(bytes + 1, leads + 64, 4);
    std::memcpy(bytes + 2, leads + 128, 4);
    std::memcpy(bytes + 3, rest + 16, 4);
    const __m128i upper = _mm_setr_epi32(bytes[0], bytes[1], bytes[2], bytes[3]);
    const __m128i lower = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rest));
    const __m512i high = _mm512_and_si512(_mm512_srlv_epi16(_mm512_broadcast_i32x4(upper), shifts), two);
    const __m512i low = _mm512_and_si512(_mm512_srlv_epi16(_mm512_broadcast_i32x4(lower), shifts), two);
    const __m512i keys = _mm512_shuffle_epi8(table, _mm512_or_si512(_mm512_slli_epi16(high, 2), low));
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q)
        parts[q] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), keys, queries[q]);
}

// Four registers to their four sums.
OCTAVO_AVX512 inline __m128i sumFour(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    const __m512i quarters = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i halves = _mm256_add_epi32(_mm512_castsi512_si256(quarters), _mm512_extracti64x4_epi64(quarters, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

OCTAVO_AVX512 inline void askForRest(SketchView sketches, std::int32_t token)
{
    const std::uint8_t* rest = sketches.rests + std::int64_t(token) * restBytes(64);
    _mm_prefetch(reinterpret_cast<const char*>(rest), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(rest + restBytes(64) - 1), _MM_HINT_T1);
}

// Scores of `count` tokens, counted from the view's first, to scores[q][at] and on. Up to three more tokens are written
// over, and as many scores.
template <int Q>
OCTAVO_AVX512 void scoreTokens(SketchView sketches, std::int32_t* tokens, int count, const SketchQuery* queries,
                               float* const* scores, std::int64_t at)
{
    __m512i codes[Q];
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q)
        codes[q] = _mm512_load_si512(queries[q].ordered);
    for (int i = count; i % 4 != 0; ++i)
        tokens[i] = tokens[0];
    for (int i = 0; i < count; i += 4) {
        __m512i parts[4][Q];
#pragma GCC unroll 4
        for (int t = 0; t < 4; ++t) {
            const std::int32_t token = tokens[i + t];
            const std::uint8_t* leads = sketches.leads + std::int64_t(token / sketchBlockTokens) * leadBlockBytes(64) +
                                        token % sketchBlockTokens * 4;
            wholeParts<Q>(leads, sketches.rests + std::int64_t(token) * restBytes(64), codes, parts[t]);
        }
#pragma GCC unroll 8
        for (int q = 0; q < Q; ++q) {
            const __m128i dots = _mm_sub_epi32(sumFour(parts[0][q], parts[1][q], parts[2][q], parts[3][q]),
                                               _mm_set1_epi32(queries[q].offset));
            _mm_storeu_ps(scores[q] + at + i, _mm_mul_ps(_mm_cvtepi32_ps(dots), _mm_set1_ps(queries[q].scale)));
        }
    }
}

template <int Q>
OCTAVO_AVX512 void scoreAvx512(SketchView sketches, std::int64_t numBlocks, const SketchQuery* queries,
                               float* const* scores)
{
    std::int32_t tokens[sketchBlockTokens];
    for (std::int64_t b = 0; b < numBlocks; ++b) {
        for (int t = 0; t < sketchBlockTokens; ++t)
            tokens[t] = std::int32_t(b * sketchBlockTokens) + t;
        scoreTokens<Q>(sketches, tokens, sketchBlockTokens, queries, scores, b * sketchBlockTokens);
    }
}

// boostOf() of sixteen tokens.
OCTAVO_AVX512 inline __m512 boosts16(__m512i tokens)
{
    const __m512i period = _mm512_srli_epi32(tokens, 12), low = _mm512_set1_epi32(4095);
    const __m512i place = _mm512_add_epi32(tokens, _mm512_mullo_epi32(period, _mm512_set1_epi32(boostShift)));
    const __m512i coarse = _mm512_slli_epi32(
        _mm512_and_si512(_mm512_mullo_epi32(place, _mm512_set1_epi32(boostStep)), low), 12);
    const __m512i fine = _mm512_srli_epi32(
        _mm512_add_epi32(_mm512_mullo_epi32(period, _mm512_set1_epi32(std::int32_t(boostFineStep))),
                         _mm512_set1_epi32(std::int32_t(0x80000000u))),
        20);
    const __m512 x = _mm512_add_ps(_mm512_cvtepi32_ps(_mm512_or_si512(coarse, fine)), _mm512_set1_ps(0.5f));
    const __m512i bits = _mm512_castps_si512(x);
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 t =
        _mm512_sub_ps(_mm512_castsi512_ps(_mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(0x007FFFFF)),
                                                          _mm512_set1_epi32(0x3F800000))),
                      one);
    __m512 p = _mm512_add_ps(_mm512_set1_ps(0.15053320f), _mm512_mul_ps(t, _mm512_set1_ps(-0.044873955f)));
    p = _mm512_add_ps(_mm512_set1_ps(-0.26957801f), _mm512_mul_ps(t, p));
    p = _mm512_add_ps(_mm512_set1_ps(0.44241858f), _mm512_mul_ps(t, p));
    p = _mm512_add_ps(t, _mm512_mul_ps(_mm512_mul_ps(t, _mm512_sub_ps(one, t)), p));
    const __m512 exponent = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_set1_epi32(151), _mm512_srli_epi32(bits, 23)));
    return _mm512_mul_ps(_mm512_sub_ps(exponent, p), _mm512_set1_ps(0.69314718f));
}

// Tokens of a page that may be candidates, counted from its first, and the scores of their leads.
template <int Q>
struct Waiting {
    static constexpr int room = 128;
    alignas(64) std::int32_t tokens[room + 2 * sketchBlockTokens];
    alignas(64) std::int32_t leads[Q][room + 2 * sketchBlockTokens];
};

// Moves the candidates of `rule` among the first `count` to the front, with what they lack, and returns how many there
// are.
template <int Q>
OCTAVO_AVX512 int keepCandidates(const LeadRule& rule, std::int32_t first, int count, Waiting<Q>& waiting, float* lacks)
{
    int kept = 0;
    for (int i = 0; i < count; i += sketchBlockTokens) { // what is written has been read
        const auto valid = count - i >= sketchBlockTokens ? __mmask16(0xFFFF) : __mmask16((1u << (count - i)) - 1);
        const __m512i tokens = _mm512_load_si512(waiting.tokens + i);
        __m512 lack = _mm512_set1_ps(rule.mostLack);
        for (int q = 0; q < Q; ++q) {
            const __m512i below =
                _mm512_sub_epi32(_mm512_set1_epi32(rule.limits[q]), _mm512_load_si512(waiting.leads[q] + i));
            lack = _mm512_min_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(below), _mm512_set1_ps(rule.units[q])), lack); // a NaN is none
        }
        lack = _mm512_max_ps(lack, _mm512_setzero_ps());
        const __m512 boosts = boosts16(_mm512_add_epi32(tokens, _mm512_set1_epi32(first)));
        const __mmask16 hits = _mm512_mask_cmp_ps_mask(valid, boosts, lack, _CMP_GE_OQ);
        _mm512_storeu_si512(waiting.tokens + kept, _mm512_maskz_compress_epi32(hits, tokens));
        _mm512_storeu_ps(lacks + kept, _mm512_maskz_compress_ps(hits, lack));
        kept += std::popcount(unsigned(hits));
    }
    return kept;
}

template <int Q>
OCTAVO_AVX512 std::int64_t candidatesAvx512(SketchView sketches, std::int64_t numBlocks, const SketchQuery* queries,
                                            const LeadRule& rule, std::int32_t first, std::int32_t* tokens,
                                            float* lacks, float* const* scores)
{
    constexpr int together = Q <= 2 ? 2 : 1;
    const std::uint8_t* const end = sketches.leads + numBlocks * leadBlockBytes(64);
    const __m512i counting = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    // Tokens are scored as soon as some wait, while their leads are near.
    Waiting<Q> waiting;
    int count = 0, asked = 0;
    std::int64_t done = 0;
    const auto finish = [&]() OCTAVO_AVX512 {
        count = keepCandidates<Q>(rule, first, count, waiting, lacks + done);
        for (int i = 0; i < count; i += sketchBlockTokens)
            _mm512_storeu_si512(tokens + done + i,
                                _mm512_add_epi32(_mm512_load_si512(waiting.tokens + i), _mm512_set1_epi32(first)));
        scoreTokens<Q>(sketches, waiting.tokens, count, queries, scores, done);
        done += count;
        count = asked = 0;
    };
    for (std::int64_t b = 0; b < numBlocks; b += together) {
        const std::uint8_t* block = sketches.leads + b * leadBlockBytes(64);
        if (block + leadsAhead < end) {
            for (int line = 0; line < together * leadBlockBytes(64); line += 64)
                _mm_prefetch(reinterpret_cast<const char*>(block + leadsAhead + line), _MM_HINT_T1);
        }
        // No branch to guess wrong: a block without hits adds none.
        const auto take = [&](std::int64_t of, const __m512i (&dot)[Q]) OCTAVO_AVX512 {
            const std::int32_t token = std::int32_t(of) * sketchBlockTokens;
            const std::int32_t* limits = rule.boostedLimits + boostPlace(first + token);
            __mmask16 hits = 0;
#pragma GCC unroll 8
            for (int q = 0; q < Q; ++q)
                hits = __mmask16(hits | _mm512_cmpge_epi32_mask(dot[q], _mm512_loadu_si512(limits + q * boostPeriod)));
            _mm512_storeu_si512(
                waiting.tokens + count,
                _mm512_maskz_compress_epi32(hits, _mm512_add_epi32(counting, _mm512_set1_epi32(token))));
#pragma GCC unroll 8
            for (int q = 0; q < Q; ++q)
                _mm512_storeu_si512(waiting.leads[q] + count, _mm512_maskz_compress_epi32(hits, dot[q]));
            count += std::popcount(unsigned(hits));
        };
        if (b + together <= numBlocks) {
            __m512i dot[together][Q];
            leadDots<Q, together>(block, queries, dot);
#pragma GCC unroll 2
            for (int i = 0; i < together; ++i)
                take(b + i, dot[i]);
        } else {
            __m512i dot[1][Q];
            leadDots<Q, 1>(block, queries, dot);
            take(b, dot[0]);
        }
        for (; asked + 4 <= count; asked += 4) { // most often once or not at all
            for (int i = 0; i < 4; ++i)
                askForRest(sketches, waiting.tokens[asked + i]);
        }
        if (count >= Waiting<Q>::room)
            finish();
    }
    finish();
    return done;
}

#define OCTAVO_AVX2 __attribute__((target("avx2")))

// The lead products of eight tokens of a block, from `half` * 8 on.
OCTAVO_AVX2 inline __m256i leadDotsAvx2(const std::uint8_t* block, int half, const SketchQuery& query)
{
    constexpr int bytes = leadBytes(64);
    const __m256i two = _mm256_set1_epi8(3);
    __m256i sum = _mm256_setzero_si256(); // twelve times two products of at most 3 * 127
    for (int p = 0; p < bytes / 4; ++p) {
        const __m256i packed = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 64 * p + 32 * half));
        for (int f = 0; f < 4; ++f) {
            std::int32_t four;
            std::memcpy(&four, query.codes + bytes * f + 4 * p, 4);
            const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(packed, 2 * f), two);
            sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(upper, _mm256_set1_epi32(four)));
        }
    }
    return _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
}

OCTAVO_AVX2 void leadsAvx2(const std::uint8_t* leads, std::int64_t numBlocks, std::int64_t stride,
                           const SketchQuery* queries, int numQueries, std::int32_t* const* scores)
{
    for (std::int64_t b = 0; b < numBlocks; ++b) {
        for (int half = 0; half < 2; ++half) {
            for (int q = 0; q < numQueries; ++q)
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(scores[q] + b * sketchBlockTokens + 8 * half),
                                    leadDotsAvx2(leads + b * stride * leadBlockBytes(64), half, queries[q]));
        }
    }
}

OCTAVO_AVX2 float wholeScoreAvx2(const std::uint8_t* leadBlock, int lane, const std::uint8_t* rest,
                                 const SketchQuery& query)
{
    alignas(16) std::uint8_t upperBytes[16];
    for (int p = 0; p < leadBytes(64) / 4; ++p)
        std::memcpy(upperBytes + 4 * p, leadBlock + 64 * p + 4 * lane, 4);
    std::memcpy(upperBytes + leadBytes(64), rest + 16, std::size_t(16 - leadBytes(64)));
    const __m128i upper = _mm_load_si128(reinterpret_cast<const __m128i*>(upperBytes));
    const __m128i lower = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rest));
    const __m256i two = _mm256_set1_epi8(3);
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(levels)));
    const auto part = [&](__m256i high, __m256i low, const std::int8_t* codes) OCTAVO_AVX2 {
        const __m256i code =
            _mm256_or_si256(_mm256_slli_epi16(_mm256_and_si256(high, two), 2), _mm256_and_si256(low, two));
        const __m256i keys = _mm256_shuffle_epi8(table, code);
        const __m256i q = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
        // A level's size times the query with its sign: two products of at most 84 * 127 fit 16 bits.
        const __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(keys), _mm256_sign_epi8(q, keys));
        return _mm256_madd_epi16(products, _mm256_set1_epi16(1));
    };
    const __m256i first = part(_mm256_set_m128i(_mm_srli_epi16(upper, 2), upper),
                               _mm256_set_m128i(_mm_srli_epi16(lower, 2), lower), query.ordered);
    const __m256i second =
        part(_mm256_set_m128i(_mm_srli_epi16(upper, 6), _mm_srli_epi16(upper, 4)),
             _mm256_set_m128i(_mm_srli_epi16(lower, 6), _mm_srli_epi16(lower, 4)), query.ordered + 32);
    const __m256i sums = _mm256_add_epi32(first, second);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
    return float(_mm_cvtsi128_si32(sum)) * query.scale;
}

OCTAVO_AVX2 void scoreAvx2(SketchView sketches, std::int64_t numBlocks, const SketchQuery* queries, int numQueries,
                           float* const* scores)
{
    for (std::int64_t token = 0; token < numBlocks * sketchBlockTokens; ++token) {
        const std::uint8_t* block = sketches.leads + token / sketchBlockTokens * leadBlockBytes(64);
        for (int q = 0; q < numQueries; ++q)
            scores[q][token] = wholeScoreAvx2(block, int(token % sketchBlockTokens),
                                              sketches.rests + token * restBytes(64), queries[q]);
    }
}

OCTAVO_AVX2 std::int64_t candidatesAvx2(SketchView sketches, std::int64_t numBlocks, const SketchQuery* queries,
                                        int numQueries, const LeadRule& rule, std::int32_t first, std::int32_t* tokens,
                                        float* lacks, float* const* scores)
{
    std::int64_t count = 0;
    for (std::int64_t half = 0; half < 2 * numBlocks; ++half) {
        const std::uint8_t* block = sketches.leads + half / 2 * leadBlockBytes(64);
        const std::int32_t from = first + std::int32_t(8 * half);
        const std::int32_t* limits = rule.boostedLimits + boostPlace(from);
        alignas(32) std::int32_t dots[maxSharingHeads][8];
        __m256i below = _mm256_set1_epi32(-1);
        for (int q = 0; q < numQueries; ++q) {
            const __m256i dot = leadDotsAvx2(block, int(half % 2), queries[q]);
            _mm256_store_si256(reinterpret_cast<__m256i*>(dots[q]), dot);
            below = _mm256_and_si256(
                below, _mm256_cmpgt_epi32(
                           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(limits + q * boostPeriod)), dot));
        }
        unsigned left = ~unsigned(_mm256_movemask_ps(_mm256_castsi256_ps(below))) & 0xFF;
        for (; left != 0; left &= left - 1) {
            const int lane = std::countr_zero(left);
            std::int32_t leads[maxSharingHeads];
            for (int q = 0; q < numQueries; ++q)
                leads[q] = dots[q][lane];
            const float lack = lackOf(rule, leads, numQueries);
            if (boostOf(from + lane) < lack)
                continue;
            tokens[count] = from + lane;
            lacks[count] = lack;
            for (int q = 0; q < numQueries; ++q)
                scores[q][count] = wholeScoreAvx2(block, int(half % 2) * 8 + lane,
                                                  sketches.rests + (8 * half + lane) * restBytes(64), queries[q]);
            ++count;
        }
    }
    return count;
}

/// Calls body.operator()<Q>(first) for queries `first` to first + Q - 1, so that all are seen to, at most four at once.
template <typename Body>
void inFours(int numQueries, const Body& body)
{
    for (int q = 0; q < numQueries;) {
        const int left = numQueries - q;
        if (left >= 4) {
            body.template operator()<4>(q);
            q += 4;
        } else if (left >= 2) {
            body.template operator()<2>(q);
            q += 2;
        } else {
            body.template operator()<1>(q);
            q += 1;
        }
    }
}

// The vector forms are for the rank that this project's bases have.
bool isFor(Path wanted, Path path, int rank)
{
    return path == wanted && rank == 64;
}

#endif

} // namespace

void project(Path path, int rank, int dim, const float* basis, const float* mean, const float* x, float* out)
{
    switch (path) {
#if defined(__x86_64__)
    case Path::Avx512: return projectAvx512(rank, dim, basis, mean, x, out);
    case Path::Avx2: return projectAvx2(rank, dim, basis, mean, x, out);
#endif
    default: return projectGeneric(rank, dim, basis, mean, x, out);
    }
}

void writeSketch(int rank, const float* coordinates, const float* deviations, std::uint8_t* leadBlock, int lane,
                 std::uint8_t* rest)
{
    const int leads = leadBytes(rank), bytes = rank / 4;
    for (int b = 0; b < bytes; ++b) {
        int upper = 0, lower = 0;
        for (int f = 0; f < 4; ++f) {
            const int c = coordinateAt(rank, b, f);
            const int code = codeOf(deviations[c] > 0.0f ? coordinates[c] / deviations[c] : 0.0f);
            upper |= code / 4 << (2 * f);
            lower |= code % 4 << (2 * f);
        }
        (b < leads ? leadBlock[placeOf(b, lane)] : rest[bytes + b - leads]) = std::uint8_t(upper);
        rest[b] = std::uint8_t(lower);
    }
}

void readSketch(int rank, SketchView sketches, std::int64_t token, const float* deviations, float* coordinates)
{
    const std::uint8_t* block = sketches.leads + token / sketchBlockTokens * leadBlockBytes(rank);
    const std::uint8_t* rest = sketches.rests + token * restBytes(rank);
    for (int b = 0; b < rank / 4; ++b) {
        const int upper = upperAt(rank, block, int(token % sketchBlockTokens), rest, b);
        for (int f = 0; f < 4; ++f) {
            const int c = coordinateAt(rank, b, f);
            const int code = ((upper >> (2 * f)) & 3) * 4 + ((rest[b] >> (2 * f)) & 3);
            coordinates[c] = float(levels[code]) * levelUnit * deviations[c];
        }
    }
}

SketchQuery makeSketchQuery(int rank, const float* coordinates, const float* deviations, float attentionScale)
{
    float peak = 0.0f;
    for (int c = 0; c < rank; ++c)
        peak = std::max(peak, std::abs(coordinates[c] * deviations[c]));
    const float scale = peak / 127.0f;
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    SketchQuery query;
    for (int c = 0; c < rank; ++c) {
        const float x = coordinates[c] * deviations[c] * inverse;
        query.codes[c] = std::int8_t(x == x ? std::lrint(std::clamp(x, -127.0f, 127.0f)) : 0);
        query.offset += 128 * query.codes[c];
    }
    for (int b = 0; b < rank / 4; ++b) {
        for (int f = 0; f < 4; ++f)
            query.ordered[rank / 4 * f + b] = query.codes[coordinateAt(rank, b, f)];
    }
    query.scale = scale * levelUnit * attentionScale;
    query.leadUnit = std::max(leastLeadUnit, leadStep * query.scale); // a NaN is none
    return query;
}

void scoreSketches(Path path, int rank, SketchView sketches, std::int64_t numBlocks, const SketchQuery* queries,
                   int numQueries, float* const* scores)
{
#if defined(__x86_64__)
    if (isFor(Path::Avx512, path, rank))
        return inFours(numQueries, [&]<int Q>(int q) { scoreAvx512<Q>(sketches, numBlocks, queries + q, scores + q); });
    if (isFor(Path::Avx2, path, rank))
        return scoreAvx2(sketches, numBlocks, queries, numQueries, scores);
#endif
    (void)path;
    scorePlain(rank, sketches, numBlocks, queries, numQueries, scores);
}

void askForLeads(int rank, const std::uint8_t* leads)
{
    for (int byte = 0; byte < leadBlockBytes(rank); byte += 64)
        __builtin_prefetch(leads + byte, 0, 2);
}

void askForCandidates(int rank, SketchView sketches, std::int64_t numBlocks)
{
    constexpr int smallestPage = 4096;
    for (int byte = 0; byte < leadsAhead; byte += 64)
        __builtin_prefetch(sketches.leads + byte, 0, 2);
    for (std::int64_t byte = leadsAhead; byte < numBlocks * leadBlockBytes(rank); byte += smallestPage)
        __builtin_prefetch(sketches.leads + byte, 0, 2);
    for (std::int64_t byte = 0; byte < numBlocks * sketchBlockTokens * restBytes(rank); byte += smallestPage)
        __builtin_prefetch(sketches.rests + byte, 0, 2);
}

void scoreLeads(Path path, int rank, const std::uint8_t* leads, std::int64_t numBlocks, std::int64_t stride,
                const SketchQuery* queries, int numQueries, std::int32_t* const* scores)
{
#if defined(__x86_64__)
    if (isFor(Path::Avx512, path, rank))
        return inFours(numQueries,
                       [&]<int Q>(int q) { leadsAvx512<Q>(leads, numBlocks, stride, queries + q, scores + q); });
    if (isFor(Path::Avx2, path, rank))
        return leadsAvx2(leads, numBlocks, stride, queries, numQueries, scores);
#endif
    (void)path;
    leadsPlain(rank, leads, numBlocks, stride, queries, numQueries, scores);
}

std::int64_t scoreCandidates(Path path, int rank, SketchView sketches, std::int64_t numBlocks,
                             const SketchQuery* queries, int numQueries, const LeadRule& rule, std::int32_t first,
                             std::int32_t* tokens, float* lacks, float* const* scores)
{
#if defined(__x86_64__)
    if (isFor(Path::Avx2, path, rank))
        return candidatesAvx2(sketches, numBlocks, queries, numQueries, rule, first, tokens, lacks, scores);
    if (isFor(Path::Avx512, path, rank)) {
        switch (numQueries) {
        case 1: return candidatesAvx512<1>(sketches, numBlocks, queries, rule, first, tokens, lacks, scores);
        case 2: return candidatesAvx512<2>(sketches, numBlocks, queries, rule, first, tokens, lacks, scores);
        case 4: return candidatesAvx512<4>(sketches, numBlocks, queries, rule, first, tokens, lacks, scores);
        case 6: return candidatesAvx512<6>(sketches, numBlocks, queries, rule, first, tokens, lacks, scores);
        case 8: return candidatesAvx512<8>(sketches, numBlocks, queries, rule, first, tokens, lacks, scores);
        default: break;
        }
    }
#endif
    (void)path;
    return candidatesPlain(rank, sketches, numBlocks, queries, numQueries, rule, first, tokens, lacks, scores);
}

} // namespace octavo::kernels::cpu
