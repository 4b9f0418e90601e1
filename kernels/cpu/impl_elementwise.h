#pragma once

/// Norms, activations, RoPE and quantisation of rows, for whichever vec_*.h came before.

#include "kernels/cpu/kernels.h"

#include <cmath>

namespace {

/// exp by 2^n * p(r), |r| <= ln(2)/2; p is the Taylor polynomial of degree 7, whose remainder is below 6e-9.
inline VecF expF(VecF x)
{
    x = minF(setF(88.0f), maxF(setF(-87.0f), x));
    const VecI n = roundToInt(x * setF(1.44269504f));
    const VecF nf = toFloat(n);
    VecF r = fma(nf, setF(-0.693145751953125f), x);
    r = fma(nf, setF(-1.42860682e-6f), r);
    VecF p = setF(1.0f / 5040.0f);
    p = fma(p, r, setF(1.0f / 720.0f));
    p = fma(p, r, setF(1.0f / 120.0f));
    p = fma(p, r, setF(1.0f / 24.0f));
    p = fma(p, r, setF(1.0f / 6.0f));
    p = fma(p, r, setF(0.5f));
    p = fma(p, r, setF(1.0f));
    p = fma(p, r, setF(1.0f));
    return scaleByPowerOfTwo(p, n);
}
inline VecF sigmoidF(VecF x) { return setF(1.0f) / (setF(1.0f) + expF(zeroF() - x)); }
inline VecF siluF(VecF x) { return x / (setF(1.0f) + expF(zeroF() - x)); }

inline VecF maskedLoad(const float* x, int left)
{
    return left >= 16 ? loadF(x) : firstLanes(left, loadF(x), zeroF());
}

void exponential(const float* x, int n, float* y)
{
    for (int i = 0; i < n; i += 16)
        storeF(y + i, expF(loadF(x + i)));
}

float largest(const float* x, int n)
{
    VecF most = setF(-INFINITY);
    for (int i = 0; i < n; i += 16)
        most = maxF(most, loadF(x + i));
    return maxLanes(most);
}

int panelsReaching(const float* x, const float* slack, float factor, float least, int panels, std::int32_t* found)
{
    constexpr int together = 8; // few panels reach it, so most are ruled out so many at a time
    const VecF times = setF(factor);
    const auto reach = [&](int panel) { return fma(loadF(slack + panel * 16), times, loadF(x + panel * 16)); };
    int count = 0;
    for (int first = 0; first < panels; first += together) {
        const int end = smaller(panels, first + together);
        VecF most = reach(first);
        for (int panel = first + 1; panel < end; ++panel)
            most = maxF(most, reach(panel));
        if (maxLanes(most) < least)
            continue;
        for (int panel = first; panel < end; ++panel) {
            if (maxLanes(reach(panel)) >= least)
                found[count++] = panel;
        }
    }
    return count;
}

inline float sumOfSquares(const float* x, int n)
{
    VecF even = zeroF(), odd = zeroF();
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        const VecF a = loadF(x + i), b = loadF(x + i + 16);
        even = fma(a, a, even);
        odd = fma(b, b, odd);
    }
    for (; i < n; i += 16) {
        const VecF a = maskedLoad(x + i, n - i);
        even = fma(a, a, even);
    }
    return sumLanes(even + odd);
}

void rmsNorm(const float* x, const float* w, int n, float eps, float* y)
{
    const VecF scale = setF(1.0f / std::sqrt(sumOfSquares(x, n) / float(n) + eps));
    for (int i = 0; i < n; i += 16)
        storeF(y + i, loadF(x + i) * scale * loadF(w + i));
}

void l2Norm(const float* x, int n, float scale, float* y)
{
    const VecF factor = setF(scale / std::sqrt(sumOfSquares(x, n) + 1e-6f));
    for (int i = 0; i < n; i += 16)
        storeF(y + i, loadF(x + i) * factor);
}

void gatedNorm(const float* x, const float* w, const float* z, int n, float eps, float* y)
{
    const VecF scale = setF(1.0f / std::sqrt(sumOfSquares(x, n) / float(n) + eps));
    for (int i = 0; i < n; i += 16)
        storeF(y + i, loadF(x + i) * scale * loadF(w + i) * siluF(loadF(z + i)));
}

void add(const float* x, int n, float* y)
{
    for (int i = 0; i < n; i += 16)
        storeF(y + i, loadF(y + i) + loadF(x + i));
}

void siluMul(const float* gate, const float* up, int n, float* y)
{
    for (int i = 0; i < n; i += 16)
        storeF(y + i, siluF(loadF(gate + i)) * loadF(up + i));
}

void gateContext(const float* x, float sum, const float* gate, int n, float* y)
{
    const VecF inverse = setF(1.0f / sum);
    for (int i = 0; i < n; i += 16)
        storeF(y + i, loadF(x + i) * inverse * sigmoidF(loadF(gate + i)));
}

void convSilu(const float* const* rows, const float* taps, std::int64_t tapStride, int width, int n, float* y)
{
    for (int c = 0; c < n; c += 16) {
        VecF sum = loadF(rows[0] + c) * loadF(taps + c);
        for (int i = 1; i < width; ++i)
            sum = fma(loadF(rows[i] + c), loadF(taps + i * tapStride + c), sum);
        storeF(y + c, siluF(sum));
    }
}

/// Width: 0 for one that is known only here.
template <int Width>
inline void convStepOf(float* history, std::int64_t historyStride, const float* x, const float* taps,
                       std::int64_t tapStride, int width, int n, float* y)
{
    const int last = (Width > 0 ? Width : width) - 1;
    for (int c = 0; c < n; c += 16) {
        VecF sum = zeroF();
#pragma GCC unroll 4
        for (int i = 0; i <= last; ++i) {
            const VecF row = loadF(i < last ? history + i * historyStride + c : x + c);
            const VecF tap = loadF(taps + i * tapStride + c);
            sum = i == 0 ? row * tap : fma(row, tap, sum);
            if (i > 0)
                storeF(history + (i - 1) * historyStride + c, row);
        }
        storeF(y + c, siluF(sum));
    }
}

void convStep(float* history, std::int64_t historyStride, const float* x, const float* taps, std::int64_t tapStride,
              int width, int n, float* y)
{
    if (width == 4)
        convStepOf<4>(history, historyStride, x, taps, tapStride, width, n, y);
    else
        convStepOf<0>(history, historyStride, x, taps, tapStride, width, n, y);
}

void rope(float* x, const float* cosines, const float* sines, int rotaryDim)
{
    const int half = rotaryDim / 2;
    int i = 0;
    for (; i + 16 <= half; i += 16) {
        const VecF a = loadF(x + i), b = loadF(x + half + i), c = loadF(cosines + i), s = loadF(sines + i);
        storeF(x + i, a * c - b * s);
        storeF(x + half + i, b * c + a * s);
    }
    for (; i < half; ++i) {
        const float a = x[i], b = x[half + i];
        x[i] = a * cosines[i] - b * sines[i];
        x[half + i] = b * cosines[i] + a * sines[i];
    }
}

/// The largest magnitude, as bits: NaN and infinity win, so they are not lost on the way.
inline float largestMagnitude(const float* x, int n)
{
    VecI largest = zeroI();
    for (int i = 0; i < n; i += 16)
        largest = maxI(largest, absBits(maskedLoad(x + i, n - i)));
    const std::int32_t bits = maxLanesI(largest);
    float magnitude;
    __builtin_memcpy(&magnitude, &bits, sizeof magnitude);
    return bits >= 0x7f800000 ? NAN : magnitude;
}

void quantizeRow(const float* x, int n, int inputs, std::int16_t* dst, std::int64_t stride, float* scale)
{
    const float largest = largestMagnitude(x, n);
    const float inverse = largest >= 1e-30f ? 32767.0f / largest : 0.0f;
    *scale = largest >= 1e-30f ? largest / 32767.0f : largest != largest ? NAN : 0.0f;
    for (int i = 0; i < inputs; i += 16) {
        const VecF values = i < n ? maskedLoad(x + i, n - i) : zeroF();
        const VecI q = roundToInt(values * setF(inverse));
        if (i + 8 < inputs) {
            storeInterleaved(dst + i / 8 * stride, stride, q);
        } else {
            std::int16_t last[16];
            storeInterleaved(last, 8, q);
            __builtin_memcpy(dst + i / 8 * stride, last, 8 * sizeof(std::int16_t));
        }
    }
}

void writeKv(const float* k, const float* v, int headDim, int token, std::int8_t* keys, std::int8_t* values,
             float* keyScales, float* valueScales)
{
    std::int8_t bytes[16];
    // Sixteen dimensions at a time; each row's scale comes first.
    const float largestK = largestMagnitude(k, headDim), largestV = largestMagnitude(v, headDim);
    const float inverseK = largestK >= 1e-30f ? 127.0f / largestK : 0.0f;
    const float inverseV = largestV >= 1e-30f ? 127.0f / largestV : 0.0f;
    auto toBytes = [&bytes](VecF x) {
        const VecI q = roundToInt(x);
        std::int32_t lanes[16];
        __builtin_memcpy(lanes, &q, sizeof lanes);
        for (int j = 0; j < 16; ++j)
            bytes[j] = std::int8_t(lanes[j]);
    };
    std::int8_t* keyPanel = keys + std::int64_t(token / panelWidth) * panelWidth * headDim;
    const int lane = token % panelWidth;
    for (int d = 0; d < headDim; d += 16) {
        toBytes(loadF(k + d) * setF(inverseK));
        for (int j = 0; j < 16; j += 8) {
            std::int8_t* block = keyPanel + (d + j) / 8 * 128 + lane * 4;
            const std::int8_t first[4] = {bytes[j], bytes[j + 1], bytes[j + 4], bytes[j + 5]};
            const std::int8_t second[4] = {bytes[j + 2], bytes[j + 3], bytes[j + 6], bytes[j + 7]};
            __builtin_memcpy(block, first, 4);
            __builtin_memcpy(block + 64, second, 4);
        }
        toBytes(loadF(v + d) * setF(inverseV));
        std::int8_t* valuePanel = values + std::int64_t(d) * pageTokens + int8PanelOffset(token, 0);
        for (int j = 0; j < 16; ++j)
            valuePanel[j * 4] = bytes[j];
    }
    keyScales[token] = largestK >= 1e-30f ? largestK / 127.0f : largestK != largestK ? NAN : 0.0f;
    valueScales[token] = largestV >= 1e-30f ? largestV / 127.0f : largestV != largestV ? NAN : 0.0f;
}

} // namespace
