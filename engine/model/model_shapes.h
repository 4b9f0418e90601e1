#pragma once

/// Sizes of the published models by name, for planning and for benchmarks without a checkpoint.
///
/// Source   model-spec section 1.3.

#include "engine/model/checkpoint_layout.h"
#include "engine/model/model_config.h"
#include "engine/result.h"

#include <string>
#include <vector>

namespace octavo::engine
{

struct ModelShape {
    std::string name; ///< "qwen3.5-27b"
    ModelConfig config;
    HeadLayout head = HeadLayout::Untied;
};

std::vector<std::string> modelShapeNames();

/// Fails with InvalidArgument, naming what there is.
Result<ModelShape> modelShape(const std::string& name);

/// Bytes of the shape's weights in the usual int4 form: linears of the layers with groups of 128 and fp16 scales;
/// embedding, head, MTP and whatever has fewer than 128 outputs in 16 bit.
std::int64_t int4WeightBytes(const ModelShape& shape);

} // namespace octavo::engine
