/// The attention half of CpuForward: rows of queries against int8 pages, the host tier and what the sketch picks.

#include "engine/backend/cpu_forward_private.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octavo::engine
{

namespace cpu = kernels::cpu;
using cpu::RowTiles;

namespace
{

/// Drafts see the first page and at most this many of the newest tokens: what they miss costs a wrong draft, no more.
constexpr std::int64_t mtpWindow = 8192;

/// Rows of a slice that stay together where several threads share one KV head of it: tiles are then mostly full.
constexpr int spreadRows = 8;

} // namespace

void CpuForward::attentionLayer(int thread, const CpuLayer& layer)
{
    const CpuAttention& attention = *layer.attention;
    const ModelConfig& c = m_config;
    const Range kvHeads = share(c.numKvHeads, thread);
    const int group = c.numHeads / c.numKvHeads, dim = c.headDim, half = c.rotaryDim / 2;
    const int queryWidth = c.numHeads * 2 * dim, kvWidth = c.numKvHeads * dim, width = queryWidth + 2 * kvWidth;
    const int kvBegin = kvHeads.begin * dim, kvEnd = kvHeads.end * dim;
    const bool picksByHead = picking() && m_sparse->picksByHead(m_pool.active());

    for (int kvHead = kvHeads.begin; picksByHead && kvHead < kvHeads.end; ++kvHead)
        m_sparse->askForLeads(layer.kindIndex, kvHead);
    Input input = prepare(thread, m_hidden, c.hiddenSize, m_rows, layer.inputNorm.data(), attention.q);
    linear(attention.q, input, 2 * group * kvBegin, 2 * group * kvEnd, m_projected + 2 * group * kvBegin, width);
    if (!attention.k.takesInputOf(attention.q)) {
        m_pool.barrier(thread);
        input = prepare(thread, m_hidden, c.hiddenSize, m_rows, layer.inputNorm.data(), attention.k);
    }
    linear(attention.k, input, kvBegin, kvEnd, m_projected + queryWidth + kvBegin, width);
    if (!attention.v.takesInputOf(attention.k)) {
        m_pool.barrier(thread);
        input = prepare(thread, m_hidden, c.hiddenSize, m_rows, layer.inputNorm.data(), attention.v);
    }
    linear(attention.v, input, kvBegin, kvEnd, m_projected + queryWidth + kvWidth + kvBegin, width);

    // With more threads than KV heads a slice's rows are shared out too, once all are written.
    const bool spreads = m_pass == CpuPass::Prefill && m_pool.active() > c.numKvHeads;
    for (int kvHead = kvHeads.begin; kvHead < kvHeads.end; ++kvHead) {
        int first = 0;
        for (const CpuRows& entry : m_entries) {
            const int rows = int(entry.tokens.size());
            for (int t = 0; t < rows; ++t) {
                float* row = m_projected + std::int64_t(first + t) * width;
                const float* cosines = m_cosines + (first + t) * half;
                const float* sines = m_sines + (first + t) * half;
                for (int g = 0; g < group; ++g) {
                    float* q = row + (kvHead * group + g) * 2 * dim;
                    m_kernels.rmsNorm(q, attention.qNorm.data(), dim, float(c.normEps), q);
                    m_kernels.rope(q, cosines, sines, c.rotaryDim);
                }
                float* k = row + queryWidth + kvHead * dim;
                m_kernels.rmsNorm(k, attention.kNorm.data(), dim, float(c.normEps), k);
                m_kernels.rope(k, cosines, sines, c.rotaryDim);
                entry.sequence->kv.write(m_kernels, layer.kindIndex, kvHead, entry.position + t, k,
                                         row + queryWidth + kvWidth + kvHead * dim);
            }
            if (!picking() && !spreads)
                attend(thread, layer, entry, first, kvHead);
            first += rows;
        }
    }
    if (spreads) {
        m_pool.barrier(thread);
        attendShare(thread, layer);
    }
    if (picking()) {
        if (picksByHead) {
            for (int kvHead = kvHeads.begin; kvHead < kvHeads.end; ++kvHead)
                m_sparse->pickHead(layer.kindIndex, kvHead, [this](int row, int head) { return query(row, head); });
        } else {
            pickRows(thread, layer);
        }
        for (int kvHead = kvHeads.begin; kvHead < kvHeads.end; ++kvHead) {
            int first = 0;
            for (const CpuRows& entry : m_entries) {
                attend(thread, layer, entry, first, kvHead);
                first += int(entry.tokens.size());
            }
        }
    }
    lookAhead(thread, layerAfter(layer));
    m_pool.barrier(thread);
    addToHidden(thread, attention.o,
                prepare(thread, m_mixed, std::int64_t(c.numHeads) * dim, m_rows, nullptr, attention.o));
}

void CpuForward::attendShare(int thread, const CpuLayer& layer)
{
    const CpuRows& slice = m_entries.front();
    const int blocks = (m_rows + spreadRows - 1) / spreadRows;
    const Range range = share(m_config.numKvHeads * blocks, thread);
    for (int at = range.begin; at < range.end;) {
        const int kvHead = at / blocks, end = std::min(range.end, (kvHead + 1) * blocks);
        const int firstRow = (at - kvHead * blocks) * spreadRows;
        const int rows = std::min(m_rows, (end - kvHead * blocks) * spreadRows) - firstRow;
        attend(thread, layer, {slice.sequence, slice.tokens.subspan(std::size_t(firstRow), std::size_t(rows)),
                               slice.position + firstRow},
               firstRow, kvHead);
        at = end;
    }
}

void CpuForward::attend(int thread, const CpuLayer& layer, const CpuRows& entry, int firstRow, int kvHead)
{
    Private& own = *m_private[std::size_t(thread)];
    const ModelConfig& c = m_config;
    const int group = c.numHeads / c.numKvHeads, dim = c.headDim, rows = int(entry.tokens.size()) * group;
    const RowTiles tiles{rows, m_kernels.maxTileRows};
    const float scale = 1.0f / std::sqrt(float(dim));
    auto query = [&](int r) { return this->query(firstRow + r / group, kvHead * group + r % group); };
    for (int i = 0; i < tiles.count(); ++i) {
        const int begin = tiles.begin(i), height = tiles.height(i);
        for (int r = begin; r < begin + height; ++r) {
            m_kernels.quantizeRow(query(r), dim, dim, own.queries + std::int64_t(begin) * dim + (r - begin) * 8,
                                  height * 8, own.queryScales + r);
            own.queryScales[r] *= scale;
            own.maxima[r] = -std::numeric_limits<float>::infinity();
            own.sums[r] = 0.0f;
        }
    }
    std::fill(own.context, own.context + std::int64_t(rows) * dim, 0.0f);

    const std::int64_t length = entry.position, end = length + std::int64_t(entry.tokens.size());
    // A row finds the first page and the recent ones here, and what lies between in the tier; where the sketch picks
    // from that, it has been seen to already.
    const bool sparse = picking();
    auto tierPages = [&](int r) { return m_sparse ? m_sparse->tierPages(length + r / group) : 0; };
    auto picked = [&](int r) { return sparse && m_sparse->row(firstRow + r / group).sparse; };
    const bool drafts = m_pass == CpuPass::Draft; // MTP's rows are in the int8 pages alone
    const int firstRecent =
        std::max(tierPages(0), drafts ? int(std::max<std::int64_t>(0, end - mtpWindow) / cpu::pageTokens) : 0);
    const int lastRecent = tierPages(rows - 1);
    bool readsTier = false;
    for (int r = 0; r < rows && !drafts; r += group)
        readsTier |= tierPages(r) > 1 && !picked(r);
    int limits[cpu::maxTileRows];
    auto attendTile = [&](const cpu::KvPageView& view, int begin, int height) {
        m_kernels.attendPage(view, dim, own.queries + std::int64_t(begin) * dim, own.queryScales + begin, limits,
                             height, own.attentionWork,
                             {own.maxima + begin, own.sums + begin, own.context + std::int64_t(begin) * dim});
    };
    // Pages outside, tiles inside: a page's keys and values stay in the second-level cache while the queries pass.
    for (int page = 0; page * std::int64_t(cpu::pageTokens) < end; page = std::max(page + 1, firstRecent)) {
        const cpu::KvPageView view = entry.sequence->kv.view(page, layer.kindIndex, kvHead);
        for (int i = 0; i < tiles.count(); ++i) {
            const int begin = tiles.begin(i), height = tiles.height(i);
            for (int r = 0; r < height; ++r) {
                const std::int64_t seen = length + (begin + r) / group + 1 - page * std::int64_t(cpu::pageTokens);
                const bool inTier = page > 0 && page < tierPages(begin + r);
                limits[r] = inTier ? 0 : int(std::clamp<std::int64_t>(seen, 0, cpu::pageTokens));
            }
            attendTile(view, begin, height);
        }
    }
    // Keys in the tier lack their mean: other scores go down by what theirs will go up.
    const auto shiftBy = [&](float sign) {
        for (int r = 0; readsTier && r < rows; ++r) {
            if (tierPages(r) > 1 && !picked(r))
                own.maxima[r] += sign * m_sparse->attention()->meanScore(layer.kindIndex, kvHead, query(r));
        }
    };
    shiftBy(-1.0f);
    for (int page = 1; readsTier && page < lastRecent; ++page) {
        const cpu::KvPageView view = unpackTierPage(thread, *entry.sequence, page, layer.kindIndex, kvHead);
        for (int i = 0; i < tiles.count(); ++i) {
            const int begin = tiles.begin(i), height = tiles.height(i);
            for (int r = 0; r < height; ++r)
                limits[r] = page < tierPages(begin + r) && !picked(begin + r) ? cpu::pageTokens : 0;
            attendTile(view, begin, height);
        }
    }
    shiftBy(1.0f);
    for (int r = 0; sparse && r < rows; ++r) {
        if (!picked(r))
            continue;
        CpuPickedRow& row = m_sparse->row(firstRow + r / group);
        const int head = kvHead * group + r % group;
        m_kernels.mergeState(dim,
                             {row.part.maximum.data() + head, row.part.sum.data() + head,
                              row.part.context.data() + std::int64_t(head) * dim},
                             {own.maxima + r, own.sums + r, own.context + std::int64_t(r) * dim});
        row.totalLog[std::size_t(layer.kindIndex * c.numHeads + head)] = own.maxima[r] + std::log(own.sums[r]);
    }
    for (int r = 0; r < rows; ++r)
        m_kernels.gateContext(own.context + std::int64_t(r) * dim, own.sums[r], query(r) + dim, dim,
                              m_mixed + std::int64_t(firstRow + r / group) * c.numHeads * dim +
                                  (kvHead * group + r % group) * dim);
}

cpu::KvPageView CpuForward::unpackTierPage(int thread, const CpuSequence& sequence, int page, int layer, int kvHead)
{
    Private& own = *m_private[std::size_t(thread)];
    const std::uint8_t* rows[cpu::pageTokens];
    for (int i = 0; i < cpu::pageTokens; ++i)
        rows[i] = sequence.sparse->tier().row(layer, std::int64_t(page) * cpu::pageTokens + i, kvHead);
    std::int8_t* values = own.tierRows + std::int64_t(cpu::pageTokens) * m_config.headDim;
    cpu::unpackPage(m_kernels.path, {m_config.headDim}, rows, cpu::pageTokens, cpu::pageTokens, own.tierRows, values,
                    own.tierScales, own.tierScales + cpu::pageTokens);
    return {own.tierRows, values, own.tierScales, own.tierScales + cpu::pageTokens};
}

const float* CpuForward::query(int row, int head) const
{
    const ModelConfig& c = m_config;
    const std::int64_t width = 2 * std::int64_t(c.numHeads + c.numKvHeads) * c.headDim;
    return m_projected + row * width + std::int64_t(head) * 2 * c.headDim;
}

void CpuForward::pickRows(int thread, const CpuLayer& layer)
{
    m_pool.barrier(thread);
    if (thread == 0)
        m_sparse->runPicks(layer.kindIndex, m_pool.active(), [this](int row, int head) { return query(row, head); });
    else
        m_sparse->help(thread);
}
} // namespace octavo::engine
