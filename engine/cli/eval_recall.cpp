#include "engine/cli/common.h"
#include "engine/cli/eval_kinds.h"
#include "engine/cli/eval_subject.h"
#include "engine/evaluation/divergence.h"
#include "engine/evaluation/recall.h"
#include "engine/evaluation/saved_reading.h"
#include "engine/tokenizer/tokenizer.h"

#include <system_error>

namespace octavo::cli
{

using Json = nlohmann::ordered_json;
using namespace engine;

namespace
{

/// Questions about names that a repository's files define, answered densely and sparsely over the same context.
Result<Json> evalLookups(const Arguments& arguments, Streams& streams)
{
    constexpr int longestAnswer = 64; // the file's path comes early
    OCTAVO_TRY(const std::int64_t questions, arguments.integer("--samples", 32, 1, 10'000));
    OCTAVO_TRY(const EvalRepository about, openEvalRepository(arguments, 1, questions));
    const EvalSubject& subject = about.subject;
    OCTAVO_TRY(const Tokenizer tokenizer, Tokenizer::load(subject.dir / "tokenizer.json"));
    const EvaluationHooks hooks = progressTo(streams.err);
    Json line{{"eval", "recall"}, {"context", subject.ids.size()}, {"total", about.lookups.size()}};
    std::vector<std::vector<TokenId>> first;
    for (const SparseMode mode : {SparseMode::Off, SparseMode::On}) {
        OCTAVO_TRY(const std::unique_ptr<Backend> backend, subject.backend(mode));
        OCTAVO_TRY(const SlotId context,
                   readOrReopen(*backend, subject.weights->hash, subject.ids,
                                about.stateFile(mode == SparseMode::Off ? "dense" : "tier"), hooks));
        Json misses = Json::array();
        std::size_t same = 0;
        for (std::size_t i = 0; i < about.lookups.size(); ++i) {
            const Lookup& lookup = about.lookups[i];
            OCTAVO_TRY(const DivergenceTrace trace,
                       traceAnswers(*backend, context, std::span(about.prompts).subspan(i, 1), longestAnswer,
                                    longestAnswer, about.endOfTurn));
            const std::vector<TokenId>& decoded = trace.passages.front().decoded;
            const std::vector<TokenId> answer(decoded.begin() + 1, decoded.end());
            const std::string text = tokenizer.decode(answer);
            if (text.find(lookup.path) == std::string::npos)
                misses.push_back({{"question", lookup.question}, {"path", lookup.path}, {"depth", lookup.depth},
                                  {"found", text}});
            if (mode == SparseMode::Off)
                first.push_back(answer);
            else
                same += answer == first[i] ? 1 : 0;
            hooks.report(std::int64_t(i + 1), std::int64_t(about.lookups.size()));
        }
        const std::string prefix = mode == SparseMode::Off ? "dense_" : "";
        line[prefix + "correct"] = about.lookups.size() - misses.size();
        if (mode == SparseMode::On)
            line["same_answers"] = same;
        line[prefix + "misses"] = misses;
    }
    return line;
}

} // namespace

Result<Json> evalRecall(const Arguments& arguments, Streams& streams)
{
    if (std::error_code ignored;
        arguments.has("--text") && std::filesystem::is_directory(arguments.text("--text"), ignored))
        return evalLookups(arguments, streams);
    RecallOptions options;
    OCTAVO_TRY(const std::int64_t needles, arguments.integer("--samples", options.needles, 1, 10'000));
    OCTAVO_TRY(const std::int64_t seed, arguments.integer("--seed", std::int64_t(options.seed), 0));
    options.needles = int(needles);
    options.seed = std::uint64_t(seed);
    OCTAVO_TRY(const EvalSubject subject, openEvalSubject(arguments, streams));
    OCTAVO_TRY(const Tokenizer tokenizer, Tokenizer::load(subject.dir / "tokenizer.json"));
    OCTAVO_TRY(const std::unique_ptr<Backend> backend, subject.backend(subject.options.sparse));
    OCTAVO_TRY(const Recall found, evaluateRecall(*backend, tokenizer, subject.ids, options, progressTo(streams.err)));
    Json misses = Json::array();
    for (const RecallMiss& miss : found.misses)
        misses.push_back({{"needle", miss.needle}, {"depth", miss.depth}, {"found", miss.found}});
    return Json{{"eval", "recall"},
                {"device", backend->info().device},
                {"path", backend->info().path},
                {"context", subject.ids.size()},
                {"correct", found.correct()},
                {"total", found.total},
                {"misses", misses},
                {"sparse_steps", backend->stats().sparseSteps}};
}

} // namespace octavo::cli
