#pragma once

/// Random weights of any shape, so that speed can be measured without a checkpoint.

#include "engine/model/model_shapes.h"
#include "engine/model/weights.h"

#include <cstdint>

namespace octavo::engine
{

/// Linears of the layers as symmetric int4 with groups of 128 (where a module has at least 128 outputs and its inputs
/// divide), the rest in bf16, norms 1. Values keep activations near 1 in size. Same seed, same weights.
///
/// Memory   all modules point into one random stretch as long as the largest of them, so that a 27B takes 2.7 GB until
///          a backend repacks it; modules of one shape are therefore equal, which speed does not depend on.
ModelWeights randomWeights(const ModelShape& shape, std::uint64_t seed = 1);

} // namespace octavo::engine
