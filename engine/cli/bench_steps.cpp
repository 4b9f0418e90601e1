#include "engine/backend/backend_factory.h"
#include "engine/backend/cpu_backend.h"
#include "engine/cli/bench.h"
#include "engine/cli/common.h"
#include "engine/evaluation/machine_probe.h"
#include "engine/evaluation/reading.h"
#include "engine/evaluation/saved_reading.h"
#include "engine/model/random_weights.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler/memory_budget.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <ostream>
#include <thread>

namespace octavo::cli {
namespace {

using engine::SlotId;
using engine::TokenId;
using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A backend by itself, without scheduler and tokenizer.
struct Subject {
    engine::ModelConfig config;
    std::shared_ptr<const engine::ModelWeights> weights;
    std::unique_ptr<engine::Backend> backend;
    std::string model;
    int threads = 1;
    double loadMs = 0.0;
};

Result<std::unique_ptr<engine::Backend>> openBackend(const Arguments& arguments, const Subject& subject,
                                                     engine::SparseMode sparse)
{
    OCTAVO_TRY(const engine::EngineOptions wanted, readEngineOptions(arguments));
    OCTAVO_TRY(const std::vector<std::string> devices, engine::resolveDevices(wanted.devices));
    engine::BackendOptions options;
    options.device = devices.front();
    options.threads = wanted.threads;
    options.cpuPath = wanted.cpuPath;
    options.sparse = sparse;
    OCTAVO_TRY(options.sparseSettings.pickRule, readPickRule(arguments));
    OCTAVO_TRY(const std::int64_t picks, arguments.integer("--picks", options.sparseSettings.topK, 1, 1 << 20));
    options.sparseSettings.topK = int(picks);
    if (arguments.has("--picks"))
        options.sparseSettings.onlyTopK();
    options.quantize = wanted.quantize;
    const std::string mtp = arguments.text("--mtp", "off");
    if (mtp != "on" && mtp != "off")
        return Error{ErrorCode::InvalidArgument, "--mtp is '" + mtp + "', must be on or off"};
    options.mtp = mtp == "on";
    return engine::makeBackend(subject.config, subject.weights, options);
}

Result<Subject> openSubject(const Arguments& arguments)
{
    const auto start = Clock::now();
    OCTAVO_TRY(const engine::EngineOptions wanted, readEngineOptions(arguments));
    Subject subject;
    subject.threads = wanted.threads > 0 ? wanted.threads : int(std::max(1u, std::thread::hardware_concurrency()));
    if (arguments.has("--shape")) {
        if (arguments.has("--model"))
            return Error{ErrorCode::InvalidArgument, "name either --model or --shape, not both"};
        OCTAVO_TRY(const engine::ModelShape shape, engine::modelShape(arguments.text("--shape")));
        subject.model = shape.name;
        subject.config = shape.config;
        subject.weights = std::make_shared<const engine::ModelWeights>(engine::randomWeights(shape));
    } else {
        subject.model = wanted.modelDir.filename().string();
        OCTAVO_TRY(subject.config, engine::ModelConfig::load(wanted.modelDir));
        OCTAVO_TRY(auto weights, engine::ModelWeights::open(wanted.modelDir, subject.config));
        subject.weights = std::make_shared<const engine::ModelWeights>(std::move(weights));
    }
    OCTAVO_TRY(subject.backend, openBackend(arguments, subject, wanted.sparse));
    subject.loadMs = 1e3 * secondsSince(start);
    return subject;
}

Result<void> checkContext(std::int64_t context, const engine::ModelConfig& config)
{
    if (config.maxPositions > 0 && context > config.maxPositions)
        return Error{ErrorCode::InvalidArgument, "--context is " + std::to_string(context) +
                                                     " tokens, the model allows " +
                                                     std::to_string(config.maxPositions)};
    return {};
}

Result<void> read(engine::Backend& backend, SlotId slot, const std::vector<TokenId>& tokens, std::span<float> logits)
{
    const std::size_t slice = std::size_t(backend.maxPrefillSlice());
    for (std::size_t i = 0; i < tokens.size(); i += slice) {
        const bool last = i + slice >= tokens.size();
        OCTAVO_CHECK(backend.prefill(slot, std::span(tokens).subspan(i, std::min(slice, tokens.size() - i)),
                                     last ? logits : std::span<float>()));
    }
    return {};
}

double quantile(std::vector<double> values, double share)
{
    if (values.empty())
        return 0.0;
    std::ranges::sort(values);
    return values[std::min(values.size() - 1, std::size_t(share * double(values.size())))];
}

kernels::cpu::Path pathOf(const engine::Backend& backend)
{
    for (auto path : {kernels::cpu::Path::Avx512, kernels::cpu::Path::Avx2}) {
        if (backend.info().path == kernels::cpu::pathName(path))
            return path;
    }
    return kernels::cpu::Path::Plain;
}

/// part / whole, or null where there is no whole.
nlohmann::ordered_json share(std::int64_t part, std::int64_t whole)
{
    return whole > 0 ? nlohmann::ordered_json(double(part) / double(whole)) : nlohmann::ordered_json();
}

struct Outcome {
    std::string bench;
    std::int64_t context = 0, agents = 1, rows = 1; ///< rows: of each agent in a step
    double tokensPerSecond = 0.0, prefillPerSecond = 0.0;
    std::vector<double> stepMs; ///< of steps, or of whole reads
    std::int64_t bytes = 0, products = 0; ///< of one of them
};

/// Prints one outcome beside the machine's own limits.
void report(const Arguments& arguments, Streams& streams, const Subject& subject, const Outcome& outcome,
            const engine::LineCrossing& before)
{
    const engine::LineCrossing after = engine::measureLineCrossing();
    const bool moved = std::string(before.state()) != after.state();
    const std::string state = moved ? "moved" : before.state();
    const engine::BackendInfo info = subject.backend->info();
    const engine::BackendStats stats = subject.backend->stats();
    const bool sparse = stats.sparseSteps > 0;
    const std::string mode = !sparse ? "dense" : stats.denseSteps > 0 ? "mixed" : "sparse";
    // Asked for, and not to be had: a short context's rows are nearly all picked, so they are read as they lie.
    const engine::SparseSettings usual;
    const bool isShort = outcome.context <= usual.sinks + usual.topK + usual.recent + 2 * kernels::cpu::pageTokens;
    const std::string because = !sparse && isShort && arguments.text("--sparse") == "on"
                                    ? "all rows are read, since the context has few more than would be picked"
                                    : "";
    const double median = quantile(outcome.stepMs, 0.5);
    double floorMs = 0.0;
    engine::MachineFigures machine;
    if (info.device == "cpu" && !sparse) { // the floor counts the bytes of dense steps
        machine = engine::measureMachine(pathOf(*subject.backend), subject.threads,
                                         std::clamp<std::int64_t>(outcome.bytes, 1 << 20, std::int64_t(256) << 20));
        floorMs = 1e3 * std::max(double(outcome.bytes) / machine.bytesPerSecond,
                                 double(outcome.products) / machine.productsPerSecond);
    }
    const double fraction = median > 0.0 ? floorMs / median : 0.0;
    std::string command = "octavo-engine bench " + outcome.bench + " --context " + std::to_string(outcome.context)
                          + " --agents " + std::to_string(outcome.agents);
    for (const char* name : {"--threads", "--seconds", "--cpu-path", "--sparse", "--mtp", "--model", "--shape",
                             "--rows", "--device", "--state", "--pick-rule", "--picks"}) {
        if (arguments.has(name))
            command += " " + std::string(name) + " " + arguments.text(name);
    }
    command += arguments.has("--noise") ? " --noise" : "";
    command += arguments.has("--compare") ? " --compare" : "";
    if (arguments.has("--json")) {
        nlohmann::ordered_json line{
            {"bench", outcome.bench},
            {"device", info.device},
            {"description", info.description},
            {"shape", subject.model},
            {"context", outcome.context},
            {"agents", outcome.agents},
            {"rows", outcome.rows},
            {"mode", mode},
            {"threads", subject.threads},
            {"path", info.path},
            {"tokens_per_s", outcome.tokensPerSecond},
            {"ms_per_step_median", median},
            {"ms_per_step_p99", quantile(outcome.stepMs, 0.99)},
            {"prefill_tokens_per_s", outcome.prefillPerSecond},
            {"worst_gap_ms", quantile(outcome.stepMs, 1.0)},
            {"bytes_per_step", outcome.bytes},
            {"flops_per_step", 2 * outcome.products},
            {"machine_bytes_per_s", machine.bytesPerSecond},
            {"machine_flops_per_s", 2.0 * machine.productsPerSecond},
            {"floor_ms", sparse ? nlohmann::ordered_json() : nlohmann::ordered_json(floorMs)},
            {"fraction_of_floor", sparse ? nlohmann::ordered_json() : nlohmann::ordered_json(fraction)},
            {"hit_rate", share(stats.hotHits, stats.hotHits + stats.hotMisses)},
            {"host_tier_bytes", stats.hostTierBytes},
            {"host_bytes_per_step", share(stats.tierBytesRead, stats.sparseSteps)},
            {"ping_ns", after.ns},
            {"state", state},
            {"load_ms", subject.loadMs},
            {"resident_bytes", engine::residentBytes()},
            {"command", command}};
        if (!because.empty())
            line["mode_because"] = because;
        streams.out << line.dump() << '\n';
        return;
    }
    streams.out << outcome.bench << " at " << outcome.context << " tokens, " << outcome.agents << " agents, "
                << info.description << "\n  " << outcome.tokensPerSecond << " tokens/s, "
                << (outcome.bench == "prefill" ? "ms per read: median " : "ms per step: median ") << median << ", p99 "
                << quantile(outcome.stepMs, 0.99) << (because.empty() ? "" : "\n  dense: " + because)
                << "\n  roofline: " << double(outcome.bytes) / 1e6 << " MB at " << machine.bytesPerSecond / 1e9
                << " GB/s, " << 2e-9 * double(outcome.products) << " GFLOP at " << 2e-9 * machine.productsPerSecond
                << " GFLOP/s: " << floorMs << " ms, of which " << 100.0 * fraction
                << "% is reached\n  cores: a cache line crosses in " << after.ns << " ns (" << state << ")\n  "
                << command << '\n';
}

/// Contexts to decode behind, one for each agent.
Result<std::vector<SlotId>> fillContexts(const Arguments& arguments, const Subject& subject, engine::Backend& backend,
                                         std::int64_t context, std::int64_t agents, const std::filesystem::path& state)
{
    std::vector<SlotId> contexts;
    for (std::int64_t agent = 0; agent < agents; ++agent) {
        if (arguments.has("--noise")) {
            auto* cpu = dynamic_cast<engine::CpuBackend*>(&backend);
            if (!cpu)
                return Error{ErrorCode::InvalidArgument, "--noise is for the device cpu"};
            OCTAVO_TRY(const SlotId slot, cpu->createSequence(context));
            contexts.push_back(slot);
            OCTAVO_CHECK(cpu->appendNoise(slot, context));
            continue;
        }
        // With a file all agents hold the same context, each its own copy.
        const auto filler =
            uniqueTokens(context, subject.config.vocabSize, state.empty() ? std::uint64_t(agent) + 1 : 1);
        OCTAVO_TRY(const SlotId slot, engine::readOrReopen(backend, subject.weights->hash, filler, state));
        contexts.push_back(slot);
    }
    return contexts;
}

/// Decodes greedily, as the scheduler does, on forks of the contexts, from where their reading ended; a few steps to
/// warm up are not timed.
Result<void> decodeRound(engine::Backend& backend, const std::vector<SlotId>& contexts, std::int64_t rows, int steps,
                         std::vector<double>& stepMs)
{
    constexpr int warmUp = 4;
    const std::size_t vocab = std::size_t(backend.config().vocabSize), perAgent = std::size_t(rows);
    const bool picksBest = backend.picksBest();
    std::vector<float> logits(picksBest ? 0 : vocab * contexts.size() * perAgent);
    std::vector<engine::ScopedSequence> forks;
    for (SlotId source : contexts) {
        OCTAVO_TRY(engine::ScopedSequence fork,
                   engine::ScopedSequence::fork(backend, source, backend.length(source) + (steps + warmUp) * rows));
        forks.push_back(std::move(fork));
    }
    std::vector<TokenId> tokens(forks.size() * perAgent, 7), best(tokens.size());
    std::vector<engine::StepEntry> entries(forks.size());
    for (int step = 0; step < steps + warmUp; ++step) {
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < forks.size(); ++i)
            entries[i] = {forks[i].slot(), std::span(tokens).subspan(i * perAgent, perAgent)};
        if (picksBest)
            OCTAVO_CHECK(backend.stepBest(entries, TokenId(vocab), best));
        else
            OCTAVO_CHECK(backend.step(entries, logits));
        for (std::size_t i = 0; rows > 1 && i < forks.size(); ++i)
            OCTAVO_CHECK(backend.commit(forks[i].slot(), int(rows))); // as if every draft were right
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (!picksBest)
                best[i] =
                    engine::Sampler::argmax(std::span<const float>(logits).subspan(i * vocab, vocab), TokenId(vocab))
                        .value_or(-1);
            tokens[i] = std::max(best[i], 0);
        }
        if (step >= warmUp)
            stepMs.push_back(1e3 * secondsSince(begin));
    }
    return {};
}

struct DecodePlan {
    std::int64_t context = 0, agents = 1, rows = 1;
    double seconds = 0.0;
};

/// Sparse and dense decoding of the same contexts in short turns, each on a backend of its own that keeps rows its own
/// way. What else the machine does meets both, so the median of the turns' ratios shows a difference of a few percent.
Result<void> compareDecoding(const Arguments& arguments, Streams& streams, Subject& subject, const DecodePlan& plan)
{
    constexpr int stepsPerTurn = 24;
    constexpr const char* names[2] = {"sparse", "dense"};
    subject.backend.reset(); // two others take its memory
    if (arguments.has("--sparse"))
        return Error{ErrorCode::InvalidArgument, "--compare measures both kinds of steps; leave --sparse out"};
    OCTAVO_TRY(const std::unique_ptr<engine::Backend> sparse, openBackend(arguments, subject, engine::SparseMode::On));
    const auto available = engine::availableMemory();
    const std::int64_t weights = sparse->info().weightBytes;
    if (sparse->info().path != "cuda" && available && available->freeBytes < weights)
        return Error{ErrorCode::OutOfMemory,
                     "--compare holds the weights twice: " + std::to_string(weights >> 20) + " MiB more are needed, " +
                         std::to_string(available->freeBytes >> 20) +
                         " MiB are free; measure --sparse on and --sparse off one after the other"};
    OCTAVO_TRY(const std::unique_ptr<engine::Backend> dense, openBackend(arguments, subject, engine::SparseMode::Off));
    engine::Backend* const backends[2] = {sparse.get(), dense.get()};
    std::vector<SlotId> contexts[2];
    for (int i = 0; i < 2; ++i) {
        std::filesystem::path state = arguments.text("--state");
        if (!state.empty())
            state += std::string(".") + names[i]; // rows lie differently
        OCTAVO_TRY(contexts[i], fillContexts(arguments, subject, *backends[i], plan.context, plan.agents, state));
    }
    std::vector<double> stepMs[2], ratios;
    const auto start = Clock::now();
    for (int turn = 0; turn == 0 || secondsSince(start) < plan.seconds; ++turn) {
        double median[2];
        for (const int i : turn % 2 == 0 ? std::array{0, 1} : std::array{1, 0}) {
            std::vector<double> own;
            OCTAVO_CHECK(decodeRound(*backends[i], contexts[i], plan.rows, stepsPerTurn, own));
            median[i] = quantile(own, 0.5);
            stepMs[i].insert(stepMs[i].end(), own.begin(), own.end());
        }
        ratios.push_back(median[1] / median[0]);
    }
    const engine::BackendStats stats = sparse->stats();
    const nlohmann::ordered_json line{{"bench", "decode"},
                                      {"device", sparse->info().device},
                                      {"shape", subject.model},
                                      {"context", plan.context},
                                      {"agents", plan.agents},
                                      {"rows", plan.rows},
                                      {"mode", "compare"},
                                      {"threads", subject.threads},
                                      {"turns", ratios.size()},
                                      {"sparse_steps", stats.sparseSteps},
                                      {"sparse_ms_per_step_median", quantile(stepMs[0], 0.5)},
                                      {"dense_ms_per_step_median", quantile(stepMs[1], 0.5)},
                                      {"speedup_median", quantile(ratios, 0.5)},
                                      {"speedup_quartiles", {quantile(ratios, 0.25), quantile(ratios, 0.75)}},
                                      {"hit_rate", share(stats.hotHits, stats.hotHits + stats.hotMisses)},
                                      {"command", reproducingCommand(arguments)}};
    if (arguments.has("--json")) {
        streams.out << line.dump() << '\n';
        return {};
    }
    for (const auto& [key, value] : line.items())
        streams.out << key << ": " << value.dump() << '\n';
    return {};
}

} // namespace

Result<void> runBenchPrefill(const Arguments& arguments, Streams& streams)
{
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 4096, 64, longestContext));
    OCTAVO_CHECK(arguments.integer("--agents", 1, 1, 1)); // one reads at a time
    OCTAVO_TRY(const double seconds, arguments.number("--seconds", 3.0, 0.1, 3600.0));
    OCTAVO_TRY(const Subject subject, openSubject(arguments));
    OCTAVO_CHECK(checkContext(context, subject.config));
    const std::vector<TokenId> tokens = uniqueTokens(context, subject.config.vocabSize, 1);
    std::vector<float> logits(std::size_t(subject.config.vocabSize));
    const engine::LineCrossing crossing = engine::measureLineCrossing();
    Outcome outcome{.bench = "prefill", .context = context};
    const auto start = Clock::now();
    do {
        OCTAVO_TRY(const SlotId slot, subject.backend->createSequence(context));
        const auto begin = Clock::now();
        OCTAVO_CHECK(read(*subject.backend, slot, tokens, logits));
        outcome.stepMs.push_back(1e3 * secondsSince(begin));
        subject.backend->destroySequence(slot);
    } while (secondsSince(start) < seconds);
    outcome.tokensPerSecond = outcome.prefillPerSecond = 1e3 * double(context) / quantile(outcome.stepMs, 0.5);
    outcome.products = engine::prefillProducts(subject.config, *subject.weights, context);
    outcome.bytes = engine::stepCost(subject.config, *subject.weights, context, 1).bytes;
    report(arguments, streams, subject, outcome, crossing);
    return {};
}

Result<void> runBenchDecode(const Arguments& arguments, Streams& streams)
{
    constexpr int stepsPerRound = 64;
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 4096, 64, longestContext));
    OCTAVO_TRY(const std::int64_t agents, arguments.integer("--agents", 1, 1, 64));
    OCTAVO_TRY(const double seconds, arguments.number("--seconds", 3.0, 0.1, 3600.0));
    OCTAVO_TRY(const std::int64_t rows, arguments.integer("--rows", 1, 1, 64));
    OCTAVO_TRY(Subject subject, openSubject(arguments));
    OCTAVO_CHECK(checkContext(context, subject.config));
    engine::Backend& backend = *subject.backend;
    if (agents * rows > backend.maxStepRows())
        return Error{ErrorCode::InvalidArgument, "--agents times --rows is " + std::to_string(agents * rows) +
                                                     ", a step takes at most " + std::to_string(backend.maxStepRows())};
    if (arguments.has("--compare"))
        return compareDecoding(arguments, streams, subject, {context, agents, rows, seconds});
    Outcome outcome{.bench = "decode", .context = context, .agents = agents, .rows = rows};
    const auto readStart = Clock::now();
    OCTAVO_TRY(const std::vector<SlotId> contexts,
               fillContexts(arguments, subject, backend, context, agents, arguments.text("--state")));
    if (!arguments.has("--noise") && !arguments.has("--state"))
        outcome.prefillPerSecond = double(context * agents) / secondsSince(readStart);

    const engine::LineCrossing crossing = engine::measureLineCrossing();
    const auto start = Clock::now();
    do {
        OCTAVO_CHECK(decodeRound(backend, contexts, rows, stepsPerRound, outcome.stepMs));
    } while (secondsSince(start) < seconds);
    const double stepping = std::accumulate(outcome.stepMs.begin(), outcome.stepMs.end(), 0.0) / 1e3;
    outcome.tokensPerSecond = double(agents * rows) * double(outcome.stepMs.size()) / stepping;
    const engine::StepCost cost = engine::stepCost(subject.config, *subject.weights,
                                                   context + stepsPerRound * rows / 2, agents * rows);
    outcome.bytes = cost.bytes;
    outcome.products = cost.products;
    report(arguments, streams, subject, outcome, crossing);
    return {};
}

} // namespace octavo::cli
