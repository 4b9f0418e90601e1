#pragma once

/// What the parts of CpuForward share: one thread's buffers. Included by cpu_forward.cpp, cpu_gdn.cpp,
/// cpu_attention.cpp, cpu_best.cpp and cpu_mtp.cpp alone.

#include "engine/backend/cpu_forward.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace octavo::engine
{

/// Where the products of one thread begin to read their weights, in turn. Passes of a kind are all alike, so what the
/// one before did says what comes next.
class ReadingOrder
{
public:
    void beginPass() { m_next = 0; }
    /// Takes down that a product begins at `weights`, and says where the one after it will.
    const std::byte* after(const std::byte* weights)
    {
        if (m_next == m_begins.size())
            m_begins.push_back(weights);
        m_begins[m_next++] = weights;
        return m_begins[m_next < m_begins.size() ? m_next : 0]; // the next pass begins as this one did
    }

    /// Where the next pass begins; null before the first.
    const std::byte* first() const { return m_begins.empty() ? nullptr : m_begins.front(); }

private:
    std::vector<const std::byte*> m_begins;
    std::size_t m_next = 0;
};

struct CpuForward::Private {
    BigPages memory;
    kernels::cpu::Ahead ahead;
    std::array<ReadingOrder, 3> order; // by kind of pass
    std::vector<kernels::cpu::AheadRange> aheadRanges;
    float* norm = nullptr;            // rows that this thread prepared for itself
    std::int16_t* quantized = nullptr;
    float* scales = nullptr;
    float* gathered = nullptr;        // one row in the order of a layer's slots
    float* betaAlpha = nullptr;       // (maxRows, padded(2 * valueHeads))
    float* gates = nullptr;           // [g, beta][value head of a key head][64]
    float* gdnWork = nullptr;
    float* correction = nullptr;      // (valueDim)
    std::int16_t* queries = nullptr;  // (maxRows * heads per KV head, headDim), in tiles
    float* queryScales = nullptr;
    float* attentionWork = nullptr;
    float* maxima = nullptr;
    float* sums = nullptr;
    float* context = nullptr;         // (maxRows * heads per KV head, headDim)
    std::vector<kernels::cpu::GdnRow> gdnRows;
    std::int8_t* tierRows = nullptr;  // one page of one head: keys, values
    float* tierScales = nullptr;      // keys', values'
    std::int16_t* oneRow = nullptr;   // one of several quantised rows by itself
    float* panelLogits = nullptr;     // (16): those of one panel of the head
    std::vector<std::int32_t> likely; // panels of the head that may hold a row's best token
};

/// Floats of a row that kernels read and write in full 16s.
constexpr std::int64_t padded(std::int64_t n)
{
    return (n + 15) / 16 * 16;
}

} // namespace octavo::engine
