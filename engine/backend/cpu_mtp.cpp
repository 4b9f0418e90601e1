/// The MTP half of CpuForward: rows of keys and values that follow the prompt, and chains of drafts.
///
/// Source   model-spec section 5. Row p joins the final hidden row of position p with the token at p + 1, has the
///          rotary position and the KV slot p, and predicts the token at p + 2. Rows that nobody drafts from only leave
///          their keys and values behind: one product for the two inputs and those of k and v, a twentieth of a layer
///          stack.

#include "engine/backend/cpu_forward_private.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace octavo::engine
{

namespace cpu = kernels::cpu;
using cpu::panelWidth;

namespace
{

/// Puts `found` among `likely`, which are in falling order, where it belongs.
template <std::size_t N>
void insert(LikelyPanel found, std::array<LikelyPanel, N>& likely)
{
    for (LikelyPanel& other : likely) {
        if (found.largest > other.largest)
            std::swap(found, other);
    }
}

} // namespace

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
        m_private[std::size_t(thread)]->order[std::size_t(m_pass)].beginPass();
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
    const std::int64_t stride = std::int64_t(cpu::panelCount(m_config.vocabSize)) * panelWidth;
    if (std::int64_t(m_ownLogits.size()) < m_rows * stride)
        m_ownLogits.resize(std::size_t(m_rows * stride));
    m_draftParts.resize(std::max(m_draftParts.size(), chains.size()));
    m_pool.run([this](int thread) { runDrafts(thread); });
    for (CpuDraft& draft : chains) {
        draft.sequence->unfilledHidden.clear();
        draft.sequence->unfilledTokens.clear();
    }
}

void CpuForward::runDrafts(int thread)
{
    do {
        m_private[std::size_t(thread)]->order[std::size_t(m_pass)].beginPass();
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

/// Logits by the rough head where there is one, and what takeDrafts() wants to know of each part of them. Parts are the
/// same for any number of threads, and so are the drafts.
void CpuForward::mtpLogits(int thread)
{
    const CpuMtp& mtp = *m_model.mtp;
    const CpuLinear& head = m_model.roughHead ? m_model.roughHead->linear : m_model.head;
    const int vocab = m_config.vocabSize, panels = cpu::panelCount(vocab);
    const std::int64_t stride = std::int64_t(panels) * panelWidth;
    const auto firstPanel = [panels](int part) { return int(std::int64_t(panels) * part / draftParts); };
    const Range parts = share(draftParts, thread);
    const int begin = firstPanel(parts.begin) * panelWidth, end = firstPanel(parts.end) * panelWidth;
    const Input input = prepare(thread, m_hidden, m_config.hiddenSize, m_rows, mtp.norm.data(), head);
    linear(head, input, begin, std::min(vocab, end), m_ownLogits.data() + begin, stride);
    if (thread == 0) {
        m_draftInput = input;
        std::copy_n(input.x, std::int64_t(m_rows) * m_config.hiddenSize, m_final); // what the next rows start from
    }
    for (int r = 0; r < m_rows; ++r) {
        float* logits = m_ownLogits.data() + r * stride;
        if (vocab < end)
            std::fill(logits + vocab, logits + end, -INFINITY);
        for (int p = parts.begin; p < parts.end; ++p) {
            DraftPart& part = m_draftParts[std::size_t(r)][std::size_t(p)];
            part = {};
            for (int panel = firstPanel(p); panel < firstPanel(p + 1); ++panel) {
                float largest = -INFINITY;
                for (int i = panel * panelWidth; i < (panel + 1) * panelWidth; ++i)
                    largest = std::max(largest, logits[i]);
                insert({largest, panel}, part.likely);
            }
            std::array<float, panelWidth> sums{}; // side by side, as one sum would wait for itself
            const float largest = part.likely.front().largest;
            const int from = firstPanel(p) * panelWidth, count = firstPanel(p + 1) * panelWidth - from;
            std::array<float, 16 * panelWidth> shifted;
            for (int done = 0; done < count; done += int(shifted.size())) {
                const int n = std::min(int(shifted.size()), count - done);
                for (int i = 0; i < n; ++i)
                    shifted[std::size_t(i)] = logits[from + done + i] - largest;
                m_kernels.exponential(shifted.data(), n, shifted.data());
                for (int i = 0; i < n; i += panelWidth) {
                    for (int lane = 0; lane < panelWidth; ++lane)
                        sums[std::size_t(lane)] += shifted[std::size_t(i + lane)];
                }
            }
            part.sum = std::accumulate(sums.begin(), sums.end(), 0.0f);
        }
    }
}

/// The likeliest token of a row and its probability. Which of the likeliest panels holds it, the model's own head says.
CpuForward::BestDraft CpuForward::bestDraft(int row)
{
    const int vocab = m_config.vocabSize;
    const std::int64_t stride = std::int64_t(cpu::panelCount(vocab)) * panelWidth;
    const auto& parts = m_draftParts[std::size_t(row)];
    std::array<LikelyPanel, 4> likely;
    for (const DraftPart& part : parts) {
        for (const LikelyPanel& panel : part.likely)
            insert(panel, likely);
    }
    const double rough = double(likely.front().largest);
    double sum = 0.0; // of exponentials relative to `rough`
    for (const DraftPart& part : parts)
        sum += double(part.sum) * std::exp(double(part.likely.front().largest) - rough);
    std::ranges::sort(likely, {}, &LikelyPanel::panel); // of equal tokens the first one counts
    float largest = -INFINITY;
    BestDraft best;
    const Input input = m_model.roughHead ? rowOf(m_draftInput, row) : m_draftInput;
    for (const LikelyPanel& found : likely) {
        if (found.panel < 0)
            continue;
        const int first = found.panel * panelWidth, count = std::min(panelWidth, vocab - first);
        float* logits = m_ownLogits.data() + row * stride + first;
        if (m_model.roughHead) {
            float* exact = panelLogits(input, found.panel);
            for (int i = 0; i < count; ++i)
                sum += std::exp(double(exact[i]) - rough) - std::exp(double(logits[i]) - rough);
            logits = exact;
        }
        for (int i = 0; i < count; ++i) {
            if (logits[i] > largest) {
                largest = logits[i];
                best.token = TokenId(first + i);
            }
        }
    }
    best.chance = std::exp(double(largest) - rough) / sum;
    return best;
}

bool CpuForward::takeDrafts()
{
    std::vector<CpuDraft*>& drafts = m_drafts;
    m_mtpRows.clear();
    m_draftRows.clear();
    std::size_t goesOn = 0;
    for (std::size_t r = 0; r < drafts.size(); ++r) {
        CpuDraft& draft = *drafts[r];
        const BestDraft best = bestDraft(int(r));
        const double chance = best.chance;
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
