#include "engine/model/model_shapes.h"

#include <array>

namespace octavo::engine
{

namespace
{

struct Row {
    const char* name;
    int hidden, intermediate, layers, heads, kvHeads, valueHeads;
    HeadLayout head;
};

constexpr std::array<Row, 4> rows = {{
    {"qwen3.5-0.8b", 1024, 3584, 24, 8, 2, 16, HeadLayout::Tied},
    {"qwen3.5-4b", 2560, 9216, 32, 16, 4, 32, HeadLayout::Tied},
    {"qwen3.5-9b", 4096, 12288, 32, 16, 4, 32, HeadLayout::Untied},
    {"qwen3.5-27b", 5120, 17408, 64, 24, 4, 48, HeadLayout::Untied},
}};

} // namespace

std::vector<std::string> modelShapeNames()
{
    std::vector<std::string> names;
    for (const Row& row : rows)
        names.emplace_back(row.name);
    return names;
}

Result<ModelShape> modelShape(const std::string& name)
{
    std::string known;
    for (const Row& row : rows) {
        known += (known.empty() ? "" : ", ") + std::string(row.name);
        if (name != row.name)
            continue;
        ModelShape shape;
        shape.name = name;
        shape.head = row.head;
        ModelConfig& config = shape.config;
        config.vocabSize = 248320;
        config.hiddenSize = row.hidden;
        config.intermediateSize = row.intermediate;
        config.numLayers = row.layers;
        config.numHeads = row.heads;
        config.numKvHeads = row.kvHeads;
        config.headDim = 256;
        config.rotaryDim = 64;
        config.linearNumKeyHeads = 16;
        config.linearNumValueHeads = row.valueHeads;
        config.linearKeyHeadDim = 128;
        config.linearValueHeadDim = 128;
        config.maxPositions = 262144;
        config.tiedEmbeddings = row.head == HeadLayout::Tied;
        config.mtpLayers = 1;
        config.stopIds = {248046, 248044};
        for (int n = 0; n < row.layers; ++n)
            config.layerTypes.push_back((n + 1) % 4 == 0 ? LayerType::FullAttention : LayerType::LinearAttention);
        return shape;
    }
    return Error{ErrorCode::InvalidArgument, "there is no shape '" + name + "': name one of " + known};
}

std::int64_t int4WeightBytes(const ModelShape& shape)
{
    constexpr int groupSize = 128;
    std::int64_t bytes = 0;
    for (const TensorSpec& tensor : textTensors(shape.config, shape.head)) {
        const bool packed = tensor.kind == TensorSpec::Kind::Linear && tensor.shape[0] >= groupSize;
        bytes += packed ? tensor.parameters() / 2 + tensor.shape[1] / groupSize * tensor.shape[0] * 2
                        : tensor.parameters() * 2;
    }
    return bytes + 2 * countParameters(mtpTensors(shape.config));
}

} // namespace octavo::engine
