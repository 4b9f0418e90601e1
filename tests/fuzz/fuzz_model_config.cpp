/// ModelConfig::parse() on any text: whatever it accepts must have sizes that the engine can compute with.
///
/// build/fuzz/bin/fuzz_model_config -max_total_time=120 -max_len=4096 CORPUS (with resources/demo-model/config.json)

#include "engine/model/checkpoint_layout.h"
#include "engine/model/model_config.h"

#include <cstdint>
#include <cstdlib>

using namespace octavo::engine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const auto config = ModelConfig::parse(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    if (!config) {
        if (config.error().message.find('\n') != std::string::npos)
            std::abort();
        return 0;
    }
    const bool sound = config->layerTypes.size() == std::size_t(config->numLayers) && config->numHeads > 0 &&
                       config->numHeads % config->numKvHeads == 0 &&
                       config->linearNumValueHeads % config->linearNumKeyHeads == 0 && config->rotaryDim > 0 &&
                       config->rotaryDim <= config->headDim && config->convDim() > 0 && config->maxPositions > 0 &&
                       countParameters(textTensors(*config, HeadLayout::Untied)) > 0;
    if (!sound)
        std::abort();
    for (TokenId id : config->stopIds) {
        if (id < 0 || id >= config->vocabSize)
            std::abort();
    }
    return 0;
}
