#pragma once

/// Fits the sketch basis of a model from a text: the keys as the float32 reference model computes them.

#include "engine/evaluation/reading.h"
#include "engine/memory/sketch_basis.h"
#include "engine/model/weights.h"
#include "engine/result.h"

#include <memory>
#include <span>
#include <vector>

namespace octavo::engine
{

struct FittedBasis {
    SketchBasis basis;
    std::vector<double> explained; ///< share of the keys' variance that it holds, by (attention layer, KV head)

    double meanExplained() const;
    double leastExplained() const;
};

/// Reads `ids` once through the reference model (4 bytes of memory per parameter, some 100 tokens a second on the demo
/// model). Fails with OutOfMemory, InvalidArgument (fewer than 4 * rank tokens, ids out of range) or Cancelled.
Result<FittedBasis> fitBasis(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                             std::span<const TokenId> ids, int rank = 64, const EvaluationHooks& hooks = {});

} // namespace octavo::engine
