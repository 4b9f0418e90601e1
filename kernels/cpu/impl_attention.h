#pragma once

/// Attention over int8 KV pages, for whichever vec_*.h came before.
///
/// A page's scores are taken exactly (int16 queries times int8 keys), its softmax is local to the page, and the
/// probabilities, times the values' scales, become 15-bit integers relative to their largest. So a page's part does
/// not depend on the tile it was computed in, and pages merge by log-sum-exp in order of position.

#include "kernels/cpu/kernels.h"

#include <cmath>

namespace {

/// Up to this many rows wait for a page's memory: they read it as one stream, asked for so far ahead.
constexpr int streamRows = quadRowTile < 4 ? quadRowTile : 4;
constexpr std::int64_t streamAhead = 8 * 1024;

/// Scores of R queries with the keys of P panels.
template <int R, int P>
inline void scoreTile(const std::int8_t* keys, int headDim, const std::int16_t* q, const float* qScales,
                      const float* keyScales, float* scores)
{
    VecI acc[P][R];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
            acc[p][r] = zeroI();
    }
    const std::int64_t panelBytes = std::int64_t(headDim) * panelWidth;
    for (int b = 0; b < headDim / 8; ++b) {
        int8Block<R, P>(keys + std::int64_t(b) * 128, panelBytes, q + b * R * 8, acc);
        askInt8<P>(keys + std::int64_t(b) * 128, panelBytes);
    }
    for (int p = 0; p < P; ++p) {
        const VecF scale = loadF(keyScales + p * panelWidth);
        for (int r = 0; r < R; ++r)
            storeF(scores + r * pageTokens + p * panelWidth, toFloat(acc[p][r]) * setF(qScales[r]) * scale);
    }
}

/// acc[r] = the products of R rows with one panel of int8, which is read as one stream.
template <int R>
inline __attribute__((always_inline)) void streamPanel(const std::int8_t* codes, int blocks, const std::int16_t* a,
                                                       VecI (&acc)[R])
{
    VecI parts[4][R]; // in turns: one would wait for itself
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
            parts[i][r] = zeroI();
    }
    for (int b = 0; b < blocks; ++b, codes += 128, a += R * 8) {
        __builtin_prefetch(codes + streamAhead, 0, 2);
        __builtin_prefetch(codes + streamAhead + 64, 0, 2);
        const VecI first = loadI(codes), second = loadI(codes + 64);
        const VecI fields[4] = {int8Field<0>(first), int8Field<1>(first), int8Field<0>(second), int8Field<1>(second)};
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
                parts[i][r] = dot2(parts[i][r], fields[i], a + r * 8 + 2 * i);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
        acc[r] = (parts[0][r] + parts[1][r]) + (parts[2][r] + parts[3][r]);
}

template <int R, int P>
inline void contextTile(const std::int8_t* values, int tokens, const std::int16_t* probabilities,
                        const float* scales, float* part, int headDim)
{
    VecI acc[P][R];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
            acc[p][r] = zeroI();
    }
    constexpr std::int64_t panelBytes = std::int64_t(pageTokens) * panelWidth;
    for (int b = 0; b < (tokens + 7) / 8; ++b) {
        int8Block<R, P>(values + std::int64_t(b) * 128, panelBytes, probabilities + b * R * 8, acc);
        askInt8<P>(values + std::int64_t(b) * 128, panelBytes);
    }
    for (int p = 0; p < P; ++p) {
        for (int r = 0; r < R; ++r)
            storeF(part + std::int64_t(r) * headDim + p * panelWidth, toFloat(acc[p][r]) * setF(scales[r]));
    }
}

/// a = a * alpha + part * beta over a row.
inline void blend(float* a, float alpha, const float* part, float beta, int n)
{
    const VecF x = setF(alpha), y = setF(beta);
    for (int i = 0; i < n; i += 16)
        storeF(a + i, loadF(a + i) * x + loadF(part + i) * y);
}

inline float expScalar(float x)
{
    float lanes[16];
    storeF(lanes, expF(setF(x)));
    return lanes[0];
}

/// Factors of two partial softmaxes under their common maximum; an empty one (-inf) counts for nothing.
inline void mergeFactors(float a, float b, float& alpha, float& beta, float& maximum)
{
    maximum = b > a || b != b ? b : a;
    alpha = a == -INFINITY ? 0.0f : a == maximum ? 1.0f : expScalar(a - maximum);
    beta = b == -INFINITY ? 0.0f : b == maximum ? 1.0f : expScalar(b - maximum);
}

void mergeState(int headDim, const AttentionState& other, const AttentionState& state)
{
    float alpha, beta, maximum;
    mergeFactors(*state.maximum, *other.maximum, alpha, beta, maximum);
    blend(state.context, alpha, other.context, beta, headDim);
    *state.sum = *state.sum * alpha + *other.sum * beta;
    *state.maximum = maximum;
}

/// Turns a row's scores into 15-bit probabilities; gives their scale, the row's maximum and its sum.
inline float softmaxRow(float* scores, int limit, int padded, const float* valueScales, std::int16_t* out,
                        std::int64_t stride, float& maximum, float& sum)
{
    VecF largest = setF(-INFINITY);
    for (int t = 0; t < limit; t += 16) {
        // NaN stands as the second operand, so it stays.
        largest = maxF(largest, firstLanes(limit - t, loadF(scores + t), setF(-INFINITY)));
    }
    maximum = maxLanes(largest);
    const VecF shift = setF(maximum);
    VecF total = zeroF(), highest = zeroF();
    for (int t = 0; t < limit; t += 16) {
        const VecF p = firstLanes(limit - t, expF(loadF(scores + t) - shift), zeroF());
        const VecF weighted = firstLanes(limit - t, p * loadF(valueScales + t), zeroF());
        total = total + p;
        highest = maxF(highest, weighted);
        storeF(scores + t, weighted);
    }
    sum = sumLanes(total);
    const float top = maxLanes(highest);
    const VecF inverse = setF(top >= 1e-30f ? 32767.0f / top : 0.0f);
    for (int t = 0; t < padded; t += 16) {
        const VecF weighted = t < limit ? loadF(scores + t) : zeroF();
        storeInterleaved(out + t / 8 * stride, stride, roundToInt(weighted * inverse));
    }
    return sum != sum || top != top ? NAN : top >= 1e-30f ? top / 32767.0f : 0.0f;
}

template <int R>
void attendRows(const KvPageView& page, int headDim, const std::int16_t* q, const float* qScales, const int* limits,
                float* work, const AttentionState& state)
{
    int tokens = 0;
    for (int r = 0; r < R; ++r)
        tokens = limits[r] > tokens ? limits[r] : tokens;
    if (tokens <= 0)
        return;
    float* scores = work;
    auto* probabilities = reinterpret_cast<std::int16_t*>(work + R * pageTokens);
    const std::int64_t panelBytes = std::int64_t(headDim) * panelWidth;
    const int panels = (tokens + panelWidth - 1) / panelWidth;
    int panel = 0;
    if constexpr (R <= streamRows) {
        for (; panel < panels; ++panel) {
            VecI acc[R];
            streamPanel<R>(page.keys + panel * panelBytes, headDim / 8, q, acc);
            const VecF scale = loadF(page.keyScales + panel * panelWidth);
            for (int r = 0; r < R; ++r)
                storeF(scores + r * pageTokens + panel * panelWidth, toFloat(acc[r]) * setF(qScales[r]) * scale);
        }
    } else if constexpr (R <= wideRowTile) {
        for (; panel + 2 <= panels; panel += 2)
            scoreTile<R, 2>(page.keys + panel * panelBytes, headDim, q, qScales, page.keyScales + panel * panelWidth,
                            scores + panel * panelWidth);
    }
    for (; panel < panels; ++panel)
        scoreTile<R, 1>(page.keys + panel * panelBytes, headDim, q, qScales, page.keyScales + panel * panelWidth,
                        scores + panel * panelWidth);

    float maxima[R], sums[R], scales[R];
    for (int r = 0; r < R; ++r) {
        maxima[r] = -INFINITY;
        sums[r] = scales[r] = 0.0f;
        scales[r] = softmaxRow(scores + r * pageTokens, limits[r] > 0 ? limits[r] : 0, panels * panelWidth,
                               page.valueScales, probabilities + r * 8, R * 8, maxima[r], sums[r]);
    }

    // The scores are spent: their place takes the partial contexts of a few dimensions at a time.
    float alpha[R], beta[R];
    for (int r = 0; r < R; ++r) {
        float maximum;
        mergeFactors(state.maximum[r], maxima[r], alpha[r], beta[r], maximum);
        state.maximum[r] = maximum;
        state.sum[r] = state.sum[r] * alpha[r] + sums[r] * beta[r];
    }
    const std::int64_t valueBytes = std::int64_t(pageTokens) * panelWidth;
    auto finish = [&]<int P>(int d) {
        float part[R * P * panelWidth];
        contextTile<R, P>(page.values + d / panelWidth * valueBytes, tokens, probabilities, scales, part,
                          P * panelWidth);
        for (int r = 0; r < R; ++r)
            blend(state.context + std::int64_t(r) * headDim + d, alpha[r], part + r * P * panelWidth, beta[r],
                  P * panelWidth);
    };
    int d = 0;
    if constexpr (R <= streamRows) {
        for (; d < headDim; d += panelWidth) {
            VecI acc[R];
            streamPanel<R>(page.values + d / panelWidth * valueBytes, (tokens + 7) / 8, probabilities, acc);
            for (int r = 0; r < R; ++r) {
                float part[panelWidth];
                storeF(part, toFloat(acc[r]) * setF(scales[r]));
                blend(state.context + std::int64_t(r) * headDim + d, alpha[r], part, beta[r], panelWidth);
            }
        }
    } else if constexpr (R <= wideRowTile) {
        for (; d + 2 * panelWidth <= headDim; d += 2 * panelWidth)
            finish.template operator()<2>(d);
    }
    for (; d < headDim; d += panelWidth)
        finish.template operator()<1>(d);
}

void attendPage(const KvPageView& page, int headDim, const std::int16_t* q, const float* qScales, const int* limits,
                int rows, float* work, const AttentionState& state)
{
    withRows(rows, [&]<int R>() { attendRows<R>(page, headDim, q, qScales, limits, work, state); });
}

} // namespace
