#include "engine/evaluation/recall.h"

#include <algorithm>

namespace octavo::engine
{

namespace
{

struct Needle {
    std::string definition, question, value;
    std::size_t position = 0; ///< token of the text before which it stands
};

/// SplitMix64: the same needles on every machine.
std::uint64_t nextRandom(std::uint64_t& state)
{
    std::uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

std::vector<Needle> makeNeedles(std::size_t textTokens, const RecallOptions& options)
{
    std::uint64_t state = options.seed;
    std::vector<Needle> needles;
    for (int i = 0; i < options.needles; ++i) {
        std::string name = "probe_";
        for (int j = 0; j < 6; ++j)
            name += char('a' + nextRandom(state) % 26);
        Needle needle;
        needle.value = std::to_string(10'000 + nextRandom(state) % 90'000);
        needle.question = "\nconst int " + name + " = ";
        needle.definition = needle.question + needle.value + ";\n";
        needle.position = std::size_t((double(i) + 0.5) / double(options.needles) * double(textTokens));
        needles.push_back(std::move(needle));
    }
    return needles;
}

} // namespace

Result<Recall> evaluateRecall(Backend& backend, const Tokenizer& tokenizer, std::span<const TokenId> text,
                              const RecallOptions& options, const EvaluationHooks& hooks)
{
    if (options.needles < 1 || options.needles > 10'000)
        return Error{ErrorCode::InvalidArgument,
                     "Recall takes 1 to 10000 needles, found " + std::to_string(options.needles)};
    OCTAVO_CHECK(checkEvaluationIds(backend, text, std::size_t(options.needles)));
    const std::vector<Needle> needles = makeNeedles(text.size(), options);
    std::vector<TokenId> context;
    std::size_t taken = 0;
    for (const Needle& needle : needles) {
        context.insert(context.end(), text.begin() + std::ptrdiff_t(taken),
                       text.begin() + std::ptrdiff_t(needle.position));
        taken = needle.position;
        const std::vector<TokenId> ids = tokenizer.encode(needle.definition, SpecialTokens::Plain);
        context.insert(context.end(), ids.begin(), ids.end());
    }
    context.insert(context.end(), text.begin() + std::ptrdiff_t(taken), text.end());

    const std::int64_t length = std::int64_t(context.size());
    OCTAVO_TRY(const ScopedSequence sequence, ScopedSequence::create(backend, length));
    OCTAVO_CHECK(readTokens(backend, sequence.slot(), context, hooks, 0, length));

    Recall result;
    std::vector<float> logits(std::size_t(backend.config().vocabSize));
    for (const Needle& needle : needles) {
        if (hooks.cancelled())
            return Error{ErrorCode::Cancelled, "The evaluation was cancelled"};
        const std::vector<TokenId> question = tokenizer.encode(needle.question, SpecialTokens::Plain);
        const std::vector<TokenId> value = tokenizer.encode(needle.value, SpecialTokens::Plain);
        OCTAVO_TRY(
            const ScopedSequence fork,
            ScopedSequence::fork(backend, sequence.slot(), length + std::int64_t(question.size() + value.size())));
        const std::span<const TokenId> read = std::span(question).first(question.size() - 1);
        if (!read.empty()) {
            OCTAVO_CHECK(backend.prefill(fork.slot(), read, {}));
        }
        std::vector<TokenId> written;
        TokenId next = question.back();
        for (std::size_t i = 0; i < value.size(); ++i) {
            const StepEntry entry{fork.slot(), {&next, 1}};
            OCTAVO_CHECK(backend.step({&entry, 1}, logits));
            next = TokenId(std::max_element(logits.begin(), logits.end()) - logits.begin());
            written.push_back(next);
        }
        ++result.total;
        if (written != value)
            result.misses.push_back({needle.definition.substr(1, needle.definition.size() - 2),
                                     double(needle.position) / double(text.size()), tokenizer.decode(written)});
    }
    return result;
}

} // namespace octavo::engine
