/// The MTP half of CpuForward: rows of keys and values that follow the prompt, and chains of drafts.
///
/// Source   model-spec section 5. Row p joins the final hidden row of position p with the token at p + 1, has the
/// rotary
///          position and the KV slot p, and predicts the token at p + 2. Rows that nobody drafts from only leave their
///          keys and values behind: one product for the two inputs and those of k and v, a twentieth of a layer stack.

#include "engine/backend/cpu_forward.h"

#include <algorithm>
#include <cmath>

namespace octavo::engine
{

namespace cpu = kernels::cpu;
using cpu::panelWidth;

void CpuForward::addUnfilled(CpuSequence& sequence)
{
    const std::int64_t count = sequence.unfilled(), first = sequence.length - 1 - count;
    for (std::int64_t i = 0; i < count; ++i)
        m_mtpRows.push_back({&sequence, sequence.unfilledHidden.data() + i * m_config.hiddenSize,
                             sequence.unfilledTokens[std::size_t(i)], first + i});
}

/// x of the MTP layer for m_mtpRows, into the hidden rows.
void CpuForward::mtpEmbed(int thread)
{
    const CpuMtp& mtp = *m_model.mtp;
    const int hidden = m_config.hiddenSize, rows = int(m_mtpRows.size());
    const int half = int(m_ropeFrequencies.size());
    const Range range = share(rows, thread);
    for (int r = range.begin; r < range.end; ++r) {
        const MtpRow& row = m_mtpRows[std::size_t(r)];
        float* x = m_mixed + std::int64_t(r) * 2 * hidden;
        m_model.source->embedding.dequantizeRow(row.token, std::span(x, std::size_t(hidden)));
        m_kernels.rmsNorm(x, mtp.embeddingNorm.data(), hidden, float(m_config.normEps), x);
        m_kernels.rmsNorm(row.hidden, mtp.hiddenNorm.data(), hidden, float(m_config.normEps), x + hidden);
        for (int j = 0; j < half; ++j) {
            const float angle = float(row.position) * m_ropeFrequencies[std::size_t(j)];
            m_cosines[r * half + j] = std::cos(angle);
            m_sines[r * half + j] = std::sin(angle);
        }
    }
    m_pool.barrier(thread);
    const Range panels = share(hidden / panelWidth, thread);
    const int begin = panels.begin * panelWidth, end = panels.end * panelWidth;
    linear(mtp.fc, prepare(thread, m_mixed, 2 * hidden, rows, nullptr, mtp.fc), begin, end, m_hidden + begin, hidden);
    m_pool.barrier(thread);
}

/// Keys and values of m_mtpRows from `firstRow` on.
void CpuForward::mtpWriteKv(int thread, int firstRow)
{
    const CpuLayer& layer = m_model.mtp->layer;
    const CpuAttention& attention = *layer.attention;
    const ModelConfig& c = m_config;
    const Range kvHeads = share(c.numKvHeads, thread);
    const int dim = c.headDim, kvWidth = c.numKvHeads * dim, begin = kvHeads.begin * dim, end = kvHeads.end * dim;
    const int rows = int(m_mtpRows.size()) - firstRow, half = int(m_ropeFrequencies.size());
    const float* x = m_hidden + std::int64_t(firstRow) * c.hiddenSize;
    Input input = prepare(thread, x, c.hiddenSize, rows, layer.inputNorm.data(), attention.k);
    float* keys = m_conv; // free between the layers
    linear(attention.k, input, begin, end, keys + begin, 2 * kvWidth);
    if (!attention.v.takesInputOf(attention.k)) {
        m_pool.barrier(thread);
        input = prepare(thread, x, c.hiddenSize, rows, layer.inputNorm.data(), attention.v);
    }
    linear(attention.v, input, begin, end, keys + kvWidth + begin, 2 * kvWidth);
    for (int r = 0; r < rows; ++r) {
        const MtpRow& row = m_mtpRows[std::size_t(firstRow + r)];
        for (int kvHead = kvHeads.begin; kvHead < kvHeads.end; ++kvHead) {
            float* k = keys + std::int64_t(r) * 2 * kvWidth + kvHead * dim;
            m_kernels.rmsNorm(k, attention.kNorm.data(), dim, float(c.normEps), k);
            m_kernels.rope(k, m_cosines + (firstRow + r) * half, m_sines + (firstRow + r) * half, c.rotaryDim);
            row.sequence->kv.write(m_kernels, layer.kindIndex, kvHead, row.position, k, k + kvWidth);
        }
    }
}

void CpuForward::mtpAfterPrefill(int thread)
{
    const int hidden = m_config.hiddenSize;
    const Range range = share(m_rows, thread);
    for (int r = range.begin; r < range.end; ++r)
        m_kernels.rmsNorm(m_hidden + std::int64_t(r) * hidden, m_model.finalNorm.data(), hidden,
                          float(m_config.normEps), m_final + std::int64_t(r) * hidden);
    m_pool.barrier(thread);
    if (!m_mtpRows.empty()) {
        mtpEmbed(thread);
        mtpWriteKv(thread, 0);
    }
    if (thread == 0) // the old one was read before the barriers above
        std::copy_n(m_final + std::int64_t(m_rows - 1) * hidden, hidden, m_entries.front().sequence->lastHidden());
}

void CpuForward::fillMtp(CpuSequence& sequence)
{
    if (sequence.unfilled() == 0)
        return;
    m_pass = CpuPass::Draft;
    m_mtpRows.clear();
    addUnfilled(sequence);
    m_pool.run([this](int thread) {
        mtpEmbed(thread);
        mtpWriteKv(thread, 0);
    });
    sequence.unfilledHidden.clear();
    sequence.unfilledTokens.clear();
}

void CpuForward::draft(std::span<CpuDraft> chains, float leastChance)
{
    m_pass = CpuPass::Draft;
    m_leastChance = leastChance;
    m_mtpRows.clear();
    m_drafts.clear();
    m_draftRows.clear();
    for (CpuDraft& draft : chains) {
        const std::int64_t position = draft.sequence->length - 1;
        m_mtpRows.push_back({draft.sequence, draft.sequence->lastHidden(), draft.next, position});
        m_drafts.push_back(&draft);
        m_draftRows.push_back({draft.sequence, {&draft.next, 1}, position});
    }
    for (CpuDraft& draft : chains)
        addUnfilled(*draft.sequence);
    m_rows = int(m_drafts.size());
    m_entries = m_draftRows;
    const std::int64_t stride = (std::int64_t(m_config.vocabSize) + 15) / 16 * 16;
    if (std::int64_t(m_ownLogits.size()) < m_rows * stride)
        m_ownLogits.resize(std::size_t(m_rows * stride));
    m_draftParts.resize(std::size_t(m_pool.threads()));
    for (auto& parts : m_draftParts)
        parts.resize(std::max(parts.size(), chains.size()));
    m_pool.run([this](int thread) { runDrafts(thread); });
    for (CpuDraft& draft : chains) {
        draft.sequence->unfilledHidden.clear();
        draft.sequence->unfilledTokens.clear();
    }
}

void CpuForward::runDrafts(int thread)
{
    do {
        mtpEmbed(thread);
        if (int(m_mtpRows.size()) > m_rows) { // the first time
            mtpWriteKv(thread, m_rows);
            m_pool.barrier(thread);
        }
        attentionLayer(thread, m_model.mtp->layer);
        mlp(thread, m_model.mtp->layer);
        mtpLogits(thread);
        m_pool.barrier(thread);
        if (thread == 0)
            m_draftsGoOn = takeDrafts();
        m_pool.barrier(thread);
    } while (m_draftsGoOn);
}

void CpuForward::mtpLogits(int thread)
{
    const CpuMtp& mtp = *m_model.mtp;
    const int vocab = m_config.vocabSize;
    const std::int64_t stride = (std::int64_t(vocab) + 15) / 16 * 16;
    const Range panels = share(cpu::panelCount(vocab), thread);
    const int begin = panels.begin * panelWidth, end = std::min(vocab, panels.end * panelWidth);
    const Input input = prepare(thread, m_hidden, m_config.hiddenSize, m_rows, mtp.norm.data(), m_model.head);
    linear(m_model.head, input, begin, end, m_ownLogits.data() + begin, stride);
    if (thread == 0) // what the next row of each chain starts from
        std::copy_n(input.x, std::int64_t(m_rows) * m_config.hiddenSize, m_final);
    for (int r = 0; r < m_rows; ++r) {
        DraftPart part{-INFINITY, TokenId(begin), 0.0};
        float* logits = m_ownLogits.data() + r * stride;
        for (int i = begin; i < end; ++i) {
            if (logits[i] > part.largest) {
                part.largest = logits[i];
                part.token = TokenId(i);
            }
        }
        for (int i = begin; i < end; ++i)
            logits[i] -= part.largest;
        for (int i = end; i < (end + 15) / 16 * 16; ++i)
            logits[i] = -INFINITY;
        m_kernels.exponential(logits + begin, (end - begin + 15) / 16 * 16, logits + begin);
        for (int i = begin; i < end; ++i)
            part.sum += double(logits[i]);
        m_draftParts[std::size_t(thread)][std::size_t(r)] = part;
    }
}

bool CpuForward::takeDrafts()
{
    std::vector<CpuDraft*>& drafts = m_drafts;
    m_mtpRows.clear();
    m_draftRows.clear();
    std::size_t goesOn = 0;
    for (std::size_t r = 0; r < drafts.size(); ++r) {
        CpuDraft& draft = *drafts[r];
        DraftPart best{-INFINITY, 0, 0.0};
        const std::span parts = std::span(m_draftParts).first(std::size_t(m_pool.active()));
        for (const auto& ofThread : parts) {
            if (ofThread[r].largest > best.largest)
                best = ofThread[r];
        }
        double sum = 0.0;
        for (const auto& ofThread : parts)
            sum += ofThread[r].sum * std::exp(double(ofThread[r].largest - best.largest));
        const double chance = 1.0 / sum;
        draft.chance *= chance;
        if (!(draft.chance >= double(m_leastChance))) // a NaN ends it too
            continue;
        draft.chain->tokens.push_back(best.token);
        draft.chain->chances.push_back(float(chance));
        draft.next = best.token;
        const auto written = std::int64_t(draft.chain->tokens.size());
        if (written >= draft.most)
            continue;
        const std::int64_t position = draft.sequence->length - 1 + written;
        m_mtpRows.push_back({draft.sequence, m_final + std::int64_t(r) * m_config.hiddenSize, draft.next, position});
        m_draftRows.push_back({draft.sequence, {&draft.next, 1}, position});
        drafts[goesOn++] = &draft;
    }
    drafts.resize(goesOn);
    m_rows = int(goesOn);
    m_entries = m_draftRows;
    return m_rows > 0;
}

} // namespace octavo::engine
