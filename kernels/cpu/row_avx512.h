#pragma once

/// Products of one row on AVX-512, which wait for memory more than for anything else. Included by kernels_avx512.cpp
/// alone, behind the tiles that serve several rows.
///
/// Panels are read one after another, as one stream, and asked for a good way ahead; past the end of the stream from
/// where the next product begins (Ahead::then). Tiles of four panels read four streams side by side, which the
/// hardware fetches at two thirds of the speed.
/// Int4 weights count from zero up here (code + 8), so that they are unsigned bytes, and an activation is its high byte
/// (signed) and its low one (unsigned): four products an instruction for either, with three instructions to unpack the
/// codes of both. What the 8 adds is taken off a group's sum again.
/// Numerics the same exact integer sums as the tiles', scaled in the same order: the same bits.

#include "kernels/cpu/impl_linear.h"

namespace {

/// How far ahead of its use a weight is asked for, in the second-level cache.
constexpr std::int64_t bytesAhead = 16 * 1024;
/// Longer rows take the tiles: what is made of a row here lies on the stack.
constexpr int mostRowInputs = 20480;

/// Follows a stream of weights to its end, and then what is read next.
class StreamAhead
{
public:
    StreamAhead(const void* end, const Ahead& ahead) : m_end(static_cast<const std::byte*>(end)), m_then(ahead.then) {}

    /// What lies bytesAhead behind `at`.
    const std::byte* from(const void* at) const
    {
        const std::byte* wanted = static_cast<const std::byte*>(at) + bytesAhead;
        return wanted < m_end || !m_then ? wanted : m_then + (wanted - m_end);
    }

private:
    const std::byte* m_end;
    const std::byte* m_then;
};

inline __attribute__((always_inline)) __m512i fourBytes(const void* p)
{
    std::int32_t bytes;
    __builtin_memcpy(&bytes, p, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/// acc + four products of unsigned and signed bytes in every lane.
inline __attribute__((always_inline)) void addProducts(__m512i& acc, __m512i unsignedBytes, __m512i signedBytes)
{
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(unsignedBytes), "v"(signedBytes));
}

/// A row's integers as bytes. Of each eight: high bytes of the even ones, of the odd ones, then the low bytes so.
struct RowBytes {
    std::uint8_t bytes[2 * mostRowInputs];
    std::int32_t sums[mostRowInputs / 8]; ///< of each group's integers

    RowBytes(const std::int16_t* a, int inputs, int groupSize)
    {
        // Of the order 0 4 1 5 2 6 3 7, two bytes each.
        const __m128i apart = _mm_setr_epi8(1, 9, 3, 11, 5, 13, 7, 15, 0, 8, 2, 10, 4, 12, 6, 14);
        for (int begin = 0, group = 0; begin < inputs; begin += groupSize, ++group) {
            __m128i sum = _mm_setzero_si128();
            for (int i = begin; i < smaller(begin + groupSize, inputs); i += 8) {
                const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i));
                sum = _mm_add_epi32(sum, _mm_madd_epi16(eight, _mm_set1_epi16(1)));
                _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + 2 * i), _mm_shuffle_epi8(eight, apart));
            }
            sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
            sums[group] = _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
        }
    }
};

void rowInt4(const Int4Panels& w, const std::int16_t* a, float rowScale, int panelBegin, int panelEnd, float* out,
             const Ahead& ahead)
{
    const int blocks = w.inputs / 8, groups = (w.inputs + w.groupSize - 1) / w.groupSize;
    const std::int64_t panelWords = std::int64_t(blocks) * panelWidth;
    const RowBytes row(a, w.inputs, w.groupSize);
    const StreamAhead stream(w.codes + panelEnd * panelWords, ahead);
    const __m512i low = _mm512_set1_epi8(15), eights = _mm512_set1_epi8(char(0x88));
    for (int panel = panelBegin; panel < panelEnd; ++panel) {
        const std::uint32_t* words = w.codes + panel * panelWords;
        const std::uint8_t* bytes = row.bytes;
        VecF sum = zeroF();
        for (int g = 0; g < groups; ++g) {
            __m512i evenHigh = _mm512_setzero_si512(), oddHigh = evenHigh, evenLow = evenHigh, oddLow = evenHigh;
            const std::byte* next = stream.from(words);
            const int count = smaller(w.groupSize / 8, blocks - g * (w.groupSize / 8));
            for (int b = 0; b < count; ++b, words += panelWidth, bytes += 16, next += 64) {
                __builtin_prefetch(next, 0, 2);
                const __m512i codes = _mm512_xor_si512(_mm512_loadu_si512(words), eights);
                const __m512i even = _mm512_and_si512(codes, low);
                const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(codes, 4), low);
                addProducts(evenHigh, even, fourBytes(bytes));
                addProducts(oddHigh, odd, fourBytes(bytes + 4));
                addProducts(evenLow, fourBytes(bytes + 8), even);
                addProducts(oddLow, fourBytes(bytes + 12), odd);
            }
            const std::int64_t cell = (std::int64_t(panel) * groups + g) * panelWidth;
            const VecI high{_mm512_slli_epi32(_mm512_add_epi32(evenHigh, oddHigh), 8)};
            VecI products = high + VecI{_mm512_add_epi32(evenLow, oddLow)} - setI(8 * row.sums[g]);
            if (w.offsets)
                products = products - mulI(loadInt8(w.offsets + cell), setI(row.sums[g]));
            sum = sum + toFloat(products) * loadHalf(w.scales + cell);
        }
        storeOutputs(sum * setF(rowScale), w.outputs - panel * panelWidth, out + (panel - panelBegin) * panelWidth);
    }
}

void rowInt8(const Int8Panels& w, const std::int16_t* a, float rowScale, int panelBegin, int panelEnd, float* out,
             const Ahead& ahead)
{
    const int blocks = w.inputs / 8, groups = (w.inputs + w.groupSize - 1) / w.groupSize;
    const std::int64_t panelBytes = std::int64_t(blocks) * 128;
    const StreamAhead stream(w.codes + panelEnd * panelBytes, ahead);
    for (int panel = panelBegin; panel < panelEnd; ++panel) {
        const std::int8_t* codes = w.codes + panel * panelBytes;
        const std::int16_t* x = a;
        VecF sum = zeroF();
        for (int g = 0; g < groups; ++g) {
            VecI acc[4] = {zeroI(), zeroI(), zeroI(), zeroI()}; // in turns: one would wait for itself
            const std::byte* next = stream.from(codes);
            const int count = smaller(w.groupSize / 8, blocks - g * (w.groupSize / 8));
            for (int b = 0; b < count; ++b, codes += 128, x += 8, next += 128) {
                __builtin_prefetch(next, 0, 2);
                __builtin_prefetch(next + 64, 0, 2);
                const VecI first = loadI(codes), second = loadI(codes + 64);
                acc[0] = dot2(acc[0], int8Field<0>(first), x);
                acc[1] = dot2(acc[1], int8Field<1>(first), x + 2);
                acc[2] = dot2(acc[2], int8Field<0>(second), x + 4);
                acc[3] = dot2(acc[3], int8Field<1>(second), x + 6);
            }
            const VecF scale = loadF(w.scales + (std::int64_t(panel) * groups + g) * panelWidth);
            sum = sum + toFloat((acc[0] + acc[1]) + (acc[2] + acc[3])) * scale;
        }
        storeOutputs(sum * setF(rowScale), w.outputs - panel * panelWidth, out + (panel - panelBegin) * panelWidth);
    }
}

/// Kernels::linearInt4 and linearInt8, with one row a way of its own.
void linearInt4ByRow(const Int4Panels& w, const QuantizedRows& a, int panelBegin, int panelEnd, float* out,
                     std::int64_t outStride, Ahead& ahead)
{
    if (a.rows == 1 && w.inputs <= mostRowInputs)
        rowInt4(w, a.values, *a.scales, panelBegin, panelEnd, out, ahead);
    else
        linearInt4(w, a, panelBegin, panelEnd, out, outStride, ahead);
}

void linearInt8ByRow(const Int8Panels& w, const QuantizedRows& a, int panelBegin, int panelEnd, float* out,
                     std::int64_t outStride, Ahead& ahead)
{
    if (a.rows == 1)
        rowInt8(w, a.values, *a.scales, panelBegin, panelEnd, out, ahead);
    else
        linearInt8(w, a, panelBegin, panelEnd, out, outStride, ahead);
}

} // namespace
