#include "engine/backend/backend_factory.h"
#include "engine/cli/commands.h"
#include "engine/cli/common.h"
#include "engine/cli/eval_parity.h"
#include "engine/evaluation/divergence.h"
#include "engine/evaluation/fit_basis.h"
#include "engine/evaluation/log_probs.h"
#include "engine/evaluation/recall.h"
#include "engine/evaluation/repository_questions.h"
#include "engine/evaluation/saved_reading.h"
#include "engine/memory/sketch_basis.h"
#include "engine/model/safetensors.h"
#include "engine/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ostream>

namespace octavo::cli
{
namespace
{

using Json = nlohmann::ordered_json;
using namespace engine;

/// What every evaluation works on.
struct Subject {
    std::filesystem::path dir;
    ModelConfig config;
    std::shared_ptr<const ModelWeights> weights;
    std::vector<TokenId> ids;
    EngineOptions options;

    Result<std::unique_ptr<Backend>> backend(SparseMode sparse, const SparseSettings& settings = {}) const
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
};

Result<Subject> openSubject(const Arguments& arguments, Streams& streams)
{
    Subject subject;
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
                                                         std::to_string(subject.ids.size()) + " tokens"};
        subject.ids.resize(std::size_t(context));
    }
    return subject;
}

/// Percent done on a terminal's standard error, once per percent.
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

/// "FILE:TENSOR": reference log-probabilities, float32.
Result<std::vector<float>> readReference(const std::string& where)
{
    const std::size_t colon = where.rfind(':');
    if (colon == std::string::npos)
        return Error{ErrorCode::InvalidArgument, "--against is '" + where + "', expected FILE:TENSOR"};
    const std::string path = where.substr(0, colon), name = where.substr(colon + 1);
    OCTAVO_TRY(const MappedFile file, MappedFile::open(path));
    OCTAVO_TRY(const SafetensorsHeader header, SafetensorsHeader::parse(file.bytes(), file.bytes().size(), path));
    for (const TensorInfo& tensor : header.tensors) {
        if (tensor.name != name || tensor.dtype != DType::F32)
            continue;
        if (tensor.shape.size() != 1 || tensor.elements() == 0)
            return Error{ErrorCode::ShapeMismatch, path + ": '" + name + "' has " + std::to_string(tensor.shape.size()) +
                                                       " dimensions and " + std::to_string(tensor.elements()) +
                                                       " values, expected one log-probability for each token"};
        std::vector<float> values(tensor.elements());
        std::memcpy(values.data(), file.bytes().data() + header.dataStart + tensor.begin, tensor.end - tensor.begin);
        return values;
    }
    return Error{ErrorCode::NotFound, path + " has no F32 tensor '" + name + "'"};
}

void print(const Json& line, bool json, std::ostream& out)
{
    if (json) {
        out << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
        return;
    }
    for (const auto& [key, value] : line.items())
        out << key << ": " << value.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

/// A model that gives NaN was not measured.
template <typename Value>
Result<void> checkFinite(const std::vector<Value>& values, const std::filesystem::path& model)
{
    const auto bad = std::ranges::find_if(values, [](Value value) { return !std::isfinite(value); });
    if (bad == values.end())
        return {};
    return Error{ErrorCode::FormatInvalid,
                 model.string() + ": the model gives no finite score at position " + std::to_string(bad - values.begin())
                     + "; its weights are damaged, octavo-engine doctor says which"};
}

Result<Json> evalLogProbs(const Arguments& arguments, Streams& streams)
{
    OCTAVO_TRY(const Subject subject, openSubject(arguments, streams));
    std::vector<float> reference;
    if (arguments.has("--against")) {
        OCTAVO_TRY(reference, readReference(arguments.text("--against")));
    }
    OCTAVO_TRY(const std::unique_ptr<Backend> backend, subject.backend(subject.options.sparse));
    const auto start = std::chrono::steady_clock::now();
    OCTAVO_TRY(const LogProbs found, evaluateLogProbs(*backend, subject.ids, progressTo(streams.err)));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    OCTAVO_CHECK(checkFinite(found.values, subject.dir));
    Json line{{"eval", "logprobs"},           {"device", backend->info().device},
              {"path", backend->info().path}, {"samples", found.values.size()},
              {"mean", found.mean()},         {"p99", found.percentile(0.99)},
              {"top1", found.top1()},         {"tokens_per_s", double(found.values.size()) / seconds}};
    if (!reference.empty()) {
        const std::size_t common = std::min(reference.size(), found.values.size());
        double sum = 0.0, largest = 0.0;
        for (std::size_t i = 0; i < common; ++i) {
            const double difference = std::abs(double(found.values[i]) - double(reference[i]));
            sum += difference;
            largest = difference <= largest ? largest : difference; // takes a NaN
        }
        line["compared"] = common;
        line["mean_difference"] = sum / double(common);
        line["largest_difference"] = largest;
    }
    return line;
}

/// A context of a repository, the text that goes on after it, and questions about it.
struct RepositorySubject {
    Subject subject; ///< ids: what is read
    std::vector<TokenId> next;
    std::vector<Lookup> lookups;
    std::vector<std::vector<TokenId>> prompts;
    TokenId endOfTurn = 0;
    std::filesystem::path state; ///< a folder for what was read; may be empty

    std::filesystem::path stateFile(const char* name) const { return state.empty() ? state : state / name; }
};

Result<RepositorySubject> openRepository(const Arguments& arguments, std::int64_t samples, std::int64_t questions)
{
    RepositorySubject found;
    Subject& subject = found.subject;
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
        return Error{ErrorCode::InvalidArgument, "--context and --samples ask for " + std::to_string(context + samples) +
                                                     " tokens, but the text has " + std::to_string(all)};
    found.next.assign(subject.ids.begin() + context, subject.ids.begin() + context + samples);
    subject.ids.resize(std::size_t(context));
    // The share of the text is taken for the share of the tokens: a little less, so that all is surely read.
    found.lookups = makeLookups(tokenizer, files, 0.95 * double(context) / double(all), int(questions));
    for (const Lookup& lookup : found.lookups)
        found.prompts.push_back(lookup.ids);
    found.endOfTurn = tokenizer.encode("<|im_end|>", SpecialTokens::Parse).front();
    found.state = arguments.text("--state");
    return found;
}

void addDivergence(Json& line, const std::string& name, const Divergence& found)
{
    line[name] = {{"samples", found.values.size()},
                  {"mean", found.mean()},
                  {"p99", found.percentile(0.99)},
                  {"top1", found.top1()}};
}

/// A way of decoding that is compared with dense attention over int8 rows.
struct KldVariant {
    const char* name;
    bool perHead;
    SparseMode mode; ///< Off: dense over the tier's int4 rows
};

Result<Json> evalKld(const Arguments& arguments, Streams& streams)
{
    constexpr int longestAnswer = 96;
    if (arguments.text("--against", "dense") != "dense")
        return Error{ErrorCode::InvalidArgument, "--against is '" + arguments.text("--against") + "', expected dense"};
    OCTAVO_TRY(const std::int64_t samples, arguments.integer("--samples", 200, 1, 1 << 20));
    OCTAVO_TRY(const std::int64_t topK, arguments.integer("--picks", SparseSettings().topK, 1, 1 << 20));
    OCTAVO_TRY(const RepositorySubject about, openRepository(arguments, samples, samples));
    const Subject& subject = about.subject;
    const EvaluationHooks hooks = progressTo(streams.err);
    const std::uint64_t model = subject.weights->hash;

    DivergenceTrace text, answers;
    Json line{{"eval", "kld"}, {"context", subject.ids.size()}, {"picks", topK}};
    {
        OCTAVO_TRY(const std::unique_ptr<Backend> dense, subject.backend(SparseMode::Off));
        line["device"] = dense->info().device;
        line["path"] = dense->info().path;
        OCTAVO_TRY(const SlotId context, readOrReopen(*dense, model, subject.ids, about.stateFile("dense"), hooks));
        OCTAVO_TRY(text, traceText(*dense, context, about.next, hooks));
        OCTAVO_TRY(answers, traceAnswers(*dense, context, about.prompts, samples, longestAnswer, about.endOfTurn, hooks));
        // The floor: the same rows decoded by kernels whose float sums are rounded differently.
        if (dense->info().path != "plain" && !dense->imageFormat().empty()) {
            OCTAVO_TRY(const SequenceImage image, dense->imageOf(context, ImageRows::Taken));
            std::vector<std::byte> state, rows;
            for (const auto& part : image.state)
                state.insert(state.end(), part.begin(), part.end());
            for (const auto& part : image.rows)
                rows.insert(rows.end(), part.begin(), part.end());
            Subject plain = subject;
            plain.options.cpuPath = "plain";
            OCTAVO_TRY(const std::unique_ptr<Backend> other, plain.backend(SparseMode::Off));
            OCTAVO_TRY(const SlotId same, other->restoreSequence(std::int64_t(subject.ids.size()), state, rows));
            OCTAVO_TRY(const Divergence floor, compareWith(text, *other, same, hooks));
            addDivergence(line, "floor_text", floor);
        }
    }
    for (const KldVariant& variant : {KldVariant{"per_head", true, SparseMode::On}, KldVariant{"shared", false, SparseMode::On},
                                      KldVariant{"dense_int4", true, SparseMode::Off}}) {
        SparseSettings settings;
        settings.perHead = variant.perHead;
        settings.topK = int(topK);
        // Rows lie alike in all variants, so that one reading serves them all.
        OCTAVO_TRY(const std::unique_ptr<Backend> tested, subject.backend(SparseMode::On, settings));
        OCTAVO_TRY(const SlotId context, readOrReopen(*tested, model, subject.ids, about.stateFile("tier"), hooks));
        tested->setSparseMode(variant.mode);
        const auto start = std::chrono::steady_clock::now();
        OCTAVO_TRY(const Divergence onText, compareWith(text, *tested, context, hooks));
        const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
        OCTAVO_TRY(const Divergence onAnswers, compareWith(answers, *tested, context, hooks));
        OCTAVO_CHECK(checkFinite(onText.values, subject.dir));
        OCTAVO_CHECK(checkFinite(onAnswers.values, subject.dir));
        addDivergence(line, std::string(variant.name) + "_text", onText);
        addDivergence(line, std::string(variant.name) + "_answers", onAnswers);
        const BackendStats stats = tested->stats();
        line[std::string(variant.name) + "_steps"] = {
            {"ms", spent.count() / double(onText.values.size())},
            {"sparse", stats.sparseSteps},
            {"tail_mass", stats.tailMass},
            {"hit_rate", double(stats.hotHits) / double(std::max<std::int64_t>(1, stats.hotHits + stats.hotMisses))},
            {"overlap", stats.pickOverlap}};
    }
    line["questions"] = answers.passages.size();
    return line;
}

Result<Json> evalLookups(const Arguments& arguments, Streams& streams);

Result<Json> evalRecall(const Arguments& arguments, Streams& streams)
{
    if (std::error_code ignored; arguments.has("--text") && std::filesystem::is_directory(arguments.text("--text"), ignored))
        return evalLookups(arguments, streams);
    RecallOptions options;
    OCTAVO_TRY(const std::int64_t needles, arguments.integer("--samples", options.needles, 1, 10'000));
    OCTAVO_TRY(const std::int64_t seed, arguments.integer("--seed", std::int64_t(options.seed), 0));
    options.needles = int(needles);
    options.seed = std::uint64_t(seed);
    OCTAVO_TRY(const Subject subject, openSubject(arguments, streams));
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

/// A basis depends on the weights alone, so one whose key was made another way needs no new fit.
Result<Json> rekeyBasis(const Arguments& arguments)
{
    const std::filesystem::path from = arguments.text("--rekey");
    OCTAVO_TRY(const EngineOptions options, readEngineOptions(arguments));
    OCTAVO_TRY(const ModelConfig config, ModelConfig::load(options.modelDir));
    OCTAVO_TRY(const ModelWeights weights, ModelWeights::open(options.modelDir, config));
    OCTAVO_TRY(SketchBasis basis, SketchBasis::load(from));
    const auto layers = std::ranges::count(config.layerTypes, LayerType::FullAttention);
    OCTAVO_CHECK(basis.checkFits(basis.modelHash, int(layers), config.numKvHeads, config.headDim));
    basis.modelHash = weights.hash;
    const std::filesystem::path file = arguments.has("--out") ? std::filesystem::path(arguments.text("--out")) : from;
    OCTAVO_CHECK(basis.save(file));
    return Json{{"eval", "fit-basis"}, {"file", file.string()}, {"rank", basis.rank}, {"samples", basis.fittedTokens}};
}

/// Questions about names that a repository's files define, answered densely and sparsely over the same context.
Result<Json> evalLookups(const Arguments& arguments, Streams& streams)
{
    constexpr int longestAnswer = 64; // the file's path comes early
    OCTAVO_TRY(const std::int64_t questions, arguments.integer("--samples", 32, 1, 10'000));
    OCTAVO_TRY(const RepositorySubject about, openRepository(arguments, 1, questions));
    const Subject& subject = about.subject;
    OCTAVO_TRY(const Tokenizer tokenizer, Tokenizer::load(subject.dir / "tokenizer.json"));
    const EvaluationHooks hooks = progressTo(streams.err);
    Json line{{"eval", "recall"}, {"context", subject.ids.size()}, {"total", about.lookups.size()}};
    std::vector<std::vector<TokenId>> first;
    for (const SparseMode mode : {SparseMode::Off, SparseMode::On}) {
        const std::string name = mode == SparseMode::Off ? "dense" : "sparse";
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
        line[name + "_correct"] = about.lookups.size() - misses.size();
        if (mode == SparseMode::On)
            line["same_answers"] = same;
        line[name + "_misses"] = misses;
    }
    return line;
}

Result<Json> evalFitBasis(const Arguments& arguments, Streams& streams)
{
    if (arguments.has("--rekey"))
        return rekeyBasis(arguments);
    OCTAVO_TRY(const std::int64_t rank, arguments.integer("--rank", 64, 8, 256));
    OCTAVO_TRY(const Subject subject, openSubject(arguments, streams));
    const std::filesystem::path file =
        arguments.has("--out") ? std::filesystem::path(arguments.text("--out")) : subject.dir / "basis.safetensors";
    OCTAVO_CHECK(SketchBasis::checkReplaceable(file)); // before minutes of fitting
    OCTAVO_TRY(const FittedBasis fitted,
               fitBasis(subject.config, subject.weights, subject.ids, int(rank), progressTo(streams.err)));
    OCTAVO_CHECK(fitted.basis.save(file));
    return Json{{"eval", "fit-basis"},
                {"file", file.string()},
                {"rank", fitted.basis.rank},
                {"samples", fitted.basis.fittedTokens},
                {"explained_mean", fitted.meanExplained()},
                {"explained_least", fitted.leastExplained()}};
}

Result<void> runEval(const Arguments& arguments, Streams& streams)
{
    const std::string what = arguments.positional().size() == 1 ? arguments.positional().front() : "";
    Result<Json> (*const evaluate)(const Arguments&, Streams&) = what == "logprobs"    ? evalLogProbs
                                                                 : what == "kld"       ? evalKld
                                                                 : what == "recall"    ? evalRecall
                                                                 : what == "parity"    ? evalParity
                                                                 : what == "fit-basis" ? evalFitBasis
                                                                                       : nullptr;
    if (!evaluate)
        return Error{ErrorCode::InvalidArgument, "name one of logprobs, kld, recall, parity and fit-basis"};
    OCTAVO_TRY(const Json line, evaluate(arguments, streams));
    print(line, arguments.has("--json"), streams.out);
    return {};
}

} // namespace

Command evalCommand()
{
    return {
        "eval", "Measures log-probabilities, the divergence of sparse decoding, recall and parity; fits the sketch basis",
        "logprobs|kld|recall|parity|fit-basis",
        joined({modelOption(),
                {"--text", "FILE", "a text; special tokens in it count as text. kld: or a folder of files; recall: a folder is asked about"},
                {"--files", "DIR", "parity: source files to ask about"},
                {"--ids", "FILE", "the text as token ids (\"-\": from stdin)"},
                {"--context", "N", "take only the first N tokens"},
                {"--samples", "N",
                 "kld: decode N tokens of text and N of answers (default: 200); recall: hide N values (default: 20) or "
                 "ask N questions (default: 32); parity: N questions a context"},
                {"--picks", "N", "kld: rows that sparse attention picks (default: 2048)"},
                {"--state", "DIR", "kld, recall on a folder: keep what was read there, and take it from there next time"},
                {"--rank", "N", "fit-basis: dimensions to keep (default: 64)"},
                {"--out", "FILE", "fit-basis: where to write it (default: basis.safetensors beside the model)"},
                {"--rekey", "FILE", "fit-basis: fit nothing; say that FILE was fitted for these very weights"},
                {"--seed", "S", "recall: which values are hidden (default: 1)"},
                {"--against", "WHAT", "kld: dense; logprobs: FILE:TENSOR with reference values"}},
               joined(engineOptions(), {jsonOption()})),
        runEval};
}

} // namespace octavo::cli
