/// The Gated DeltaNet half of CpuForward: convolution, recurrence, its state, and committing drafts.

#include "engine/backend/cpu_forward_private.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

namespace
{

float softplus(float x)
{
    return x > 20.0f ? x : std::log1p(std::exp(x));
}

} // namespace

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
