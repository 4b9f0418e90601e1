/// One pass of CudaBackend through the layers.

#include "engine/backend/cuda_backend.h"

#include "kernels/cuda/argmax.h"
#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_input.h"
#include "kernels/cuda/bf16_rows.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/row_copy.h"

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
    shape.decode = decode;
    auto* ids = m_tableMemory.at<std::int32_t>(m_tables.ids);
    auto* positions = m_tableMemory.at<std::int32_t>(m_tables.positions);
    auto* conv = m_tableMemory.at<ConvSequence>(m_tables.conv);
    auto* gdn = m_tableMemory.at<GdnSequence>(m_tables.gdn);
    auto* targets = m_tableMemory.at<RowTarget>(m_tables.targets);
    auto* hidden = m_tableMemory.at<RowCopy>(m_tables.hidden);
    const std::int64_t rowBytes = std::int64_t(m_config.numKvHeads) * kvHeadBytes;
    const int attentionLayers = m_config.numFullAttentionLayers();
    const std::int64_t convDim = m_config.convDim(), valueDim = m_config.valueDim(), mixWidth = convDim + valueDim;
    const std::int64_t valueHeads = m_config.linearNumValueHeads;
    std::int64_t row = 0;
    std::vector<std::int64_t> firstRows;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const Part& part = parts[p];
        const CudaSequence& s = *part.sequence;
        auto** pages = m_tableMemory.at<std::uint8_t*>(pageTableAt(p));
        for (std::int64_t i = 0; i < s.pages.size(); ++i)
            pages[i] = s.pages[i].data();
        const int rows = int(part.tokens.size());
        const int stored = part.final ? rows : 0;
        shape.verifies |= !part.final;
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
        firstRows.push_back(row);
        for (int i = 0; i < rows; ++i, ++row) {
            const std::int64_t position = s.length + i;
            ids[row] = part.tokens[std::size_t(i)];
            positions[row] = std::int32_t(position);
            for (int layer = 0; layer < attentionLayers; ++layer)
                targets[layer * maxRows + row] = {
                    s.pages[position / rowPageTokens].data() + layerOffset(layer) + position % rowPageTokens * rowBytes,
                    nullptr, s.sketch ? m_sparse.view(*s.sketch, layer) : SketchView{}, position};
            if (decode && hasMtp())
                hidden[row] = {m_workMemory.at(m_work.normed + row * hiddenBytes()), hiddenRow(s, s.heldHidden() + i)};
        }
    }
    shape.rows = int(row);
    fillAttention(parts, firstRows, shape);
    return shape;
}

/// Rows of one part read its sketch together, so that queries go by parts: the first one's number of each, and the
/// number of all at the end.
std::vector<int> CudaBackend::firstQueries(std::span<const Part> parts, const PassShape& shape) const
{
    std::vector<int> firstQuery{0};
    for (const Part& part : parts) {
        int queries = 0;
        for (std::size_t i = 0; i < part.tokens.size(); ++i)
            queries += sparseRange(part, int(i), shape).has_value();
        firstQuery.push_back(firstQuery.back() + queries);
    }
    return firstQuery;
}

/// The side of each part, from 0 on. Streams part and meet again in a few microseconds, which few rows are not worth.
/// Nor are there two sides where parts have unequally many: drafts are of all lengths, and every way to halve them
/// would be a shape of its own, of which only mostGraphs are kept.
std::vector<int> CudaBackend::sidesOf(std::span<const int> firstQuery)
{
    const int parts = int(firstQuery.size()) - 1, queries = firstQuery.back();
    bool alike = true;
    for (int p = 0; p < parts; ++p)
        alike &= firstQuery[std::size_t(p)] * parts == queries * p;
    const int sides = alike && queries >= leastBeside ? mostSides : 1;
    std::vector<int> sideOf;
    for (int p = 0; p < parts; ++p)
        sideOf.push_back(p * sides / parts);
    return sideOf;
}

/// Which sparse rows read a sketch together, by their numbers in the side.
void CudaBackend::fillReadings(std::span<const int> firstQuery, std::span<const int> sideOf, PassShape& shape)
{
    auto* readings = m_tableMemory.at<SketchRows>(m_tables.readings);
    for (std::size_t p = 0; p < sideOf.size(); ++p) {
        Side& side = shape.sides[std::size_t(sideOf[p])];
        for (int left = firstQuery[p + 1] - firstQuery[p]; left > 0;) {
            const int rows = std::min(left, m_sparse.readingRows());
            *readings++ = {side.queries, rows};
            ++side.readings;
            shape.readingRows = std::max(shape.readingRows, rows);
            side.queries += rows;
            left -= rows;
        }
    }
}

std::optional<SparseRange> CudaBackend::sparseRange(const Part& part, int row, const PassShape& shape) const
{
    return shape.decode && part.sequence->hot ? m_sparse.range(part.sequence->length + row) : std::nullopt;
}

/// Rows whose picks have room in their hot buffers together attend in one wave; otherwise the first row of every part
/// goes first, then the second ones. Attention's tables are in that order.
void CudaBackend::fillAttention(std::span<const Part> parts, std::span<const std::int64_t> firstRows, PassShape& shape)
{
    const std::vector<int> firstQuery = firstQueries(parts, shape);
    m_sparseRows = firstQuery.back();
    bool together = true;
    int most = 1;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const int queries = firstQuery[p + 1] - firstQuery[p];
        const std::int64_t last = parts[p].sequence->length + std::int64_t(parts[p].tokens.size()) - 1;
        together &= queries == 0 || m_sparse.holds(*parts[p].sequence->hot, queries, last);
        most = std::max(most, queries);
    }
    shape.lookupRows = together ? most : 1;
    const std::vector<int> sideOf = together ? sidesOf(firstQuery) : std::vector<int>(parts.size(), 0);
    shape.sides.resize(std::size_t(sideOf.back()) + 1);
    fillReadings(firstQuery, sideOf, shape);
    std::int64_t splits = 1, pickTokens = 0;
    std::vector<int> nextQuery = firstQuery;
    int at = 0, lookups = 0;
    const auto fetch = [&](std::size_t p, int query, int queries, Wave& wave) {
        fillFetch(p, parts[p], query, queries, lookups++);
        ++wave.sparse;
    };
    const auto attends = [&](std::size_t p, int inPart, Wave& wave) {
        const auto range = sparseRange(parts[p], inPart, shape);
        const int query = range ? nextQuery[p]++ : -1;
        fillAttentionRow(p, parts[p], firstRows[p] + inPart, inPart, range, query, at++);
        ++wave.rows;
        const std::int64_t position = parts[p].sequence->length + inPart;
        if (range) {
            pickTokens = std::max(pickTokens, std::int64_t(range->pickEnd));
            splits = std::max(splits, m_sparse.splits(m_sparse.picks(*range)));
            if (!together)
                fetch(p, query, 1, wave);
        } else {
            splits = std::max(splits, (position + rowsPerSplit) / rowsPerSplit);
            shape.dense = true;
        }
    };
    if (together) {
        for (Side& side : shape.sides)
            side.waves.emplace_back();
        for (std::size_t p = 0; p < parts.size(); ++p) {
            Wave& wave = shape.sides[std::size_t(sideOf[p])].waves.front();
            for (int i = 0; i < int(parts[p].tokens.size()); ++i)
                attends(p, i, wave);
            if (const int queries = firstQuery[p + 1] - firstQuery[p]; queries > 0)
                fetch(p, firstQuery[p], queries, wave);
        }
    } else {
        for (int inPart = 0; at < shape.rows; ++inPart) {
            Wave& wave = shape.sides.front().waves.emplace_back();
            for (std::size_t p = 0; p < parts.size(); ++p) {
                if (inPart < int(parts[p].tokens.size()))
                    attends(p, inPart, wave);
            }
        }
    }
    shape.maxSplits = int(std::min(roundUp(splits, splitStride), m_maxSplits));
    shape.pickTokens = std::min(roundUp(pickTokens, pickStride), m_sparse.contextLimit());
}

/// Entry `at` of attention's tables, and entry `query` of what it picks by (-1: it reads all rows).
void CudaBackend::fillAttentionRow(std::size_t p, const Part& part, std::int64_t row, int inPart,
                                   const std::optional<SparseRange>& range, int query, int at)
{
    const CudaSequence& s = *part.sequence;
    const std::int64_t position = s.length + inPart;
    const int attentionLayers = m_config.numFullAttentionLayers();
    for (int layer = 0; layer < attentionLayers; ++layer) {
        AttentionRows& reads = m_tableMemory.at<AttentionRows>(m_tables.attention)[layer * maxRows + at];
        reads = {};
        reads.pages = pagesAt(p, layer);
        reads.shift = std::int32_t(row - at);
        if (!range) {
            reads.recent = std::int32_t(position + 1);
            continue;
        }
        reads.rows = m_sparse.hotRows(*s.hot, layer);
        reads.rowIds = m_sparse.rowIds(query);
        reads.count = m_sparse.picks(*range);
        reads.lifts = m_sparse.lifts(query);
        reads.sinks = range->sinks;
        reads.recentBegin = range->pickEnd;
        reads.recent = std::int32_t(position + 1) - range->pickEnd;
        reads.rowsPerSplit = CudaSparse::rowsPerSplit;
        const auto* projected = m_workMemory.at<__nv_bfloat16>(m_work.projected) + row * m_config.numHeads * sketchRank;
        const CudaSparse::RowTables tables = m_sparse.rowTables(query, layer, *range, projected, *s.sketch);
        const std::int64_t entry = std::int64_t(layer) * CudaSparse::maxRows + query;
        m_tableMemory.at<SketchQuery>(m_tables.sketch)[entry] = tables.sketch;
        m_tableMemory.at<HotList>(m_tables.lists)[entry] = tables.list;
        m_picked += reads.count;
    }
}

/// Entry `lookup` of what brings the picks of `queries` rows.
void CudaBackend::fillFetch(std::size_t p, const Part& part, int query, int queries, int lookup)
{
    for (int layer = 0; layer < m_config.numFullAttentionLayers(); ++layer) {
        const std::int64_t first = std::int64_t(layer) * CudaSparse::maxRows;
        const auto* lists = m_workMemory.at<HotList>(m_work.tables + m_tables.lists) + first + query;
        const CudaSparse::FetchTables tables =
            m_sparse.fetchTables(query, queries, layer, *part.sequence->hot, pagesAt(p, layer), lists);
        m_tableMemory.at<HotLookup>(m_tables.lookup)[first + lookup] = tables.lookup;
        m_tableMemory.at<GatherMisses>(m_tables.gather)[first + lookup] = tables.gather;
    }
}

RowPages CudaBackend::pagesAt(std::size_t p, int attentionLayer) const
{
    return {m_workMemory.at<std::uint8_t*>(m_work.tables + pageTableAt(p)), layerOffset(attentionLayer)};
}

Result<void> CudaBackend::multiply(const CudaLinear& linear, std::int64_t input, int rows, std::int64_t output,
                                   GemmOutput type, const W4Norms& norms)
{
    const int inFeatures = linear.inFeatures(), outFeatures = linear.outFeatures();
    const MatrixView<const __nv_bfloat16> x{m_workMemory.at<__nv_bfloat16>(input), rows, inFeatures, inFeatures};
    const std::string what = "multiply " + std::to_string(rows) + " rows by a matrix of " +
                             std::to_string(outFeatures) + " x " + std::to_string(inFeatures);
    // By the linear alone, never by the rows, so that a row's result is the same in every batch.
    if (linear.many)
        return checkCuda(launchBf16Rows(x, linear.dense, m_workMemory.at(output), outFeatures, type, m_stream.get()),
                         what);
    if (!linear.int4.units)
        return checkCuda(launchBf16Gemv(x, linear.dense, m_workMemory.at(output), outFeatures, type, m_stream.get()),
                         what);
    const W4Workspace workspace{m_workMemory.at<float>(m_work.partials), m_workMemory.at<int>(m_work.arrivals),
                                m_multiprocessors};
    return checkCuda(launchW4Gemm(x, linear.int4, m_workMemory.at(output), linear.gated ? outFeatures / 2 : outFeatures,
                                  linear.gated ? GemmOutput::Gated : type, workspace, m_stream.get(), norms),
                     what);
}

/// What `product`, the last of a block, takes along of the norm between it and `next`: nothing unless both are int4.
W4Norms CudaBackend::normBetween(const CudaLinear& product, const CudaLinear& next, const float* weight) const
{
    if (!product.int4.units || !next.int4.units || m_config.hiddenSize % w4TileRows != 0)
        return {};
    return {nullptr, 0.0f, m_workMemory.at<__nv_bfloat16>(m_work.hidden), weight,
            m_workMemory.at<float>(m_work.squares)};
}

/// For the product after one that took `between` along.
W4Norms CudaBackend::scaleAfter(const W4Norms& between) const
{
    return between.hidden ? W4Norms{between.squaresOut, float(m_config.normEps)} : W4Norms{};
}

/// The last product of a block: to `delta`, or to the residual stream and on to the next product's input.
Result<void> CudaBackend::multiplyLast(const CudaLinear& linear, std::int64_t input, int rows, const W4Norms& after)
{
    return multiply(linear, input, rows, after.hidden ? m_work.normed : m_work.delta, GemmOutput::Bf16, after);
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
    return decode ? runGraph(m_graphs, shape, [&] { return enqueue(shape); }) : enqueue(shape);
}

Result<void> CudaBackend::enqueue(const PassShape& shape)
{
    const cudaStream_t stream = m_stream.get();
    const int rows = shape.rows;
    OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(m_workMemory.at(m_work.tables), m_tableMemory.at<std::uint8_t>(0),
                                           std::size_t(pageTableAt(std::size_t(shape.parts))), cudaMemcpyHostToDevice,
                                           stream), // page tables are the last
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

    // Between two products norms are theirs (W4Norms) where it can be; else a launch adds what was left to add.
    MatrixView<const __nv_bfloat16> added{};
    added.rows = rows;
    const auto normalise = [&](const W4Norms& taken, const float* weight) {
        return taken.hidden ? Result<void>{}
                            : checkCuda(launchAddRmsNorm(hidden, added, weight, eps, normed, stream), "normalise");
    };
    const auto first = [](const CudaLayer& layer) -> const CudaLinear& {
        return layer.type == LayerType::FullAttention ? layer.queryKeyValue : layer.mix;
    };
    int attentionLayer = 0, gdnLayer = 0;
    W4Norms before{}, between{};
    for (std::size_t i = 0; i < m_model.layers.size(); ++i) {
        const CudaLayer& layer = m_model.layers[i];
        const bool attention = layer.type == LayerType::FullAttention;
        OCTAVO_CHECK(normalise(before, layer.inputNorm));
        between = normBetween(attention ? layer.attentionOut : layer.gdnOut, layer.gateUp, layer.postAttentionNorm);
        if (attention)
            OCTAVO_CHECK(attend(layer, attentionLayer++, shape, scaleAfter(before), between));
        else
            OCTAVO_CHECK(mix(layer, gdnLayer++, shape, scaleAfter(before), between));
        added = delta;
        OCTAVO_CHECK(normalise(between, layer.postAttentionNorm));
        const CudaLayer* next = i + 1 < m_model.layers.size() ? &m_model.layers[i + 1] : nullptr;
        before = next ? normBetween(layer.down, first(*next), next->inputNorm) : W4Norms{};
        OCTAVO_CHECK(gatedMlp(layer, m_work.normed, rows, scaleAfter(between), before));
    }
    OCTAVO_CHECK(checkCuda(launchAddRmsNorm(hidden, added, m_model.finalNorm, eps, normed, stream), "normalise"));
    if (!shape.decode || !hasMtp())
        return {};
    return checkCuda(
        launchCopyRows(m_workMemory.at<RowCopy>(m_work.tables + m_tables.hidden), rows, int(hiddenBytes()), stream),
        "keep a step's final rows");
}

Result<void> CudaBackend::gatedMlp(const CudaLayer& layer, std::int64_t input, int rows, const W4Norms& before,
                                   const W4Norms& after)
{
    OCTAVO_CHECK(multiply(layer.gateUp, input, rows, layer.gateUp.gated ? m_work.product : m_work.gateUp,
                          GemmOutput::Bf16, before));
    if (!layer.gateUp.gated) {
        const int width = m_config.intermediateSize;
        const MatrixView<const __nv_bfloat16> gateUp{m_workMemory.at<__nv_bfloat16>(m_work.gateUp), rows, 2 * width,
                                                     2 * width};
        OCTAVO_CHECK(
            checkCuda(launchSiluMul(gateUp, denseView(m_workMemory.at<__nv_bfloat16>(m_work.product), rows, width),
                                    m_stream.get()),
                      "gate the MLP"));
    }
    return multiplyLast(layer.down, m_work.product, rows, after);
}

Result<void> CudaBackend::pick(int attentionLayer, const PassShape& shape, const Side& side, const SideBegin& begin,
                               cudaStream_t stream)
{
    const auto* queries = m_workMemory.at<SketchQuery>(m_work.tables + m_tables.sketch) +
                          std::int64_t(attentionLayer) * CudaSparse::maxRows + begin.query;
    const auto* readings = m_workMemory.at<SketchRows>(m_work.tables + m_tables.readings) + begin.reading;
    return checkCuda(launchSketchPick(queries, side.queries, readings, side.readings, shape.readingRows,
                                      m_config.numHeads, m_config.numKvHeads, shape.pickTokens, stream),
                     "pick rows by " + std::to_string(shape.pickTokens) + " sketches");
}

Result<void> CudaBackend::fetch(int attentionLayer, const PassShape& shape, int firstLookup, int count,
                                cudaStream_t stream)
{
    const std::int64_t at = std::int64_t(attentionLayer) * CudaSparse::maxRows + firstLookup;
    const auto table = [&]<typename T>(std::int64_t offset, T*) {
        return m_workMemory.at<T>(m_work.tables + offset) + at;
    };
    OCTAVO_CHECK(checkCuda(
        launchHotLookup(table(m_tables.lookup, static_cast<HotLookup*>(nullptr)), count, shape.lookupRows, stream),
        "look up picks"));
    return checkCuda(launchGatherMisses(table(m_tables.gather, static_cast<GatherMisses*>(nullptr)), count,
                                        m_config.numKvHeads * kvHeadBytes, m_multiprocessors, stream),
                     "gather rows from the host tier");
}

AttentionInput CudaBackend::attentionInput(const CudaLayer& layer, int rows, const std::int32_t* positions,
                                           const RowTarget* targets) const
{
    const std::int64_t heads = m_config.numHeads, kvHeads = m_config.numKvHeads;
    const std::int64_t stride = (2 * heads + 2 * kvHeads) * kvHeadDim;
    const auto* projected = m_workMemory.at<__nv_bfloat16>(m_work.attention);
    AttentionInput input{};
    QkRopeArgs& rope = input.rope;
    rope.queryGate = projected;
    rope.queryGateStride = stride;
    rope.key = projected + heads * 2 * kvHeadDim;
    rope.keyStride = stride;
    rope.queryNorm = layer.queryNorm;
    rope.keyNorm = layer.keyNorm;
    rope.positions = positions;
    rope.frequencies = m_model.ropeFrequencies;
    rope.queryOut = m_workMemory.at<__nv_bfloat16>(m_work.query);
    rope.keyOut = m_workMemory.at<__nv_bfloat16>(m_work.key);
    rope.tokens = rows;
    rope.heads = m_config.numHeads;
    rope.kvHeads = m_config.numKvHeads;
    rope.eps = float(m_config.normEps);
    input.value = rope.key + kvHeads * kvHeadDim;
    input.valueStride = stride;
    input.targets = targets;
    return input;
}

Result<void> CudaBackend::attend(const CudaLayer& layer, int attentionLayer, const PassShape& shape,
                                 const W4Norms& before, const W4Norms& after)
{
    const int rows = shape.rows;
    const cudaStream_t stream = m_stream.get();
    OCTAVO_CHECK(multiply(layer.queryKeyValue, m_work.normed, rows, m_work.attention, GemmOutput::Bf16, before));
    AttentionInput input =
        attentionInput(layer, rows, m_workMemory.at<std::int32_t>(m_work.tables + m_tables.positions),
                       m_workMemory.at<RowTarget>(m_work.tables + m_tables.targets) + attentionLayer * maxRows);
    input.basis = m_sparse.basis(attentionLayer);
    input.means = m_sparse.means(attentionLayer);
    input.projected = m_workMemory.at<__nv_bfloat16>(m_work.projected);
    OCTAVO_CHECK(checkCuda(launchAttentionInput(input, stream), "write KV rows"));

    for (std::size_t i = 1; i < shape.sides.size(); ++i)
        OCTAVO_CHECK(m_sideEvents[i - 1].order(stream, m_sideStreams[i - 1].get()));
    SideBegin begin;
    Result<void> attended;
    for (std::size_t i = 0; attended && i < shape.sides.size(); ++i) {
        const cudaStream_t own = i == 0 ? stream : m_sideStreams[i - 1].get();
        attended = attendSide(attentionLayer, shape, int(i), begin, input.rope, own);
        for (const Wave& wave : shape.sides[i].waves)
            begin.row += wave.rows, begin.lookup += wave.sparse;
        begin.query += shape.sides[i].queries;
        begin.reading += shape.sides[i].readings;
    }
    for (std::size_t i = 1; i < shape.sides.size(); ++i)
        OCTAVO_CHECK(m_sideEvents[i - 1].order(m_sideStreams[i - 1].get(), stream));
    OCTAVO_CHECK(attended); // only now, so that the next pass finds no side under way
    return multiplyLast(layer.attentionOut, m_work.context, rows, after);
}

Result<void> CudaBackend::attendSide(int attentionLayer, const PassShape& shape, int side, SideBegin begin,
                                     const QkRopeArgs& rope, cudaStream_t stream)
{
    const Side& own = shape.sides[std::size_t(side)];
    const int heads = m_config.numHeads, kvHeads = m_config.numKvHeads;
    if (own.queries > 0)
        OCTAVO_CHECK(pick(attentionLayer, shape, own, begin, stream));
    const auto* rowTable =
        m_workMemory.at<AttentionRows>(m_work.tables + m_tables.attention) + attentionLayer * maxRows;
    // As the work space has room, of which every side has its part.
    const int most = std::max(1, int(queriesPerLaunch * m_maxSplits / shape.maxSplits) / int(shape.sides.size()));
    float* parts = m_workMemory.at<float>(m_work.attentionParts) +
                   std::size_t(side) * attentionWorkspaceFloats({most, heads, kvHeads, rowsPerSplit, shape.maxSplits});
    int first = begin.row;
    for (const Wave& wave : own.waves) {
        if (wave.sparse > 0)
            OCTAVO_CHECK(fetch(attentionLayer, shape, begin.lookup, wave.sparse, stream));
        begin.lookup += wave.sparse;
        for (int end = first + wave.rows, count = 0; first < end; first += count) {
            count = std::min(most, end - first);
            const AttentionShape launch{count, heads, kvHeads, shape.dense ? rowsPerSplit : CudaSparse::rowsPerSplit,
                                        shape.maxSplits};
            const std::int64_t offset = std::int64_t(first) * heads * kvHeadDim;
            const __nv_bfloat16* gate = rope.queryGate + kvHeadDim + first * rope.queryGateStride;
            OCTAVO_CHECK(
                checkCuda(launchAttentionDecode(rowTable + first, launch, rope.queryOut + offset, gate,
                                                rope.queryGateStride, 2 * kvHeadDim, parts,
                                                m_workMemory.at<__nv_bfloat16>(m_work.context) + offset, stream),
                          "attend to rows"));
        }
    }
    return {};
}

Result<void> CudaBackend::mix(const CudaLayer& layer, int gdnLayer, const PassShape& shape, const W4Norms& before,
                              const W4Norms& after)
{
    const cudaStream_t stream = m_stream.get();
    const int rows = shape.rows;
    OCTAVO_CHECK(multiply(layer.mix, m_work.normed, rows, m_work.mixed, GemmOutput::Bf16, before));
    const GdnProjection projection{
        {m_workMemory.at<__nv_bfloat16>(m_work.normed), rows, m_config.hiddenSize, m_config.hiddenSize},
        layer.projection.dense.data,
        m_workMemory.at<__nv_bfloat16>(m_work.beta),
        m_workMemory.at<__nv_bfloat16>(m_work.decay),
        m_config.linearNumValueHeads,
        before.squares,
        before.eps};
    const auto* conv = m_workMemory.at<ConvSequence>(m_work.tables + m_tables.conv) + gdnLayer * maxRows;
    const auto* gdn = m_workMemory.at<GdnSequence>(m_work.tables + m_tables.gdn) + gdnLayer * maxRows;
    OCTAVO_CHECK(checkCuda(
        launchGdnConv(conv, shape.parts, maxRows, m_config.convDim(), layer.conv, projection, stream), "convolve"));
    OCTAVO_CHECK(checkCuda(launchGdnDecode(gdn, shape.parts, layer.gdn, stream), "apply the delta rule"));
    // What a verify step read becomes what the next launch may have to apply.
    if (shape.verifies)
        OCTAVO_CHECK(checkCuda(launchGdnKeep(conv, gdn, shape.parts, maxPending, layer.gdn, stream),
                               "keep a verify step's inputs"));
    return multiplyLast(layer.gdnOut, m_work.gdnOut, rows, after);
}

Result<void> CudaBackend::logits(int firstRow, int rows, float* out)
{
    OCTAVO_CHECK(multiply(m_model.head, m_work.normed + std::int64_t(firstRow) * m_config.hiddenSize * 2, rows,
                          m_work.logits, GemmOutput::Float));
    OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(out, m_workMemory.at(m_work.logits),
                                           std::size_t(rows) * std::size_t(m_config.vocabSize) * sizeof(float),
                                           cudaMemcpyDeviceToHost, m_stream.get()),
                           "return logits"));
    return finishPass();
}

Result<void> CudaBackend::bestTokens(int rows, TokenId endId)
{
    const int vocab = m_config.vocabSize;
    OCTAVO_CHECK(multiply(m_model.head, m_work.normed, rows, m_work.logits, GemmOutput::Float));
    const MatrixView<const float> logits{m_workMemory.at<float>(m_work.logits), rows, vocab, vocab};
    OCTAVO_CHECK(
        checkCuda(launchArgmax(logits, std::min(endId, vocab), m_workMemory.at<std::uint64_t>(m_work.bestParts),
                               m_workMemory.at<std::int32_t>(m_work.best), m_stream.get()),
                  "find the best tokens"));
    OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(m_best.at<std::int32_t>(0), m_workMemory.at(m_work.best),
                                           std::size_t(rows) * 4, cudaMemcpyDeviceToHost, m_stream.get()),
                           "return the best tokens"));
    return finishPass();
}

Result<void> CudaBackend::finishPass()
{
    if (m_sparse.available())
        OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(m_bytesRead.at<unsigned long long>(0), m_sparse.bytesRead(),
                                               CudaSparse::numCounters * sizeof(unsigned long long),
                                               cudaMemcpyDeviceToHost, m_stream.get()),
                               "return its counters"));
    return checkCuda(cudaStreamSynchronize(m_stream.get()), "finish a step");
}

} // namespace octavo::engine
