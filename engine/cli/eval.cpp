#include "engine/cli/commands.h"
#include "engine/cli/common.h"
#include "engine/cli/eval_kinds.h"
#include "engine/cli/eval_parity.h"
#include "engine/cli/eval_subject.h"
#include "engine/evaluation/fit_basis.h"
#include "engine/evaluation/log_probs.h"
#include "engine/memory/sketch_basis.h"
#include "engine/model/safetensors.h"

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
            return Error{ErrorCode::ShapeMismatch, path + ": '" + name + "' has " +
                                                       std::to_string(tensor.shape.size()) + " dimensions and " +
                                                       std::to_string(tensor.elements()) +
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

Result<Json> evalLogProbs(const Arguments& arguments, Streams& streams)
{
    OCTAVO_TRY(const EvalSubject subject, openEvalSubject(arguments, streams));
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
    OCTAVO_TRY(const EvalSubject subject, openEvalSubject(arguments, streams));
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
        "eval",
        "Measures log-probabilities, the divergence of sparse decoding, recall and parity; fits the sketch basis",
        "logprobs|kld|recall|parity|fit-basis",
        joined(
            {modelOption(),
             {"--text", "FILE",
              "a text; special tokens in it count as text. kld: or a folder of files; recall: a folder is asked about"},
             {"--files", "DIR", "parity: source files to ask about"},
             {"--ids", "FILE", "the text as token ids (\"-\": from stdin)"},
             {"--context", "N", "take only the first N tokens"},
             {"--samples", "N",
              "kld: decode N tokens of text and N of answers (default: 200); recall: hide N values (default: 20) or "
              "ask N questions (default: 32); parity: N questions a context"},
             {"--picks", "N",
              "kld: rows that sparse attention picks (default: 1536, on a GPU 2048 and 3584 from 131,072 tokens on)"},
             {"--pick-rule", "priority|largest",
              "kld: whether picks stand for what is not picked (default: priority, and the largest alone as well)"},
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
