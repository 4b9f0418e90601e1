#include "engine/model/model_config.h"

#include "engine/model/mapped_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace octavo::engine
{

namespace
{

using Json = nlohmann::json;

constexpr std::size_t maxConfigBytes = 8 << 20;
constexpr int maxJsonDepth = 64;

std::string shortText(const Json& value)
{
    std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    if (text.size() > 60)
        text = text.substr(0, 60) + "...";
    return text;
}

/// Parses one JSON object of bounded depth.
Result<Json> parseObject(const std::string& text, const std::string& name)
{
    auto invalid = [&](const std::string& what) {
        return Error{ErrorCode::FormatInvalid,
                     name + " is not a usable configuration: " + what + ": download it again"};
    };
    if (text.size() > maxConfigBytes)
        return invalid("it has " + std::to_string(text.size()) + " bytes");
    if (const std::string_view impostor = recognisedImpostor(text); !impostor.empty())
        return invalid("it is " + std::string(impostor));
    bool tooDeep = false;
    const auto limitDepth = [&](int depth, Json::parse_event_t, Json&) {
        tooDeep = tooDeep || depth > maxJsonDepth;
        return !tooDeep;
    };
    Json json = Json::parse(text, limitDepth, false);
    if (tooDeep)
        return invalid("it is nested more than " + std::to_string(maxJsonDepth) + " levels deep");
    if (json.is_discarded())
        return invalid(text.empty() ? "it is empty" : "it is not JSON");
    if (!json.is_object())
        return invalid("it is not a JSON object");
    return json;
}

/// Reads keys of one object; each error names file, key, what was found and what was wanted.
class Reader
{
public:
    Reader(const Json& object, std::string file)
        : m_object(&object)
        , m_file(std::move(file))
    {
    }

    /// The value of `key`, or null where it is absent or null.
    const Json* get(const char* key) const
    {
        const auto it = m_object->find(key);
        return it == m_object->end() || it->is_null() ? nullptr : &*it;
    }

    Error error(const std::string& key, const std::string& found, const std::string& wanted,
                ErrorCode code = ErrorCode::FormatInvalid) const
    {
        return Error{code, m_file + ": \"" + key + "\" is " + found + ", expected " + wanted};
    }

    template <typename Int>
    Result<void> integer(const char* key, Int& out, std::int64_t low, std::int64_t high, bool required = true) const
    {
        const std::string wanted = "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
        const Json* value = get(key);
        if (!value)
            return required ? Result<void>(error(key, "missing", wanted)) : Result<void>();
        if (!value->is_number_integer() ||
            (value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t(high)) ||
            value->get<std::int64_t>() < low || value->get<std::int64_t>() > high)
            return error(key, shortText(*value), wanted);
        out = Int(value->get<std::int64_t>());
        return {};
    }

    Result<void> number(const char* key, double& out, double low, double high) const
    {
        const Json* value = get(key);
        if (!value)
            return {};
        const double found = value->is_number() ? value->get<double>() : std::nan("");
        if (!(found >= low && found <= high))
            return error(key, shortText(*value), "a number from " + shortText(low) + " to " + shortText(high));
        out = found;
        return {};
    }

    Result<void> boolean(const char* key, bool& out) const
    {
        const Json* value = get(key);
        if (!value)
            return {};
        if (!value->is_boolean())
            return error(key, shortText(*value), "true or false");
        out = value->get<bool>();
        return {};
    }

    Result<void> text(const char* key, std::string& out) const
    {
        const Json* value = get(key);
        if (!value)
            return {};
        if (!value->is_string())
            return error(key, shortText(*value), "a text");
        out = value->get<std::string>();
        return {};
    }

    const std::string& file() const { return m_file; }

private:
    const Json* m_object;
    std::string m_file;
};

Result<void> readStopIds(const Reader& reader, const ModelConfig& config, std::vector<TokenId>& ids)
{
    constexpr std::size_t maxStopIds = 256;
    const Json* value = reader.get("eos_token_id");
    if (!value)
        return {};
    const Json list = value->is_array() ? *value : Json::array({*value});
    if (list.size() > maxStopIds)
        return reader.error("eos_token_id", std::to_string(list.size()) + " ids", "at most 256");
    for (const Json& id : list) {
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= config.vocabSize)
            return reader.error("eos_token_id", shortText(id),
                                "an id below the vocabulary's " + std::to_string(config.vocabSize));
        const TokenId token = TokenId(id.get<std::int64_t>());
        if (std::find(ids.begin(), ids.end(), token) == ids.end())
            ids.push_back(token);
    }
    return {};
}

Result<void> readRope(const Reader& reader, ModelConfig& config)
{
    double factor = 0.25;
    OCTAVO_CHECK(reader.number("rope_theta", config.ropeTheta, 1.0, 1e12));
    OCTAVO_CHECK(reader.number("partial_rotary_factor", factor, 0.0, 1.0));
    for (const char* key : {"rope_scaling", "rope_parameters"}) { // the newer key is read last and wins
        const Json* object = reader.get(key);
        if (!object)
            continue;
        if (!object->is_object())
            return reader.error(key, shortText(*object), "an object");
        const Reader rope(*object, reader.file() + ": " + key);
        OCTAVO_CHECK(rope.number("rope_theta", config.ropeTheta, 1.0, 1e12));
        OCTAVO_CHECK(rope.number("partial_rotary_factor", factor, 0.0, 1.0));
        std::string type = "default";
        OCTAVO_CHECK(rope.text("type", type));
        OCTAVO_CHECK(rope.text("rope_type", type));
        if (type != "default" && type != "mrope")
            return rope.error("rope_type", shortText(type), "\"default\" (no scaled positions)",
                              ErrorCode::Unsupported);
    }
    config.rotaryDim = int(config.headDim * factor);
    if (config.rotaryDim < 2 || config.rotaryDim % 2 != 0)
        return reader.error("partial_rotary_factor", shortText(factor),
                            "one that rotates an even number of the " + std::to_string(config.headDim) + " dimensions");
    return {};
}

Result<void> readLayerTypeNames(const Reader& reader, ModelConfig& config)
{
    const Json* list = reader.get("layer_types");
    if (list) {
        if (!list->is_array() || list->size() != std::size_t(config.numLayers))
            return reader.error("layer_types",
                                list->is_array() ? std::to_string(list->size()) + " long" : shortText(*list),
                                "one entry for each of " + std::to_string(config.numLayers) + " layers");
        for (const Json& type : *list) {
            if (type == "linear_attention")
                config.layerTypes.push_back(LayerType::LinearAttention);
            else if (type == "full_attention")
                config.layerTypes.push_back(LayerType::FullAttention);
            else
                return reader.error("layer_types", shortText(type), "\"linear_attention\" or \"full_attention\"",
                                    ErrorCode::Unsupported);
        }
        return {};
    }
    int interval = 4;
    OCTAVO_CHECK(reader.integer("full_attention_interval", interval, 1, 512, false));
    for (int i = 0; i < config.numLayers; ++i)
        config.layerTypes.push_back((i + 1) % interval == 0 ? LayerType::FullAttention : LayerType::LinearAttention);
    return {};
}

/// Caches are sized by the layers of either kind; the family has both.
Result<void> readLayerTypes(const Reader& reader, ModelConfig& config)
{
    OCTAVO_CHECK(readLayerTypeNames(reader, config));
    const char* key = reader.get("layer_types") ? "layer_types" : "full_attention_interval";
    for (const LayerType type : {LayerType::FullAttention, LayerType::LinearAttention}) {
        if (std::ranges::find(config.layerTypes, type) != config.layerTypes.end())
            continue;
        const std::string kind = type == LayerType::FullAttention ? "full_attention" : "linear_attention";
        return reader.error(key, "no layer of " + std::to_string(config.numLayers) + " with " + kind,
                            "layers of both kinds", ErrorCode::Unsupported);
    }
    return {};
}

/// What the forward pass takes for granted; a checkpoint that says otherwise is refused.
Result<void> checkFamily(const Reader& root, const Reader& text)
{
    std::string type;
    OCTAVO_CHECK(root.text("model_type", type));
    OCTAVO_CHECK(text.text("model_type", type));
    if (type != "qwen3_5" && type != "qwen3_5_text")
        return text.error("model_type", type.empty() ? "missing" : shortText(type),
                          "\"qwen3_5\" or \"qwen3_5_text\" (Octavo runs the dense Qwen3.5 family)",
                          ErrorCode::Unsupported);
    std::string activation = "silu";
    OCTAVO_CHECK(text.text("hidden_act", activation));
    if (activation != "silu")
        return text.error("hidden_act", shortText(activation), "\"silu\"", ErrorCode::Unsupported);
    bool bias = false, gate = true;
    OCTAVO_CHECK(text.boolean("attention_bias", bias));
    OCTAVO_CHECK(text.boolean("attn_output_gate", gate));
    if (bias)
        return text.error("attention_bias", "true", "false", ErrorCode::Unsupported);
    if (!gate)
        return text.error("attn_output_gate", "false", "true", ErrorCode::Unsupported);
    return {};
}

Result<QuantizationConfig> readQuantization(const Json& object, const std::string& file)
{
    QuantizationConfig result;
    const Reader reader(object, file);
    result.present = true;
    std::string packing, backend, checkpointFormat;
    OCTAVO_CHECK(reader.text("quant_method", result.method));
    OCTAVO_CHECK(reader.text("packing_format", packing));
    OCTAVO_CHECK(reader.text("backend", backend));
    OCTAVO_CHECK(reader.text("checkpoint_format", checkpointFormat));
    OCTAVO_CHECK(reader.boolean("sym", result.symmetric));
    bool actOrder = false; // what the g_idx tensors say counts, but a file that says nonsense here is not trusted
    OCTAVO_CHECK(reader.boolean("desc_act", actOrder));

    const std::string wantedMethods = "gptq or auto-round (int4), or no quantisation";
    const bool autoRound = result.method.ends_with("auto-round") || result.method == "auto_round";
    if (!autoRound && result.method != "gptq" && result.method != "gptqmodel")
        return reader.error("quant_method", result.method.empty() ? "missing" : shortText(result.method), wantedMethods,
                            ErrorCode::Unsupported);
    if (packing.empty())
        packing = backend;
    if (packing.find("awq") != std::string::npos)
        return reader.error("packing_format", shortText(packing), "GPTQ packing", ErrorCode::Unsupported);
    OCTAVO_CHECK(reader.integer("bits", result.bits, 1, 16, false));
    if (result.bits != 4 && result.bits != 16)
        return reader.error("bits", std::to_string(result.bits), "4", ErrorCode::Unsupported);
    if (const Json* size = reader.get("group_size"); size && *size == -1)
        result.groupSize = -1; // one group per output; the scales' shape says the same
    else
        OCTAVO_CHECK(reader.integer("group_size", result.groupSize, 1, 1 << 20, false));

    const bool v2Packing = packing == "auto_round" || packing.find("gptqmodel") != std::string::npos;
    result.zeroPointsMinusOne = checkpointFormat != "gptq_v2" && !(autoRound && v2Packing);

    for (const char* key : {"extra_config", "dynamic"}) {
        const Json* overrides = reader.get(key);
        if (!overrides || !overrides->is_object())
            continue;
        for (const auto& [module, values] : overrides->items()) {
            const auto sym = values.is_object() ? values.find("sym") : values.end();
            if (!values.is_object() || sym == values.end() || !sym->is_boolean())
                continue;
            result.symmetricByModule[module] = sym->get<bool>();
            result.mixedSymmetry = result.mixedSymmetry || sym->get<bool>() != result.symmetric;
        }
    }
    return result;
}

Result<ModelConfig> parseRoot(const Json& root, const std::string& name)
{
    const auto nested = root.find("text_config");
    const bool isNested = nested != root.end() && nested->is_object();
    const Reader rootReader(root, name);
    const Reader reader(isNested ? *nested : root, isNested ? name + ": text_config" : name);
    OCTAVO_CHECK(checkFamily(rootReader, reader));

    ModelConfig config;
    OCTAVO_CHECK(reader.integer("vocab_size", config.vocabSize, 1, 1 << 22));
    OCTAVO_CHECK(reader.integer("hidden_size", config.hiddenSize, 1, 1 << 16));
    OCTAVO_CHECK(reader.integer("intermediate_size", config.intermediateSize, 1, 1 << 19));
    OCTAVO_CHECK(reader.integer("num_hidden_layers", config.numLayers, 1, 512));
    OCTAVO_CHECK(reader.integer("num_attention_heads", config.numHeads, 1, 1024));
    OCTAVO_CHECK(reader.integer("num_key_value_heads", config.numKvHeads, 1, 1024));
    OCTAVO_CHECK(reader.integer("head_dim", config.headDim, 2, 1024));
    OCTAVO_CHECK(reader.integer("linear_num_key_heads", config.linearNumKeyHeads, 1, 1024));
    OCTAVO_CHECK(reader.integer("linear_num_value_heads", config.linearNumValueHeads, 1, 1024));
    OCTAVO_CHECK(reader.integer("linear_key_head_dim", config.linearKeyHeadDim, 1, 1024));
    OCTAVO_CHECK(reader.integer("linear_value_head_dim", config.linearValueHeadDim, 1, 1024));
    OCTAVO_CHECK(reader.integer("linear_conv_kernel_dim", config.linearConvKernel, 2, 16, false));
    OCTAVO_CHECK(reader.integer("max_position_embeddings", config.maxPositions, 1, 1 << 30));
    OCTAVO_CHECK(reader.integer("mtp_num_hidden_layers", config.mtpLayers, 0, 16, false));
    OCTAVO_CHECK(reader.number("rms_norm_eps", config.normEps, 1e-12, 0.1));
    OCTAVO_CHECK(rootReader.boolean("tie_word_embeddings", config.tiedEmbeddings));
    OCTAVO_CHECK(reader.boolean("tie_word_embeddings", config.tiedEmbeddings));
    if (config.numHeads % config.numKvHeads != 0)
        return reader.error("num_attention_heads", std::to_string(config.numHeads),
                            "a multiple of num_key_value_heads, " + std::to_string(config.numKvHeads));
    if (config.linearNumValueHeads % config.linearNumKeyHeads != 0)
        return reader.error("linear_num_value_heads", std::to_string(config.linearNumValueHeads),
                            "a multiple of linear_num_key_heads, " + std::to_string(config.linearNumKeyHeads));
    OCTAVO_CHECK(readRope(reader, config));
    OCTAVO_CHECK(readLayerTypes(reader, config));
    OCTAVO_CHECK(readStopIds(reader, config, config.stopIds));
    OCTAVO_CHECK(readStopIds(rootReader, config, config.stopIds));

    for (const Reader& holder : {rootReader, reader}) {
        const Json* quantization = holder.get("quantization_config");
        if (!quantization || config.quantization.present)
            continue;
        if (!quantization->is_object())
            return holder.error("quantization_config", shortText(*quantization), "an object");
        OCTAVO_TRY(config.quantization, readQuantization(*quantization, holder.file() + ": quantization_config"));
    }
    return config;
}

} // namespace

int ModelConfig::numFullAttentionLayers() const
{
    return int(std::count(layerTypes.begin(), layerTypes.end(), LayerType::FullAttention));
}

Result<ModelConfig> ModelConfig::parse(const std::string& json, const std::string& name)
{
    OCTAVO_TRY(const Json root, parseObject(json, name));
    return parseRoot(root, name);
}

Result<ModelConfig> ModelConfig::load(const std::filesystem::path& modelDir)
{
    const std::filesystem::path configPath = modelDir / "config.json";
    std::error_code ignored;
    // A folder that cannot be looked at (none) is left to the reading, which says why.
    using enum std::filesystem::file_type;
    const auto folder = std::filesystem::status(modelDir, ignored).type();
    const bool isOther = folder != directory && folder != none;
    if (isOther || std::filesystem::status(configPath, ignored).type() == not_found)
        return Error{ErrorCode::FileUnreadable,
                     (modelDir.empty() ? "\"\"" : modelDir.string())
                         + (isOther ? " is not a folder" : " holds no config.json")
                         + ": name a model's folder, with its config.json, tokenizer.json and safetensors files"};
    OCTAVO_TRY(const std::string text, readTextFile(configPath, maxConfigBytes));
    OCTAVO_TRY(ModelConfig config, parse(text, configPath.string()));

    const std::filesystem::path generationPath = modelDir / "generation_config.json";
    if (std::filesystem::exists(generationPath, ignored)) {
        OCTAVO_TRY(const std::string generation, readTextFile(generationPath, maxConfigBytes));
        OCTAVO_TRY(const Json object, parseObject(generation, generationPath.string()));
        OCTAVO_CHECK(readStopIds(Reader(object, generationPath.string()), config, config.stopIds));
    }
    const std::filesystem::path quantizationPath = modelDir / "quantization_config.json";
    if (!config.quantization.present && std::filesystem::exists(quantizationPath, ignored)) {
        OCTAVO_TRY(const std::string quantization, readTextFile(quantizationPath, maxConfigBytes));
        OCTAVO_TRY(const Json object, parseObject(quantization, quantizationPath.string()));
        OCTAVO_TRY(config.quantization, readQuantization(object, quantizationPath.string()));
    }
    return config;
}

} // namespace octavo::engine
