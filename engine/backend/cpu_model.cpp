#include "engine/backend/cpu_model.h"

#include "engine/model/quantized_linear.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <string>
#include <vector>

namespace octavo::engine
{

namespace
{

/// From this many outputs on, a 16-bit head is stored as int8: it is read whole for every token.
constexpr int int8HeadOutputs = 4096;

Result<void> checkSizes(const ModelConfig& config)
{
    const std::pair<const char*, int> sizes[] = {{"hidden_size", config.hiddenSize},
                                                 {"intermediate_size", config.intermediateSize},
                                                 {"head_dim", config.headDim},
                                                 {"linear_key_head_dim", config.linearKeyHeadDim},
                                                 {"linear_value_head_dim", config.linearValueHeadDim}};
    for (const auto& [name, size] : sizes) {
        if (size % 16 != 0)
            return Error{ErrorCode::Unsupported, std::string(name) + " is " + std::to_string(size) +
                                                     "; the CPU backend runs multiples of 16"};
    }
    return {};
}

/// Repacks layers, dense ones by way of int4 where that is wanted. What they were read from leaves the memory as they
/// are done, so that no more than one of them is there twice.
class LayerLoader
{
public:
    LayerLoader(const ModelConfig& config, const ModelWeights& weights, const BackendOptions& options, int threads)
        : m_config(config)
        , m_weights(weights)
        , m_options(options)
        , m_threads(threads)
    {
        for (const LayerWeights& layer : weights.layers)
            count(layer);
        if (weights.mtp && options.mtp)
            count(weights.mtp->layer);
    }

    Result<CpuLayer> layer(const LayerWeights& weights);
    Result<CpuMtp> mtp(const MtpWeights& weights);
    bool hasQuantized() const { return m_done > 0; }

private:
    bool quantizes(const LinearWeight& weight) const { return m_options.quantize && canQuantize(weight); }
    void count(const LayerWeights& layer)
    {
        for (const LinearWeight* module : bigLinears(layer))
            m_total += quantizes(*module) ? module->parameters() : 0;
    }

    Result<CpuLinear> pack(const LinearWeight& weight);
    Result<CpuGdn> gdn(const GdnWeights& weights);
    Result<CpuAttention> attention(const AttentionWeights& weights);

    const ModelConfig& m_config;
    const ModelWeights& m_weights;
    const BackendOptions& m_options;
    const int m_threads;
    std::int64_t m_total = 0, m_done = 0; // parameters to quantise
};

Result<CpuLinear> LayerLoader::pack(const LinearWeight& weight)
{
    if (!quantizes(weight))
        return CpuLinear::pack(weight);
    OCTAVO_TRY(const QuantizedLinear int4, quantizeInt4(weight, m_threads));
    OCTAVO_TRY(CpuLinear linear, CpuLinear::pack(int4.weight));
    if (m_weights.letGoOfPages)
        m_weights.letGoOfPages();
    m_done += weight.parameters();
    if (m_options.onQuantized && !m_options.onQuantized(m_done, m_total))
        return Error{ErrorCode::Cancelled, "quantising the model was cancelled"};
    return linear;
}

Result<CpuGdn> LayerLoader::gdn(const GdnWeights& weights)
{
    CpuGdn gdn;
    OCTAVO_TRY(gdn.qkv, pack(weights.qkv));
    OCTAVO_TRY(gdn.z, pack(weights.z));
    OCTAVO_TRY(gdn.out, pack(weights.out));
    const LinearWeight* ba[] = {&weights.b, &weights.a};
    OCTAVO_TRY(gdn.ba, CpuLinear::pack(ba));
    const std::size_t width = std::size_t(m_config.linearConvKernel), channels = std::size_t(m_config.convDim());
    gdn.taps.resize(width * channels);
    for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t i = 0; i < width; ++i)
            gdn.taps[i * channels + c] = weights.conv[c * width + i];
    }
    for (float aLog : weights.aLog)
        gdn.decayRate.push_back(float(std::exp(double(aLog))));
    gdn.dtBias = weights.dtBias;
    gdn.norm = weights.norm;
    return gdn;
}

Result<CpuAttention> LayerLoader::attention(const AttentionWeights& weights)
{
    CpuAttention attention;
    OCTAVO_TRY(attention.q, pack(weights.q));
    OCTAVO_TRY(attention.k, pack(weights.k));
    OCTAVO_TRY(attention.v, pack(weights.v));
    OCTAVO_TRY(attention.o, pack(weights.o));
    attention.qNorm = weights.qNorm;
    attention.kNorm = weights.kNorm;
    return attention;
}

Result<CpuLayer> LayerLoader::layer(const LayerWeights& weights)
{
    CpuLayer layer;
    layer.inputNorm = weights.inputNorm;
    layer.postAttentionNorm = weights.postAttentionNorm;
    if (weights.attention) {
        OCTAVO_TRY(layer.attention, attention(*weights.attention));
    } else {
        OCTAVO_TRY(layer.gdn, gdn(*weights.gdn));
    }
    OCTAVO_TRY(layer.gate, pack(weights.mlp.gate));
    OCTAVO_TRY(layer.up, pack(weights.mlp.up));
    OCTAVO_TRY(layer.down, pack(weights.mlp.down));
    return layer;
}

Result<CpuMtp> LayerLoader::mtp(const MtpWeights& weights)
{
    CpuMtp mtp;
    const bool int4 = weights.fc.format == LinearWeight::Format::Int4;
    OCTAVO_TRY(mtp.fc, int4 ? CpuLinear::pack(weights.fc) : CpuLinear::packInt8(weights.fc));
    mtp.embeddingNorm = weights.preFcNormEmbedding;
    mtp.hiddenNorm = weights.preFcNormHidden;
    mtp.norm = weights.norm;
    OCTAVO_TRY(mtp.layer, layer(weights.layer));
    return mtp;
}

std::int64_t bytesOf(const CpuLayer& layer)
{
    std::int64_t bytes = layer.gate.bytes() + layer.up.bytes() + layer.down.bytes();
    if (layer.attention)
        bytes += layer.attention->q.bytes() + layer.attention->k.bytes() + layer.attention->v.bytes() +
                 layer.attention->o.bytes();
    if (layer.gdn)
        bytes += layer.gdn->qkv.bytes() + layer.gdn->z.bytes() + layer.gdn->ba.bytes() + layer.gdn->out.bytes();
    return bytes;
}

} // namespace

std::int64_t cpuHeadBytes(const LinearWeight& head)
{
    if (head.format == LinearWeight::Format::Int4 || head.outFeatures < int8HeadOutputs)
        return head.storedBytes();
    return CpuLinear::int8Bytes(head.outFeatures, head.inFeatures) +
           (canQuantize(head) ? CpuRoughHead::bytesOf(head) : 0);
}

Result<CpuModel> CpuModel::load(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                const BackendOptions& options, int threads)
{
    const Error cancelled{ErrorCode::Cancelled, "loading " + weights->dir.string() + " was cancelled"};
    const auto isCancelled = [&options] { return options.cancel && options.cancel->load(); };
    OCTAVO_CHECK(checkSizes(config));
    CpuModel model;
    model.config = config;
    LayerLoader loader(config, *weights, options, threads);
    for (const LayerWeights& source : weights->layers) {
        if (isCancelled())
            return cancelled;
        OCTAVO_TRY(CpuLayer layer, loader.layer(source));
        layer.kindIndex = layer.attention ? model.attentionLayers++ : model.gdnLayers++;
        model.bytes += bytesOf(layer);
        model.layers.push_back(std::move(layer));
    }
    if (isCancelled())
        return cancelled;
    model.finalNorm = weights->finalNorm;
    const LinearWeight& head = weights->head();
    const bool int8 = head.format != LinearWeight::Format::Int4 && head.outFeatures >= int8HeadOutputs;
    OCTAVO_TRY(model.head, int8 ? CpuLinear::packInt8(head) : CpuLinear::pack(head));
    model.bytes += model.head.bytes() + weights->embedding.storedBytes();
    if (options.mtp && weights->mtp) {
        OCTAVO_TRY(model.mtp, loader.mtp(*weights->mtp));
        model.mtp->layer.kindIndex = model.attentionLayers;
        model.bytes += model.mtp->fc.bytes() + bytesOf(model.mtp->layer);
    }
    if (isCancelled())
        return cancelled;
    if (int8 && canQuantize(head)) {
        if (auto rough = CpuRoughHead::make(head, model.head, threads)) {
            model.roughHead = *std::move(rough);
            model.bytes += model.roughHead->bytes();
        } else { // drafts and steps then take longer, no more
            spdlog::info("the head does without an int4 copy: {}", rough.error().message);
        }
    }
    model.quantized = loader.hasQuantized();
    model.source = std::move(weights);
    return model;
}

} // namespace octavo::engine
