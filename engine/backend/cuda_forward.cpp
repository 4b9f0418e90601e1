/// One pass of CudaBackend through the layers.

#include "engine/backend/cuda_backend.h"

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/kv_rows.h"

#include <algorithm>

namespace octavo::engine
{

using namespace kernels::cuda;

void CudaBackend::fillTables(std::span<const Part> parts)
{
    auto* ids = m_tableMemory.at<std::int32_t>(m_tables.ids);
    auto* positions = m_tableMemory.at<std::int32_t>(m_tables.positions);
    auto* conv = m_tableMemory.at<ConvSequence>(m_tables.conv);
    auto* gdn = m_tableMemory.at<GdnSequence>(m_tables.gdn);
    auto* attention = m_tableMemory.at<AttentionRows>(m_tables.attention);
    const std::int64_t convDim = m_config.convDim(), valueDim = m_config.valueDim();
    const std::int64_t valueHeads = m_config.linearNumValueHeads;
    std::int64_t row = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        const Part& part = parts[p];
        const CudaSequence& s = *part.sequence;
        const SequenceLayout layout = sequenceLayout(s.maxTokens);
        const int rows = int(part.tokens.size());
        const int stored = part.final ? rows : 0;
        for (int layer = 0; layer < gdnLayers(); ++layer) {
            const std::int64_t base = layout.recurrent + layer * m_gdnOffsets.bytes;
            const auto at = [&](std::int64_t offset) { return s.memory.at<__nv_bfloat16>(base + offset); };
            const auto work = [&](std::int64_t buffer, std::int64_t columns) {
                return m_workMemory.at<__nv_bfloat16>(buffer) + row * columns;
            };
            conv[layer * maxRows + std::int64_t(p)] = {at(m_gdnOffsets.history),
                                                       at(m_gdnOffsets.pendingInput),
                                                       work(m_work.convInput, convDim),
                                                       work(m_work.convOutput, convDim),
                                                       s.pendingRows,
                                                       rows,
                                                       stored};
            gdn[layer * maxRows + std::int64_t(p)] = {s.memory.at<float>(base + m_gdnOffsets.state),
                                                      at(m_gdnOffsets.pendingQkv),
                                                      at(m_gdnOffsets.pendingBeta),
                                                      at(m_gdnOffsets.pendingDecay),
                                                      work(m_work.convOutput, convDim),
                                                      work(m_work.beta, valueHeads),
                                                      work(m_work.decay, valueHeads),
                                                      work(m_work.z, valueDim),
                                                      work(m_work.gdnOut, valueDim),
                                                      s.pendingRows,
                                                      rows,
                                                      stored};
        }
        for (int i = 0; i < rows; ++i, ++row) {
            ids[row] = part.tokens[std::size_t(i)];
            positions[row] = std::int32_t(s.length + i);
            for (int layer = 0; layer < m_config.numFullAttentionLayers(); ++layer)
                attention[layer * maxRows + row] = {s.memory.at(layer * layout.rowsPerLayer), nullptr,
                                                    std::int32_t(s.length + i + 1)};
        }
    }
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
    return checkCuda(
        launchW4Gemm(x, linear.int4, m_workMemory.at(output), outFeatures, type, workspace, m_stream.get()), what);
}

Result<void> CudaBackend::forward(std::span<const Part> parts)
{
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    const cudaStream_t stream = m_stream.get();
    int rows = 0;
    for (const Part& part : parts)
        rows += int(part.tokens.size());
    fillTables(parts);
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
            OCTAVO_CHECK(attend(layer, attentionLayer++, parts, rows));
        else
            OCTAVO_CHECK(mix(layer, gdnLayer++, parts, rows));
        added = delta;
        OCTAVO_CHECK(
            checkCuda(launchAddRmsNorm(hidden, added, layer.postAttentionNorm, eps, normed, stream), "normalise"));
        OCTAVO_CHECK(multiply(layer.gateUp, m_work.normed, rows, m_work.gateUp));
        const int width = m_config.intermediateSize;
        const MatrixView<const __nv_bfloat16> gateUp{m_workMemory.at<__nv_bfloat16>(m_work.gateUp), rows, 2 * width,
                                                     2 * width};
        OCTAVO_CHECK(checkCuda(
            launchSiluMul(gateUp, denseView(m_workMemory.at<__nv_bfloat16>(m_work.product), rows, width), stream),
            "gate the MLP"));
        OCTAVO_CHECK(multiply(layer.down, m_work.product, rows, m_work.delta));
    }
    return checkCuda(launchAddRmsNorm(hidden, added, m_model.finalNorm, eps, normed, stream), "normalise");
}

Result<void> CudaBackend::attend(const CudaLayer& layer, int attentionLayer, std::span<const Part> parts, int rows)
{
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
    OCTAVO_CHECK(checkCuda(launchQkNormRope(rope, stream), "rotate heads"));

    int first = 0;
    for (const Part& part : parts) {
        const int count = int(part.tokens.size());
        const CudaSequence& s = *part.sequence;
        const int width = kvHeads * kvHeadDim;
        const MatrixView<const __nv_bfloat16> keys{rope.keyOut + std::int64_t(first) * width, count, width, width};
        const MatrixView<const __nv_bfloat16> values{rope.key + width + first * stride, count, width, stride};
        std::uint8_t* target =
            s.memory.at(attentionLayer * sequenceLayout(s.maxTokens).rowsPerLayer + s.length * kvHeads * kvHeadBytes);
        OCTAVO_CHECK(checkCuda(launchQuantizeRows(keys, values, kvHeads, nullptr, target, stream), "write KV rows"));
        first += count;
    }

    std::int64_t longest = 0;
    for (const Part& part : parts)
        longest = std::max(longest, part.sequence->length + std::int64_t(part.tokens.size()));
    const auto* rowTable =
        m_workMemory.at<AttentionRows>(m_work.tables + m_tables.attention) + attentionLayer * maxRows;
    for (int query = 0; query < rows; query += queriesPerLaunch) {
        const AttentionShape shape{std::min(queriesPerLaunch, rows - query), heads, kvHeads, rowsPerSplit,
                                   int((longest + rowsPerSplit - 1) / rowsPerSplit)};
        const std::int64_t offset = std::int64_t(query) * heads * kvHeadDim;
        OCTAVO_CHECK(checkCuda(launchAttentionDecode(rowTable + query, shape, rope.queryOut + offset,
                                                     projected + kvHeadDim + query * stride, stride, 2 * kvHeadDim,
                                                     m_workMemory.at<float>(m_work.attentionParts),
                                                     m_workMemory.at<__nv_bfloat16>(m_work.context) + offset, stream),
                               "attend to " + std::to_string(longest) + " rows"));
    }
    return multiply(layer.attentionOut, m_work.context, rows, m_work.delta);
}

Result<void> CudaBackend::mix(const CudaLayer& layer, int gdnLayer, std::span<const Part> parts, int rows)
{
    const cudaStream_t stream = m_stream.get();
    OCTAVO_CHECK(multiply(layer.qkv, m_work.normed, rows, m_work.convInput));
    OCTAVO_CHECK(multiply(layer.z, m_work.normed, rows, m_work.z));
    OCTAVO_CHECK(multiply(layer.b, m_work.normed, rows, m_work.beta));
    OCTAVO_CHECK(multiply(layer.a, m_work.normed, rows, m_work.decay));
    const int convDim = m_config.convDim();
    const auto* conv = m_workMemory.at<ConvSequence>(m_work.tables + m_tables.conv) + gdnLayer * maxRows;
    const auto* gdn = m_workMemory.at<GdnSequence>(m_work.tables + m_tables.gdn) + gdnLayer * maxRows;
    OCTAVO_CHECK(checkCuda(launchGdnConv(conv, int(parts.size()), maxRows, convDim, layer.conv, stream), "convolve"));
    OCTAVO_CHECK(checkCuda(launchGdnDecode(gdn, int(parts.size()), layer.gdn, stream), "apply the delta rule"));

    // What a verify step read becomes what the next launch may have to apply.
    std::int64_t first = 0;
    for (const Part& part : parts) {
        const std::int64_t count = std::int64_t(part.tokens.size());
        if (!part.final) {
            const CudaSequence& s = *part.sequence;
            const std::int64_t base = sequenceLayout(s.maxTokens).recurrent + gdnLayer * m_gdnOffsets.bytes;
            const auto keep = [&](std::int64_t to, std::int64_t from, std::int64_t columns) {
                return checkCuda(cudaMemcpyAsync(s.memory.at(base + to), m_workMemory.at(from + first * columns * 2),
                                                 std::size_t(count * columns * 2), cudaMemcpyDeviceToDevice, stream),
                                 "keep a verify step's inputs");
            };
            OCTAVO_CHECK(keep(m_gdnOffsets.pendingInput, m_work.convInput, convDim));
            OCTAVO_CHECK(keep(m_gdnOffsets.pendingQkv, m_work.convOutput, convDim));
            OCTAVO_CHECK(keep(m_gdnOffsets.pendingBeta, m_work.beta, m_config.linearNumValueHeads));
            OCTAVO_CHECK(keep(m_gdnOffsets.pendingDecay, m_work.decay, m_config.linearNumValueHeads));
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
    return checkCuda(cudaStreamSynchronize(m_stream.get()), "finish a step");
}

} // namespace octavo::engine
