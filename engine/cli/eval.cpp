#include "engine/backend/backend_factory.h"
#include "engine/cli/commands.h"
#include "engine/cli/common.h"
#include "engine/cli/eval_parity.h"
#include "engine/evaluation/divergence.h"
#include "engine/evaluation/fit_basis.h"
#include "engine/evaluation/log_probs.h"
#include "engine/evaluation/recall.h"
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

    Result<std::unique_ptr<Backend>> backend(SparseMode sparse) const
    {
        OCTAVO_TRY(const std::vector<std::string> devices, resolveDevices(options.devices));
        BackendOptions wanted;
        wanted.device = options.cpuPath == "reference" ? "reference" : devices.front();
        wanted.cpuPath = options.cpuPath == "reference" ? "" : options.cpuPath;
        wanted.threads = options.threads;
        wanted.contextLimit = std::int64_t(ids.size()) + 4096;
        wanted.sparse = sparse;
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
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 0, 0));
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

Result<Json> evalKld(const Arguments& arguments, Streams& streams)
{
    if (arguments.text("--against", "dense") != "dense")
        return Error{ErrorCode::InvalidArgument, "--against is '" + arguments.text("--against") + "', expected dense"};
    OCTAVO_TRY(const std::int64_t samples, arguments.integer("--samples", 200, 1, 1 << 20));
    OCTAVO_TRY(const Subject subject, openSubject(arguments, streams));
    OCTAVO_TRY(const std::unique_ptr<Backend> sparse, subject.backend(SparseMode::On));
    OCTAVO_TRY(const std::unique_ptr<Backend> dense, subject.backend(SparseMode::Off));
    OCTAVO_TRY(const Divergence found,
               evaluateDivergence(*sparse, *dense, subject.ids, int(samples), progressTo(streams.err)));
    OCTAVO_CHECK(checkFinite(found.values, subject.dir));
    const BackendStats stats = sparse->stats();
    return Json{{"eval", "kld"},
                {"device", sparse->info().device},
                {"path", sparse->info().path},
                {"context", subject.ids.size()},
                {"samples", found.values.size()},
                {"mean", found.mean()},
                {"p99", found.percentile(0.99)},
                {"top1", found.top1()},
                {"sparse_steps", stats.sparseSteps},
                {"tail_mass", stats.tailMass}};
}

Result<Json> evalRecall(const Arguments& arguments, Streams& streams)
{
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

Result<Json> evalFitBasis(const Arguments& arguments, Streams& streams)
{
    if (arguments.has("--rekey"))
        return rekeyBasis(arguments);
    OCTAVO_TRY(const std::int64_t rank, arguments.integer("--rank", 64, 8, 256));
    OCTAVO_TRY(const Subject subject, openSubject(arguments, streams));
    const std::filesystem::path file =
        arguments.has("--out") ? std::filesystem::path(arguments.text("--out")) : subject.dir / "basis.safetensors";
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
                {"--text", "FILE", "a text; special tokens in it count as text"},
                {"--files", "DIR", "parity: source files to ask about"},
                {"--ids", "FILE", "the text as token ids (\"-\": from stdin)"},
                {"--context", "N", "take only the first N tokens"},
                {"--samples", "N", "kld: decode the last N tokens (default: 200); recall: hide N values (default: 20); parity: N questions a context"},
                {"--rank", "N", "fit-basis: dimensions to keep (default: 64)"},
                {"--out", "FILE", "fit-basis: where to write it (default: basis.safetensors beside the model)"},
                {"--rekey", "FILE", "fit-basis: fit nothing; say that FILE was fitted for these very weights"},
                {"--seed", "S", "recall: which values are hidden (default: 1)"},
                {"--against", "WHAT", "kld: dense; logprobs: FILE:TENSOR with reference values"}},
               joined(engineOptions(), {jsonOption()})),
        runEval};
}

} // namespace octavo::cli
