/// Greedy steps of CpuForward: each row's best token without its logits.
///
/// A rough head has half the bytes, and bounds how far it is off. Each thread asks the exact head about the panel that
/// it likes best, and then about those that by their bounds may reach the best of these. On text that is one or two of
/// a thousand, behind random rows twenty to fifty. The token is the one that all exact logits give, ties included.

#include "engine/backend/cpu_forward_private.h"

#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

namespace octavo::engine
{

namespace cpu = kernels::cpu;
using cpu::panelWidth;

CpuForward::Input CpuForward::rowOf(const Input& rows, int row) const
{
    const cpu::RowTiles tiles{rows.quantized.rows, m_kernels.maxTileRows};
    Input one = rows;
    one.x += row * rows.stride;
    one.quantized = {rows.own->oneRow, rows.quantized.scales + row, 1, rows.quantized.inputs};
    int tile = 0;
    while (tiles.begin(tile + 1) <= row)
        ++tile;
    const int begin = tiles.begin(tile), height = tiles.height(tile);
    const std::int16_t* values =
        rows.quantized.values + std::int64_t(begin) * rows.quantized.inputs + (row - begin) * cpu::panelDepth;
    for (int k = 0; k < rows.quantized.inputs; k += cpu::panelDepth)
        std::memcpy(one.quantized.values + k, values + std::int64_t(k) * height,
                    cpu::panelDepth * sizeof(std::int16_t));
    return one;
}

float* CpuForward::panelLogits(const Input& row, int panel) const
{
    Private& own = *row.own;
    own.ahead.then = own.order[std::size_t(m_pass)].first(); // passes differ in what they ask about
    m_model.head.run(m_kernels, row.quantized, row.x, row.stride, 1, panel, panel + 1, own.panelLogits, panelWidth,
                     own.ahead);
    return own.panelLogits;
}

void CpuForward::findBest(int thread, const Input& input, Range panels)
{
    const int begin = panels.begin * panelWidth, end = panels.end * panelWidth, count = panels.end - panels.begin;
    const int below = std::min(m_config.vocabSize, m_bestBelow);
    const std::int64_t stride = std::int64_t(cpu::panelCount(m_config.vocabSize)) * panelWidth;
    std::vector<BestToken>& best = m_best[std::size_t(thread)];
    std::vector<std::int32_t>& likely = m_private[std::size_t(thread)]->likely;
    likely.resize(std::size_t(count));
    linear(m_model.roughHead->linear, input, begin, std::min(m_config.vocabSize, end), m_ownLogits.data() + begin,
           stride);
    const float* bounds = m_model.roughHead->bounds.data() + begin;
    // What each thread likes best, so that all know what is to be reached.
    for (int r = 0; r < m_logitRows; ++r) {
        float* rough = m_ownLogits.data() + r * stride + begin;
        if (below < end)
            std::fill(rough + std::max(below - begin, 0), rough + (end - begin), -INFINITY);
        best[std::size_t(r)] = {};
        const float most = m_kernels.largest(rough, count * panelWidth);
        if (std::isfinite(most) && m_kernels.panelsReaching(rough, bounds, 0.0f, most, count, likely.data()) > 0)
            lookThrough(rowOf(input, r), panels.begin + likely.front(), best[std::size_t(r)]);
        m_toReach[std::size_t(thread)][std::size_t(r)] = best[std::size_t(r)].logit;
    }
    m_pool.barrier(thread);
    int left = count; // panels to ask about; more would be more work than all logits are
    for (int r = 0; r < m_logitRows; ++r) {
        float least = -INFINITY;
        for (const auto& ofThread : std::span(m_toReach).first(std::size_t(m_pool.active())))
            least = std::max(least, ofThread[std::size_t(r)]);
        const Input row = rowOf(input, r);
        const float length = CpuRoughHead::rowLength({row.x, std::size_t(m_config.hiddenSize)});
        int found = count;
        if (std::isfinite(length))
            found = m_kernels.panelsReaching(m_ownLogits.data() + r * stride + begin, bounds, length, least, count,
                                             likely.data());
        else // its logits may be anything
            std::iota(likely.begin(), likely.end(), 0);
        left -= found;
        if (left < 0) // all rows together take less
            return findBestOfAll(thread, input, panels);
        for (const std::int32_t panel : std::span(likely).first(std::size_t(found)))
            lookThrough(row, panels.begin + panel, best[std::size_t(r)]);
    }
}

void CpuForward::findBestOfAll(int thread, const Input& input, Range panels)
{
    const int begin = panels.begin * panelWidth, end = std::min(m_config.vocabSize, panels.end * panelWidth);
    const std::int64_t stride = std::int64_t(cpu::panelCount(m_config.vocabSize)) * panelWidth;
    linear(m_model.head, input, begin, end, m_ownLogits.data() + begin, stride);
    for (int r = 0; r < m_logitRows; ++r) {
        const std::span part(m_ownLogits.data() + r * stride + begin, std::size_t(std::max(end - begin, 0)));
        const auto best = Sampler::argmax(part, m_bestBelow - begin);
        m_best[std::size_t(thread)][std::size_t(r)] =
            best ? BestToken{begin + *best, part[std::size_t(*best)]} : BestToken{};
    }
}

void CpuForward::lookThrough(const Input& row, int panel, BestToken& best) const
{
    const int first = panel * panelWidth, end = std::min({m_config.vocabSize, m_bestBelow, first + panelWidth});
    const float* exact = panelLogits(row, panel);
    for (TokenId token = first; token < end; ++token) {
        const float logit = exact[token - first];
        const bool better = best.token < 0 || logit > best.logit || (logit == best.logit && token < best.token);
        if (std::isfinite(logit) && better)
            best = {token, logit};
    }
}

} // namespace octavo::engine
