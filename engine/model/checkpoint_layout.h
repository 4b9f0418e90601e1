#pragma once

/// Which tensors a checkpoint of a given configuration has, before any quantisation.
///
/// Source   model-spec section 2. For Qwen3.6-27B: 851 text tensors with 26,895,998,464 parameters and 15 MTP tensors
///          with 424,699,392, the published figures.

#include "engine/model/model_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::engine
{

struct TensorSpec {
    /// Linear modules are what int4 checkpoints may store as qweight, scales, qzeros and g_idx instead.
    enum class Kind { Embedding, Linear, Norm, Other };

    std::string name;
    std::vector<std::int64_t> shape;
    Kind kind = Kind::Linear;

    std::int64_t parameters() const;
};

enum class HeadLayout { Tied, Untied };

/// `prefix` as in the file: "model.language_model.", "model." or "language_model.model.".
std::vector<TensorSpec> textTensors(const ModelConfig& config, HeadLayout head,
                                    const std::string& prefix = "model.language_model.");
std::vector<TensorSpec> mtpTensors(const ModelConfig& config, const std::string& prefix = "mtp.");

std::int64_t countParameters(const std::vector<TensorSpec>& tensors);

} // namespace octavo::engine
