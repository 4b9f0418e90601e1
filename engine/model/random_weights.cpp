#include "engine/model/random_weights.h"

#include <algorithm>
#include <cmath>

namespace octavo::engine
{

namespace
{

constexpr int groupSize = 128;

/// SplitMix64.
class Random
{
public:
    explicit Random(std::uint64_t seed)
        : m_state(seed)
    {
    }

    std::uint64_t bits()
    {
        std::uint64_t z = m_state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }

private:
    std::uint64_t m_state;
};

/// What all modules share.
struct Stretch {
    std::vector<std::uint32_t> codes;
    std::vector<std::uint16_t> scales, dense;
};

bool isPacked(const TensorSpec& tensor)
{
    return tensor.kind == TensorSpec::Kind::Linear && tensor.shape[0] >= groupSize && tensor.shape[1] % groupSize == 0;
}

/// Codes are uniform, so a weight's deviation is 4.6 scales: scales of 2^-9 to 2^-8 suit some 5000 inputs. The bf16
/// values are as large as those.
std::shared_ptr<Stretch> makeStretch(const std::vector<TensorSpec>& tensors, std::uint64_t seed)
{
    std::size_t packed = 0, dense = 0;
    for (const TensorSpec& tensor : tensors) {
        if (tensor.shape.size() != 2)
            continue;
        std::size_t& longest = isPacked(tensor) ? packed : dense;
        longest = std::max(longest, std::size_t(tensor.parameters()));
        if (tensor.name.ends_with("mtp.fc.weight"))
            dense = std::max(dense, std::size_t(tensor.parameters()));
    }
    auto stretch = std::make_shared<Stretch>();
    stretch->codes.resize(packed / 8);
    stretch->scales.resize(packed / groupSize);
    stretch->dense.resize(dense);
    Random random(seed);
    for (std::uint32_t& word : stretch->codes)
        word = std::uint32_t(random.bits() >> 32);
    for (std::uint16_t& scale : stretch->scales) // fp16, either sign
        scale = std::uint16_t((random.bits() & 1) << 15 | 6 << 10 | random.bits() % 1024);
    for (std::size_t i = 0; i < stretch->dense.size(); i += 4) {
        std::uint64_t bits = random.bits();
        for (std::size_t j = i; j < std::min(i + 4, stretch->dense.size()); ++j, bits >>= 16)
            stretch->dense[j] = std::uint16_t((bits & 0x8000) | 0x3c00 | (bits & 0xff)); // bf16, 0.008 to 0.03
    }
    return stretch;
}

class Maker
{
public:
    Maker(const ModelConfig& config, std::shared_ptr<Stretch> stretch)
        : m_config(&config)
        , m_stretch(std::move(stretch))
    {
    }

    LinearWeight linear(const std::string& name, int outFeatures, int inFeatures, TensorSpec::Kind kind)
    {
        LinearWeight weight;
        weight.name = name;
        weight.outFeatures = outFeatures;
        weight.inFeatures = inFeatures;
        parameters += weight.parameters();
        if (isPacked({name, {outFeatures, inFeatures}, kind})) {
            weight.format = LinearWeight::Format::Int4;
            weight.groupSize = groupSize;
            weight.qweight = m_stretch->codes.data();
            weight.scales = m_stretch->scales.data();
        } else {
            weight.dense = m_stretch->dense.data();
        }
        return weight;
    }

    LinearWeight body(const std::string& name, int outFeatures, int inFeatures)
    {
        return linear(name, outFeatures, inFeatures, TensorSpec::Kind::Linear);
    }

    std::vector<float> filled(int size, float value = 1.0f)
    {
        parameters += size;
        return std::vector<float>(std::size_t(size), value);
    }

    LayerWeights layer(const std::string& prefix, LayerType type)
    {
        const ModelConfig& c = *m_config;
        LayerWeights weights;
        weights.type = type;
        weights.inputNorm = filled(c.hiddenSize);
        weights.postAttentionNorm = filled(c.hiddenSize);
        if (type == LayerType::FullAttention) {
            const int queryDim = c.numHeads * c.headDim, kvDim = c.numKvHeads * c.headDim;
            weights.attention = AttentionWeights{body(prefix + "self_attn.q_proj", 2 * queryDim, c.hiddenSize),
                                                 body(prefix + "self_attn.k_proj", kvDim, c.hiddenSize),
                                                 body(prefix + "self_attn.v_proj", kvDim, c.hiddenSize),
                                                 body(prefix + "self_attn.o_proj", c.hiddenSize, queryDim),
                                                 filled(c.headDim),
                                                 filled(c.headDim)};
        } else {
            const int heads = c.linearNumValueHeads;
            weights.gdn = GdnWeights{body(prefix + "linear_attn.in_proj_qkv", c.convDim(), c.hiddenSize),
                                     body(prefix + "linear_attn.in_proj_z", c.valueDim(), c.hiddenSize),
                                     body(prefix + "linear_attn.in_proj_b", heads, c.hiddenSize),
                                     body(prefix + "linear_attn.in_proj_a", heads, c.hiddenSize),
                                     body(prefix + "linear_attn.out_proj", c.hiddenSize, c.valueDim()),
                                     filled(c.convDim() * c.linearConvKernel, 0.25f),
                                     filled(heads, 0.0f),
                                     filled(heads, 0.0f),
                                     filled(c.linearValueHeadDim)};
        }
        weights.mlp = {body(prefix + "mlp.gate_proj", c.intermediateSize, c.hiddenSize),
                       body(prefix + "mlp.up_proj", c.intermediateSize, c.hiddenSize),
                       body(prefix + "mlp.down_proj", c.hiddenSize, c.intermediateSize)};
        return weights;
    }

    std::int64_t parameters = 0;

private:
    const ModelConfig* m_config;
    std::shared_ptr<Stretch> m_stretch;
};

} // namespace

ModelWeights randomWeights(const ModelShape& shape, std::uint64_t seed)
{
    const ModelConfig& config = shape.config;
    std::vector<TensorSpec> tensors = textTensors(config, shape.head);
    const std::vector<TensorSpec> more = mtpTensors(config);
    tensors.insert(tensors.end(), more.begin(), more.end());
    std::shared_ptr<Stretch> stretch = makeStretch(tensors, seed);
    Maker maker(config, stretch);

    ModelWeights weights;
    using Kind = TensorSpec::Kind;
    weights.embedding = maker.linear("embed_tokens", config.vocabSize, config.hiddenSize, Kind::Embedding);
    if (shape.head == HeadLayout::Untied)
        weights.lmHead = maker.linear("lm_head", config.vocabSize, config.hiddenSize, Kind::Embedding);
    weights.finalNorm = maker.filled(config.hiddenSize);
    for (int n = 0; n < config.numLayers; ++n)
        weights.layers.push_back(maker.layer("layers." + std::to_string(n) + ".", config.layerTypes[std::size_t(n)]));
    if (config.mtpLayers > 0) {
        MtpWeights mtp;
        mtp.fc = maker.linear("mtp.fc", config.hiddenSize, 2 * config.hiddenSize, Kind::Other);
        mtp.preFcNormEmbedding = maker.filled(config.hiddenSize);
        mtp.preFcNormHidden = maker.filled(config.hiddenSize);
        mtp.norm = maker.filled(config.hiddenSize);
        mtp.layer = maker.layer("mtp.layers.0.", LayerType::FullAttention);
        weights.mtp = std::move(mtp);
    }
    weights.parameters = maker.parameters;
    weights.hash = seed;
    weights.storage = std::move(stretch);
    return weights;
}

} // namespace octavo::engine
