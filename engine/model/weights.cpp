#include "engine/model/weights.h"

#include "engine/model/checkpoint_hash.h"
#include "engine/model/float_formats.h"
#include "engine/model/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

namespace octavo::engine
{

namespace
{

constexpr std::array<std::string_view, 3> textPrefixes = {"model.language_model.", "model.", "language_model.model."};
constexpr std::array<std::string_view, 3> mtpPrefixes = {"mtp.", "model.mtp.", "language_model.mtp."};

/// What the views of a ModelWeights point into.
struct Storage {
    explicit Storage(Checkpoint opened)
        : checkpoint(std::move(opened))
    {
    }
    Checkpoint checkpoint;
    std::deque<std::vector<std::uint64_t>> aligned; ///< copies of tensors that the file places off their alignment
};

enum class NormKind { Plain, ZeroCentred };

class Loader
{
public:
    Loader(Storage& storage, const ModelConfig& config)
        : m_storage(&storage)
        , m_config(&config)
    {
    }

    Result<void> readText(ModelWeights& weights);
    Result<void> readMtp(ModelWeights& weights);
    std::int64_t parameters() const { return m_parameters; }

private:
    const Checkpoint& checkpoint() const { return m_storage->checkpoint; }
    bool has(const std::string& module) const
    {
        return checkpoint().find(module + ".weight") || checkpoint().find(module + ".qweight");
    }

    Error missing(const std::string& name) const;
    Error wrong(const TensorView& tensor, const std::string& name, const std::string& what) const;
    Result<void> expectShape(const TensorView& tensor, const std::string& name, std::vector<std::int64_t> shape) const;
    const void* alignedData(const TensorView& tensor);

    Result<LinearWeight> linear(const std::string& module, int outFeatures, int inFeatures);
    Result<LinearWeight> int4(const std::string& module, const TensorView& qweight, int outFeatures, int inFeatures);
    Result<void> readGroups(LinearWeight& weight, std::int64_t numGroups);
    Result<void> readZeros(LinearWeight& weight, std::int64_t numGroups);
    Result<std::vector<float>> values(const std::string& name, std::vector<std::int64_t> shape);
    Result<std::vector<float>> norm(const std::string& name, int size, NormKind kind = NormKind::ZeroCentred);

    Result<LayerWeights> layer(const std::string& prefix, LayerType type);
    Result<AttentionWeights> attention(const std::string& prefix);
    Result<GdnWeights> gdn(const std::string& prefix);

    Storage* m_storage;
    const ModelConfig* m_config;
    std::int64_t m_parameters = 0;
};

Error Loader::missing(const std::string& name) const
{
    return Error{ErrorCode::FormatInvalid, checkpoint().dir().string() + " lacks the tensor \"" + name +
                                               "\" that its config.json calls for: the download is not complete, or "
                                               "config.json belongs to another model"};
}

Error Loader::wrong(const TensorView& tensor, const std::string& name, const std::string& what) const
{
    return Error{ErrorCode::ShapeMismatch, *tensor.file + ": tensor \"" + name + "\" " + what};
}

Result<void> Loader::expectShape(const TensorView& tensor, const std::string& name,
                                 std::vector<std::int64_t> shape) const
{
    if (std::equal(tensor.shape.begin(), tensor.shape.end(), shape.begin(), shape.end()))
        return {};
    return wrong(tensor, name,
                 "has shape " + shapeText(tensor.shape) + ", expected " + shapeText(shape) + " by config.json");
}

const void* Loader::alignedData(const TensorView& tensor)
{
    if (reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % dtypeSize(tensor.dtype) == 0)
        return tensor.bytes.data();
    std::vector<std::uint64_t>& copy = m_storage->aligned.emplace_back((tensor.bytes.size() + 7) / 8);
    std::memcpy(copy.data(), tensor.bytes.data(), tensor.bytes.size());
    return copy.data();
}

Result<LinearWeight> Loader::linear(const std::string& module, int outFeatures, int inFeatures)
{
    m_parameters += std::int64_t(outFeatures) * inFeatures;
    if (const TensorView* bias = checkpoint().find(module + ".bias"))
        return Error{ErrorCode::Unsupported,
                     *bias->file + ": \"" + module + "\" has a bias, which this model family lacks"};
    if (const TensorView* qweight = checkpoint().find(module + ".qweight"))
        return int4(module, *qweight, outFeatures, inFeatures);

    const std::string name = module + ".weight";
    const TensorView* tensor = checkpoint().find(name);
    if (!tensor)
        return missing(name);
    OCTAVO_CHECK(expectShape(*tensor, name, {outFeatures, inFeatures}));
    LinearWeight weight;
    weight.name = module;
    weight.outFeatures = outFeatures;
    weight.inFeatures = inFeatures;
    switch (tensor->dtype) {
    case DType::Bf16:
        weight.format = LinearWeight::Format::Bf16;
        break;
    case DType::F16:
        weight.format = LinearWeight::Format::F16;
        break;
    case DType::F32:
        weight.format = LinearWeight::Format::F32;
        break;
    default:
        return Error{ErrorCode::Unsupported, *tensor->file + ": tensor \"" + name + "\" is stored as " +
                                                 std::string(dtypeName(tensor->dtype)) +
                                                 ", expected BF16, F16, F32 or GPTQ int4"};
    }
    weight.dense = alignedData(*tensor);
    return weight;
}

Result<LinearWeight> Loader::int4(const std::string& module, const TensorView& qweight, int outFeatures, int inFeatures)
{
    LinearWeight weight;
    weight.name = module;
    weight.format = LinearWeight::Format::Int4;
    weight.outFeatures = outFeatures;
    weight.inFeatures = inFeatures;
    if (inFeatures % 8 != 0)
        return wrong(qweight, module + ".qweight",
                     "packs " + std::to_string(inFeatures) + " inputs, expected a multiple of 8");
    OCTAVO_CHECK(expectShape(qweight, module + ".qweight", {inFeatures / 8, outFeatures}));
    if (qweight.dtype != DType::I32 && qweight.dtype != DType::U32)
        return wrong(qweight, module + ".qweight",
                     "is stored as " + std::string(dtypeName(qweight.dtype)) + ", expected I32");

    const std::string scalesName = module + ".scales";
    const TensorView* scales = checkpoint().find(scalesName);
    if (!scales)
        return missing(scalesName);
    if (scales->dtype != DType::F16)
        return wrong(*scales, scalesName, "is stored as " + std::string(dtypeName(scales->dtype)) + ", expected F16");
    if (scales->shape.size() != 2 || scales->shape[0] < 1 || scales->shape[0] > inFeatures)
        return wrong(*scales, scalesName,
                     "has shape " + shapeText(scales->shape) + ", expected [groups, " + std::to_string(outFeatures) +
                         "]");
    const std::int64_t numGroups = scales->shape[0];
    OCTAVO_CHECK(expectShape(*scales, scalesName, {numGroups, outFeatures}));

    const int claimed = m_config->quantization.groupSize;
    if (claimed == -1 && numGroups != 1)
        return wrong(*scales, scalesName,
                     "has " + std::to_string(numGroups) + " groups, expected 1: config.json's group_size is -1");
    if (claimed > 0 && (inFeatures + claimed - 1) / claimed == numGroups)
        weight.groupSize = std::min(claimed, inFeatures);
    else if (inFeatures % numGroups == 0)
        weight.groupSize = int(inFeatures / numGroups);
    else
        return wrong(*scales, scalesName,
                     "has " + std::to_string(numGroups) + " groups, expected one per " + std::to_string(claimed) +
                         " of " + std::to_string(inFeatures) + " inputs");
    weight.qweight = static_cast<const std::uint32_t*>(alignedData(qweight));
    weight.scales = static_cast<const std::uint16_t*>(alignedData(*scales));
    OCTAVO_CHECK(readGroups(weight, numGroups));
    OCTAVO_CHECK(readZeros(weight, numGroups));
    return weight;
}

Result<void> Loader::readGroups(LinearWeight& weight, std::int64_t numGroups)
{
    const std::string name = weight.name + ".g_idx";
    const TensorView* tensor = checkpoint().find(name);
    if (!tensor)
        return {};
    OCTAVO_CHECK(expectShape(*tensor, name, {weight.inFeatures}));
    if (tensor->dtype != DType::I32)
        return wrong(*tensor, name, "is stored as " + std::string(dtypeName(tensor->dtype)) + ", expected I32");
    std::vector<std::int32_t> groups(std::size_t(weight.inFeatures));
    std::memcpy(groups.data(), tensor->bytes.data(), tensor->bytes.size());
    bool trivial = true;
    for (std::size_t k = 0; k < groups.size(); ++k) {
        if (groups[k] < 0 || groups[k] >= numGroups)
            return wrong(*tensor, name,
                         "puts input " + std::to_string(k) + " into group " + std::to_string(groups[k]) +
                             ", expected 0 to " + std::to_string(numGroups - 1));
        trivial = trivial && groups[k] == std::int32_t(k / std::size_t(weight.groupSize));
    }
    if (!trivial)
        weight.groupOfInput = std::move(groups);
    return {};
}

/// Labels of the zero convention are known to lie for symmetric weights, so there the stored zeros only have to be
/// all 7 or all 8 and the true one is 8 (model-spec 6.1).
Result<void> Loader::readZeros(LinearWeight& weight, std::int64_t numGroups)
{
    const QuantizationConfig& quantization = m_config->quantization;
    const auto override = quantization.symmetricByModule.find(weight.name);
    const bool symmetric = override != quantization.symmetricByModule.end() ? override->second : quantization.symmetric;

    const std::string name = weight.name + ".qzeros";
    const TensorView* tensor = checkpoint().find(name);
    if (!tensor)
        return symmetric ? Result<void>() : Result<void>(missing(name));
    OCTAVO_CHECK(expectShape(*tensor, name, {numGroups, (weight.outFeatures + 7) / 8}));
    if (tensor->dtype != DType::I32 && tensor->dtype != DType::U32)
        return wrong(*tensor, name, "is stored as " + std::string(dtypeName(tensor->dtype)) + ", expected I32");

    const std::size_t outputs = std::size_t(weight.outFeatures), wordsPerGroup = (outputs + 7) / 8;
    bool seen[16] = {};
    auto forEachZero = [&](auto&& visit) {
        for (std::size_t group = 0; group < std::size_t(numGroups); ++group) {
            for (std::size_t i = 0; i < wordsPerGroup; ++i) {
                std::uint32_t word = 0;
                std::memcpy(&word, tensor->bytes.data() + (group * wordsPerGroup + i) * 4, 4);
                for (std::size_t n = 8 * i; n < std::min(outputs, 8 * i + 8); ++n, word >>= 4)
                    visit(group * outputs + n, std::uint8_t(word & 15u));
            }
        }
    };
    forEachZero([&](std::size_t, std::uint8_t zero) { seen[zero] = true; });
    const auto distinct = std::count(std::begin(seen), std::end(seen), true);
    const bool looksSymmetric = distinct == 1 && (seen[7] || seen[8]);
    if (symmetric && looksSymmetric)
        return {};
    if (symmetric && (override != quantization.symmetricByModule.end() || !quantization.mixedSymmetry))
        return wrong(*tensor, name,
                     "holds zero points other than all 7 or all 8, although the quantisation is said to "
                     "be symmetric");

    const std::uint8_t offset = quantization.zeroPointsMinusOne ? 1 : 0;
    if (distinct == 1 && seen[8 - offset])
        return {};
    weight.zeros.resize(std::size_t(numGroups) * outputs);
    forEachZero([&](std::size_t at, std::uint8_t zero) { weight.zeros[at] = std::uint8_t(zero + offset); });
    return {};
}

Result<std::vector<float>> Loader::values(const std::string& name, std::vector<std::int64_t> shape)
{
    const TensorView* tensor = checkpoint().find(name);
    if (!tensor)
        return missing(name);
    OCTAVO_CHECK(expectShape(*tensor, name, std::move(shape)));
    std::vector<float> out(tensor->bytes.size() / dtypeSize(tensor->dtype));
    m_parameters += std::int64_t(out.size());
    if (tensor->dtype == DType::F32) {
        std::memcpy(out.data(), tensor->bytes.data(), tensor->bytes.size());
    } else if (tensor->dtype == DType::Bf16 || tensor->dtype == DType::F16) {
        for (std::size_t i = 0; i < out.size(); ++i) {
            std::uint16_t bits = 0;
            std::memcpy(&bits, tensor->bytes.data() + 2 * i, 2);
            out[i] = tensor->dtype == DType::Bf16 ? floatFromBf16(bits) : floatFromHalf(bits);
        }
    } else {
        return wrong(*tensor, name,
                     "is stored as " + std::string(dtypeName(tensor->dtype)) + ", expected F32, BF16 or F16");
    }
    return out;
}

Result<std::vector<float>> Loader::norm(const std::string& name, int size, NormKind kind)
{
    OCTAVO_TRY(std::vector<float> weight, values(name, {size}));
    if (kind == NormKind::ZeroCentred) {
        for (float& w : weight)
            w += 1.0f;
    }
    return weight;
}

Result<AttentionWeights> Loader::attention(const std::string& prefix)
{
    const ModelConfig& c = *m_config;
    const int queryDim = c.numHeads * c.headDim, kvDim = c.numKvHeads * c.headDim;
    AttentionWeights weights;
    OCTAVO_TRY(weights.q, linear(prefix + "q_proj", 2 * queryDim, c.hiddenSize));
    OCTAVO_TRY(weights.k, linear(prefix + "k_proj", kvDim, c.hiddenSize));
    OCTAVO_TRY(weights.v, linear(prefix + "v_proj", kvDim, c.hiddenSize));
    OCTAVO_TRY(weights.o, linear(prefix + "o_proj", c.hiddenSize, queryDim));
    OCTAVO_TRY(weights.qNorm, norm(prefix + "q_norm.weight", c.headDim));
    OCTAVO_TRY(weights.kNorm, norm(prefix + "k_norm.weight", c.headDim));
    return weights;
}

Result<GdnWeights> Loader::gdn(const std::string& prefix)
{
    const ModelConfig& c = *m_config;
    const int heads = c.linearNumValueHeads;
    GdnWeights weights;
    OCTAVO_TRY(weights.qkv, linear(prefix + "in_proj_qkv", c.convDim(), c.hiddenSize));
    OCTAVO_TRY(weights.z, linear(prefix + "in_proj_z", c.valueDim(), c.hiddenSize));
    OCTAVO_TRY(weights.b, linear(prefix + "in_proj_b", heads, c.hiddenSize));
    OCTAVO_TRY(weights.a, linear(prefix + "in_proj_a", heads, c.hiddenSize));
    OCTAVO_TRY(weights.out, linear(prefix + "out_proj", c.hiddenSize, c.valueDim()));
    OCTAVO_TRY(weights.conv, values(prefix + "conv1d.weight", {c.convDim(), 1, c.linearConvKernel}));
    OCTAVO_TRY(weights.aLog, values(prefix + "A_log", {heads}));
    OCTAVO_TRY(weights.dtBias, values(prefix + "dt_bias", {heads}));
    OCTAVO_TRY(weights.norm, norm(prefix + "norm.weight", c.linearValueHeadDim, NormKind::Plain));
    return weights;
}

Result<LayerWeights> Loader::layer(const std::string& prefix, LayerType type)
{
    const ModelConfig& c = *m_config;
    LayerWeights weights;
    weights.type = type;
    OCTAVO_TRY(weights.inputNorm, norm(prefix + "input_layernorm.weight", c.hiddenSize));
    OCTAVO_TRY(weights.postAttentionNorm, norm(prefix + "post_attention_layernorm.weight", c.hiddenSize));
    if (type == LayerType::FullAttention) {
        OCTAVO_TRY(weights.attention, attention(prefix + "self_attn."));
    } else {
        OCTAVO_TRY(weights.gdn, gdn(prefix + "linear_attn."));
    }
    OCTAVO_TRY(weights.mlp.gate, linear(prefix + "mlp.gate_proj", c.intermediateSize, c.hiddenSize));
    OCTAVO_TRY(weights.mlp.up, linear(prefix + "mlp.up_proj", c.intermediateSize, c.hiddenSize));
    OCTAVO_TRY(weights.mlp.down, linear(prefix + "mlp.down_proj", c.hiddenSize, c.intermediateSize));
    return weights;
}

Result<void> Loader::readText(ModelWeights& weights)
{
    const ModelConfig& c = *m_config;
    std::string prefix;
    for (std::string_view candidate : textPrefixes) {
        if (prefix.empty() && has(std::string(candidate) + "embed_tokens"))
            prefix = candidate;
    }
    if (prefix.empty())
        return missing(std::string(textPrefixes.front()) + "embed_tokens.weight");

    OCTAVO_TRY(weights.embedding, linear(prefix + "embed_tokens", c.vocabSize, c.hiddenSize));
    for (const char* name : {"lm_head", "language_model.lm_head"}) {
        if (!weights.lmHead && has(name)) {
            OCTAVO_TRY(weights.lmHead, linear(name, c.vocabSize, c.hiddenSize));
        }
    }
    OCTAVO_TRY(weights.finalNorm, norm(prefix + "norm.weight", c.hiddenSize));
    weights.layers.reserve(std::size_t(c.numLayers));
    for (int n = 0; n < c.numLayers; ++n) {
        OCTAVO_TRY(LayerWeights read,
                   layer(prefix + "layers." + std::to_string(n) + ".", c.layerTypes[std::size_t(n)]));
        weights.layers.push_back(std::move(read));
    }
    return {};
}

Result<void> Loader::readMtp(ModelWeights& weights)
{
    const ModelConfig& c = *m_config;
    std::string prefix;
    for (std::string_view candidate : mtpPrefixes) {
        if (prefix.empty() && has(std::string(candidate) + "fc"))
            prefix = candidate;
    }
    if (prefix.empty())
        return {};
    MtpWeights mtp;
    OCTAVO_TRY(mtp.fc, linear(prefix + "fc", c.hiddenSize, 2 * c.hiddenSize));
    OCTAVO_TRY(mtp.preFcNormEmbedding, norm(prefix + "pre_fc_norm_embedding.weight", c.hiddenSize));
    OCTAVO_TRY(mtp.preFcNormHidden, norm(prefix + "pre_fc_norm_hidden.weight", c.hiddenSize));
    OCTAVO_TRY(mtp.norm, norm(prefix + "norm.weight", c.hiddenSize));
    OCTAVO_TRY(mtp.layer, layer(prefix + "layers.0.", LayerType::FullAttention));
    weights.mtp = std::move(mtp);
    return {};
}

} // namespace

Result<ModelWeights> ModelWeights::open(const std::filesystem::path& modelDir, const ModelConfig& config)
{
    OCTAVO_TRY(Checkpoint checkpoint, Checkpoint::open(modelDir));
    auto storage = std::make_shared<Storage>(std::move(checkpoint));
    ModelWeights weights;
    Loader loader(*storage, config);
    OCTAVO_CHECK(loader.readText(weights));
    OCTAVO_CHECK(loader.readMtp(weights));
    weights.parameters = loader.parameters();

    constexpr std::size_t maxConfigBytes = 8 << 20;
    OCTAVO_TRY(const std::string text, readTextFile(modelDir / "config.json", maxConfigBytes));
    weights.dir = modelDir;
    weights.hash = checkpointHash(storage->checkpoint, text);
    weights.letGoOfPages = [held = storage.get()] { held->checkpoint.letGoOfPages(); };
    weights.storage = std::move(storage);
    return weights;
}

} // namespace octavo::engine
