#include "engine/evaluation/divergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace octavo::engine
{

namespace
{

double logSumExp(std::span<const float> logits)
{
    const double largest = double(*std::max_element(logits.begin(), logits.end()));
    double total = 0.0;
    for (float logit : logits)
        total += std::exp(double(logit) - largest);
    return largest + std::log(total);
}

} // namespace

double Divergence::mean() const
{
    return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double Divergence::percentile(double share) const
{
    if (values.empty())
        return 0.0;
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::size_t(std::llround(std::clamp(share, 0.0, 1.0) * double(sorted.size() - 1)))];
}

double klDivergence(std::span<const float> p, std::span<const float> q)
{
    const double logP = logSumExp(p), logQ = logSumExp(q);
    double sum = 0.0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        const double a = double(p[i]) - logP;
        sum += std::exp(a) * (a - (double(q[i]) - logQ));
    }
    return std::max(sum, 0.0); // rounding alone makes it negative
}

Result<Divergence> evaluateDivergence(Backend& tested, Backend& reference, std::span<const TokenId> ids, int samples,
                                      const EvaluationHooks& hooks)
{
    if (samples < 1)
        return Error{ErrorCode::InvalidArgument, "A divergence needs at least 1 sample"};
    const std::size_t decoded = std::size_t(samples);
    OCTAVO_CHECK(checkEvaluationIds(tested, ids, decoded + 1));
    const std::span<const TokenId> read = ids.first(ids.size() - decoded);
    const std::int64_t total = 2 * std::int64_t(ids.size()), room = std::int64_t(ids.size());
    OCTAVO_TRY(const ScopedSequence testedSequence, ScopedSequence::create(tested, room));
    OCTAVO_TRY(const ScopedSequence referenceSequence, ScopedSequence::create(reference, room));
    OCTAVO_CHECK(readTokens(tested, testedSequence.slot(), read, hooks, 0, total));
    OCTAVO_CHECK(readTokens(reference, referenceSequence.slot(), read, hooks, std::int64_t(read.size()), total));

    Divergence result;
    const std::size_t vocab = std::size_t(tested.config().vocabSize);
    std::vector<float> testedLogits(vocab), referenceLogits(vocab);
    for (std::size_t i = 0; i < decoded; ++i) {
        if (hooks.cancelled())
            return Error{ErrorCode::Cancelled, "The evaluation was cancelled"};
        const std::span<const TokenId> row = ids.subspan(read.size() + i, 1);
        const StepEntry testedEntry{testedSequence.slot(), row}, referenceEntry{referenceSequence.slot(), row};
        OCTAVO_CHECK(tested.step({&testedEntry, 1}, testedLogits));
        OCTAVO_CHECK(reference.step({&referenceEntry, 1}, referenceLogits));
        result.values.push_back(klDivergence(referenceLogits, testedLogits));
        result.top1Agreements +=
            std::max_element(testedLogits.begin(), testedLogits.end()) - testedLogits.begin() ==
            std::max_element(referenceLogits.begin(), referenceLogits.end()) - referenceLogits.begin();
        hooks.report(2 * std::int64_t(read.size() + i + 1), total);
    }
    return result;
}

} // namespace octavo::engine
