#include "engine/backend/cuda_model.h"

#include "engine/model/quantized_linear.h"
#include "kernels/cuda/bf16_rows.h"
#include "kernels/cuda/kv_rows.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <thread>

namespace octavo::engine
{

namespace
{

using namespace kernels::cuda;

/// From here on a bf16 product has blocks for all multiprocessors, 128 outputs each.
constexpr int manyOutputs = 16'000;

bool fitsInt4Kernel(const LinearWeight& weight)
{
    if (weight.format != LinearWeight::Format::Int4 || !weight.symmetric() || weight.groupSize != w4GroupSize ||
        weight.inFeatures % 8 != 0)
        return false;
    for (std::size_t k = 0; k < weight.groupOfInput.size(); ++k) {
        if (weight.groupOfInput[k] != std::int32_t(k / w4GroupSize))
            return false;
    }
    return true;
}

/// 16 gates, then the 16 values that they gate, and so on.
void packGated(const LinearWeight& gate, const LinearWeight& up, std::vector<std::uint8_t>& units)
{
    const int width = gate.outFeatures, outFeatures = 2 * width, inFeatures = gate.inFeatures;
    const int wordRows = inFeatures / 8, groups = (inFeatures + w4GroupSize - 1) / w4GroupSize;
    std::vector<std::uint32_t> words(std::size_t(wordRows) * std::size_t(outFeatures));
    std::vector<std::uint16_t> scales(std::size_t(groups) * std::size_t(outFeatures));
    for (int n = 0; n < outFeatures; ++n) {
        const int row = gatedRow(n, width);
        const LinearWeight& from = row < width ? gate : up;
        const std::size_t column = std::size_t(row % width);
        for (int k = 0; k < wordRows; ++k)
            words[std::size_t(k) * std::size_t(outFeatures) + std::size_t(n)] =
                from.qweight[std::size_t(k) * std::size_t(width) + column];
        for (int g = 0; g < groups; ++g)
            scales[std::size_t(g) * std::size_t(outFeatures) + std::size_t(n)] =
                from.scales[std::size_t(g) * std::size_t(width) + column];
    }
    packW4(words.data(), scales.data(), outFeatures, inFeatures, units);
}

std::uint16_t toBf16(float value)
{
    const __nv_bfloat16_raw raw = __float2bfloat16(value);
    return raw.x;
}

} // namespace

Result<void> CudaModel::check(const ModelConfig& c)
{
    const auto wrong = [](const std::string& name, int found, const std::string& wanted) {
        return Error{ErrorCode::Unsupported, "The GPU's kernels need " + name + " of " + wanted + ", the model has " +
                                                 std::to_string(found) + ": use the cpu device"};
    };
    if (c.headDim != kvHeadDim)
        return wrong("head_dim", c.headDim, "256");
    if (c.rotaryDim != 64)
        return wrong("a rotary part", c.rotaryDim, "64");
    if (c.numHeads % c.numKvHeads != 0 || c.numHeads / c.numKvHeads > 8)
        return wrong("query heads per KV head", c.numHeads / c.numKvHeads, "1 to 8");
    if (c.linearKeyHeadDim != gdnHeadDim || c.linearValueHeadDim != gdnHeadDim)
        return wrong("linear head dims", c.linearKeyHeadDim, "128");
    if (c.linearConvKernel != convHistory + 1)
        return wrong("linear_conv_kernel_dim", c.linearConvKernel, "4");
    if (c.linearNumValueHeads % c.linearNumKeyHeads != 0)
        return wrong("linear value heads", c.linearNumValueHeads, "a multiple of its key heads");
    if (c.hiddenSize % 8 != 0 || c.hiddenSize > 16384)
        return wrong("hidden_size", c.hiddenSize, "a multiple of 8 up to 16,384");
    if (c.intermediateSize % 8 != 0)
        return wrong("intermediate_size", c.intermediateSize, "a multiple of 8");
    return {};
}

Result<const void*> CudaModel::upload(const void* data, std::int64_t bytes)
{
    OCTAVO_TRY(DeviceMemory memory, DeviceMemory::allocate(bytes, "the model's weights"));
    OCTAVO_CHECK(
        checkCuda(cudaMemcpy(memory.at(), data, std::size_t(bytes), cudaMemcpyHostToDevice), "take the weights"));
    m_bytes += bytes;
    m_memory.push_back(std::move(memory));
    return static_cast<const void*>(m_memory.back().at());
}

Result<const void*> CudaModel::uploadPacked(const Source& source, int outFeatures, int inFeatures,
                                            const std::function<void(std::vector<std::uint8_t>& units)>& pack)
{
    const std::int64_t bytes = w4PackedBytes(outFeatures, inFeatures);
    if (const auto known = m_packed.find(source); known != m_packed.end()) {
        OCTAVO_TRY(DeviceMemory memory, DeviceMemory::allocate(bytes, "the model's weights"));
        OCTAVO_CHECK(checkCuda(cudaMemcpy(memory.at(), known->second, std::size_t(bytes), cudaMemcpyDeviceToDevice),
                               "copy weights"));
        m_bytes += bytes;
        m_memory.push_back(std::move(memory));
        return static_cast<const void*>(m_memory.back().at());
    }
    std::vector<std::uint8_t> units(static_cast<std::size_t>(bytes));
    clearW4(units);
    pack(units);
    OCTAVO_TRY(const void* data, upload(units.data(), bytes));
    m_packed.emplace(source, data);
    return data;
}

Result<const float*> CudaModel::upload(const std::vector<float>& values)
{
    OCTAVO_TRY(const void* data, upload(values.data(), std::int64_t(values.size() * sizeof(float))));
    return static_cast<const float*>(data);
}

Result<CudaLinear> CudaModel::upload(std::span<const LinearWeight* const> parts)
{
    int outFeatures = 0;
    for (const LinearWeight* part : parts)
        outFeatures += part->outFeatures;
    m_widestLinear = std::max(m_widestLinear, outFeatures);
    if (!std::ranges::all_of(parts, [](const LinearWeight* part) { return fitsInt4Kernel(*part); }))
        return uploadDense(parts);
    const int inFeatures = parts[0]->inFeatures;
    Source source;
    for (const LinearWeight* part : parts)
        source.emplace_back(part->qweight, part->outFeatures);
    OCTAVO_TRY(const void* data, uploadPacked(source, outFeatures, inFeatures, [&](std::vector<std::uint8_t>& units) {
                   int firstOut = 0;
                   for (const LinearWeight* part : parts) {
                       packW4(part->qweight, part->scales, part->outFeatures, inFeatures, units, firstOut);
                       firstOut += part->outFeatures;
                   }
               }));
    CudaLinear linear;
    linear.int4 = {static_cast<const std::uint8_t*>(data), outFeatures, inFeatures};
    return linear;
}

Result<CudaLinear> CudaModel::uploadDense(std::span<const LinearWeight* const> parts)
{
    const int inFeatures = parts[0]->inFeatures;
    std::vector<std::uint16_t> values;
    std::vector<float> row(static_cast<std::size_t>(inFeatures));
    int outFeatures = 0;
    for (const LinearWeight* part : parts) {
        values.reserve(values.size() + std::size_t(part->parameters()));
        if (part->format == LinearWeight::Format::Bf16) { // as it is, wherever it begins
            const std::size_t first = values.size();
            values.resize(first + std::size_t(part->parameters()));
            std::memcpy(values.data() + first, part->dense, 2 * std::size_t(part->parameters()));
            outFeatures += part->outFeatures;
            continue;
        }
        for (int n = 0; n < part->outFeatures; ++n) {
            part->dequantizeRow(n, row);
            std::ranges::transform(row, std::back_inserter(values), toBf16);
        }
        outFeatures += part->outFeatures;
    }
    OCTAVO_TRY(const void* data, upload(values.data(), std::int64_t(values.size() * 2)));
    CudaLinear linear;
    linear.dense = {static_cast<const __nv_bfloat16*>(data), outFeatures, inFeatures, inFeatures};
    linear.many = outFeatures >= manyOutputs && bf16RowsFit(linear.dense);
    return linear;
}

Result<CudaLinear> CudaModel::uploadQuantized(const LinearWeight& weight)
{
    const int threads = int(std::max(1u, std::thread::hardware_concurrency()));
    OCTAVO_TRY(const QuantizedLinear int4, quantizeInt4(weight, threads));
    const LinearWeight* part = &int4.weight;
    Result<CudaLinear> linear = upload(std::span(&part, 1));
    m_packed.erase(Source{{int4.weight.qweight, int4.weight.outFeatures}}); // nobody else will have it
    return linear;
}

Result<CudaLinear> CudaModel::uploadDraftHead(const LinearWeight& weight, const BackendOptions& options)
{
    const CudaLinear first = head.firstOutputs(options.draftVocabulary);
    std::size_t freeBytes = 0, totalBytes = 0;
    OCTAVO_CHECK(checkCuda(cudaMemGetInfo(&freeBytes, &totalBytes), "tell how much memory it has"));
    const std::int64_t bytes = w4PackedBytes(first.outFeatures(), first.inFeatures());
    if (head.int4.units || !options.quantizeDrafts || !canQuantize(weight) || bytes > std::int64_t(totalBytes / 100))
        return first;
    LinearWeight part = weight;
    part.outFeatures = first.outFeatures();
    Result<CudaLinear> copy = uploadQuantized(part);
    if (copy || copy.error().code == ErrorCode::DeviceFailure)
        return copy;
    (void)cudaGetLastError(); // of the memory that could not be had
    spdlog::info("drafts do without an int4 copy of the head: {}", copy.error().message); // they take longer, no more
    return first;
}

Result<CudaLinear> CudaModel::uploadGated(const LinearWeight& gate, const LinearWeight& up)
{
    const int width = gate.outFeatures, outFeatures = 2 * width, inFeatures = gate.inFeatures;
    const LinearWeight* parts[] = {&gate, &up};
    if (!fitsInt4Kernel(gate) || !fitsInt4Kernel(up) || width % 16 != 0)
        return upload(parts);
    const Source source{{gate.qweight, width}, {up.qweight, width}, {nullptr, 0}};
    OCTAVO_TRY(const void* data, uploadPacked(source, outFeatures, inFeatures,
                                              [&](std::vector<std::uint8_t>& units) { packGated(gate, up, units); }));
    m_widestLinear = std::max(m_widestLinear, outFeatures);
    CudaLinear linear;
    linear.int4 = {static_cast<const std::uint8_t*>(data), outFeatures, inFeatures};
    linear.gated = true;
    return linear;
}

Result<CudaLayer> CudaModel::uploadLayer(const ModelConfig& config, const LayerWeights& source)
{
    using Parts = std::initializer_list<const LinearWeight*>;
    const auto linear = [&](CudaLinear& to, Parts parts) -> Result<void> {
        OCTAVO_TRY(to, upload(std::span(parts.begin(), parts.size())));
        return {};
    };
    const auto floats = [&](const float*& to, const std::vector<float>& values) -> Result<void> {
        OCTAVO_TRY(to, upload(values));
        return {};
    };
    CudaLayer layer;
    layer.type = source.type;
    OCTAVO_CHECK(floats(layer.inputNorm, source.inputNorm));
    OCTAVO_CHECK(floats(layer.postAttentionNorm, source.postAttentionNorm));
    OCTAVO_TRY(layer.gateUp, uploadGated(source.mlp.gate, source.mlp.up));
    OCTAVO_CHECK(linear(layer.down, {&source.mlp.down}));
    if (source.type == LayerType::FullAttention) {
        const AttentionWeights& attention = *source.attention;
        OCTAVO_CHECK(linear(layer.queryKeyValue, {&attention.q, &attention.k, &attention.v}));
        OCTAVO_CHECK(linear(layer.attentionOut, {&attention.o}));
        OCTAVO_CHECK(floats(layer.queryNorm, attention.qNorm));
        OCTAVO_CHECK(floats(layer.keyNorm, attention.kNorm));
        return layer;
    }
    const GdnWeights& gdn = *source.gdn;
    OCTAVO_CHECK(linear(layer.mix, {&gdn.qkv, &gdn.z}));
    const LinearWeight* small[] = {&gdn.b, &gdn.a};
    OCTAVO_TRY(layer.projection, uploadDense(small));
    OCTAVO_CHECK(linear(layer.gdnOut, {&gdn.out}));
    OCTAVO_CHECK(floats(layer.conv, gdn.conv));
    layer.gdn.keyHeads = config.linearNumKeyHeads;
    layer.gdn.valueHeads = config.linearNumValueHeads;
    layer.gdn.normEps = float(config.normEps);
    OCTAVO_CHECK(floats(layer.gdn.aLog, gdn.aLog));
    OCTAVO_CHECK(floats(layer.gdn.dtBias, gdn.dtBias));
    OCTAVO_CHECK(floats(layer.gdn.norm, gdn.norm));
    return layer;
}

Result<CudaModel> CudaModel::load(const ModelConfig& config, const ModelWeights& weights, const BackendOptions& options)
{
    CudaModel model;
    const LinearWeight* embedding = &weights.embedding;
    OCTAVO_TRY(model.embedding, model.uploadDense(std::span(&embedding, 1)));
    model.head = model.embedding;
    model.m_widestLinear = weights.head().outFeatures;
    const LinearWeight* head = &weights.head();
    if (options.quantizeHead && canQuantize(*head)) {
        OCTAVO_TRY(model.head, model.uploadQuantized(*head));
    } else if (weights.lmHead) {
        OCTAVO_TRY(model.head, model.upload(std::span(&head, 1)));
    }
    OCTAVO_TRY(model.finalNorm, model.upload(weights.finalNorm));
    std::vector<float> frequencies;
    for (int j = 0; j < config.rotaryDim / 2; ++j)
        frequencies.push_back(float(std::pow(config.ropeTheta, -2.0 * j / config.rotaryDim)));
    OCTAVO_TRY(model.ropeFrequencies, model.upload(frequencies));
    for (const LayerWeights& source : weights.layers) {
        if (options.cancel && options.cancel->load())
            return Error{ErrorCode::Cancelled, "loading " + weights.dir.string() + " was cancelled"};
        OCTAVO_TRY(CudaLayer layer, model.uploadLayer(config, source));
        model.layers.push_back(layer);
    }
    if (options.mtp && weights.mtp) {
        const MtpWeights& source = *weights.mtp;
        const LinearWeight* fc = &source.fc;
        CudaMtp& mtp = model.mtp.emplace();
        OCTAVO_TRY(model.draftHead, model.uploadDraftHead(*head, options));
        OCTAVO_TRY(mtp.fc, model.upload(std::span(&fc, 1)));
        OCTAVO_TRY(mtp.embeddingNorm, model.upload(source.preFcNormEmbedding));
        OCTAVO_TRY(mtp.hiddenNorm, model.upload(source.preFcNormHidden));
        OCTAVO_TRY(mtp.norm, model.upload(source.norm));
        OCTAVO_TRY(mtp.layer, model.uploadLayer(config, source.layer));
    }
    return model;
}

} // namespace octavo::engine
