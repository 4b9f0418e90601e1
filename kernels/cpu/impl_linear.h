#pragma once

/// Linear layers over panels, for whichever vec_*.h came before. Included by kernels_*.cpp alone.

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/panels.h"

namespace {

using namespace octavo::kernels::cpu;

inline int smaller(int a, int b) { return a < b ? a : b; }

inline __attribute__((always_inline)) void askAhead(Ahead& ahead)
{
    const std::byte* stop = ahead.end - ahead.next > ahead.step ? ahead.next + ahead.step : ahead.end;
    for (; ahead.next < stop; ahead.next += 64)
        __builtin_prefetch(ahead.next, 0, 2);
}

/// The same eight inputs of the panels that come next. The hardware follows a stream only inside a small page.
template <int P>
inline __attribute__((always_inline)) void askInt4(const std::uint32_t* w, std::int64_t panelWords)
{
    for (int p = 0; p < P; ++p)
        __builtin_prefetch(w + (P + p) * panelWords);
}
template <int P>
inline __attribute__((always_inline)) void askInt8(const std::int8_t* w, std::int64_t panelBytes)
{
    for (int p = 0; p < P; ++p) {
        __builtin_prefetch(w + (P + p) * panelBytes);
        __builtin_prefetch(w + (P + p) * panelBytes + 64);
    }
}

inline void storeOutputs(VecF y, int valid, float* out)
{
    if (valid >= panelWidth) {
        storeF(out, y);
        return;
    }
    float lanes[panelWidth];
    storeF(lanes, y);
    for (int i = 0; i < valid; ++i)
        out[i] = lanes[i];
}

/// acc[p][r] += the products of eight inputs. w: the panels' words, one panel `panelWords` int32 from the next.
template <int R, int P>
inline __attribute__((always_inline)) void int4Block(const std::uint32_t* w, std::int64_t panelWords,
                                                     const std::int16_t* a, VecI (&acc)[P][R])
{
    VecI words[P];
    for (int p = 0; p < P; ++p)
        words[p] = loadI(w + p * panelWords);
    auto field = [&]<int F>() __attribute__((always_inline))
    {
        VecI x[P];
        for (int p = 0; p < P; ++p)
            x[p] = int4Field<F>(words[p]);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p)
                acc[p][r] = dot2(acc[p][r], x[p], a + r * 8 + 2 * F);
        }
    };
    field.template operator()<0>();
    field.template operator()<1>();
    field.template operator()<2>();
    field.template operator()<3>();
}

template <int R, int P>
inline __attribute__((always_inline)) void int8Block(const std::int8_t* w, std::int64_t panelBytes,
                                                     const std::int16_t* a, VecI (&acc)[P][R])
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
        VecI words[P];
        for (int p = 0; p < P; ++p)
            words[p] = loadI(w + half * 64 + p * panelBytes);
        auto field = [&]<int F>() __attribute__((always_inline))
        {
            VecI x[P];
            for (int p = 0; p < P; ++p)
                x[p] = int8Field<F>(words[p]);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p)
                    acc[p][r] = dot2(acc[p][r], x[p], a + r * 8 + 4 * half + 2 * F);
            }
        };
        field.template operator()<0>();
        field.template operator()<1>();
    }
}

/// Sums of a tile's integers over one group, for weights with zero points of their own.
template <int R>
inline void groupSums(const std::int16_t* a, int blocks, std::int32_t (&sums)[R])
{
    for (int r = 0; r < R; ++r) {
        sums[r] = 0;
        for (int b = 0; b < blocks; ++b) {
            for (int i = 0; i < 8; ++i)
                sums[r] += a[(std::int64_t(b) * R + r) * 8 + i];
        }
    }
}

template <int R, int P>
void int4Tile(const Int4Panels& w, int panel, const std::int16_t* a, const float* rowScales, float* out,
              std::int64_t outStride, Ahead& ahead)
{
    const int blocks = w.inputs / 8, groups = (w.inputs + w.groupSize - 1) / w.groupSize;
    const std::int64_t panelWords = std::int64_t(blocks) * panelWidth;
    const std::uint32_t* codes = w.codes + panel * panelWords;
    VecF sum[P][R];
    for (int p = 0; p < P; ++p) {
        for (int r = 0; r < R; ++r)
            sum[p][r] = zeroF();
    }
    for (int g = 0; g < groups; ++g) {
        const int first = g * (w.groupSize / 8), count = smaller(w.groupSize / 8, blocks - first);
        VecI acc[P][R];
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) {
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r)
                acc[p][r] = zeroI();
        }
        const std::uint32_t* words = codes + std::int64_t(first) * panelWidth;
        const std::int16_t* tile = a + std::int64_t(first) * R * 8;
        for (int b = 0; b < count; ++b) {
            const std::uint32_t* block = words + std::int64_t(b) * panelWidth;
            int4Block<R, P>(block, panelWords, tile + std::int64_t(b) * R * 8, acc);
            askInt4<P>(block, panelWords);
            askAhead(ahead);
        }
        if (w.offsets) {
            std::int32_t sums[R];
            groupSums<R>(tile, count, sums);
            for (int p = 0; p < P; ++p) {
                const VecI offset = loadInt8(w.offsets + (std::int64_t(panel + p) * groups + g) * panelWidth);
                for (int r = 0; r < R; ++r)
                    acc[p][r] = acc[p][r] - mulI(offset, setI(sums[r]));
            }
        }
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) {
            const VecF scale = loadHalf(w.scales + (std::int64_t(panel + p) * groups + g) * panelWidth);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r)
                sum[p][r] = sum[p][r] + toFloat(acc[p][r]) * scale;
        }
    }
    for (int p = 0; p < P; ++p) {
        for (int r = 0; r < R; ++r)
            storeOutputs(sum[p][r] * setF(rowScales[r]), w.outputs - (panel + p) * panelWidth,
                         out + r * outStride + p * panelWidth);
    }
}

template <int R, int P>
void int8Tile(const Int8Panels& w, int panel, const std::int16_t* a, const float* rowScales, float* out,
              std::int64_t outStride, Ahead& ahead)
{
    const int blocks = w.inputs / 8, groups = (w.inputs + w.groupSize - 1) / w.groupSize;
    const std::int64_t panelBytes = std::int64_t(blocks) * 128;
    const std::int8_t* codes = w.codes + panel * panelBytes;
    VecF sum[P][R];
    for (int p = 0; p < P; ++p) {
        for (int r = 0; r < R; ++r)
            sum[p][r] = zeroF();
    }
    for (int g = 0; g < groups; ++g) {
        const int first = g * (w.groupSize / 8), count = smaller(w.groupSize / 8, blocks - first);
        VecI acc[P][R];
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) {
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r)
                acc[p][r] = zeroI();
        }
        for (int b = first; b < first + count; ++b) {
            const std::int8_t* block = codes + std::int64_t(b) * 128;
            int8Block<R, P>(block, panelBytes, a + std::int64_t(b) * R * 8, acc);
            askInt8<P>(block, panelBytes);
            askAhead(ahead);
        }
#pragma GCC unroll 4
        for (int p = 0; p < P; ++p) {
            const VecF scale = loadF(w.scales + (std::int64_t(panel + p) * groups + g) * panelWidth);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r)
                sum[p][r] = sum[p][r] + toFloat(acc[p][r]) * scale;
        }
    }
    for (int p = 0; p < P; ++p) {
        for (int r = 0; r < R; ++r)
            storeOutputs(sum[p][r] * setF(rowScales[r]), w.outputs - (panel + p) * panelWidth,
                         out + r * outStride + p * panelWidth);
    }
}

template <int R, int P>
void denseTile(const DensePanels& w, int panel, const float* x, std::int64_t xStride, float* out,
               std::int64_t outStride)
{
    VecF sum[P][R];
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
            sum[p][r] = zeroF();
    }
    const std::int64_t panelValues = std::int64_t(w.inputs) * panelWidth;
    auto run = [&](auto load) __attribute__((always_inline))
    {
        for (int k = 0; k < w.inputs; ++k) {
            VecF weights[P];
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p)
                weights[p] = load((panel + p) * panelValues + std::int64_t(k) * panelWidth);
#pragma GCC unroll 16
            for (int r = 0; r < R; ++r) {
                const VecF value = setF(x[r * xStride + k]);
#pragma GCC unroll 4
                for (int p = 0; p < P; ++p)
                    sum[p][r] = fma(weights[p], value, sum[p][r]);
            }
        }
    };
    if (w.bf16) {
        const auto* values = static_cast<const std::uint16_t*>(w.values);
        run([values](std::int64_t i) __attribute__((always_inline)) { return loadBf16(values + i); });
    } else {
        const auto* values = static_cast<const float*>(w.values);
        run([values](std::int64_t i) __attribute__((always_inline)) { return loadF(values + i); });
    }
    for (int p = 0; p < P; ++p) {
        for (int r = 0; r < R; ++r)
            storeOutputs(sum[p][r], w.outputs - (panel + p) * panelWidth, out + r * outStride + p * panelWidth);
    }
}

/// Calls f.template operator()<R>() for the R that equals `rows`.
template <int R = maxRowTile, typename Function>
inline void withRows(int rows, Function&& f)
{
    if constexpr (R >= 1) {
        if (rows == R)
            f.template operator()<R>();
        else
            withRows<R - 1>(rows, f);
    }
}

/// Panels outside, row tiles inside: a pair of panels stays in the first-level cache while the rows pass.
template <typename Tile>
inline void overTiles(int rows, int panelBegin, int panelEnd, Tile&& tile)
{
    if (rows <= 0)
        return;
    const RowTiles tiles{rows, maxRowTile};
    for (int panel = panelBegin; panel < panelEnd;) {
        const int left = panelEnd - panel;
        const int height = tiles.height(0);
        const int take = height <= quadRowTile && left >= 4 ? 4 : height <= wideRowTile && left >= 2 ? 2 : 1;
        for (int i = 0; i < tiles.count(); ++i)
            tile(panel, take, tiles.begin(i), tiles.height(i));
        panel += take;
    }
}

void linearInt4(const Int4Panels& w, const QuantizedRows& a, int panelBegin, int panelEnd, float* out,
                std::int64_t outStride, Ahead& ahead)
{
    overTiles(a.rows, panelBegin, panelEnd, [&](int panel, int take, int row, int height) {
        ahead.takeRange();
        float* y = out + row * outStride + (panel - panelBegin) * panelWidth;
        const std::int16_t* x = a.values + std::int64_t(row) * a.inputs;
        withRows(height, [&]<int R>() {
            if constexpr (R <= quadRowTile) {
                if (take == 4)
                    return int4Tile<R, 4>(w, panel, x, a.scales + row, y, outStride, ahead);
            }
            if constexpr (R <= wideRowTile) {
                if (take == 2)
                    return int4Tile<R, 2>(w, panel, x, a.scales + row, y, outStride, ahead);
            }
            int4Tile<R, 1>(w, panel, x, a.scales + row, y, outStride, ahead);
        });
    });
}

void linearInt8(const Int8Panels& w, const QuantizedRows& a, int panelBegin, int panelEnd, float* out,
                std::int64_t outStride, Ahead& ahead)
{
    overTiles(a.rows, panelBegin, panelEnd, [&](int panel, int take, int row, int height) {
        ahead.takeRange();
        float* y = out + row * outStride + (panel - panelBegin) * panelWidth;
        const std::int16_t* x = a.values + std::int64_t(row) * a.inputs;
        withRows(height, [&]<int R>() {
            if constexpr (R <= quadRowTile) {
                if (take == 4)
                    return int8Tile<R, 4>(w, panel, x, a.scales + row, y, outStride, ahead);
            }
            if constexpr (R <= wideRowTile) {
                if (take == 2)
                    return int8Tile<R, 2>(w, panel, x, a.scales + row, y, outStride, ahead);
            }
            int8Tile<R, 1>(w, panel, x, a.scales + row, y, outStride, ahead);
        });
    });
}

void linearDense(const DensePanels& w, const float* x, std::int64_t xStride, int rows, int panelBegin, int panelEnd,
                 float* out, std::int64_t outStride)
{
    overTiles(rows, panelBegin, panelEnd, [&](int panel, int take, int row, int height) {
        float* y = out + row * outStride + (panel - panelBegin) * panelWidth;
        withRows(height, [&]<int R>() {
            if constexpr (R <= quadRowTile) {
                if (take == 4)
                    return denseTile<R, 4>(w, panel, x + row * xStride, xStride, y, outStride);
            }
            if constexpr (R <= wideRowTile) {
                if (take == 2)
                    return denseTile<R, 2>(w, panel, x + row * xStride, xStride, y, outStride);
            }
            denseTile<R, 1>(w, panel, x + row * xStride, xStride, y, outStride);
        });
    });
}

} // namespace
