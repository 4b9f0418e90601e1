#include "engine/backend/cpu_forward_private.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>
#include <vector>

namespace octavo::engine
{

namespace cpu = kernels::cpu;
using cpu::panelWidth;
using cpu::RowTiles;

namespace
{

/// Up to this many values, every thread normalises and quantises all rows for itself, which costs less than a barrier.
constexpr std::int64_t redundantValues = 6144;

/// With fewer rows the weights themselves keep the memory bus busy.
constexpr int fewestRowsAhead = 4;
/// What a thread asks for ahead of a layer at most: about what its caches hold.
constexpr std::int64_t mostBytesAhead = std::int64_t(2) << 20;

/// Hands out 64-byte aligned parts of one mapping; a first pass over a null base measures.
class Parts
{
public:
    explicit Parts(std::byte* base) : m_base(base) {}
    std::int64_t used() const { return m_used; }

    template <typename T>
    void take(T*& part, std::int64_t count)
    {
        part = m_base ? reinterpret_cast<T*>(m_base + m_used) : nullptr;
        m_used += (count * std::int64_t(sizeof(T)) + 63) / 64 * 64;
    }

private:
    std::byte* m_base;
    std::int64_t m_used = 0;
};

} // namespace

CpuForward::CpuForward(const CpuModel& model, const cpu::Kernels& kernels, int threads, int maxRows, CpuSparse* sparse)
    : m_model(model)
    , m_config(model.config)
    , m_kernels(kernels)
    , m_shape(RecurrentShape::of(model.config, false))
    , m_maxRows(maxRows)
    , m_sparse(sparse)
    , m_pool(threads)
{
    const ModelConfig& c = m_config;
    for (int j = 0; j < c.rotaryDim / 2; ++j)
        m_ropeFrequencies.push_back(float(std::pow(c.ropeTheta, -2.0 * j / c.rotaryDim)));

    const std::int64_t attentionWidth = std::int64_t(c.numHeads) * c.headDim;
    const std::int64_t qkvWidth = 2 * attentionWidth + 2 * std::int64_t(c.numKvHeads) * c.headDim;
    const std::int64_t projected = std::max(
        {std::int64_t(c.convDim()), qkvWidth, std::int64_t(2) * c.intermediateSize, std::int64_t(c.hiddenSize)});
    const std::int64_t mixed = std::max({std::int64_t(c.valueDim()), attentionWidth, std::int64_t(c.intermediateSize),
                                         model.mtp ? 2 * std::int64_t(c.hiddenSize) : 0});
    m_widest = 0;
    auto note = [this](const CpuLinear& linear) { m_widest = std::max({m_widest, linear.slots(), linear.inputs()}); };
    auto noteLayer = [&note](const CpuLayer& layer) {
        for (const CpuLinear* linear : {&layer.gate, &layer.up, &layer.down})
            note(*linear);
        if (layer.gdn) {
            for (const CpuLinear* linear : {&layer.gdn->qkv, &layer.gdn->z, &layer.gdn->ba, &layer.gdn->out})
                note(*linear);
        }
        if (layer.attention) {
            for (const CpuLinear* linear :
                 {&layer.attention->q, &layer.attention->k, &layer.attention->v, &layer.attention->o})
                note(*linear);
        }
    };
    for (const CpuLayer& layer : model.layers)
        noteLayer(layer);
    note(model.head);
    if (model.mtp) {
        note(model.mtp->fc);
        noteLayer(model.mtp->layer);
    }
    const std::int64_t rows = maxRows, widest = padded(m_widest), half = std::max(1, c.rotaryDim / 2);

    auto layOut = [&](Parts& parts) {
        parts.take(m_hidden, rows * c.hiddenSize);
        parts.take(m_norm, rows * c.hiddenSize);
        parts.take(m_projected, rows * projected);
        parts.take(m_conv, rows * std::max(c.convDim(), model.mtp ? 2 * c.numKvHeads * c.headDim : 0));
        parts.take(m_gate, rows * c.valueDim());
        parts.take(m_mixed, rows * mixed);
        parts.take(m_final, model.mtp ? rows * c.hiddenSize : 0);
        parts.take(m_scales, rows);
        parts.take(m_cosines, rows * half);
        parts.take(m_sines, rows * half);
        parts.take(m_quantized, rows * widest);
    };
    Parts measured(nullptr);
    layOut(measured);
    m_memory = BigPages(std::size_t(measured.used()));
    Parts shared(m_memory.as<std::byte>());
    layOut(shared);

    const std::int64_t groupRows = rows * (c.numHeads / c.numKvHeads);
    const std::int64_t valuesPerKey = c.linearNumValueHeads / c.linearNumKeyHeads;
    const std::int64_t redundant = std::max(redundantValues, widest);
    for (int thread = 0; thread < m_pool.threads(); ++thread) {
        auto own = std::make_unique<Private>();
        auto layOutOwn = [&](Parts& parts) {
            parts.take(own->norm, redundant);
            parts.take(own->quantized, redundant);
            parts.take(own->scales, rows);
            parts.take(own->gathered, widest);
            parts.take(own->betaAlpha, rows * padded(2 * c.linearNumValueHeads));
            parts.take(own->gates, 2 * valuesPerKey * cpu::gdnChunkRows);
            parts.take(own->gdnWork, cpu::gdnWorkFloats(c.linearKeyHeadDim, c.linearValueHeadDim));
            parts.take(own->correction, c.linearValueHeadDim);
            parts.take(own->queries, groupRows * c.headDim);
            parts.take(own->queryScales, groupRows);
            parts.take(own->attentionWork, cpu::attentionWorkFloats());
            parts.take(own->maxima, groupRows);
            parts.take(own->sums, groupRows);
            parts.take(own->context, groupRows * c.headDim);
            parts.take(own->tierRows, 2 * std::int64_t(cpu::pageTokens) * c.headDim);
            parts.take(own->tierScales, 2 * cpu::pageTokens);
            parts.take(own->oneRow, widest);
            parts.take(own->panelLogits, panelWidth);
        };
        Parts measuredOwn(nullptr);
        layOutOwn(measuredOwn);
        own->memory = BigPages(std::size_t(measuredOwn.used()));
        Parts taken(own->memory.as<std::byte>());
        layOutOwn(taken);
        m_private.push_back(std::move(own));
    }
}

CpuForward::~CpuForward() = default;

std::int64_t CpuForward::workBytes() const
{
    std::int64_t bytes = std::int64_t(m_memory.bytes());
    for (const auto& own : m_private)
        bytes += std::int64_t(own->memory.bytes());
    return bytes;
}

bool CpuForward::ready() const
{
    return !m_memory.empty() &&
           std::ranges::none_of(m_private, [](const auto& own) { return own->memory.empty(); });
}

CpuForward::Range CpuForward::share(int count, int thread) const
{
    const int threads = m_pool.active();
    return {int(std::int64_t(count) * thread / threads), int(std::int64_t(count) * (thread + 1) / threads)};
}

CpuForward::Input CpuForward::prepare(int thread, const float* x, std::int64_t stride, int rows,
                                      const float* normWeight, const CpuLinear& linear)
{
    Private& own = *m_private[std::size_t(thread)];
    const int inputs = linear.inputs(), slots = linear.slots();
    const bool redundant = rows == 1 || std::int64_t(rows) * std::max(inputs, slots) <= redundantValues;
    const Range range = redundant ? Range{0, rows} : share(rows, thread);
    float* norm = redundant ? own.norm : m_norm;
    Input input;
    input.own = &own;
    input.x = normWeight ? norm : x;
    input.stride = normWeight ? inputs : stride;
    input.quantized = {redundant ? own.quantized : m_quantized, redundant ? own.scales : m_scales, rows, slots};
    const RowTiles tiles{rows, m_kernels.maxTileRows};
    const auto& order = linear.inputOfSlot();
    for (int i = 0; i < tiles.count(); ++i) {
        const int begin = tiles.begin(i), height = tiles.height(i);
        for (int r = std::max(begin, range.begin); r < std::min(begin + height, range.end); ++r) {
            const float* row = x + r * stride;
            if (normWeight) {
                m_kernels.rmsNorm(row, normWeight, inputs, float(m_config.normEps), norm + std::int64_t(r) * inputs);
                row = norm + std::int64_t(r) * inputs;
            }
            if (!linear.quantized())
                continue;
            if (!order.empty()) {
                for (int k = 0; k < slots; ++k)
                    own.gathered[k] = order[std::size_t(k)] < 0 ? 0.0f : row[order[std::size_t(k)]];
                row = own.gathered;
            }
            m_kernels.quantizeRow(row, order.empty() ? inputs : slots, slots,
                                  input.quantized.values + std::int64_t(begin) * slots + (r - begin) * 8, height * 8,
                                  input.quantized.scales + r);
        }
    }
    if (!redundant)
        m_pool.barrier(thread);
    return input;
}

void CpuForward::linear(const CpuLinear& linear, const Input& input, int outputBegin, int outputEnd, float* out,
                        std::int64_t outStride) const
{
    const int panelBegin = outputBegin / panelWidth;
    input.own->ahead.then = input.own->order[std::size_t(m_pass)].after(linear.weights(panelBegin));
    linear.run(m_kernels, input.quantized, input.x, input.stride, input.quantized.rows, panelBegin,
               cpu::panelCount(outputEnd), out, outStride, input.own->ahead);
}

const CpuLayer& CpuForward::layerAfter(const CpuLayer& layer) const
{
    const std::vector<CpuLayer>& layers = m_model.layers;
    const auto found = std::ranges::find(layers, &layer, [](const CpuLayer& other) { return &other; });
    return found == layers.end() || found + 1 == layers.end() ? layers.front() : found[1];
}

void CpuForward::lookAhead(int thread, const CpuLayer& next)
{
    Private& own = *m_private[std::size_t(thread)];
    own.ahead = {};
    own.aheadRanges.clear();
    if (m_pass != CpuPass::Step || m_rows < fewestRowsAhead)
        return;
    const ModelConfig& c = m_config;
    const int ratio = c.linearNumValueHeads / std::max(1, c.linearNumKeyHeads);
    const Range keyHeads = share(c.linearNumKeyHeads, thread), kvHeads = share(c.numKvHeads, thread);
    std::int64_t left = mostBytesAhead;
    auto add = [&](const void* begin, std::int64_t bytes) {
        if (bytes <= 0 || left <= 0)
            return;
        own.aheadRanges.push_back({static_cast<const std::byte*>(begin), std::min(bytes, left)});
        left -= bytes;
    };
    if (next.gdn) {
        for (const CpuRows& entry : m_entries)
            add(entry.sequence->state(next.kindIndex, keyHeads.begin * ratio),
                m_shape.headFloats() * (keyHeads.end - keyHeads.begin) * ratio * std::int64_t(sizeof(float)));
    } else {
        for (int kvHead = kvHeads.begin; kvHead < kvHeads.end; ++kvHead) {
            for (const CpuRows& entry : m_entries) {
                for (int page = 0; page < entry.sequence->kv.pages() && left > 0; ++page) {
                    if (!entry.sequence->kv.holds(page))
                        continue;
                    const cpu::KvPageView view = entry.sequence->kv.view(page, next.kindIndex, kvHead);
                    const std::int64_t tokens = std::min<std::int64_t>(
                        cpu::pageTokens, entry.sequence->length - page * std::int64_t(cpu::pageTokens));
                    add(view.keys, tokens * c.headDim);
                    if (tokens == cpu::pageTokens)
                        add(view.values, tokens * c.headDim);
                }
            }
        }
    }
    own.ahead.ranges = own.aheadRanges.data();
    own.ahead.rangesLeft = int(own.aheadRanges.size());
    own.ahead.step = (std::min(m_rows, m_kernels.maxTileRows) + 1) / 2 * 64;
}

void CpuForward::addToHidden(int thread, const CpuLinear& layer, const Input& input)
{
    const int hidden = m_config.hiddenSize;
    const Range panels = share(hidden / panelWidth, thread);
    const int begin = panels.begin * panelWidth, end = panels.end * panelWidth;
    linear(layer, input, begin, end, m_projected + begin, hidden);
    for (int r = 0; r < m_rows; ++r)
        m_kernels.add(m_projected + std::int64_t(r) * hidden + begin, end - begin,
                      m_hidden + std::int64_t(r) * hidden + begin);
    m_pool.barrier(thread);
}

void CpuForward::run(CpuPass pass, std::span<const CpuRows> entries, int logitRows, float* logits)
{
    m_pass = pass;
    m_entries = entries;
    m_rows = 0;
    for (const CpuRows& entry : entries)
        m_rows += int(entry.tokens.size());
    m_logitRows = logitRows;
    m_logits = logits;
    m_mtpRows.clear();
    if (m_model.mtp && pass == CpuPass::Prefill) {
        const CpuRows& entry = entries.front();
        for (int i = entry.position == 0 ? 1 : 0; i < m_rows; ++i)
            m_mtpRows.push_back(
                {entry.sequence,
                 i == 0 ? entry.sequence->lastHidden() : m_final + std::int64_t(i - 1) * m_config.hiddenSize,
                 entry.tokens[std::size_t(i)], entry.position + i - 1});
    }
    m_pool.run([this](int thread) { runThread(thread); });
}

void CpuForward::runBest(std::span<const CpuRows> entries, TokenId endId, std::span<TokenId> best)
{
    const std::size_t values = best.size() * std::size_t(cpu::panelCount(m_config.vocabSize) * panelWidth);
    if (m_ownLogits.size() < values)
        m_ownLogits.resize(values);
    m_best.resize(std::size_t(m_pool.threads()));
    m_toReach.resize(m_best.size());
    for (std::size_t thread = 0; thread < m_best.size(); ++thread) {
        m_best[thread].resize(std::max(m_best[thread].size(), best.size()));
        m_toReach[thread].resize(m_best[thread].size());
    }
    m_bestBelow = endId;
    run(CpuPass::Step, entries, int(best.size()), nullptr);
    m_bestBelow = 0;
    for (std::size_t r = 0; r < best.size(); ++r) {
        BestToken found;
        for (const auto& ofThread : std::span(m_best).first(std::size_t(m_pool.active()))) { // in order of their tokens
            if (ofThread[r].token >= 0 && (found.token < 0 || ofThread[r].logit > found.logit))
                found = ofThread[r];
        }
        best[r] = found.token;
    }
}

void CpuForward::runThread(int thread)
{
    m_private[std::size_t(thread)]->order[std::size_t(m_pass)].beginPass();
    embed(thread);
    lookAhead(thread, m_model.layers.front());
    for (const CpuLayer& layer : m_model.layers) {
        if (layer.gdn)
            gdnLayer(thread, layer);
        else
            attentionLayer(thread, layer);
        mlp(thread, layer);
    }
    if (m_logitRows > 0)
        writeLogits(thread);
    if (m_model.mtp && m_pass == CpuPass::Prefill)
        mtpAfterPrefill(thread);
}

void CpuForward::embed(int thread)
{
    const Range range = share(m_rows, thread);
    const int half = int(m_ropeFrequencies.size());
    int row = 0;
    for (const CpuRows& entry : m_entries) {
        for (std::size_t i = 0; i < entry.tokens.size(); ++i, ++row) {
            if (row < range.begin || row >= range.end)
                continue;
            m_model.source->embedding.dequantizeRow(
                entry.tokens[i], std::span(m_hidden + std::int64_t(row) * m_config.hiddenSize,
                                           std::size_t(m_config.hiddenSize)));
            const float position = float(entry.position + std::int64_t(i));
            for (int j = 0; j < half; ++j) {
                const float angle = position * m_ropeFrequencies[std::size_t(j)]; // rounded, as the model was trained
                m_cosines[row * half + j] = std::cos(angle);
                m_sines[row * half + j] = std::sin(angle);
            }
        }
    }
    m_pool.barrier(thread);
}

ParallelFor CpuForward::parallel()
{
    return [this](std::int64_t count, const std::function<void(std::int64_t)>& body) {
        std::atomic<std::int64_t> next{0};
        m_pool.run([&](int) {
            for (std::int64_t task = next.fetch_add(1); task < count; task = next.fetch_add(1))
                body(task);
        });
    };
}

void CpuForward::mlp(int thread, const CpuLayer& layer)
{
    const int inner = m_config.intermediateSize;
    const Range panels = share(inner / panelWidth, thread);
    const int begin = panels.begin * panelWidth, end = panels.end * panelWidth;
    Input input =
        prepare(thread, m_hidden, m_config.hiddenSize, m_rows, layer.postAttentionNorm.data(), layer.gate);
    linear(layer.gate, input, begin, end, m_projected + begin, 2 * inner);
    if (!layer.up.takesInputOf(layer.gate)) {
        m_pool.barrier(thread);
        input = prepare(thread, m_hidden, m_config.hiddenSize, m_rows, layer.postAttentionNorm.data(), layer.up);
    }
    linear(layer.up, input, begin, end, m_projected + inner + begin, 2 * inner);
    for (int r = 0; r < m_rows; ++r) {
        const float* row = m_projected + std::int64_t(r) * 2 * inner;
        m_kernels.siluMul(row + begin, row + inner + begin, end - begin, m_mixed + std::int64_t(r) * inner + begin);
    }
    m_pool.barrier(thread);
    addToHidden(thread, layer.down, prepare(thread, m_mixed, inner, m_rows, nullptr, layer.down));
}

void CpuForward::writeLogits(int thread)
{
    const int vocab = m_config.vocabSize;
    const Range panels = share(cpu::panelCount(vocab), thread);
    const int begin = panels.begin * panelWidth, end = std::min(vocab, panels.end * panelWidth);
    const Input input =
        prepare(thread, m_hidden + std::int64_t(m_rows - m_logitRows) * m_config.hiddenSize, m_config.hiddenSize,
                m_logitRows, m_model.finalNorm.data(), m_model.head);
    if (m_bestBelow > 0 && m_model.roughHead)
        findBest(thread, input, panels);
    else if (m_bestBelow > 0)
        findBestOfAll(thread, input, panels);
    else
        linear(m_model.head, input, begin, end, m_logits + begin, vocab);
    if (m_model.mtp && m_pass == CpuPass::Step && thread == 0)
        std::copy_n(input.x, std::int64_t(m_rows) * m_config.hiddenSize, m_final);
}
} // namespace octavo::engine
