#pragma once

/// How far one way of decoding strays from another: the Kullback-Leibler divergence of their next-token distributions
/// along the same text, as decode steps of one row.

#include "engine/backend/backend.h"
#include "engine/evaluation/reading.h"
#include "engine/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace octavo::engine
{

struct Divergence {
    std::vector<double> values; ///< KL(reference || tested) in nats, per decoded row
    std::int64_t top1Agreements = 0;

    double mean() const;
    double percentile(double share) const; ///< percentile(0.99): what 99% of the rows do not exceed
    double top1() const { return values.empty() ? 0.0 : double(top1Agreements) / double(values.size()); }
};

/// Both backends (of the same model; they may not be the same object) read all but the last `samples` of `ids`, then
/// decode those one by one as the text has them. Two sequences, freed before this returns.
Result<Divergence> evaluateDivergence(Backend& tested, Backend& reference, std::span<const TokenId> ids, int samples,
                                      const EvaluationHooks& hooks = {});

/// KL(p || q) of the softmaxes of two rows of logits, in double.
double klDivergence(std::span<const float> p, std::span<const float> q);

} // namespace octavo::engine
