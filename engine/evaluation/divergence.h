#pragma once

/// How far one way of decoding strays from another: the Kullback-Leibler divergence of their next-token distributions
/// along the same tokens, as decode steps of one row: text that goes on, or answers that the reference wrote.

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

/// What a reference said after a context: tokens to decode one by one behind some that are read, and its logits at
/// each.
struct DivergenceTrace {
    struct Passage {
        std::vector<TokenId> read, decoded;
    };
    std::vector<Passage> passages;
    std::vector<float> logits; ///< (decoded tokens of all passages, vocab)
    std::int64_t positions() const;
};

/// The reference's logits along `next`, the text that follows what `context` holds.
Result<DivergenceTrace> traceText(Backend& reference, SlotId context, std::span<const TokenId> next,
                                  const EvaluationHooks& hooks = {});

/// The reference answers each prompt greedily on a fork of `context`, up to `longest` tokens or `endOfTurn`, until
/// `positions` of answers are together.
Result<DivergenceTrace> traceAnswers(Backend& reference, SlotId context,
                                     std::span<const std::vector<TokenId>> prompts, std::int64_t positions, int longest,
                                     TokenId endOfTurn, const EvaluationHooks& hooks = {});

/// The same tokens on forks of the tested backend's `context`, which holds what the reference's did.
Result<Divergence> compareWith(const DivergenceTrace& trace, Backend& tested, SlotId context,
                               const EvaluationHooks& hooks = {});

/// Both backends (of the same model; they may not be the same object) read all but the last `samples` of `ids`, then
/// decode those one by one as the text has them. Their sequences are freed before this returns.
Result<Divergence> evaluateDivergence(Backend& tested, Backend& reference, std::span<const TokenId> ids, int samples,
                                      const EvaluationHooks& hooks = {});

/// KL(p || q) of the softmaxes of two rows of logits, in double.
double klDivergence(std::span<const float> p, std::span<const float> q);

} // namespace octavo::engine
