#include "engine/cli/eval_subject.h"

#include "engine/cli/common.h"
#include "engine/counted.h"
#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace octavo::cli
{

using namespace engine;

Result<std::unique_ptr<Backend>> EvalSubject::backend(SparseMode sparse, const SparseSettings& settings) const
{
    OCTAVO_TRY(const std::vector<std::string> devices, resolveDevices(options.devices));
    BackendOptions wanted;
    wanted.device = options.cpuPath == "reference" ? "reference" : devices.front();
    wanted.cpuPath = options.cpuPath == "reference" ? "" : options.cpuPath;
    wanted.threads = options.threads;
    wanted.contextLimit = std::int64_t(ids.size()) + 4096;
    wanted.sparse = sparse;
    wanted.sparseSettings = settings;
    return makeBackend(config, weights, wanted);
}

Result<EvalSubject> openEvalSubject(const Arguments& arguments, Streams& streams)
{
    EvalSubject subject;
    OCTAVO_TRY(subject.options, readEngineOptions(arguments));
    subject.dir = subject.options.modelDir;
    if (arguments.has("--ids") == arguments.has("--text"))
        return Error{ErrorCode::InvalidArgument, "name either --text FILE or --ids FILE"};
    OCTAVO_TRY(subject.config, ModelConfig::load(subject.dir));
    OCTAVO_TRY(ModelWeights weights, ModelWeights::open(subject.dir, subject.config));
    subject.weights = std::make_shared<const ModelWeights>(std::move(weights));
    if (arguments.has("--ids")) {
        OCTAVO_TRY(subject.ids, readIds(arguments.text("--ids"), streams.in));
    } else {
        OCTAVO_TRY(const Tokenizer tokenizer, Tokenizer::load(subject.dir / "tokenizer.json"));
        OCTAVO_TRY(const std::string text, readFile(arguments.text("--text")));
        subject.ids = tokenizer.encode(text, SpecialTokens::Plain);
    }
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 0, 0, longestContext));
    if (context > 0) {
        if (std::size_t(context) > subject.ids.size())
            return Error{ErrorCode::InvalidArgument, "--context is " + std::to_string(context) +
                                                         ", but the text has only " +
                                                         engine::counted(std::int64_t(subject.ids.size()), "token")};
        subject.ids.resize(std::size_t(context));
    }
    return subject;
}

Result<EvalRepository> openEvalRepository(const Arguments& arguments, std::int64_t samples, std::int64_t questions)
{
    EvalRepository found;
    EvalSubject& subject = found.subject;
    if (arguments.has("--state")) { // before minutes of reading
        OCTAVO_TRY(found.state, keptFolder("--state", arguments.text("--state")));
    }
    OCTAVO_TRY(subject.options, readEngineOptions(arguments));
    subject.dir = subject.options.modelDir;
    OCTAVO_TRY(subject.config, ModelConfig::load(subject.dir));
    OCTAVO_TRY(ModelWeights weights, ModelWeights::open(subject.dir, subject.config));
    subject.weights = std::make_shared<const ModelWeights>(std::move(weights));
    OCTAVO_TRY(const Tokenizer tokenizer, Tokenizer::load(subject.dir / "tokenizer.json"));
    const std::filesystem::path where = arguments.text("--text");
    OCTAVO_TRY(const std::vector<RepositoryFile> files, readRepository(where));
    subject.ids = repositoryIds(tokenizer, where.filename().string(), files);
    const std::size_t all = subject.ids.size();
    OCTAVO_TRY(std::int64_t context, arguments.integer("--context", 0, 0, longestContext));
    if (context == 0)
        context = std::int64_t(all) - samples;
    if (context < 64 || std::size_t(context + samples) > all)
        return Error{ErrorCode::InvalidArgument, "--context and --samples ask for " +
                                                     std::to_string(context + samples) + " tokens, but the text has " +
                                                     std::to_string(all)};
    found.next.assign(subject.ids.begin() + context, subject.ids.begin() + context + samples);
    subject.ids.resize(std::size_t(context));
    // The share of the text is taken for the share of the tokens: a little less, so that all is surely read.
    found.lookups = makeLookups(tokenizer, files, 0.95 * double(context) / double(all), int(questions));
    for (const Lookup& lookup : found.lookups)
        found.prompts.push_back(lookup.ids);
    found.endOfTurn = tokenizer.encode("<|im_end|>", SpecialTokens::Parse).front();
    return found;
}

EvaluationHooks progressTo(std::ostream& err)
{
    EvaluationHooks hooks;
    hooks.progress = [&err, last = std::int64_t(-1)](std::int64_t done, std::int64_t total) mutable {
        const std::int64_t percent = total > 0 ? 100 * done / total : 100;
        if (percent != last)
            err << "\r" << percent << "% of " << total << " tokens" << (done == total ? "\n" : "") << std::flush;
        last = percent;
    };
    return hooks;
}

namespace
{

template <typename Value>
Result<void> checkAllFinite(std::span<const Value> values, const std::filesystem::path& model)
{
    const auto bad = std::ranges::find_if(values, [](Value value) { return !std::isfinite(value); });
    if (bad == values.end())
        return {};
    return Error{ErrorCode::FormatInvalid, model.string() + ": the model gives no finite score at position " +
                                               std::to_string(bad - values.begin()) +
                                               "; its weights are damaged, octavo-engine doctor says which"};
}

} // namespace

Result<void> checkFinite(std::span<const float> values, const std::filesystem::path& model)
{
    return checkAllFinite(values, model);
}

Result<void> checkFinite(std::span<const double> values, const std::filesystem::path& model)
{
    return checkAllFinite(values, model);
}

} // namespace octavo::cli
