#include "engine/backend/cuda_prefill.h"

#include "kernels/cuda/attention_input.h"
#include "kernels/cuda/gdn_chunk.h"
#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/kv_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace octavo::engine
{

using namespace kernels::cuda;

namespace
{

/// Tokens of a layer's rows that lie in bf16 at a time: with 4 KV heads 134 MB.
constexpr std::int64_t stretchTokens = 32768;

std::int64_t roundUp(std::int64_t value, std::int64_t to)
{
    return (value + to - 1) / to * to;
}

int gdnLayers(const ModelConfig& c)
{
    return c.numLayers - c.numFullAttentionLayers();
}

} // namespace

Result<CudaPrefill> CudaPrefill::create(const ModelConfig& config, const CudaModel& model, bool sketches,
                                        std::int64_t contextLimit, std::int64_t mostBytes,
                                        const CudaPrefillPaths& paths)
{
    CudaPrefill prefill;
    prefill.m_config = config;
    prefill.m_model = &model;
    prefill.m_paths = paths;
    prefill.m_sketches = sketches;
    prefill.m_contextLimit = contextLimit;
    if (!paths.blocks) {
        prefill.m_why = "it is turned off";
        return prefill;
    }
    prefill.m_stretchTokens = int(std::min(stretchTokens, roundUp(contextLimit, blockTokens)));
    int rows = int(std::min<std::int64_t>(mostRows, roundUp(contextLimit, blockTokens)));
    while (rows > blockTokens && prefill.layOut(rows) > mostBytes)
        rows = rows / 2 / blockTokens * blockTokens;
    const std::int64_t bytes = prefill.layOut(rows);
    if (bytes > mostBytes) {
        prefill.m_why = "its work space of " + std::to_string(bytes >> 20) + " MiB does not fit in " +
                        std::to_string(mostBytes >> 20) + " MiB";
        return prefill;
    }
    auto gemm = Bf16Gemm::open(rows, prefill.m_why);
    if (!gemm || !prefill.planProducts(*gemm))
        return prefill;
    OCTAVO_TRY(prefill.m_memory, DeviceMemory::allocate(bytes, "prefill's work space"));
    OCTAVO_TRY(prefill.m_tableMemory, PinnedMemory::allocate(prefill.m_tables.bytes, "prefill's tables"));
    prefill.m_maxRows = rows;
    prefill.m_gemm = std::move(gemm);
    return prefill;
}

bool CudaPrefill::planProducts(Bf16Gemm& gemm)
{
    const auto plan = [&](const CudaLinear& linear, std::int64_t outputStride) {
        const std::int64_t weightStride = linear.int4.units ? linear.inFeatures() : linear.dense.stride;
        const cudaError_t status = gemm.prepare(linear.outFeatures(), linear.inFeatures(), weightStride, outputStride);
        if (status != cudaSuccess)
            m_why = "cuBLASLt has no product with a matrix of " + std::to_string(linear.outFeatures()) + " x " +
                    std::to_string(linear.inFeatures()) + ": " + cudaGetErrorString(status);
        return status == cudaSuccess;
    };
    const auto dense = [&](const CudaLinear& linear) { return plan(linear, linear.outFeatures()); };
    const bool layers = std::ranges::all_of(m_model->layers, [&](const CudaLayer& layer) {
        const bool mixes = layer.type == LayerType::FullAttention
                               ? dense(layer.queryKeyValue) && dense(layer.attentionOut)
                               : dense(layer.mix) && plan(layer.projection, smallStride()) && dense(layer.gdnOut);
        return mixes && dense(layer.gateUp) && dense(layer.down);
    });
    return layers && (!m_model->mtp || (dense(m_model->mtp->fc) && dense(m_model->mtp->layer.queryKeyValue)));
}

std::int64_t CudaPrefill::layOut(int rows)
{
    const ModelConfig& c = m_config;
    const std::int64_t heads = c.numHeads, kvHeads = c.numKvHeads, valueDim = c.valueDim(), convDim = c.convDim();
    MemoryLayout tables;
    m_tables.ids = tables.add(rows * std::int64_t{4});
    m_tables.positions = tables.add(rows * std::int64_t{4});
    m_tables.mtpPositions = tables.add(rows * std::int64_t{4});
    m_tables.conv = tables.add(gdnLayers(c) * std::int64_t(sizeof(ConvSequence)));
    m_tables.delta = tables.add(gdnLayers(c) * std::int64_t(sizeof(GdnSequence)));
    m_tables.targets = tables.add(std::int64_t{rowLayers()} * rows * std::int64_t(sizeof(RowTarget)));
    m_tables.pages =
        tables.add((m_contextLimit + rowPageTokens - 1) / rowPageTokens * std::int64_t(sizeof(std::uint8_t*)));
    m_tables.bytes = tables.bytes();

    const auto bytesOf = [](const CudaLinear& linear) {
        return linear.int4.units ? std::int64_t{linear.outFeatures()} * linear.inFeatures() * 2 : 0;
    };
    std::int64_t weights = 0;
    const auto addLayer = [&](const CudaLayer& layer) {
        for (const CudaLinear* linear :
             {&layer.queryKeyValue, &layer.attentionOut, &layer.mix, &layer.gdnOut, &layer.gateUp, &layer.down})
            weights = std::max(weights, bytesOf(*linear));
    };
    std::ranges::for_each(m_model->layers, addLayer);
    if (m_model->mtp) {
        addLayer(m_model->mtp->layer);
        weights = std::max(weights, bytesOf(m_model->mtp->fc));
    }
    MemoryLayout work;
    const auto rowsOf = [&](std::int64_t columns) { return work.add(rows * columns * 2); };
    m_work.hidden = rowsOf(c.hiddenSize);
    m_work.normed = rowsOf(c.hiddenSize);
    m_work.delta = rowsOf(c.hiddenSize);
    m_work.wide = rowsOf(
        std::max({2 * std::int64_t{c.intermediateSize}, (2 * heads + 2 * kvHeads) * kvHeadDim, convDim + valueDim}));
    m_work.narrow = rowsOf(std::max({std::int64_t{c.intermediateSize}, std::int64_t{c.hiddenSize},
                                     2 * heads * kvHeadDim, convDim + valueDim + smallStride()}));
    m_work.projected = rowsOf(m_sketches ? heads * sketchRank : 0);
    m_work.weights = work.add(weights);
    const std::int64_t attention =
        kvHeads * m_stretchTokens * kvHeadDim * 2 * 2 +
        std::int64_t(prefillAttentionFloats(rows, c.numHeads, c.numKvHeads)) * std::int64_t(sizeof(float));
    m_work.phase = work.add(std::max(attention, std::int64_t(gdnChunkBytes(rows, c.linearNumValueHeads))));
    m_work.gemm = work.add(Bf16Gemm::workspaceBytes);
    m_work.tables = work.add(m_tables.bytes);
    return work.bytes();
}

std::int64_t CudaPrefill::smallStride() const
{
    return roundUp(2 * std::int64_t{m_config.linearNumValueHeads}, 8);
}

int CudaPrefill::rowLayers() const
{
    return m_config.numFullAttentionLayers() + (m_model->mtp ? 1 : 0);
}

int CudaPrefill::blockRows(std::int64_t position, std::size_t tokens) const
{
    if (!available() || position % blockTokens != 0)
        return 0;
    return int(std::min<std::int64_t>(m_maxRows, std::int64_t(tokens) / blockTokens * blockTokens));
}

void CudaPrefill::fillTables(const Pass& pass) const
{
    const Slice& slice = pass.slice;
    const int rows = pass.rows;
    auto* ids = m_tableMemory.at<std::int32_t>(m_tables.ids);
    auto* positions = m_tableMemory.at<std::int32_t>(m_tables.positions);
    auto* mtpPositions = m_tableMemory.at<std::int32_t>(m_tables.mtpPositions);
    for (int i = 0; i < rows; ++i) {
        ids[i] = slice.tokens[std::size_t(i)];
        positions[i] = std::int32_t(slice.position + i);
        mtpPositions[i] = positions[i] - 1;
    }
    std::ranges::copy(slice.pages, m_tableMemory.at<std::uint8_t*>(m_tables.pages));
    const std::int64_t rowBytes = std::int64_t{m_config.numKvHeads} * kvHeadBytes;
    auto* target = m_tableMemory.at<RowTarget>(m_tables.targets);
    for (int layer = 0; layer < rowLayers(); ++layer) {
        const bool isMtp = layer == m_config.numFullAttentionLayers();
        const SketchView sketch = slice.sketch && !isMtp ? pass.sparse.view(*slice.sketch, layer) : SketchView{};
        for (int i = 0; i < rows; ++i) {
            const std::int64_t position = slice.position + i;
            *target++ = {slice.pages[std::size_t(position / rowPageTokens)] +
                             (layer * rowPageTokens + position % rowPageTokens) * rowBytes,
                         nullptr, sketch, position};
        }
    }
    const int convDim = m_config.convDim(), mixWidth = convDim + m_config.valueDim();
    auto* conv = m_tableMemory.at<ConvSequence>(m_tables.conv);
    auto* delta = m_tableMemory.at<GdnSequence>(m_tables.delta);
    const std::int64_t out = m_work.narrow + std::int64_t{rows} * convDim * 2;
    const std::int64_t small = out + std::int64_t{rows} * m_config.valueDim() * 2;
    for (const CudaGdnState& s : slice.gdn) {
        *conv++ = {s.history, s.pendingInput, at(m_work.wide),       at(m_work.narrow), slice.pendingRows,
                   rows,      rows,           std::int32_t(mixWidth)};
        GdnSequence sequence{};
        sequence.state = s.state;
        sequence.pendingQkv = s.pendingQkv, sequence.pendingBeta = s.pendingBeta;
        sequence.pendingDecay = s.pendingDecay, sequence.pendingRows = slice.pendingRows;
        if (!m_paths.chunkedDelta) {
            sequence.qkv = at(m_work.narrow), sequence.beta = at(small);
            sequence.decay = at(small) + std::int64_t{rows} * m_config.linearNumValueHeads;
            sequence.gate = at(m_work.wide) + convDim, sequence.gateStride = mixWidth, sequence.output = at(out);
            sequence.rows = sequence.storeRows = rows;
        }
        *delta++ = sequence;
    }
}

Result<void> CudaPrefill::run(const Slice& slice, const CudaSparse& sparse, cudaStream_t stream)
{
    const Pass pass{slice, sparse, stream, int(slice.tokens.size())};
    fillTables(pass);
    OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(m_memory.at(m_work.tables), m_tableMemory.at<std::uint8_t>(0),
                                           std::size_t(m_tables.bytes), cudaMemcpyHostToDevice, stream),
                           "take the slice's tables"));
    const int hiddenSize = m_config.hiddenSize;
    const MatrixView<__nv_bfloat16> hidden = denseView(at(m_work.hidden), pass.rows, hiddenSize);
    const MatrixView<__nv_bfloat16> normed = denseView(at(m_work.normed), pass.rows, hiddenSize);
    const MatrixView<const __nv_bfloat16> delta{at(m_work.delta), pass.rows, hiddenSize, hiddenSize};
    const float eps = float(m_config.normEps);
    const auto normalise = [&](MatrixView<const __nv_bfloat16> added, const float* weight) {
        return checkCuda(launchAddRmsNorm(hidden, added, weight, eps, normed, stream), "normalise");
    };
    OCTAVO_CHECK(checkCuda(launchEmbedding(m_model->embedding.dense, table<std::int32_t>(m_tables.ids), hidden, stream),
                           "embed tokens"));
    MatrixView<const __nv_bfloat16> added{}; // what the layer before has left to add
    added.rows = pass.rows;
    int attentionLayer = 0, gdnLayer = 0;
    for (const CudaLayer& layer : m_model->layers) {
        OCTAVO_CHECK(normalise(added, layer.inputNorm));
        if (layer.type == LayerType::FullAttention)
            OCTAVO_CHECK(attend(pass, layer, attentionLayer++));
        else
            OCTAVO_CHECK(mix(pass, layer, gdnLayer++));
        added = delta;
        OCTAVO_CHECK(normalise(added, layer.postAttentionNorm));
        OCTAVO_CHECK(feedForward(pass, layer));
    }
    OCTAVO_CHECK(normalise(added, m_model->finalNorm));
    return m_model->mtp ? readMtp(pass) : Result<void>();
}

Result<void> CudaPrefill::multiply(const Pass& pass, const CudaLinear& linear, std::int64_t input, std::int64_t output,
                                   std::int64_t outputStride) const
{
    const int inFeatures = linear.inFeatures(), outFeatures = linear.outFeatures();
    MatrixView<const __nv_bfloat16> weights = linear.dense;
    if (linear.int4.units) {
        const MatrixView<__nv_bfloat16> whole = denseView(at(m_work.weights), outFeatures, inFeatures);
        OCTAVO_CHECK(
            checkCuda(launchW4Dequantize(linear.int4, 0, whole, pass.stream, linear.gated ? outFeatures / 2 : 0),
                      "bring a matrix to bf16"));
        weights = {whole.data, whole.rows, whole.cols, whole.stride};
    }
    return checkCuda(m_gemm->multiply({at(input), pass.rows, inFeatures, inFeatures}, weights, at(output),
                                      outputStride > 0 ? outputStride : outFeatures, m_memory.at(m_work.gemm),
                                      pass.stream),
                     "multiply " + std::to_string(pass.rows) + " rows by a matrix of " + std::to_string(outFeatures) +
                         " x " + std::to_string(inFeatures));
}

Result<QkRopeArgs> CudaPrefill::writeRows(const Pass& pass, const CudaLayer& layer, int attentionLayer,
                                          bool isMtp) const
{
    const int heads = m_config.numHeads, kvHeads = m_config.numKvHeads;
    const std::int64_t stride = (2 * std::int64_t{heads} + 2 * kvHeads) * kvHeadDim;
    const __nv_bfloat16* projected = at(m_work.wide);
    QkRopeArgs rope{};
    rope.queryGate = projected;
    rope.queryGateStride = stride;
    rope.key = projected + std::int64_t{heads} * 2 * kvHeadDim;
    rope.keyStride = stride;
    rope.queryNorm = layer.queryNorm;
    rope.keyNorm = layer.keyNorm;
    rope.positions = table<std::int32_t>(isMtp ? m_tables.mtpPositions : m_tables.positions);
    rope.frequencies = m_model->ropeFrequencies;
    rope.queryOut = at(m_work.narrow);
    rope.tokens = pass.rows;
    rope.heads = heads;
    rope.kvHeads = kvHeads;
    rope.eps = float(m_config.normEps);
    const bool sketches = m_sketches && !isMtp;
    const AttentionInput input{rope,
                               rope.key + kvHeads * kvHeadDim,
                               stride,
                               table<RowTarget>(m_tables.targets) + std::int64_t{attentionLayer} * pass.rows,
                               sketches ? pass.sparse.basis(attentionLayer) : nullptr,
                               sketches ? pass.sparse.means(attentionLayer) : nullptr,
                               at(m_work.projected)};
    OCTAVO_CHECK(checkCuda(launchAttentionInput(input, pass.stream), "write KV rows"));
    return rope;
}

Result<void> CudaPrefill::readMtp(const Pass& pass) const
{
    // The row of slot p joins the token at p with the final row of p - 1; before the first token there is none.
    const CudaMtp& mtp = *m_model->mtp;
    const int hiddenSize = m_config.hiddenSize, rows = pass.rows;
    const float eps = float(m_config.normEps);
    const auto normalise = [&](MatrixView<__nv_bfloat16> x, const float* weight, MatrixView<__nv_bfloat16> y) {
        return checkCuda(launchAddRmsNorm(x, {}, weight, eps, y, pass.stream), "normalise");
    };
    const auto half = [&](int which, int first, int count) {
        return MatrixView<__nv_bfloat16>{at(m_work.wide) + (2 * std::int64_t{first} + which) * hiddenSize, count,
                                         hiddenSize, 2 * std::int64_t{hiddenSize}};
    };
    const MatrixView<__nv_bfloat16> hidden = denseView(at(m_work.hidden), rows, hiddenSize);
    OCTAVO_CHECK(
        checkCuda(launchEmbedding(m_model->embedding.dense, table<std::int32_t>(m_tables.ids), hidden, pass.stream),
                  "embed tokens"));
    OCTAVO_CHECK(normalise(hidden, mtp.embeddingNorm, half(0, 0, rows)));
    OCTAVO_CHECK(normalise(denseView(at(m_work.normed), rows - 1, hiddenSize), mtp.hiddenNorm, half(1, 1, rows - 1)));
    const std::size_t rowBytes = std::size_t(hiddenSize) * 2;
    OCTAVO_CHECK(checkCuda(pass.slice.lastFinal ? cudaMemcpyAsync(at(m_work.narrow), pass.slice.lastFinal, rowBytes,
                                                                  cudaMemcpyDeviceToDevice, pass.stream)
                                                : cudaMemsetAsync(at(m_work.narrow), 0, rowBytes, pass.stream),
                           "take the row before the slice"));
    OCTAVO_CHECK(normalise(denseView(at(m_work.narrow), 1, hiddenSize), mtp.hiddenNorm, half(1, 0, 1)));
    OCTAVO_CHECK(multiply(pass, mtp.fc, m_work.wide, m_work.narrow));
    const MatrixView<__nv_bfloat16> x = denseView(at(m_work.narrow), rows, hiddenSize);
    OCTAVO_CHECK(normalise(x, mtp.layer.inputNorm, denseView(at(m_work.delta), rows, hiddenSize)));
    OCTAVO_CHECK(multiply(pass, mtp.layer.queryKeyValue, m_work.delta, m_work.wide));
    OCTAVO_CHECK(writeRows(pass, mtp.layer, m_config.numFullAttentionLayers(), true));
    return {};
}

Result<void> CudaPrefill::attend(const Pass& pass, const CudaLayer& layer, int attentionLayer) const
{
    const int rows = pass.rows, heads = m_config.numHeads, kvHeads = m_config.numKvHeads;
    const std::int64_t context = m_work.narrow + std::int64_t{rows} * heads * kvHeadDim * 2;
    OCTAVO_CHECK(multiply(pass, layer.queryKeyValue, m_work.normed, m_work.wide));
    OCTAVO_TRY(const QkRopeArgs rope, writeRows(pass, layer, attentionLayer, false));
    const RowPages pages{table<std::uint8_t*>(m_tables.pages),
                         std::int64_t{attentionLayer} * rowPageTokens * kvHeads * kvHeadBytes};
    const PrefillQueries queries{
        rope.queryOut, rope.queryGate + kvHeadDim, rope.queryGateStride, 2 * kvHeadDim, rows, heads,
        kvHeads,       int(pass.slice.position)};
    const std::int64_t stretchBytes = std::int64_t{kvHeads} * m_stretchTokens * kvHeadDim * 2;
    KvStretch stretch{at(m_work.phase), at(m_work.phase + stretchBytes), m_stretchTokens, 0, 0};
    const int end = int(pass.slice.position) + rows;
    for (int begin = 0; begin < end; begin += m_stretchTokens) {
        stretch.begin = begin;
        stretch.end = std::min(end, begin + m_stretchTokens);
        OCTAVO_CHECK(checkCuda(launchDequantizeRows(pages, kvHeads, stretch, pass.stream), "bring rows to bf16"));
        OCTAVO_CHECK(
            checkCuda(launchPrefillAttention(queries, stretch, m_memory.at<float>(m_work.phase + 2 * stretchBytes),
                                             at(context), m_paths.attention, pass.stream),
                      "attend to rows"));
    }
    return multiply(pass, layer.attentionOut, context, m_work.delta);
}

Result<void> CudaPrefill::mix(const Pass& pass, const CudaLayer& layer, int gdnLayer) const
{
    const std::int64_t rows = pass.rows;
    const int heads = m_config.linearNumValueHeads, convDim = m_config.convDim(), valueDim = m_config.valueDim();
    const int mixWidth = convDim + valueDim;
    const std::int64_t out = m_work.narrow + rows * convDim * 2, small = out + rows * valueDim * 2;
    OCTAVO_CHECK(multiply(pass, layer.mix, m_work.normed, m_work.wide));
    GdnProjection projection{}; // row by row it shares the convolution's launch
    if (m_paths.chunkedDelta)
        OCTAVO_CHECK(multiply(pass, layer.projection, m_work.normed, small, smallStride()));
    else
        projection = {{at(m_work.normed), pass.rows, m_config.hiddenSize, m_config.hiddenSize},
                      layer.projection.dense.data,
                      at(small),
                      at(small) + rows * heads,
                      heads};
    OCTAVO_CHECK(checkCuda(launchGdnConv(table<ConvSequence>(m_tables.conv) + gdnLayer, 1, pass.rows, convDim,
                                         layer.conv, projection, pass.stream),
                           "convolve"));
    if (pass.slice.pendingRows > 0 || !m_paths.chunkedDelta)
        OCTAVO_CHECK(
            checkCuda(launchGdnDecode(table<GdnSequence>(m_tables.delta) + gdnLayer, 1, layer.gdn, pass.stream),
                      "apply the delta rule"));
    if (m_paths.chunkedDelta) {
        const GdnChunkInput input{at(m_work.narrow),
                                  at(small),
                                  at(small) + heads,
                                  smallStride(),
                                  at(m_work.wide) + convDim,
                                  mixWidth,
                                  pass.rows,
                                  pass.slice.gdn[std::size_t(gdnLayer)].state,
                                  at(out)};
        OCTAVO_CHECK(checkCuda(launchGdnChunks(input, layer.gdn, m_memory.at(m_work.phase), pass.stream),
                               "apply the delta rule to chunks"));
    }
    return multiply(pass, layer.gdnOut, out, m_work.delta);
}

Result<void> CudaPrefill::feedForward(const Pass& pass, const CudaLayer& layer) const
{
    const int width = m_config.intermediateSize;
    OCTAVO_CHECK(multiply(pass, layer.gateUp, m_work.normed, m_work.wide));
    OCTAVO_CHECK(checkCuda(launchSiluMul({at(m_work.wide), pass.rows, 2 * width, 2 * width},
                                         denseView(at(m_work.narrow), pass.rows, width), pass.stream),
                           "gate the MLP"));
    return multiply(pass, layer.down, m_work.narrow, m_work.delta);
}

} // namespace octavo::engine
