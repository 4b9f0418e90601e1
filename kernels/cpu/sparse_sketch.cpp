#include "kernels/cpu/sparse_sketch.h"

#include "kernels/cpu/sparse_avx512.h"
#include "kernels/cpu/sparse_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace octavo::kernels::cpu {

namespace {

int codeOf(float x, int low, int high)
{
    if (!(x > float(low)))
        return low;
    return x < float(high) ? int(std::lrint(x)) : high;
}

// Where coordinate c of a lane is.
std::size_t byteOf(int c, int lane)
{
    return std::size_t(c / 8) * 64 + std::size_t(lane) * 4 + std::size_t(c % 4);
}

int shiftOf(int c)
{
    return c % 8 < 4 ? 0 : 4;
}

void scorePlain(int rank, const std::uint8_t* blocks, std::int64_t numBlocks, const SketchQuery* queries,
                int numQueries, float* const* scores)
{
    for (std::int64_t b = 0; b < numBlocks; ++b) {
        const std::uint8_t* block = blocks + b * std::int64_t(sketchBlockBytes(rank));
        for (int t = 0; t < sketchBlockTokens; ++t) {
            std::uint16_t half;
            std::memcpy(&half, block + rank * 8 + 2 * t, 2);
            for (int q = 0; q < numQueries; ++q) {
                std::int32_t dot = -queries[q].offset;
                for (int c = 0; c < rank; ++c)
                    dot += ((block[byteOf(c, t)] >> shiftOf(c)) & 15) * queries[q].codes[c];
                scores[q][b * sketchBlockTokens + t] = float(dot) * (halfToFloat(half) * queries[q].scale);
            }
        }
    }
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

// Q queries and B blocks at once: Q * B sums in flight hide the products' latency.
template <int Q, int B>
OCTAVO_AVX512 void scoreBlocks(int rank, const std::uint8_t* block, std::int64_t first, const SketchQuery* queries,
                               float* const* scores)
{
    const std::size_t blockBytes = sketchBlockBytes(rank);
    const __m512i low = _mm512_set1_epi8(15);
    __m512i dot[B][Q];
    for (int q = 0; q < Q; ++q) {
        for (int b = 0; b < B; ++b)
            dot[b][q] = _mm512_set1_epi32(-queries[q].offset);
    }
    for (int p = 0; p < rank / 8; ++p) {
        __m512i a[Q], c[Q];
        for (int q = 0; q < Q; ++q) {
            std::int32_t lower, upper;
            std::memcpy(&lower, queries[q].codes + 8 * p, 4);
            std::memcpy(&upper, queries[q].codes + 8 * p + 4, 4);
            a[q] = _mm512_set1_epi32(lower);
            c[q] = _mm512_set1_epi32(upper);
        }
        for (int b = 0; b < B; ++b) {
            const std::uint8_t* at = block + std::size_t(b) * blockBytes + 64 * p;
            _mm_prefetch(reinterpret_cast<const char*>(at + 12 * blockBytes), _MM_HINT_T0);
            const __m512i bytes = _mm512_loadu_si512(at);
            const __m512i even = _mm512_and_si512(bytes, low);
            const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);
            for (int q = 0; q < Q; ++q) {
                dot[b][q] = _mm512_dpbusd_epi32(dot[b][q], even, a[q]);
                dot[b][q] = _mm512_dpbusd_epi32(dot[b][q], odd, c[q]);
            }
        }
    }
    for (int b = 0; b < B; ++b) {
        const __m512 keyScale = _mm512_cvtph_ps(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + std::size_t(b) * blockBytes + 8 * rank)));
        for (int q = 0; q < Q; ++q) {
            const __m512 scale = _mm512_mul_ps(keyScale, _mm512_set1_ps(queries[q].scale));
            _mm512_storeu_ps(scores[q] + (first + b) * sketchBlockTokens,
                             _mm512_mul_ps(_mm512_cvtepi32_ps(dot[b][q]), scale));
        }
    }
}

template <int Q>
OCTAVO_AVX512 void scoreAvx512(int rank, const std::uint8_t* blocks, std::int64_t numBlocks,
                               const SketchQuery* queries, float* const* scores)
{
    constexpr int together = Q == 4 ? 3 : 4;
    const std::size_t blockBytes = sketchBlockBytes(rank);
    std::int64_t b = 0;
    for (; b + together <= numBlocks; b += together)
        scoreBlocks<Q, together>(rank, blocks + std::size_t(b) * blockBytes, b, queries, scores);
    for (; b < numBlocks; ++b)
        scoreBlocks<Q, 1>(rank, blocks + std::size_t(b) * blockBytes, b, queries, scores);
}

__attribute__((target("avx2,fma,f16c"))) void scoreAvx2(int rank, const std::uint8_t* blocks, std::int64_t numBlocks,
                                                        const SketchQuery* queries, int numQueries,
                                                        float* const* scores)
{
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    for (std::int64_t b = 0; b < numBlocks; ++b) {
        const std::uint8_t* block = blocks + b * std::int64_t(sketchBlockBytes(rank));
        for (int half = 0; half < 2; ++half) {
            const __m256 keyScale =
                _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 8 * rank + 16 * half)));
            for (int q = 0; q < numQueries; ++q) {
                __m256i dot = _mm256_set1_epi32(-queries[q].offset);
                for (int p = 0; p < rank / 8; ++p) {
                    const __m256i bytes =
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 64 * p + 32 * half));
                    std::int32_t a, c;
                    std::memcpy(&a, queries[q].codes + 8 * p, 4);
                    std::memcpy(&c, queries[q].codes + 8 * p + 4, 4);
                    // Four products of at most 15 * 127 stay far below what 16 bits hold.
                    const __m256i first = _mm256_maddubs_epi16(_mm256_and_si256(bytes, low), _mm256_set1_epi32(a));
                    const __m256i second =
                        _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), low), _mm256_set1_epi32(c));
                    dot = _mm256_add_epi32(dot, _mm256_madd_epi16(_mm256_add_epi16(first, second), ones));
                }
                const __m256 scale = _mm256_mul_ps(keyScale, _mm256_set1_ps(queries[q].scale));
                _mm256_storeu_ps(scores[q] + b * sketchBlockTokens + 8 * half,
                                 _mm256_mul_ps(_mm256_cvtepi32_ps(dot), scale));
            }
        }
    }
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

void writeSketch(int rank, const float* coordinates, std::uint8_t* block, int lane)
{
    float peak = 0.0f;
    for (int c = 0; c < rank; ++c) {
        if (std::abs(coordinates[c]) > std::abs(peak))
            peak = coordinates[c];
    }
    const std::uint16_t half = floatToHalf(peak / -8.0f);
    const float scale = halfToFloat(half);
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    for (int c = 0; c < rank; ++c) {
        const int code = codeOf(coordinates[c] * inverse, -8, 7) + 8;
        std::uint8_t& byte = block[byteOf(c, lane)];
        byte = std::uint8_t((byte & (0xF0 >> shiftOf(c))) | (code << shiftOf(c)));
    }
    std::memcpy(block + 8 * rank + 2 * lane, &half, 2);
}

void readSketch(int rank, const std::uint8_t* block, int lane, float* coordinates)
{
    std::uint16_t half;
    std::memcpy(&half, block + 8 * rank + 2 * lane, 2);
    for (int c = 0; c < rank; ++c)
        coordinates[c] = halfToFloat(half) * float(((block[byteOf(c, lane)] >> shiftOf(c)) & 15) - 8);
}

SketchQuery makeSketchQuery(int rank, const float* coordinates, float attentionScale)
{
    float peak = 0.0f;
    for (int c = 0; c < rank; ++c)
        peak = std::max(peak, std::abs(coordinates[c]));
    const float scale = peak / 127.0f;
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    SketchQuery query;
    for (int c = 0; c < rank; ++c) {
        query.codes[c] = std::int8_t(codeOf(coordinates[c] * inverse, -127, 127));
        query.offset += 8 * query.codes[c];
    }
    query.scale = scale * attentionScale;
    return query;
}

void scoreSketches(Path path, int rank, const std::uint8_t* blocks, std::int64_t numBlocks, const SketchQuery* queries,
                   int numQueries, float* const* scores)
{
#if defined(__x86_64__)
    if (path == Path::Avx512) {
        for (int q = 0; q < numQueries;) {
            const int left = numQueries - q;
            if (left >= 4) {
                scoreAvx512<4>(rank, blocks, numBlocks, queries + q, scores + q);
                q += 4;
            } else if (left >= 2) {
                scoreAvx512<2>(rank, blocks, numBlocks, queries + q, scores + q);
                q += 2;
            } else {
                scoreAvx512<1>(rank, blocks, numBlocks, queries + q, scores + q);
                q += 1;
            }
        }
        return;
    }
    if (path == Path::Avx2)
        return scoreAvx2(rank, blocks, numBlocks, queries, numQueries, scores);
#else
    (void)path;
#endif
    scorePlain(rank, blocks, numBlocks, queries, numQueries, scores);
}

} // namespace octavo::kernels::cpu
