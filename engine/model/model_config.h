#pragma once

/// The sizes and constants of a Qwen3.5-family text model, as read from config.json.
///
/// Source   model-spec: keys may stand in text_config or at the root; head_dim is explicit and never inferred.

#include "engine/result.h"
#include "engine/types.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace octavo::engine
{

enum class LayerType { LinearAttention, FullAttention };

/// How int4 zero points are to be read; decided per module by the loader, this is the file's own claim.
struct QuantizationConfig {
    bool present = false;
    std::string method; // "gptq", "auto-round", ...
    int bits = 4;
    int groupSize = 128;
    bool symmetric = true;
    bool zeroPointsMinusOne = true;                // v1 (stored zero is zero-1); false for gptq_v2 / plain auto_round
    std::map<std::string, bool> symmetricByModule; // overrides by exact module name
    bool mixedSymmetry = false; // some override (a pattern, perhaps) has another symmetry than the rest
};

struct ModelConfig {
    int vocabSize = 0;
    int hiddenSize = 0;
    int intermediateSize = 0;
    int numLayers = 0;
    int numHeads = 0;
    int numKvHeads = 0;
    int headDim = 0;
    int rotaryDim = 0; // headDim * partial_rotary_factor
    double ropeTheta = 1e7;
    double normEps = 1e-6;
    int linearNumKeyHeads = 0;
    int linearNumValueHeads = 0;
    int linearKeyHeadDim = 0;
    int linearValueHeadDim = 0;
    int linearConvKernel = 4;
    std::int64_t maxPositions = 0;
    bool tiedEmbeddings = false;       // the file's claim; the loader goes by the tensors present
    int mtpLayers = 0;                 // likewise
    std::vector<LayerType> layerTypes; // (numLayers)
    std::vector<TokenId> stopIds;      // union of config, generation_config (and, added by Engine, the tokenizer's)
    QuantizationConfig quantization;

    int keyDim() const { return linearNumKeyHeads * linearKeyHeadDim; }
    int valueDim() const { return linearNumValueHeads * linearValueHeadDim; }
    int convDim() const { return 2 * keyDim() + valueDim(); }
    int numFullAttentionLayers() const;

    /// Reads DIR/config.json and, where present, DIR/generation_config.json and DIR/quantization_config.json.
    /// Every size is checked (positive, bounded, consistent) before it is used. Errors name file, key, found, wanted.
    static Result<ModelConfig> load(const std::filesystem::path& modelDir);

    /// The same from text, for tests and fuzzing; `name` stands for the file in messages.
    static Result<ModelConfig> parse(const std::string& json, const std::string& name);
};

} // namespace octavo::engine
