#include "engine/backend/cpu_forward.h"

#include "engine/sampling/sampler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

namespace octavo::engine
{

namespace cpu = kernels::cpu;
using cpu::panelWidth;
using cpu::RowTiles;

namespace
{

/// Up to this many values, every thread normalises and quantises all rows for itself, which costs less than a barrier.
constexpr std::int64_t redundantValues = 6144;

/// Drafts see the first page and at most this many of the newest tokens: what they miss costs a wrong draft, no more.
constexpr std::int64_t mtpWindow = 8192;

/// Rows of a slice that stay together where several threads share one KV head of it: tiles are then mostly full.
constexpr int spreadRows = 8;

/// With fewer rows the weights themselves keep the memory bus busy.
constexpr int fewestRowsAhead = 4;
/// What a thread asks for ahead of a layer at most: about what its caches hold.
constexpr std::int64_t mostBytesAhead = std::int64_t(2) << 20;

std::int64_t padded(std::int64_t n)
{
    return (n + 15) / 16 * 16;
}

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

float softplus(float x)
{
    return x > 20.0f ? x : std::log1p(std::exp(x));
}

} // namespace

struct CpuForward::Private {
    BigPages memory;
    cpu::Ahead ahead;
    std::vector<cpu::AheadRange> aheadRanges;
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
    std::vector<cpu::GdnRow> gdnRows;
    std::int8_t* tierRows = nullptr;  // one page of one head: keys, values
    float* tierScales = nullptr;      // keys', values'
};

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
    const std::int64_t projected =
        std::max({std::int64_t(c.convDim()), qkvWidth, std::int64_t(2) * c.intermediateSize, std::int64_t(c.hiddenSize)});
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
    input.ahead = &own.ahead;
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
    linear.run(m_kernels, input.quantized, input.x, input.stride, input.quantized.rows, outputBegin / panelWidth,
               cpu::panelCount(outputEnd), out, outStride, *input.ahead);
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
            m_mtpRows.push_back({entry.sequence,
                                 i == 0 ? entry.sequence->lastHidden() : m_final + std::int64_t(i - 1) * m_config.hiddenSize,
                                 entry.tokens[std::size_t(i)], entry.position + i - 1});
    }
    m_pool.run([this](int thread) { runThread(thread); });
}

void CpuForward::runBest(std::span<const CpuRows> entries, TokenId endId, std::span<TokenId> best)
{
    const std::size_t values = best.size() * std::size_t(m_config.vocabSize);
    if (m_ownLogits.size() < values)
        m_ownLogits.resize(values);
    m_best.resize(std::size_t(m_pool.threads()));
    for (auto& ofThread : m_best)
        ofThread.resize(std::max(ofThread.size(), best.size()));
    m_bestBelow = endId;
    run(CpuPass::Step, entries, int(best.size()), m_ownLogits.data());
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

void CpuForward::gdnLayer(int thread, const CpuLayer& layer)
{
    const CpuGdn& gdn = *layer.gdn;
    const ModelConfig& c = m_config;
    const Range keyHeads = share(c.linearNumKeyHeads, thread);
    const int ratio = c.linearNumValueHeads / c.linearNumKeyHeads;
    const int keyBegin = keyHeads.begin * c.linearKeyHeadDim, keyEnd = keyHeads.end * c.linearKeyHeadDim;
    const int valueBegin = keyHeads.begin * ratio * c.linearValueHeadDim;
    const int valueEnd = keyHeads.end * ratio * c.linearValueHeadDim;
    const std::pair<int, int> channels[] = {{keyBegin, keyEnd},
                                            {c.keyDim() + keyBegin, c.keyDim() + keyEnd},
                                            {2 * c.keyDim() + valueBegin, 2 * c.keyDim() + valueEnd}};

    Input input = prepare(thread, m_hidden, c.hiddenSize, m_rows, layer.inputNorm.data(), gdn.qkv);
    for (const auto& [begin, end] : channels)
        linear(gdn.qkv, input, begin, end, m_projected + begin, c.convDim());
    // The float rows are the same for every layer; the integers only where slots are.
    linear(gdn.ba, input, 0, 2 * c.linearNumValueHeads, m_private[std::size_t(thread)]->betaAlpha,
           padded(2 * c.linearNumValueHeads));
    if (!gdn.z.takesInputOf(gdn.qkv)) {
        m_pool.barrier(thread);
        input = prepare(thread, m_hidden, c.hiddenSize, m_rows, layer.inputNorm.data(), gdn.z);
    }
    linear(gdn.z, input, valueBegin, valueEnd, m_gate + valueBegin, c.valueDim());

    for (const auto& [begin, end] : channels)
        convolve(layer, begin, end);
    const float queryScale = 1.0f / std::sqrt(float(c.linearKeyHeadDim));
    for (int r = 0; r < m_rows; ++r) {
        float* row = m_conv + std::int64_t(r) * c.convDim();
        for (int head = keyHeads.begin; head < keyHeads.end; ++head) {
            float* q = row + head * c.linearKeyHeadDim;
            float* k = row + c.keyDim() + head * c.linearKeyHeadDim;
            m_kernels.l2Norm(q, c.linearKeyHeadDim, queryScale, q);
            m_kernels.l2Norm(k, c.linearKeyHeadDim, 1.0f, k);
        }
    }
    if (m_pass == CpuPass::Prefill)
        gdnPrefill(thread, layer, keyHeads);
    else
        gdnStep(thread, layer, keyHeads);
    for (int r = 0; r < m_rows; ++r) {
        for (int head = keyHeads.begin * ratio; head < keyHeads.end * ratio; ++head) {
            const std::int64_t at = std::int64_t(r) * c.valueDim() + head * c.linearValueHeadDim;
            m_kernels.gatedNorm(m_mixed + at, gdn.norm.data(), m_gate + at, c.linearValueHeadDim, float(c.normEps),
                                m_mixed + at);
        }
    }
    lookAhead(thread, layerAfter(layer));
    m_pool.barrier(thread);
    addToHidden(thread, gdn.out, prepare(thread, m_mixed, c.valueDim(), m_rows, nullptr, gdn.out));
}

void CpuForward::convolve(const CpuLayer& layer, int channelBegin, int channelEnd)
{
    constexpr int mostTaps = 16;
    const int channels = m_config.convDim(), history = m_shape.history, n = channelEnd - channelBegin;
    if (n <= 0)
        return;
    const std::size_t bytes = std::size_t(n) * sizeof(float);
    int first = 0;
    for (const CpuRows& entry : m_entries) {
        const int rows = int(entry.tokens.size());
        float* past = entry.sequence->conv(layer.kindIndex) + channelBegin;
        float* inputs = m_projected + std::int64_t(first) * channels + channelBegin;
        if (m_pass == CpuPass::Step && rows == 1) {
            m_kernels.convStep(past, channels, inputs, layer.gdn->taps.data() + channelBegin, channels, history + 1, n,
                               m_conv + std::int64_t(first) * channels + channelBegin);
            ++first;
            continue;
        }
        auto input = [&](int t) { // t < 0: what came before this pass
            return t < 0 ? past + std::int64_t(history + t) * channels : inputs + std::int64_t(t) * channels;
        };
        for (int t = 0; t < rows; ++t) {
            const float* taps[mostTaps];
            for (int i = 0; i <= history; ++i)
                taps[i] = input(t - history + i);
            m_kernels.convSilu(taps, layer.gdn->taps.data() + channelBegin, channels, history + 1, n,
                               m_conv + std::int64_t(first + t) * channels + channelBegin);
        }
        if (m_pass == CpuPass::Step && rows > 1) {
            for (int t = 0; t < rows; ++t)
                std::memcpy(entry.sequence->pendingConv(layer.kindIndex, t, rows) + channelBegin, input(t), bytes);
        } else {
            for (int i = 0; i < history; ++i)
                std::memcpy(past + std::int64_t(i) * channels, input(rows - history + i), bytes);
        }
        first += rows;
    }
}

void CpuForward::gdnStep(int thread, const CpuLayer& layer, Range keyHeads)
{
    Private& own = *m_private[std::size_t(thread)];
    const ModelConfig& c = m_config;
    const CpuGdn& gdn = *layer.gdn;
    const int ratio = c.linearNumValueHeads / c.linearNumKeyHeads, keyDim = c.linearKeyHeadDim;
    const std::int64_t gateStride = padded(2 * c.linearNumValueHeads);
    int first = 0;
    for (const CpuRows& entry : m_entries) {
        CpuSequence& sequence = *entry.sequence;
        const int rows = int(entry.tokens.size());
        for (int head = keyHeads.begin * ratio; head < keyHeads.end * ratio; ++head) {
            float* const state = sequence.state(layer.kindIndex, head);
            float* const after = rows > 1 ? sequence.verifiedState(layer.kindIndex, head) : state;
            own.gdnRows.resize(std::size_t(rows));
            for (int t = 0; t < rows; ++t) {
                const float* conv = m_conv + std::int64_t(first + t) * c.convDim();
                const float* gate = own.betaAlpha + (first + t) * gateStride;
                const float g = -gdn.decayRate[std::size_t(head)] *
                                softplus(gate[c.linearNumValueHeads + head] + gdn.dtBias[std::size_t(head)]);
                cpu::GdnRow& row = own.gdnRows[std::size_t(t)];
                row.q = conv + head / ratio * keyDim;
                row.k = conv + c.keyDim() + head / ratio * keyDim;
                row.v = conv + 2 * c.keyDim() + head * c.linearValueHeadDim;
                row.d = own.correction;
                row.o = m_mixed + std::int64_t(first + t) * c.valueDim() + head * c.linearValueHeadDim;
                row.decay = std::exp(g);
                row.beta = 1.0f / (1.0f + std::exp(-gate[head]));
                if (rows > 1) {
                    row.d = sequence.pendingCorrections(layer.kindIndex, t, rows) + head * c.linearValueHeadDim;
                    sequence.pendingDecays(layer.kindIndex, t, rows)[head] = row.decay;
                    if (head % ratio == 0)
                        std::memcpy(sequence.pendingKeys(layer.kindIndex, t, rows) + head / ratio * keyDim, row.k,
                                    std::size_t(keyDim) * sizeof(float));
                }
            }
            // All rows at once: the state is read a strip at a time, and stays near for the next row.
            m_kernels.gdnRecurrent(state, after, keyDim, c.linearValueHeadDim, own.gdnRows.data(), rows, own.gdnWork);
        }
        first += rows;
    }
}

void CpuForward::gdnPrefill(int thread, const CpuLayer& layer, Range keyHeads)
{
    Private& own = *m_private[std::size_t(thread)];
    const ModelConfig& c = m_config;
    const CpuGdn& gdn = *layer.gdn;
    const CpuRows& entry = m_entries.front();
    const int ratio = c.linearNumValueHeads / c.linearNumKeyHeads, keyDim = c.linearKeyHeadDim;
    const std::int64_t gateStride = padded(2 * c.linearNumValueHeads), chunk = cpu::gdnChunkRows;
    for (int keyHead = keyHeads.begin; keyHead < keyHeads.end; ++keyHead) {
        for (int row = 0; row < m_rows;) {
            // Chunks end at multiples of 64 positions, so that slices do not show in the results.
            const int height =
                int(std::min<std::int64_t>(m_rows - row, chunk - (entry.position + row) % chunk));
            for (int i = 0; i < ratio; ++i) {
                const int head = keyHead * ratio + i;
                for (int t = 0; t < height; ++t) {
                    const float* gate = own.betaAlpha + (row + t) * gateStride;
                    own.gates[i * chunk + t] =
                        -gdn.decayRate[std::size_t(head)] *
                        softplus(gate[c.linearNumValueHeads + head] + gdn.dtBias[std::size_t(head)]);
                    own.gates[(ratio + i) * chunk + t] = 1.0f / (1.0f + std::exp(-gate[head]));
                }
            }
            const float* conv = m_conv + std::int64_t(row) * c.convDim();
            const std::int64_t valueAt = std::int64_t(keyHead) * ratio * c.linearValueHeadDim;
            m_kernels.gdnChunk(entry.sequence->state(layer.kindIndex, keyHead * ratio), keyDim, c.linearValueHeadDim,
                               ratio, height, conv + keyHead * keyDim, conv + c.keyDim() + keyHead * keyDim,
                               c.convDim(), conv + 2 * c.keyDim() + valueAt, c.convDim(), own.gates,
                               own.gates + ratio * chunk, m_mixed + std::int64_t(row) * c.valueDim() + valueAt,
                               c.valueDim(), own.gdnWork);
            row += height;
        }
    }
}

void CpuForward::attentionLayer(int thread, const CpuLayer& layer)
{
    const CpuAttention& attention = *layer.attention;
    const ModelConfig& c = m_config;
    const Range kvHeads = share(c.numKvHeads, thread);
    const int group = c.numHeads / c.numKvHeads, dim = c.headDim, half = c.rotaryDim / 2;
    const int queryWidth = c.numHeads * 2 * dim, kvWidth = c.numKvHeads * dim, width = queryWidth + 2 * kvWidth;
    const int kvBegin = kvHeads.begin * dim, kvEnd = kvHeads.end * dim;

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
        if (m_sparse->picksByHead(m_pool.active())) {
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
        m_kernels.attendPage(view, dim, own.queries + std::int64_t(begin) * dim, own.queryScales + begin, limits, height,
                             own.attentionWork,
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
    linear(m_model.head, input, begin, end, m_logits + begin, vocab);
    for (int r = 0; m_bestBelow > 0 && r < m_logitRows; ++r) {
        const std::span part(m_logits + std::int64_t(r) * vocab + begin, std::size_t(std::max(end - begin, 0)));
        const auto best = Sampler::argmax(part, m_bestBelow - begin);
        m_best[std::size_t(thread)][std::size_t(r)] =
            best ? BestToken{begin + *best, part[std::size_t(*best)]} : BestToken{};
    }
    if (m_model.mtp && m_pass == CpuPass::Step && thread == 0)
        std::copy_n(input.x, std::int64_t(m_rows) * m_config.hiddenSize, m_final);
}

void CpuForward::commit(CpuSequence& sequence, int kept)
{
    const int rows = sequence.pendingRows;
    const auto shiftConvolution = [&](int layer, const float* past, float* now) {
        for (int i = 0; i < m_shape.history; ++i) {
            const int from = kept - m_shape.history + i;
            const float* source = from < 0 ? past + std::int64_t(m_shape.history + from) * m_shape.convDim
                                           : sequence.pendingConv(layer, from, rows);
            std::memcpy(now + std::int64_t(i) * m_shape.convDim, source, std::size_t(m_shape.convDim) * sizeof(float));
        }
    };
    if (kept == rows) { // the step has left the states behind all of them
        std::swap(sequence.recurrentPages, sequence.verified);
        const auto* before = sequence.verified->as<float>();
        for (int layer = 0; layer < m_shape.layers; ++layer) {
            float* now = sequence.conv(layer);
            shiftConvolution(layer, before + (now - sequence.recurrent()), now);
        }
        std::copy_n(before + sequence.shape.totalFloats() - sequence.shape.hidden, sequence.shape.hidden,
                    sequence.lastHidden());
        return;
    }
    m_pool.run([&](int thread) {
        const Range heads = share(m_shape.layers * m_shape.valueHeads, thread);
        const int ratio = m_shape.valueHeads / std::max(1, m_shape.keyHeads);
        for (int i = heads.begin; i < heads.end; ++i) {
            const int layer = i / m_shape.valueHeads, head = i % m_shape.valueHeads;
            std::vector<cpu::GdnRow>& gdnRows = m_private[std::size_t(thread)]->gdnRows;
            gdnRows.resize(std::size_t(kept));
            for (int t = 0; t < kept; ++t) {
                cpu::GdnRow& row = gdnRows[std::size_t(t)];
                row.k = sequence.pendingKeys(layer, t, rows) + head / ratio * m_shape.keyDim;
                row.d = sequence.pendingCorrections(layer, t, rows) + head * m_shape.valueDim;
                row.decay = sequence.pendingDecays(layer, t, rows)[head];
            }
            m_kernels.gdnReplay(sequence.state(layer, head), m_shape.keyDim, m_shape.valueDim, gdnRows.data(), kept);
        }
        const Range layers = share(m_shape.layers, thread);
        for (int layer = layers.begin; layer < layers.end; ++layer)
            shiftConvolution(layer, sequence.conv(layer), sequence.conv(layer));
    });
}

} // namespace octavo::engine
