#include "engine/backend/cpu_model.h"

#include <cmath>
#include <string>

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

Result<CpuGdn> loadGdn(const ModelConfig& config, const GdnWeights& weights)
{
    CpuGdn gdn;
    OCTAVO_TRY(gdn.qkv, CpuLinear::pack(weights.qkv));
    OCTAVO_TRY(gdn.z, CpuLinear::pack(weights.z));
    OCTAVO_TRY(gdn.out, CpuLinear::pack(weights.out));
    const LinearWeight* ba[] = {&weights.b, &weights.a};
    OCTAVO_TRY(gdn.ba, CpuLinear::pack(ba));
    const std::size_t width = std::size_t(config.linearConvKernel), channels = std::size_t(config.convDim());
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

Result<CpuAttention> loadAttention(const AttentionWeights& weights)
{
    CpuAttention attention;
    OCTAVO_TRY(attention.q, CpuLinear::pack(weights.q));
    OCTAVO_TRY(attention.k, CpuLinear::pack(weights.k));
    OCTAVO_TRY(attention.v, CpuLinear::pack(weights.v));
    OCTAVO_TRY(attention.o, CpuLinear::pack(weights.o));
    attention.qNorm = weights.qNorm;
    attention.kNorm = weights.kNorm;
    return attention;
}

Result<void> loadMlp(const MlpWeights& weights, CpuLayer& layer)
{
    OCTAVO_TRY(layer.gate, CpuLinear::pack(weights.gate));
    OCTAVO_TRY(layer.up, CpuLinear::pack(weights.up));
    OCTAVO_TRY(layer.down, CpuLinear::pack(weights.down));
    return {};
}

Result<CpuMtp> loadMtp(const MtpWeights& weights)
{
    CpuMtp mtp;
    const bool int4 = weights.fc.format == LinearWeight::Format::Int4;
    OCTAVO_TRY(mtp.fc, int4 ? CpuLinear::pack(weights.fc) : CpuLinear::packInt8(weights.fc));
    mtp.embeddingNorm = weights.preFcNormEmbedding;
    mtp.hiddenNorm = weights.preFcNormHidden;
    mtp.norm = weights.norm;
    mtp.layer.inputNorm = weights.layer.inputNorm;
    mtp.layer.postAttentionNorm = weights.layer.postAttentionNorm;
    OCTAVO_TRY(mtp.layer.attention, loadAttention(*weights.layer.attention));
    OCTAVO_CHECK(loadMlp(weights.layer.mlp, mtp.layer));
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

Result<CpuModel> CpuModel::load(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights, bool withMtp)
{
    OCTAVO_CHECK(checkSizes(config));
    CpuModel model;
    model.config = config;
    for (const LayerWeights& source : weights->layers) {
        CpuLayer layer;
        layer.inputNorm = source.inputNorm;
        layer.postAttentionNorm = source.postAttentionNorm;
        if (source.attention) {
            OCTAVO_TRY(layer.attention, loadAttention(*source.attention));
            layer.kindIndex = model.attentionLayers++;
        } else {
            OCTAVO_TRY(layer.gdn, loadGdn(config, *source.gdn));
            layer.kindIndex = model.gdnLayers++;
        }
        OCTAVO_CHECK(loadMlp(source.mlp, layer));
        model.bytes += bytesOf(layer);
        model.layers.push_back(std::move(layer));
    }
    model.finalNorm = weights->finalNorm;
    const LinearWeight& head = weights->head();
    const bool int8 = head.format != LinearWeight::Format::Int4 && head.outFeatures >= int8HeadOutputs;
    OCTAVO_TRY(model.head, int8 ? CpuLinear::packInt8(head) : CpuLinear::pack(head));
    model.bytes += model.head.bytes() + weights->embedding.storedBytes();
    if (withMtp && weights->mtp) {
        OCTAVO_TRY(model.mtp, loadMtp(*weights->mtp));
        model.mtp->layer.kindIndex = model.attentionLayers;
        model.bytes += model.mtp->fc.bytes() + bytesOf(model.mtp->layer);
    }
    model.source = std::move(weights);
    return model;
}

} // namespace octavo::engine
