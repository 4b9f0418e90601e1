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

std::int64_t DivergenceTrace::positions() const
{
    std::int64_t sum = 0;
    for (const Passage& passage : passages)
        sum += std::int64_t(passage.decoded.size());
    return sum;
}

namespace
{

Error cancelled()
{
    return Error{ErrorCode::Cancelled, "The evaluation was cancelled"};
}

/// Decodes one token on `slot`; its logits go to the end of `logits`.
Result<void> decode(Backend& backend, SlotId slot, TokenId token, std::vector<float>& logits)
{
    const std::size_t vocab = std::size_t(backend.config().vocabSize), at = logits.size();
    logits.resize(at + vocab);
    const StepEntry entry{slot, {&token, 1}};
    return backend.step({&entry, 1}, std::span(logits).subspan(at));
}

TokenId mostLikely(std::span<const float> logits)
{
    return TokenId(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Result<ScopedSequence> forkFor(Backend& backend, SlotId context, std::size_t tokens)
{
    return ScopedSequence::fork(backend, context, backend.length(context) + std::int64_t(tokens));
}

} // namespace

Result<DivergenceTrace> traceText(Backend& reference, SlotId context, std::span<const TokenId> next,
                                  const EvaluationHooks& hooks)
{
    OCTAVO_CHECK(checkEvaluationIds(reference, next, 1));
    DivergenceTrace trace;
    trace.passages.push_back({{}, {next.begin(), next.end()}});
    OCTAVO_TRY(const ScopedSequence fork, forkFor(reference, context, next.size()));
    for (const TokenId token : next) {
        if (hooks.cancelled())
            return cancelled();
        OCTAVO_CHECK(decode(reference, fork.slot(), token, trace.logits));
    }
    return trace;
}

Result<DivergenceTrace> traceAnswers(Backend& reference, SlotId context,
                                     std::span<const std::vector<TokenId>> prompts, std::int64_t positions, int longest,
                                     TokenId endOfTurn, const EvaluationHooks& hooks)
{
    const std::size_t vocab = std::size_t(reference.config().vocabSize);
    DivergenceTrace trace;
    std::int64_t have = 0;
    for (const std::vector<TokenId>& prompt : prompts) {
        if (have >= positions)
            break;
        OCTAVO_CHECK(checkEvaluationIds(reference, prompt, 2));
        DivergenceTrace::Passage& passage = trace.passages.emplace_back();
        passage.read.assign(prompt.begin(), prompt.end() - 1);
        OCTAVO_TRY(const ScopedSequence fork, forkFor(reference, context, prompt.size() + std::size_t(longest)));
        OCTAVO_CHECK(readTokens(reference, fork.slot(), passage.read, hooks, have, positions));
        TokenId next = prompt.back();
        for (int i = 0; i < longest && have < positions && next != endOfTurn; ++i, ++have) {
            if (hooks.cancelled())
                return cancelled();
            passage.decoded.push_back(next);
            OCTAVO_CHECK(decode(reference, fork.slot(), next, trace.logits));
            next = mostLikely(std::span(trace.logits).last(vocab));
            hooks.report(have, positions);
        }
    }
    return trace;
}

Result<Divergence> compareWith(const DivergenceTrace& trace, Backend& tested, SlotId context,
                               const EvaluationHooks& hooks)
{
    const std::size_t vocab = std::size_t(tested.config().vocabSize);
    Divergence result;
    std::vector<float> logits;
    std::size_t at = 0;
    const std::int64_t total = trace.positions();
    for (const DivergenceTrace::Passage& passage : trace.passages) {
        OCTAVO_TRY(const ScopedSequence fork,
                   forkFor(tested, context, passage.read.size() + passage.decoded.size()));
        OCTAVO_CHECK(readTokens(tested, fork.slot(), passage.read, {}, 0, total));
        for (const TokenId token : passage.decoded) {
            if (hooks.cancelled())
                return cancelled();
            logits.clear();
            OCTAVO_CHECK(decode(tested, fork.slot(), token, logits));
            const std::span<const float> wanted = std::span(trace.logits).subspan(at, vocab);
            at += vocab;
            result.values.push_back(klDivergence(wanted, logits));
            result.top1Agreements += mostLikely(logits) == mostLikely(wanted);
            hooks.report(std::int64_t(result.values.size()), total);
        }
    }
    return result;
}

Result<Divergence> evaluateDivergence(Backend& tested, Backend& reference, std::span<const TokenId> ids, int samples,
                                      const EvaluationHooks& hooks)
{
    if (samples < 1)
        return Error{ErrorCode::InvalidArgument, "A divergence needs at least 1 sample"};
    const std::size_t decoded = std::size_t(samples);
    OCTAVO_CHECK(checkEvaluationIds(tested, ids, decoded + 1));
    const std::span<const TokenId> read = ids.first(ids.size() - decoded);
    const auto room = std::int64_t(read.size());
    OCTAVO_TRY(const ScopedSequence testedContext, ScopedSequence::create(tested, room));
    OCTAVO_TRY(const ScopedSequence referenceContext, ScopedSequence::create(reference, room));
    OCTAVO_CHECK(readTokens(tested, testedContext.slot(), read, hooks, 0, 2 * room));
    OCTAVO_CHECK(readTokens(reference, referenceContext.slot(), read, hooks, room, 2 * room));
    OCTAVO_TRY(const DivergenceTrace trace,
               traceText(reference, referenceContext.slot(), ids.last(decoded), hooks));
    return compareWith(trace, tested, testedContext.slot(), {.cancel = hooks.cancel});
}

} // namespace octavo::engine
