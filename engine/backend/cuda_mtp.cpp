/// The MTP half of CudaBackend: rows of keys and values that follow the sequence, and chains of drafts.
///
/// Source   model-spec section 5. Row p joins the final hidden row of position p with the token at p + 1, has the
///          rotary position p, and predicts the token at p + 2. It is kept in slot p + 1 of its layer in the pages:
///          what a page holds is then decided by the tokens of that page and those before, and forks can share it. Slot
///          0 stays empty.

#include "engine/backend/cuda_backend.h"

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/row_copy.h"
#include "kernels/cuda/row_peak.h"

#include <algorithm>

namespace octavo::engine
{

using namespace kernels::cuda;

Result<void> CudaBackend::readMtp(CudaSequence& sequence, std::span<const TokenId> tokens,
                                  const __nv_bfloat16* finalRows)
{
    if (!hasMtp() || tokens.empty())
        return {};
    std::vector<MtpRow> rows;
    const auto flush = [&]() -> Result<void> {
        OCTAVO_CHECK(mtpPass(rows, 0));
        rows.clear();
        return {};
    };
    for (std::size_t i = sequence.length == 0 ? 1 : 0; i < tokens.size(); ++i) {
        const void* hidden = i == 0 ? static_cast<const void*>(hiddenRow(sequence, 0))
                                    : finalRows + std::int64_t(i - 1) * m_config.hiddenSize;
        rows.push_back({&sequence, hidden, tokens[i], sequence.length + std::int64_t(i) - 1});
        if (rows.size() == std::size_t(maxRows))
            OCTAVO_CHECK(flush());
    }
    OCTAVO_CHECK(flush());
    return checkCuda(cudaMemcpyAsync(hiddenRow(sequence, 0),
                                     finalRows + std::int64_t(tokens.size() - 1) * m_config.hiddenSize,
                                     std::size_t(hiddenBytes()), cudaMemcpyDeviceToDevice, m_stream.get()),
                     "keep the newest row");
}

Result<void> CudaBackend::fillMtp(CudaSequence& sequence)
{
    if (sequence.unfilled() == 0)
        return {};
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    const std::scoped_lock turn(deviceTurn(m_device));
    std::vector<MtpRow> rows;
    addUnfilled(sequence, rows);
    OCTAVO_CHECK(mtpPass(rows, 0));
    return forgetFilled(sequence);
}

void CudaBackend::addUnfilled(CudaSequence& sequence, std::vector<MtpRow>& rows) const
{
    const std::int64_t first = sequence.length - 1 - sequence.unfilled();
    for (std::int64_t i = 0; i < sequence.unfilled(); ++i)
        rows.push_back({&sequence, hiddenRow(sequence, i), sequence.unfilledTokens[std::size_t(i)], first + i});
}

/// The newest position's hidden row is the only one left.
Result<void> CudaBackend::forgetFilled(CudaSequence& sequence)
{
    const std::int64_t newest = sequence.unfilled();
    sequence.unfilledTokens.clear();
    if (newest == 0)
        return {};
    return checkCuda(cudaMemcpyAsync(hiddenRow(sequence, 0), hiddenRow(sequence, newest), std::size_t(hiddenBytes()),
                                     cudaMemcpyDeviceToDevice, m_stream.get()),
                     "keep the newest row");
}

Result<void> CudaBackend::mtpPass(std::span<const MtpRow> rows, int chains)
{
    if (rows.empty())
        return {};
    const int layer = m_config.numFullAttentionLayers(); // its place in the pages
    const std::int64_t rowBytes = std::int64_t(m_config.numKvHeads) * kvHeadBytes;
    auto* ids = m_mtpMemory.at<std::int32_t>(m_mtpTables.ids);
    auto* positions = m_mtpMemory.at<std::int32_t>(m_mtpTables.positions);
    auto* hidden = m_mtpMemory.at<RowCopy>(m_mtpTables.hidden);
    auto* targets = m_mtpMemory.at<RowTarget>(m_mtpTables.targets);
    auto* attention = m_mtpMemory.at<AttentionRows>(m_mtpTables.attention);
    std::int64_t splits = 1;
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const MtpRow& row = rows[r];
        const PagedRows& pages = row.sequence->pages;
        const std::int64_t slot = row.position + 1;
        ids[r] = row.token;
        positions[r] = std::int32_t(row.position);
        hidden[r] = {row.hidden, m_workMemory.at(m_work.mtpHidden + std::int64_t(r) * hiddenBytes())};
        targets[r] = {pages[slot / rowPageTokens].data() + layerOffset(layer) + slot % rowPageTokens * rowBytes,
                      nullptr, SketchView{}, slot};
        if (int(r) >= chains)
            continue;
        // The newest rows, as far back as they are on the device.
        std::int64_t begin = std::max<std::int64_t>(1, slot + 1 - mtpWindow);
        std::int64_t firstPage = slot / rowPageTokens;
        while (firstPage > begin / rowPageTokens && !pages[firstPage - 1].onHost())
            --firstPage;
        begin = std::max(begin, firstPage * rowPageTokens);
        const std::int64_t tableAt =
            m_mtpTables.pages + std::int64_t(r) * mtpPages * std::int64_t(sizeof(std::uint8_t*));
        for (std::int64_t page = firstPage; page <= slot / rowPageTokens; ++page)
            m_mtpMemory.at<std::uint8_t*>(tableAt)[page - firstPage] = pages[page].data();
        attention[r] = {};
        attention[r].pages = {m_workMemory.at<std::uint8_t*>(m_work.mtpTables + tableAt), layerOffset(layer)};
        attention[r].recentBegin = std::int32_t(begin - firstPage * rowPageTokens);
        attention[r].recent = std::int32_t(slot + 1 - begin);
        splits = std::max(splits, (slot + rowsPerSplit - begin) / rowsPerSplit);
    }
    // In coarse steps, so that a graph serves many lengths.
    const MtpShape shape{int(rows.size()), chains,
                         chains > 0 ? int(std::min<std::int64_t>((splits + 3) / 4 * 4, m_maxSplits)) : 0};
    OCTAVO_CHECK(runGraph(m_mtpGraphs, shape, [&] { return enqueueMtp(shape); }));
    return checkCuda(cudaStreamSynchronize(m_stream.get()), "run the MTP layer"); // the tables are free again
}

Result<void> CudaBackend::enqueueMtp(const MtpShape& shape)
{
    const cudaStream_t stream = m_stream.get();
    const CudaMtp& mtp = *m_model.mtp;
    const CudaLayer& layer = mtp.layer;
    const int hiddenSize = m_config.hiddenSize, rows = shape.rows, chains = shape.chains;
    const float eps = float(m_config.normEps);
    OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(m_workMemory.at(m_work.mtpTables), m_mtpMemory.at<std::uint8_t>(0),
                                           std::size_t(m_mtpTables.bytes), cudaMemcpyHostToDevice, stream),
                           "take the tables of drafts"));
    const auto view = [&](std::int64_t buffer, int count) {
        return denseView(m_workMemory.at<__nv_bfloat16>(buffer), count, hiddenSize);
    };
    const auto input = [&](int half) {
        return MatrixView<__nv_bfloat16>{m_workMemory.at<__nv_bfloat16>(m_work.mtpInput) + half * hiddenSize, rows,
                                         hiddenSize, 2 * std::int64_t(hiddenSize)};
    };
    const MatrixView<const __nv_bfloat16> nothing{};
    const auto normalise = [&](MatrixView<__nv_bfloat16> x, MatrixView<const __nv_bfloat16> added, const float* weight,
                               MatrixView<__nv_bfloat16> y) {
        return checkCuda(launchAddRmsNorm(x, added, weight, eps, y, stream), "normalise");
    };
    const auto table = [&]<typename T>(std::int64_t offset, T*) {
        return m_workMemory.at<T>(m_work.mtpTables + offset);
    };
    OCTAVO_CHECK(checkCuda(
        launchCopyRows(table(m_mtpTables.hidden, static_cast<RowCopy*>(nullptr)), rows, int(hiddenBytes()), stream),
        "gather final rows"));
    OCTAVO_CHECK(
        checkCuda(launchEmbedding(m_model.embedding.dense, table(m_mtpTables.ids, static_cast<std::int32_t*>(nullptr)),
                                  view(m_work.hidden, rows), stream),
                  "embed tokens"));
    OCTAVO_CHECK(normalise(view(m_work.hidden, rows), nothing, mtp.embeddingNorm, input(0)));
    OCTAVO_CHECK(normalise(view(m_work.mtpHidden, rows), nothing, mtp.hiddenNorm, input(1)));
    OCTAVO_CHECK(multiply(mtp.fc, m_work.mtpInput, rows, m_work.mtpX));
    OCTAVO_CHECK(normalise(view(m_work.mtpX, rows), nothing, layer.inputNorm, view(m_work.mtpNormed, rows)));
    OCTAVO_CHECK(multiply(layer.queryKeyValue, m_work.mtpNormed, rows, m_work.attention));
    const AttentionInput attention =
        attentionInput(layer, rows, table(m_mtpTables.positions, static_cast<std::int32_t*>(nullptr)),
                       table(m_mtpTables.targets, static_cast<RowTarget*>(nullptr)));
    OCTAVO_CHECK(checkCuda(launchAttentionInput(attention, stream), "write KV rows"));
    if (chains == 0)
        return {};

    const QkRopeArgs& rope = attention.rope;
    const int heads = m_config.numHeads;
    for (int first = 0; first < chains; first += queriesPerLaunch) {
        const AttentionShape launch{std::min(queriesPerLaunch, chains - first), heads, m_config.numKvHeads,
                                    rowsPerSplit, shape.maxSplits};
        const std::int64_t offset = std::int64_t(first) * heads * kvHeadDim;
        OCTAVO_CHECK(checkCuda(
            launchAttentionDecode(table(m_mtpTables.attention, static_cast<AttentionRows*>(nullptr)) + first, launch,
                                  rope.queryOut + offset, rope.queryGate + kvHeadDim + first * rope.queryGateStride,
                                  rope.queryGateStride, 2 * kvHeadDim, m_workMemory.at<float>(m_work.attentionParts),
                                  m_workMemory.at<__nv_bfloat16>(m_work.context) + offset, stream),
            "attend to rows"));
    }
    const MatrixView<const __nv_bfloat16> delta{view(m_work.delta, chains).data, chains, hiddenSize, hiddenSize};
    OCTAVO_CHECK(multiply(layer.attentionOut, m_work.context, chains, m_work.delta));
    OCTAVO_CHECK(normalise(view(m_work.mtpX, chains), delta, layer.postAttentionNorm, view(m_work.mtpNormed, chains)));
    OCTAVO_CHECK(gatedMlp(layer, m_work.mtpNormed, chains));
    OCTAVO_CHECK(normalise(view(m_work.mtpX, chains), delta, mtp.norm, view(m_work.mtpFinal, chains)));
    OCTAVO_CHECK(multiply(m_model.draftHead, m_work.mtpFinal, chains, m_work.logits, GemmOutput::Float));
    const int vocab = m_model.draftHead.outFeatures();
    OCTAVO_CHECK(
        checkCuda(launchRowPeaks({m_workMemory.at<float>(m_work.logits), chains, vocab, vocab},
                                 m_workMemory.at(m_work.bestParts), m_workMemory.at<RowPeak>(m_work.peaks), stream),
                  "find the likeliest tokens"));
    return checkCuda(cudaMemcpyAsync(m_mtpMemory.at<RowPeak>(m_mtpTables.peaks), m_workMemory.at(m_work.peaks),
                                     std::size_t(chains) * sizeof(RowPeak), cudaMemcpyDeviceToHost, stream),
                     "return drafts");
}

Result<void> CudaBackend::draft(std::span<const DraftEntry> entries, float leastChance, std::span<DraftChain> chains)
{
    if (!hasMtp())
        return Error{ErrorCode::Unsupported, "This model has no MTP layer to draft with"};
    if (chains.size() != entries.size() || entries.size() > std::size_t(maxStepRows()))
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(entries.size()) + " chains were asked for with room for " +
                         std::to_string(chains.size()) + ", at most " + std::to_string(maxStepRows())};
    struct Chain {
        CudaSequence* sequence;
        TokenId next;
        int most;
        DraftChain* out;
        double chance = 1.0;
    };
    std::vector<Chain> going;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const DraftEntry& entry = entries[i];
        OCTAVO_TRY(CudaSequence * sequence, ready(entry.slot, std::span(&entry.next, 1)));
        if (entry.most < 1 ||
            std::ranges::any_of(going, [&](const Chain& other) { return other.sequence == sequence; }))
            return Error{ErrorCode::InvalidArgument, "Drafts need at least one token for each of different sequences"};
        chains[i] = {};
        // A draft stands behind `next`, which takes a position too; without a hidden row there is no beginning.
        const std::int64_t room = sequence->maxTokens - sequence->length - 1;
        if (room > 0 && sequence->length > 0)
            going.push_back({sequence, entry.next, int(std::min<std::int64_t>(entry.most, room)), &chains[i]});
    }
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    std::int64_t waiting = std::int64_t(going.size());
    for (const Chain& chain : going) {
        OCTAVO_CHECK(makeRoom(*chain.sequence, chain.sequence->length + chain.most));
        waiting += chain.sequence->unfilled();
    }
    for (const Chain& chain : going) {
        if (waiting > maxRows) {
            waiting -= chain.sequence->unfilled();
            OCTAVO_CHECK(fillMtp(*chain.sequence));
        }
    }
    const std::scoped_lock turn(deviceTurn(m_device));
    std::vector<MtpRow> rows;
    for (const Chain& chain : going)
        rows.push_back({chain.sequence, hiddenRow(*chain.sequence, chain.sequence->unfilled()), chain.next,
                        chain.sequence->length - 1});
    for (const Chain& chain : going)
        addUnfilled(*chain.sequence, rows);
    for (bool first = true; !going.empty(); first = false) {
        OCTAVO_CHECK(mtpPass(rows, int(going.size())));
        for (std::size_t i = 0; first && i < going.size(); ++i)
            OCTAVO_CHECK(forgetFilled(*going[i].sequence));
        rows.clear();
        const RowPeak* peaks = m_mtpMemory.at<RowPeak>(m_mtpTables.peaks);
        std::size_t goesOn = 0;
        for (std::size_t r = 0; r < going.size(); ++r) {
            Chain& chain = going[r];
            const RowPeak peak = peaks[r];
            chain.chance *= double(peak.chance);
            if (peak.id < 0 || !(chain.chance >= double(leastChance))) // a NaN ends it too
                continue;
            chain.out->tokens.push_back(peak.id);
            chain.out->chances.push_back(peak.chance);
            const auto written = std::int64_t(chain.out->tokens.size());
            if (written >= chain.most)
                continue;
            rows.push_back({chain.sequence, m_workMemory.at(m_work.mtpFinal + std::int64_t(r) * hiddenBytes()), peak.id,
                            chain.sequence->length - 1 + written});
            going[goesOn++] = chain;
        }
        going.resize(goesOn);
    }
    return checkCuda(cudaStreamSynchronize(m_stream.get()), "finish drafts");
}

} // namespace octavo::engine
