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

/// Frees the sequence on every way out.
class ScopedSequence
{
public:
    ScopedSequence(Backend& backend, SlotId slot)
        : m_backend(&backend)
        , m_slot(slot)
    {
    }
    ~ScopedSequence() { m_backend->destroySequence(m_slot); }
    ScopedSequence(const ScopedSequence&) = delete;
    ScopedSequence& operator=(const ScopedSequence&) = delete;

private:
    Backend* m_backend;
    SlotId m_slot;
};

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
    if (ids.size() < 2)
        return Error{ErrorCode::InvalidArgument,
                     "Log-probabilities need at least 2 tokens, found " + std::to_string(ids.size())};
    const std::size_t vocab = std::size_t(backend.config().vocabSize);
    for (TokenId id : ids) {
        if (id < 0 || std::size_t(id) >= vocab)
            return Error{ErrorCode::InvalidArgument,
                         "Token id " + std::to_string(id) + " is not below the vocabulary's " + std::to_string(vocab)};
    }
    const std::span<const TokenId> read = ids.first(ids.size() - 1);
    OCTAVO_TRY(const SlotId slot, backend.createSequence(std::int64_t(read.size())));
    const ScopedSequence scope(backend, slot);

    LogProbs result;
    result.values.reserve(read.size());
    const std::size_t sliceSize = std::size_t(sliceRows(backend));
    std::vector<float> logits(std::min(sliceSize, read.size()) * vocab);
    for (std::size_t begin = 0; begin < read.size(); begin += sliceSize) {
        if (hooks.cancel && hooks.cancel->load())
            return Error{ErrorCode::Cancelled,
                         "The evaluation was cancelled after " + std::to_string(begin) + " tokens"};
        const std::size_t rows = std::min(sliceSize, read.size() - begin);
        OCTAVO_CHECK(backend.prefill(slot, read.subspan(begin, rows), std::span(logits).first(rows * vocab)));
        for (std::size_t t = 0; t < rows; ++t) {
            const std::span<const float> row = std::span<const float>(logits).subspan(t * vocab, vocab);
            const TokenId next = ids[begin + t + 1];
            result.values.push_back(float(logProbability(row, next)));
            result.top1Hits += std::max_element(row.begin(), row.end()) - row.begin() == next;
        }
        if (hooks.progress)
            hooks.progress(std::int64_t(begin + rows), std::int64_t(read.size()));
    }
    return result;
}

} // namespace octavo::engine
