#include "engine/model/checkpoint_layout.h"

namespace octavo::engine
{

namespace
{

using Kind = TensorSpec::Kind;

void addAttention(std::vector<TensorSpec>& tensors, const std::string& layer, const ModelConfig& config)
{
    const std::string p = layer + "self_attn.";
    const std::int64_t hidden = config.hiddenSize, head = config.headDim;
    tensors.push_back({p + "q_proj.weight", {2 * config.numHeads * head, hidden}, Kind::Linear});
    tensors.push_back({p + "k_proj.weight", {config.numKvHeads * head, hidden}, Kind::Linear});
    tensors.push_back({p + "v_proj.weight", {config.numKvHeads * head, hidden}, Kind::Linear});
    tensors.push_back({p + "o_proj.weight", {hidden, config.numHeads * head}, Kind::Linear});
    tensors.push_back({p + "q_norm.weight", {head}, Kind::Norm});
    tensors.push_back({p + "k_norm.weight", {head}, Kind::Norm});
}

void addGdn(std::vector<TensorSpec>& tensors, const std::string& layer, const ModelConfig& config)
{
    const std::string p = layer + "linear_attn.";
    const std::int64_t hidden = config.hiddenSize, heads = config.linearNumValueHeads;
    tensors.push_back({p + "in_proj_qkv.weight", {config.convDim(), hidden}, Kind::Linear});
    tensors.push_back({p + "in_proj_z.weight", {config.valueDim(), hidden}, Kind::Linear});
    tensors.push_back({p + "in_proj_b.weight", {heads, hidden}, Kind::Linear});
    tensors.push_back({p + "in_proj_a.weight", {heads, hidden}, Kind::Linear});
    tensors.push_back({p + "conv1d.weight", {config.convDim(), 1, config.linearConvKernel}, Kind::Other});
    tensors.push_back({p + "A_log", {heads}, Kind::Other});
    tensors.push_back({p + "dt_bias", {heads}, Kind::Other});
    tensors.push_back({p + "norm.weight", {config.linearValueHeadDim}, Kind::Norm});
    tensors.push_back({p + "out_proj.weight", {hidden, config.valueDim()}, Kind::Linear});
}

void addLayer(std::vector<TensorSpec>& tensors, const std::string& layer, LayerType type, const ModelConfig& config)
{
    const std::int64_t hidden = config.hiddenSize, ffn = config.intermediateSize;
    tensors.push_back({layer + "input_layernorm.weight", {hidden}, Kind::Norm});
    tensors.push_back({layer + "post_attention_layernorm.weight", {hidden}, Kind::Norm});
    if (type == LayerType::FullAttention)
        addAttention(tensors, layer, config);
    else
        addGdn(tensors, layer, config);
    tensors.push_back({layer + "mlp.gate_proj.weight", {ffn, hidden}, Kind::Linear});
    tensors.push_back({layer + "mlp.up_proj.weight", {ffn, hidden}, Kind::Linear});
    tensors.push_back({layer + "mlp.down_proj.weight", {hidden, ffn}, Kind::Linear});
}

} // namespace

std::int64_t TensorSpec::parameters() const
{
    std::int64_t count = 1;
    for (std::int64_t extent : shape)
        count *= extent;
    return count;
}

std::vector<TensorSpec> textTensors(const ModelConfig& config, HeadLayout head, const std::string& prefix)
{
    std::vector<TensorSpec> tensors;
    tensors.push_back({prefix + "embed_tokens.weight", {config.vocabSize, config.hiddenSize}, Kind::Embedding});
    for (int n = 0; n < config.numLayers; ++n)
        addLayer(tensors, prefix + "layers." + std::to_string(n) + ".", config.layerTypes[std::size_t(n)], config);
    tensors.push_back({prefix + "norm.weight", {config.hiddenSize}, Kind::Norm});
    if (head == HeadLayout::Untied) {
        const std::string owner = prefix == "language_model.model." ? "language_model." : "";
        tensors.push_back({owner + "lm_head.weight", {config.vocabSize, config.hiddenSize}, Kind::Embedding});
    }
    return tensors;
}

std::vector<TensorSpec> mtpTensors(const ModelConfig& config, const std::string& prefix)
{
    const std::int64_t hidden = config.hiddenSize;
    std::vector<TensorSpec> tensors;
    tensors.push_back({prefix + "fc.weight", {hidden, 2 * hidden}, Kind::Linear});
    tensors.push_back({prefix + "pre_fc_norm_embedding.weight", {hidden}, Kind::Norm});
    tensors.push_back({prefix + "pre_fc_norm_hidden.weight", {hidden}, Kind::Norm});
    tensors.push_back({prefix + "norm.weight", {hidden}, Kind::Norm});
    addLayer(tensors, prefix + "layers.0.", LayerType::FullAttention, config);
    return tensors;
}

std::int64_t countParameters(const std::vector<TensorSpec>& tensors)
{
    std::int64_t count = 0;
    for (const TensorSpec& tensor : tensors)
        count += tensor.parameters();
    return count;
}

} // namespace octavo::engine
