#include "engine/backend/cpu_sparse.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

namespace
{

constexpr int basisRank = 64;
/// Keys that a basis is fitted from where there is no file, evenly over the context.
constexpr std::int64_t fittedKeys = 8192;

/// One row of the int8 pages as floats.
void readRow(const cpu::KvPageView& page, int headDim, int token, float* key, float* value)
{
    const std::int8_t* keys = page.keys + std::int64_t(token / cpu::panelWidth) * cpu::panelWidth * headDim;
    for (int d = 0; d < headDim; ++d) {
        key[d] = float(keys[cpu::int8PanelOffset(d, token % cpu::panelWidth)]) * page.keyScales[token];
        const std::int8_t* values = page.values + std::int64_t(d / cpu::panelWidth) * cpu::panelWidth * cpu::pageTokens;
        value[d] = float(values[cpu::int8PanelOffset(token, d % cpu::panelWidth)]) * page.valueScales[token];
    }
}

} // namespace

CpuSparse::CpuSparse(const ModelConfig& config, int attentionLayers, std::uint64_t modelHash, SparseMode mode,
                     const SparseSettings& settings, cpu::Path path, int threads)
    : m_config(config)
    , m_layers(attentionLayers)
    , m_modelHash(modelHash)
    , m_mode(mode)
    , m_keptMode(mode)
    , m_settings(settings)
    , m_path(path)
    , m_supported(config.headDim % 64 == 0 && config.headDim <= 512)
    , m_team(threads)
    , m_parallel(serialFor())
{
}

Result<void> CpuSparse::loadBasis(const std::filesystem::path& file)
{
    OCTAVO_TRY(const SketchBasis basis, SketchBasis::load(file));
    OCTAVO_CHECK(basis.checkFits(m_modelHash, m_layers, m_config.numKvHeads, m_config.headDim));
    return useBasis(basis);
}

Result<void> CpuSparse::useBasis(const SketchBasis& basis)
{
    OCTAVO_TRY(SparseAttention attention,
               SparseAttention::create(basis, m_config.numHeads, m_settings, m_path,
                                       [this](std::int64_t count, const std::function<void(std::int64_t)>& body) {
                                           m_parallel(count, body);
                                       }));
    m_attention.emplace(std::move(attention));
    m_queries.assign(std::size_t(m_attention->lists()),
                     std::vector<float>(std::size_t(m_config.numHeads) * std::size_t(m_config.headDim)));
    return {};
}

KeyStatistics CpuSparse::statistics(const CpuSequence& sequence, std::int64_t tokens, std::int64_t mostKeys,
                                    const ParallelFor& parallel) const
{
    KeyStatistics statistics(m_layers, m_config.numKvHeads, m_config.headDim);
    const std::int64_t stride = std::max<std::int64_t>(1, tokens / mostKeys);
    parallel(std::int64_t(m_layers) * m_config.numKvHeads, [&](std::int64_t task) {
        const int layer = int(task) / m_config.numKvHeads, head = int(task) % m_config.numKvHeads;
        std::vector<float> key(std::size_t(m_config.headDim)), value(key.size());
        for (std::int64_t token = 0; token < tokens; token += stride) {
            readRow(sequence.kv.view(int(token / cpu::pageTokens), layer, head), m_config.headDim,
                    int(token % cpu::pageTokens), key.data(), value.data());
            statistics.add(layer, head, key.data());
        }
    });
    return statistics;
}

Result<void> CpuSparse::fitBasis(const CpuSequence& sequence, std::int64_t tokens)
{
    const auto start = std::chrono::steady_clock::now();
    const KeyStatistics keys = statistics(sequence, tokens, fittedKeys, m_parallel);
    OCTAVO_TRY(const SketchBasis basis, keys.fit(std::min(basisRank, m_config.headDim), m_modelHash));
    OCTAVO_CHECK(useBasis(basis));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    spdlog::warn("This model has no sketch basis: one was fitted from {} tokens of its first long context in {:.1f} s. "
                 "Write one for all with octavo-engine eval fit-basis",
                 basis.fittedTokens, seconds.count());
    return {};
}

std::int64_t CpuSparse::indexBytes(std::int64_t tokens) const
{
    const int lists = m_settings.perHead ? m_config.numKvHeads : 1;
    return tokens * m_layers * lists * std::int64_t(sizeof(std::int32_t));
}

std::int64_t CpuSparse::sequenceBytes(std::int64_t tokens) const
{
    if (tokens < tierStart())
        return 0;
    const int rank = m_attention ? m_attention->shape().rank : std::min(basisRank, m_config.headDim);
    const TierShape shape{m_layers, m_config.numKvHeads, m_config.headDim, rank};
    return shape.bytes(tokens) + indexBytes(tokens);
}

std::int64_t CpuSparse::mostPages(std::int64_t length, std::int64_t maxTokens) const
{
    const auto pagesOf = [](std::int64_t tokens) { return (tokens + cpu::pageTokens - 1) / cpu::pageTokens; };
    const std::int64_t all = pagesOf(maxTokens), start = tierStart();
    if (maxTokens < start)
        return all;
    // Up to the start all pages, and one more that the pass across it begins; then the first, the recent ones and those
    // that a pass touches.
    const std::int64_t later = pagesOf(m_settings.recent) + 4;
    return std::min(all, length < start ? std::max(pagesOf(start) + 1, later) : later);
}

std::int64_t CpuSparse::sharedBytes(const CpuSequence& source) const
{
    if (!source.sparse)
        return 0;
    const TierShape& shape = m_attention->shape();
    return shape.bytes(source.tierTokens / shape.pageTokens() * shape.pageTokens());
}

std::int64_t CpuSparse::reservedBytes(const CpuSequence& sequence) const
{
    const bool checkpoint = sequence.maxTokens <= sequence.length;
    if (!sequence.sparse)
        return checkpoint ? 0 : sequenceBytes(sequence.maxTokens);
    return sequence.sparse->tier().ownedBytes() + (checkpoint ? 0 : indexBytes(sequence.maxTokens));
}

std::int64_t CpuSparse::tierStart() const
{
    // By itself only with a basis that was fitted with care; asked for, one from the first context will do.
    if (!m_supported || m_keptMode == SparseMode::Off || (m_keptMode == SparseMode::Auto && !m_attention))
        return std::numeric_limits<std::int64_t>::max();
    // Where all rows would be picked, reading them from the pages is exact and as fast.
    const std::int64_t worthwhile =
        (m_settings.topK / cpu::pageTokens + 2) * std::int64_t(cpu::pageTokens) + m_settings.recent;
    return m_keptMode == SparseMode::Auto ? std::max(worthwhile, m_settings.threshold) : worthwhile;
}

int CpuSparse::tierPages(std::int64_t position) const
{
    const std::int64_t length = position + 1;
    return length < tierStart() ? 0 : int((length - m_settings.recent) / cpu::pageTokens);
}

int CpuSparse::pickPages(std::int64_t position) const
{
    const bool dense =
        m_mode == SparseMode::Off || (m_mode == SparseMode::Auto && position + 1 < m_settings.threshold);
    return dense ? 0 : tierPages(position);
}

std::string CpuSparse::layoutName() const
{
    if (m_keptMode == SparseMode::On && !m_attention)
        return {};
    if (tierStart() == std::numeric_limits<std::int64_t>::max())
        return "none in a tier";
    return "from " + std::to_string(tierStart()) + " tokens on all but the last " + std::to_string(m_settings.recent) +
           " in a tier, basis " + std::to_string(m_attention->basisHash());
}

Result<void> CpuSparse::prepareRows(CpuSequence& sequence, std::int64_t count, const ParallelFor& parallel)
{
    const std::int64_t last = sequence.length + count - 1;
    std::int64_t end = std::int64_t(tierPages(last)) * cpu::pageTokens;
    // A sequence that will get long fills its tier as it goes, so that the row that first needs it does not wait.
    if (end == 0 && m_attention && sequence.maxTokens >= tierStart())
        end = (last + 1 - m_settings.recent) / cpu::pageTokens * cpu::pageTokens;
    if (sequence.tierTokens < end)
        OCTAVO_CHECK(fill(sequence, end, parallel));
    sequence.kv.release(1, tierPages(sequence.length));
    return {};
}

Result<void> CpuSparse::fill(CpuSequence& sequence, std::int64_t end, const ParallelFor& parallel)
{
    m_parallel = parallel;
    if (!m_attention)
        OCTAVO_CHECK(fitBasis(sequence, end));
    if (!sequence.sparse) {
        OCTAVO_TRY(sequence.sparse, m_attention->createSequence(sequence.maxTokens));
    }
    const int dim = m_config.headDim, heads = m_config.numKvHeads;
    std::vector<float> keys(std::size_t(cpu::pageTokens) * std::size_t(heads * dim)), values(keys.size());
    while (sequence.tierTokens < end) {
        const std::int64_t begin = sequence.tierTokens, count = cpu::pageTokens;
        OCTAVO_CHECK(m_attention->prepareAppend(*sequence.sparse, begin, count));
        for (int layer = 0; layer < m_layers; ++layer) {
            parallel(count / cpu::panelWidth, [&](std::int64_t task) {
                for (int head = 0; head < heads; ++head) {
                    const cpu::KvPageView page = sequence.kv.view(int(begin / cpu::pageTokens), layer, head);
                    for (std::int64_t i = task * cpu::panelWidth; i < (task + 1) * cpu::panelWidth; ++i) {
                        const std::int64_t at = (i * heads + head) * dim;
                        readRow(page, dim, int(i), keys.data() + at, values.data() + at);
                    }
                }
            });
            m_attention->append(*sequence.sparse, layer, begin, count, keys.data(), heads * dim, values.data(),
                                heads * dim);
        }
        sequence.tierTokens = begin + count;
    }
    return {};
}

Result<void> CpuSparse::prepareRestore(CpuSequence& sequence, std::int64_t length)
{
    const std::int64_t tokens = std::int64_t(tierPages(length)) * cpu::pageTokens;
    if (tokens == 0)
        return {};
    OCTAVO_TRY(sequence.sparse, m_attention->createSequence(tokens));
    OCTAVO_CHECK(m_attention->prepareAppend(*sequence.sparse, 0, tokens));
    sequence.tierTokens = tokens;
    return {};
}

Result<void> CpuSparse::fork(const CpuSequence& source, CpuSequence& target)
{
    if (!source.sparse)
        return {};
    const std::int64_t tokens = source.tierTokens;
    const bool checkpoint = target.maxTokens <= source.length; // never decodes, so it needs nothing of its own
    OCTAVO_TRY(target.sparse,
               m_attention->forkSequence(*source.sparse, tokens, checkpoint ? tokens : target.maxTokens));
    target.tierTokens = tokens;
    return {};
}

void CpuSparse::release(CpuSequence& sequence)
{
    if (!sequence.sparse)
        return;
    m_attention->destroySequence(std::move(sequence.sparse));
}

void CpuSparse::beginStep(std::span<const std::pair<CpuSequence*, int>> entries)
{
    m_numRows = 0;
    m_anySparse = false;
    m_rowOf.clear();
    for (const auto& [sequence, rows] : entries) {
        for (int i = 0; i < rows; ++i) {
            const std::int64_t position = sequence->length + i;
            if (int(m_rows.size()) <= m_numRows)
                m_rows.emplace_back();
            CpuPickedRow& row = m_rows[std::size_t(m_numRows++)];
            row.recentPage = pickPages(position);
            row.sparse = row.recentPage > 0;
            m_anySparse |= row.sparse;
            if (row.sparse) {
                m_attention->prepareLists(*sequence->sparse);
                if (row.part.sum.empty())
                    row.part = AttentionPart(m_config.numHeads, m_config.headDim);
                row.tailLog.resize(std::size_t(m_layers * m_config.numHeads));
                row.totalLog.resize(row.tailLog.size());
            }
            m_rowOf.emplace_back(sequence, position);
        }
    }
    if (m_attention)
        m_attention->beginStep();
    ++(m_anySparse ? m_sparseSteps : m_denseSteps);
}

void CpuSparse::askForLeads(int layer, int kvHead) const
{
    const SparseSequence* last = nullptr; // rows of one sequence read the same
    for (int r = 0; r < m_numRows; ++r) {
        const CpuPickedRow& row = m_rows[std::size_t(r)];
        const SparseSequence* sequence = m_rowOf[std::size_t(r)].first->sparse.get();
        if (row.sparse && sequence != last)
            m_attention->askForLeads(*sequence, layer, kvHead, cpu::pageTokens,
                                     std::int64_t(row.recentPage) * cpu::pageTokens);
        last = sequence;
    }
}

void CpuSparse::pickList(int layer, int list, const QueryOf& query, bool together)
{
    const int dim = m_config.headDim, heads = m_attention->headsPerList();
    float* queries = m_queries[std::size_t(list)].data();
    for (int r = 0; r < m_numRows; ++r) {
        CpuPickedRow& row = m_rows[std::size_t(r)];
        if (!row.sparse)
            continue;
        for (int head = list * heads; head < (list + 1) * heads; ++head)
            std::memcpy(queries + std::int64_t(head) * dim, query(r, head), std::size_t(dim) * sizeof(float));
        SparseSequence& sequence = *m_rowOf[std::size_t(r)].first->sparse;
        const std::int64_t begin = cpu::pageTokens, end = std::int64_t(row.recentPage) * cpu::pageTokens;
        if (together)
            m_attention->attendListTogether(sequence, layer, list, begin, end, queries, row.part);
        else
            m_attention->attendList(sequence, layer, list, begin, end, queries, row.part);
        std::copy_n(row.part.tailLog.begin() + list * heads, heads,
                    row.tailLog.begin() + layer * m_config.numHeads + list * heads);
    }
}

void CpuSparse::runPicks(int layer, int threads, const QueryOf& query)
{
    m_parallel = m_team.lead(threads);
    const TaskTeam::Homecoming homecoming{m_team};
    for (int list = 0; list < m_attention->lists(); ++list)
        pickList(layer, list, query, true);
}

void CpuSparse::endStep()
{
    if (!m_anySparse)
        return;
    const std::size_t heads = std::size_t(m_config.numHeads);
    const SparseCounters before = m_attention->counters();
    for (int r = 0; r < m_numRows; ++r) {
        const CpuPickedRow& row = m_rows[std::size_t(r)];
        for (int layer = 0; row.sparse && layer < m_layers; ++layer)
            m_attention->noteTail(*m_rowOf[std::size_t(r)].first->sparse, layer,
                                  std::span(row.tailLog).subspan(std::size_t(layer) * heads, heads),
                                  std::span(row.totalLog).subspan(std::size_t(layer) * heads, heads));
    }
    const SparseCounters counters = m_attention->counters();
    m_tail =
        (counters.tailSum - before.tailSum) / double(std::max<std::int64_t>(1, counters.tailCount - before.tailCount));
    if (counters.pickedRows > m_pickedBefore.pickedRows)
        m_overlap = double(counters.repeatedPicks - m_pickedBefore.repeatedPicks) /
                    double(counters.pickedRows - m_pickedBefore.pickedRows);
    m_pickedBefore = counters;
    m_picked = counters.pickedRows;
    const HotCounters hot = m_attention->hotCounters();
    m_hits = hot.hits;
    m_misses = hot.misses;
    m_evictions = hot.evictions;
    m_bytesRead = hot.bytesRead;
}

void CpuSparse::addStats(BackendStats& stats) const
{
    stats.hotHits = m_hits;
    stats.hotMisses = m_misses;
    stats.hotEvictions = m_evictions;
    stats.tierBytesRead = m_bytesRead;
    stats.pickedRows = m_picked;
    stats.sparseSteps = m_sparseSteps;
    stats.denseSteps = m_denseSteps;
    stats.tailMass = m_tail;
    stats.pickOverlap = m_overlap;
}

} // namespace octavo::engine
