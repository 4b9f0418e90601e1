#pragma once

/// Teacher-forced log-probabilities: how likely a backend finds each token of a given text.
///
/// Cost     one prefill of the text, with logits for every row; the logits of one slice are held at a time.
/// Thread   the caller's, which must own the backend.

#include "engine/backend/backend.h"
#include "engine/evaluation/reading.h"
#include "engine/result.h"
#include "engine/types.h"

#include <cstdint>
#include <span>
#include <vector>

namespace octavo::engine
{

struct LogProbs {
    std::vector<float> values; ///< [i]: log p(ids[i + 1] | ids[0..i]); (ids.size() - 1)
    std::int64_t top1Hits = 0; ///< rows whose most likely token is the text's

    double mean() const;
    /// The value that `share` of all rows reach: percentile(0.99) is nearly the worst row's.
    double percentile(double share) const;
    double top1() const { return values.empty() ? 0.0 : double(top1Hits) / double(values.size()); }
};

/// Reads `ids` (at least two) into a sequence of its own, which is freed before this returns. Fails with
/// InvalidArgument, Cancelled, or what the backend reports.
Result<LogProbs> evaluateLogProbs(Backend& backend, std::span<const TokenId> ids, const EvaluationHooks& hooks = {});

/// log of the softmax of `logits` at `token`, summed in double.
double logProbability(std::span<const float> logits, TokenId token);

} // namespace octavo::engine
