#include "engine/evaluation/log_probs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace octavo::engine
{

namespace
{

constexpr std::int64_t maxLogitsBytes = 64 << 20;

/// A slice whose logits stay below maxLogitsBytes where 64 rows do.
int sliceRows(const Backend& backend)
{
    const std::int64_t rowBytes = std::int64_t(backend.config().vocabSize) * std::int64_t(sizeof(float));
    const std::int64_t fitting = std::max<std::int64_t>(maxLogitsBytes / rowBytes / 64 * 64, 64);
    return int(std::min<std::int64_t>(fitting, backend.maxPrefillSlice()));
}

} // namespace

double LogProbs::mean() const
{
    return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double LogProbs::percentile(double share) const
{
    if (values.empty())
        return 0.0;
    std::vector<float> sorted = values;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double at = std::clamp(share, 0.0, 1.0) * double(sorted.size() - 1);
    return double(sorted[std::size_t(std::llround(at))]);
}

double logProbability(std::span<const float> logits, TokenId token)
{
    const double largest = double(*std::max_element(logits.begin(), logits.end()));
    double total = 0.0;
    for (float logit : logits)
        total += std::exp(double(logit) - largest);
    return double(logits[std::size_t(token)]) - largest - std::log(total);
}

Result<LogProbs> evaluateLogProbs(Backend& backend, std::span<const TokenId> ids, const EvaluationHooks& hooks)
{
    OCTAVO_CHECK(checkEvaluationIds(backend, ids, 2));
    const std::size_t vocab = std::size_t(backend.config().vocabSize);
    const std::span<const TokenId> read = ids.first(ids.size() - 1);
    OCTAVO_TRY(const ScopedSequence sequence, ScopedSequence::create(backend, std::int64_t(read.size())));

    LogProbs result;
    result.values.reserve(read.size());
    const std::size_t sliceSize = std::size_t(sliceRows(backend));
    std::vector<float> logits(std::min(sliceSize, read.size()) * vocab);
    for (std::size_t begin = 0; begin < read.size(); begin += sliceSize) {
        if (hooks.cancelled())
            return Error{ErrorCode::Cancelled,
                         "The evaluation was cancelled after " + std::to_string(begin) + " tokens"};
        const std::size_t rows = std::min(sliceSize, read.size() - begin);
        OCTAVO_CHECK(
            backend.prefill(sequence.slot(), read.subspan(begin, rows), std::span(logits).first(rows * vocab)));
        for (std::size_t t = 0; t < rows; ++t) {
            const std::span<const float> row = std::span<const float>(logits).subspan(t * vocab, vocab);
            const TokenId next = ids[begin + t + 1];
            result.values.push_back(float(logProbability(row, next)));
            result.top1Hits += std::max_element(row.begin(), row.end()) - row.begin() == next;
        }
        hooks.report(std::int64_t(begin + rows), std::int64_t(read.size()));
    }
    return result;
}

} // namespace octavo::engine
