#pragma once

/// Fits the sketch basis of a model from a text like what it will read.

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

/// Reads `ids` on the CPU as one context, so that keys at all its positions count, and takes up to 32,768 keys a head
/// evenly from it. Fails with InvalidArgument (fewer than 4 * rank tokens, ids out of range), Cancelled, or as the
/// backend does.
Result<FittedBasis> fitBasis(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                             std::span<const TokenId> ids, int rank = 64, const EvaluationHooks& hooks = {});

} // namespace octavo::engine
