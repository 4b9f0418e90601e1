/// One pass of CudaBackend through the layers.

#include "engine/backend/cuda_backend.h"

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_input.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/kv_rows.h"

#include <algorithm>

namespace octavo::engine
{

using namespace kernels::cuda;

namespace
{

/// Lengths decide the size of launches: in coarse steps, so that a graph serves many of them.
constexpr std::int64_t pickStride = 16384, splitStride = 16;

std::int64_t roundUp(std::int64_t value, std::int64_t to)
{
    return (value + to - 1) / to * to;
}

} // namespace

CudaBackend::PassShape CudaBackend::fillTables(std::span<const Part> parts, bool decode)
{
    PassShape shape;
    shape.parts = int(parts.size());
    m_sparseIndex.clear();
    std::int64_t splits = 1, pickTokens = 0;
    auto* ids = m_tableMemory.at<std::int32_t>(m_tables.ids);
    auto* positions = m_tableMemory.at<std::int32_t>(m_tables.positions);
    auto* conv = m_tableMemory.at<ConvSequence>(m_tables.conv);
    auto* gdn = m_tableMemory.at<GdnSequence>(m_tables.gdn);
    auto* attention = m_tableMemory.at<AttentionRows>(m_tables.attention);
    auto* targets = m_tableMemory.at<RowTarget>(m_tables.targets);
    const std::int64_t rowBytes = std::int64_t(m_config.numKvHeads) * kvHeadBytes;
    const int attentionLayers = m_config.numFullAttentionLayers();
    const std::int64_t convDim = m_config.convDim(), valueDim = m_config.valueDim(), mixWidth = convDim + valueDim;
    const std::int64_t valueHeads = m_config.linearNumValueHeads;
    std::int64_t row = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const Part& part = parts[p];
        const CudaSequence& s = *part.sequence;
        const std::int64_t tableAt =
            m_tables.pages + std::int64_t(p) * pagesOf(m_contextLimit) * std::int64_t(sizeof(std::uint8_t*));
        for (std::int64_t i = 0; i < s.pages.size(); ++i)
            m_tableMemory.at<std::uint8_t*>(tableAt)[i] = s.pages[i].data();
        auto* const* pageTable = m_workMemory.at<std::uint8_t*>(m_work.tables + tableAt);
        const int rows = int(part.tokens.size());
        const int stored = part.final ? rows : 0;
        for (int layer = 0; layer < gdnLayers(); ++layer) {
            const std::int64_t base = layer * m_gdnOffsets.bytes;
            const auto at = [&](std::int64_t offset) { return s.memory.at<__nv_bfloat16>(base + offset); };
            const auto work = [&](std::int64_t buffer, std::int64_t columns) {
                return m_workMemory.at<__nv_bfloat16>(buffer) + row * columns;
            };
            conv[layer * maxRows + std::int64_t(p)] = {at(m_gdnOffsets.history),
                                                       at(m_gdnOffsets.pendingInput),
                                                       work(m_work.mixed, mixWidth),
                                                       work(m_work.convOutput, convDim),
                                                       s.pendingRows,
                                                       rows,
                                                       stored,
                                                       std::int32_t(mixWidth)};
            gdn[layer * maxRows + std::int64_t(p)] = {s.memory.at<float>(base + m_gdnOffsets.state),
                                                      at(m_gdnOffsets.pendingQkv),
                                                      at(m_gdnOffsets.pendingBeta),
                                                      at(m_gdnOffsets.pendingDecay),
                                                      work(m_work.convOutput, convDim),
                                                      work(m_work.beta, valueHeads),
                                                      work(m_work.decay, valueHeads),
                                                      work(m_work.mixed, mixWidth) + convDim,
                                                      work(m_work.gdnOut, valueDim),
                                                      s.pendingRows,
                                                      rows,
                                                      stored,
                                                      std::int32_t(mixWidth)};
        }
        for (int i = 0; i < rows; ++i, ++row) {
            ids[row] = part.tokens[std::size_t(i)];
            positions[row] = std::int32_t(s.length + i);
            const std::int64_t position = s.length + i;
            const auto range = decode && s.hot ? m_sparse.range(position) : std::nullopt;
            m_sparseIndex.push_back(range ? shape.sparseRows : -1);
            for (int layer = 0; layer < attentionLayers; ++layer) {
                const RowPages pages{pageTable, layerOffset(layer)};
                targets[layer * maxRows + row] = {s.pages[position / rowPageTokens].data() + pages.offset +
                                                      position % rowPageTokens * rowBytes,
                                                  nullptr, s.sketch ? m_sparse.view(*s.sketch, layer) : SketchView{},
                                                  position};
                AttentionRows& reads = attention[layer * maxRows + row];
                reads = {};
                reads.pages = pages;
                if (!range) {
                    reads.recent = std::int32_t(position + 1);
                    continue;
                }
                reads.rows = m_sparse.hotRows(*s.hot, layer);
                reads.rowIds = m_sparse.rowIds(shape.sparseRows);
                reads.count = std::min(m_sparse.topK(), range->pickEnd - range->sinks);
                reads.sinks = range->sinks;
                reads.recentBegin = range->pickEnd;
                reads.recent = std::int32_t(position + 1) - range->pickEnd;
                reads.rowsPerSplit = CudaSparse::rowsPerSplit;
                const auto* projected =
                    m_workMemory.at<__nv_bfloat16>(m_work.projected) + row * m_config.numHeads * sketchRank;
                const CudaSparse::RowTables tables =
                    m_sparse.rowTables(shape.sparseRows, layer, *range, projected, *s.sketch, *s.hot, pages);
                const std::int64_t at = layer * CudaSparse::maxRows + shape.sparseRows;
                m_tableMemory.at<SketchQuery>(m_tables.sketch)[at] = tables.sketch;
                m_tableMemory.at<SelectQuery>(m_tables.select)[at] = tables.select;
                m_tableMemory.at<HotLookup>(m_tables.lookup)[at] = tables.lookup;
                m_tableMemory.at<GatherMisses>(m_tables.gather)[at] = tables.gather;
            }
            if (range) {
                ++shape.sparseRows;
                pickTokens = std::max(pickTokens, std::int64_t(range->pickEnd));
                splits = std::max(splits, m_sparse.maxSplits());
                m_picked += std::int64_t(attentionLayers) * std::min(m_sparse.topK(), range->pickEnd - range->sinks);
            } else {
                splits = std::max(splits, (position + rowsPerSplit) / rowsPerSplit);
            }
        }
    }
    shape.rows = int(row);
    shape.maxSplits = int(std::min(roundUp(splits, splitStride), m_maxSplits));
    shape.pickTokens = std::min(roundUp(pickTokens, pickStride), m_sparse.contextLimit());
    return shape;
}

Result<void> CudaBackend::multiply(const CudaLinear& linear, std::int64_t input, int rows, std::int64_t output,
                                   GemmOutput type)
{
    const int inFeatures = linear.inFeatures(), outFeatures = linear.outFeatures();
    const MatrixView<const __nv_bfloat16> x{m_workMemory.at<__nv_bfloat16>(input), rows, inFeatures, inFeatures};
    const std::string what = "multiply " + std::to_string(rows) + " rows by a matrix of " +
                             std::to_string(outFeatures) + " x " + std::to_string(inFeatures);
    if (!linear.int4.units)
        return checkCuda(launchBf16Gemv(x, linear.dense, m_workMemory.at(output), outFeatures, type, m_stream.get()),
                         what);
    const W4Workspace workspace{m_workMemory.at<float>(m_work.partials), m_workMemory.at<int>(m_work.arrivals),
                                m_multiprocessors};
    return checkCuda(launchW4Gemm(x, linear.int4, m_workMemory.at(output), linear.gated ? outFeatures / 2 : outFeatures,
                                  linear.gated ? GemmOutput::Gated : type, workspace, m_stream.get(), linear.next),
                     what);
}

Result<void> CudaBackend::forward(std::span<const Part> parts, bool decode)
{
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    for (const Part& part : parts) {
        CudaSequence& s = *part.sequence;
        if (decode && s.hot && m_sparse.range(s.length))
            OCTAVO_CHECK(spill(s, s.pages.size()));
        OCTAVO_CHECK(makeRoom(s, s.length + std::int64_t(part.tokens.size())));
    }
    const PassShape shape = fillTables(parts, decode);
    // Steps that verify drafts copy between buffers that differ from step to step.
    const bool repeats =
        decode && std::ranges::all_of(parts, [](const Part& p) { return p.final && p.tokens.size() == 1; });
    if (!repeats)
        return enqueue(shape, parts);
    auto graph = m_graphs.find(shape);
    if (graph == m_graphs.end()) {
        if (m_graphs.size() >= mostGraphs)
            m_graphs.clear();
        OCTAVO_TRY(CudaGraph recorded, CudaGraph::record(m_stream.get(), [&] { return enqueue(shape, parts); }));
        graph = m_graphs.emplace(shape, std::move(recorded)).first;
    }
    return graph->second.launch(m_stream.get());
}

Result<void> CudaBackend::enqueue(const PassShape& shape, std::span<const Part> parts)
{
    const cudaStream_t stream = m_stream.get();
    const int rows = shape.rows;
    OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(m_workMemory.at(m_work.tables), m_tableMemory.at<std::uint8_t>(0),
                                           std::size_t(m_tables.bytes), cudaMemcpyHostToDevice, stream),
                           "take the step's tables"));

    const auto view = [&](std::int64_t buffer) {
        return denseView(m_workMemory.at<__nv_bfloat16>(buffer), rows, m_config.hiddenSize);
    };
    const MatrixView<__nv_bfloat16> hidden = view(m_work.hidden), normed = view(m_work.normed);
    const MatrixView<const __nv_bfloat16> delta{view(m_work.delta).data, rows, m_config.hiddenSize,
                                                m_config.hiddenSize};
    const float eps = float(m_config.normEps);
    const auto* ids = m_workMemory.at<std::int32_t>(m_work.tables + m_tables.ids);
    OCTAVO_CHECK(checkCuda(launchEmbedding(m_model.embedding.dense, ids, hidden, stream), "embed tokens"));

    MatrixView<const __nv_bfloat16> added{}; // what the layer before has left to add
    added.rows = rows;
    int attentionLayer = 0, gdnLayer = 0;
    for (const CudaLayer& layer : m_model.layers) {
        OCTAVO_CHECK(checkCuda(launchAddRmsNorm(hidden, added, layer.inputNorm, eps, normed, stream), "normalise"));
        if (layer.type == LayerType::FullAttention)
            OCTAVO_CHECK(attend(layer, attentionLayer++, shape));
        else
            OCTAVO_CHECK(mix(layer, gdnLayer++, parts, rows));
        added = delta;
        OCTAVO_CHECK(
            checkCuda(launchAddRmsNorm(hidden, added, layer.postAttentionNorm, eps, normed, stream), "normalise"));
        OCTAVO_CHECK(multiply(layer.gateUp, m_work.normed, rows, layer.gateUp.gated ? m_work.product : m_work.gateUp));
        const int width = m_config.intermediateSize;
        const MatrixView<const __nv_bfloat16> gateUp{m_workMemory.at<__nv_bfloat16>(m_work.gateUp), rows, 2 * width,
                                                     2 * width};
        if (!layer.gateUp.gated)
            OCTAVO_CHECK(checkCuda(
                launchSiluMul(gateUp, denseView(m_workMemory.at<__nv_bfloat16>(m_work.product), rows, width), stream),
                "gate the MLP"));
        OCTAVO_CHECK(multiply(layer.down, m_work.product, rows, m_work.delta));
    }
    return checkCuda(launchAddRmsNorm(hidden, added, m_model.finalNorm, eps, normed, stream), "normalise");
}

Result<void> CudaBackend::pick(int attentionLayer, int firstSparse, int count, const PassShape& shape)
{
    const cudaStream_t stream = m_stream.get();
    const std::int64_t at = std::int64_t(attentionLayer) * CudaSparse::maxRows + firstSparse;
    const auto table = [&]<typename T>(std::int64_t offset, T*) {
        return m_workMemory.at<T>(m_work.tables + offset) + at;
    };
    OCTAVO_CHECK(checkCuda(launchSketchScore(table(m_tables.sketch, static_cast<SketchQuery*>(nullptr)), count,
                                             m_config.numHeads, m_config.numKvHeads, shape.pickTokens,
                                             CudaSparse::scoreBuffers, stream),
                           "score " + std::to_string(shape.pickTokens) + " sketches"));
    OCTAVO_CHECK(checkCuda(launchSelect(table(m_tables.select, static_cast<SelectQuery*>(nullptr)), count,
                                        shape.pickTokens, SelectHistogram::Ready, stream),
                           "pick rows"));
    OCTAVO_CHECK(checkCuda(launchHotLookup(table(m_tables.lookup, static_cast<HotLookup*>(nullptr)), count, stream),
                           "look up picks"));
    return checkCuda(launchGatherMisses(table(m_tables.gather, static_cast<GatherMisses*>(nullptr)), count,
                                        m_config.numKvHeads * kvHeadBytes, m_multiprocessors, stream),
                     "gather rows from the host tier");
}

Result<void> CudaBackend::attend(const CudaLayer& layer, int attentionLayer, const PassShape& shape)
{
    const int rows = shape.rows;
    const cudaStream_t stream = m_stream.get();
    const int heads = m_config.numHeads, kvHeads = m_config.numKvHeads;
    const std::int64_t stride = (2 * std::int64_t(heads) + 2 * kvHeads) * kvHeadDim;
    OCTAVO_CHECK(multiply(layer.queryKeyValue, m_work.normed, rows, m_work.attention));
    const auto* projected = m_workMemory.at<__nv_bfloat16>(m_work.attention);
    QkRopeArgs rope{};
    rope.queryGate = projected;
    rope.queryGateStride = stride;
    rope.key = projected + std::int64_t(heads) * 2 * kvHeadDim;
    rope.keyStride = stride;
    rope.queryNorm = layer.queryNorm;
    rope.keyNorm = layer.keyNorm;
    rope.positions = m_workMemory.at<std::int32_t>(m_work.tables + m_tables.positions);
    rope.frequencies = m_model.ropeFrequencies;
    rope.queryOut = m_workMemory.at<__nv_bfloat16>(m_work.query);
    rope.keyOut = m_workMemory.at<__nv_bfloat16>(m_work.key);
    rope.tokens = rows;
    rope.heads = heads;
    rope.kvHeads = kvHeads;
    rope.eps = float(m_config.normEps);
    const AttentionInput input{rope,
                               rope.key + kvHeads * kvHeadDim,
                               stride,
                               m_workMemory.at<RowTarget>(m_work.tables + m_tables.targets) + attentionLayer * maxRows,
                               m_sparse.basis(attentionLayer),
                               m_sparse.means(attentionLayer),
                               m_workMemory.at<__nv_bfloat16>(m_work.projected)};
    OCTAVO_CHECK(checkCuda(launchAttentionInput(input, stream), "write KV rows"));

    const auto* rowTable =
        m_workMemory.at<AttentionRows>(m_work.tables + m_tables.attention) + attentionLayer * maxRows;
    const auto attendTo = [&](int query, int count) {
        const AttentionShape launch{count, heads, kvHeads, rowsPerSplit, shape.maxSplits};
        const std::int64_t offset = std::int64_t(query) * heads * kvHeadDim;
        return checkCuda(launchAttentionDecode(rowTable + query, launch, rope.queryOut + offset,
                                               projected + kvHeadDim + query * stride, stride, 2 * kvHeadDim,
                                               m_workMemory.at<float>(m_work.attentionParts),
                                               m_workMemory.at<__nv_bfloat16>(m_work.context) + offset, stream),
                         "attend to rows");
    };
    if (shape.sparseRows > 0 && shape.parts < rows) {
        // Rows of one sequence share its hot buffer, so each picks and reads before the next may evict.
        for (int row = 0; row < rows; ++row) {
            if (m_sparseIndex[std::size_t(row)] >= 0)
                OCTAVO_CHECK(pick(attentionLayer, m_sparseIndex[std::size_t(row)], 1, shape));
            OCTAVO_CHECK(attendTo(row, 1));
        }
    } else {
        if (shape.sparseRows > 0)
            OCTAVO_CHECK(pick(attentionLayer, 0, shape.sparseRows, shape));
        for (int query = 0; query < rows; query += queriesPerLaunch)
            OCTAVO_CHECK(attendTo(query, std::min(queriesPerLaunch, rows - query)));
    }
    return multiply(layer.attentionOut, m_work.context, rows, m_work.delta);
}

Result<void> CudaBackend::mix(const CudaLayer& layer, int gdnLayer, std::span<const Part> parts, int rows)
{
    const cudaStream_t stream = m_stream.get();
    OCTAVO_CHECK(multiply(layer.mix, m_work.normed, rows, m_work.mixed));
    const int convDim = m_config.convDim(), mixWidth = convDim + m_config.valueDim();
    const GdnProjection projection{
        {m_workMemory.at<__nv_bfloat16>(m_work.normed), rows, m_config.hiddenSize, m_config.hiddenSize},
        layer.projection.dense.data,
        m_workMemory.at<__nv_bfloat16>(m_work.beta),
        m_workMemory.at<__nv_bfloat16>(m_work.decay),
        m_config.linearNumValueHeads};
    const auto* conv = m_workMemory.at<ConvSequence>(m_work.tables + m_tables.conv) + gdnLayer * maxRows;
    const auto* gdn = m_workMemory.at<GdnSequence>(m_work.tables + m_tables.gdn) + gdnLayer * maxRows;
    OCTAVO_CHECK(checkCuda(launchGdnConv(conv, int(parts.size()), maxRows, convDim, layer.conv, projection, stream),
                           "convolve"));
    OCTAVO_CHECK(checkCuda(launchGdnDecode(gdn, int(parts.size()), layer.gdn, stream), "apply the delta rule"));

    // What a verify step read becomes what the next launch may have to apply.
    std::int64_t first = 0;
    for (const Part& part : parts) {
        const std::int64_t count = std::int64_t(part.tokens.size());
        if (!part.final) {
            const CudaSequence& s = *part.sequence;
            const std::int64_t base = gdnLayer * m_gdnOffsets.bytes;
            const auto keep = [&](std::int64_t to, std::int64_t from, std::int64_t columns, std::int64_t stride) {
                return checkCuda(cudaMemcpy2DAsync(s.memory.at(base + to), std::size_t(columns * 2),
                                                   m_workMemory.at(from + first * stride * 2), std::size_t(stride * 2),
                                                   std::size_t(columns * 2), std::size_t(count),
                                                   cudaMemcpyDeviceToDevice, stream),
                                 "keep a verify step's inputs");
            };
            const std::int64_t heads = m_config.linearNumValueHeads;
            OCTAVO_CHECK(keep(m_gdnOffsets.pendingInput, m_work.mixed, convDim, mixWidth));
            OCTAVO_CHECK(keep(m_gdnOffsets.pendingQkv, m_work.convOutput, convDim, convDim));
            OCTAVO_CHECK(keep(m_gdnOffsets.pendingBeta, m_work.beta, heads, heads));
            OCTAVO_CHECK(keep(m_gdnOffsets.pendingDecay, m_work.decay, heads, heads));
        }
        first += count;
    }
    return multiply(layer.gdnOut, m_work.gdnOut, rows, m_work.delta);
}

Result<void> CudaBackend::logits(int firstRow, int rows, float* out)
{
    OCTAVO_CHECK(multiply(m_model.head, m_work.normed + std::int64_t(firstRow) * m_config.hiddenSize * 2, rows,
                          m_work.logits, GemmOutput::Float));
    OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(out, m_workMemory.at(m_work.logits),
                                           std::size_t(rows) * std::size_t(m_config.vocabSize) * sizeof(float),
                                           cudaMemcpyDeviceToHost, m_stream.get()),
                           "return logits"));
    if (m_sparse.available())
        OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(m_bytesRead.at<unsigned long long>(0), m_sparse.bytesRead(),
                                               sizeof(unsigned long long), cudaMemcpyDeviceToHost, m_stream.get()),
                               "return its counters"));
    return checkCuda(cudaStreamSynchronize(m_stream.get()), "finish a step");
}

} // namespace octavo::engine
