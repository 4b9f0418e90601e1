#include "engine/backend/cpu_backend.h"
#include "engine/cli/bench.h"
#include "engine/cli/common.h"
#include "engine/evaluation/machine_probe.h"
#include "engine/evaluation/pick_trace.h"
#include "engine/evaluation/repository_questions.h"
#include "engine/evaluation/saved_reading.h"
#include "engine/scheduler/memory_budget.h"
#include "engine/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <ostream>

namespace octavo::cli {
namespace {

using engine::TokenId;
using Json = nlohmann::ordered_json;

constexpr std::array shares = {0.025, 0.05, 0.10, 0.25}; // of all rows
constexpr std::int64_t warmUpSteps = 32;

/// Decodes `next` behind the context and keeps what each step picked.
Result<engine::PickTrace> recordPicks(engine::CpuBackend& backend, engine::SlotId context,
                                      std::span<const TokenId> next, const engine::SparseSettings& settings,
                                      std::vector<double>& stepMs)
{
    const engine::ModelConfig& config = backend.config();
    const int layers = config.numFullAttentionLayers(), lists = settings.perHead ? config.numKvHeads : 1;
    engine::PickTrace trace;
    trace.lanes = layers * lists;
    trace.tokens = backend.length(context) + std::int64_t(next.size());
    OCTAVO_TRY(const engine::ScopedSequence fork, engine::ScopedSequence::fork(backend, context, trace.tokens));
    std::vector<float> logits(std::size_t(config.vocabSize));
    for (const TokenId& token : next) {
        const engine::StepEntry entry{fork.slot(), {&token, 1}};
        const auto start = std::chrono::steady_clock::now();
        OCTAVO_CHECK(backend.step({&entry, 1}, logits));
        stepMs.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
        for (int layer = 0; layer < layers; ++layer) {
            for (int list = 0; list < lists; ++list)
                trace.picks.push_back(backend.picks(fork.slot(), layer, list));
        }
    }
    return trace;
}

/// Hit rates of buffers of some shares of all rows.
Json tableOf(const engine::PickTrace& trace, std::int64_t context)
{
    Json table = Json::array();
    for (const double share : shares) {
        const auto rows = std::int64_t(share * double(context) * trace.lanes);
        const auto rates = engine::replay(trace, rows, warmUpSteps);
        if (!rates) {
            table.push_back({{"share", share}, {"rows", rows}, {"error", rates.error().message}});
            continue;
        }
        table.push_back({{"share", share}, {"rows", rows}, {"clock", rates->clock}, {"lru", rates->leastRecent},
                         {"belady", rates->optimum}});
    }
    return table;
}

void print(const Json& line, const Arguments& arguments, Streams& streams)
{
    if (arguments.has("--json")) {
        streams.out << line.dump() << '\n';
        return;
    }
    for (const auto& [key, value] : line.items()) {
        if (key != "buffers")
            streams.out << key << ": " << value.dump() << '\n';
    }
    for (const Json& row : line["buffers"])
        streams.out << "buffer " << row.dump() << '\n';
}

/// A stream of picks of a given miss rate through a hot buffer of the usual size, of this model's rows.
Result<void> runSynthetic(const Arguments& arguments, Streams& streams, const engine::EngineOptions& wanted,
                          std::int64_t context, std::int64_t steps)
{
    OCTAVO_TRY(const double missRate, arguments.number("--miss-rate", 0.0, 0.0, 1.0));
    OCTAVO_TRY(const engine::ModelConfig config, engine::ModelConfig::load(wanted.modelDir));
    const engine::SparseSettings settings;
    const int lanes = config.numFullAttentionLayers() * config.numKvHeads, picks = settings.topKOnCpu();
    OCTAVO_TRY(const engine::PickTrace trace, engine::syntheticTrace(lanes, context, picks, steps, missRate));
    const auto rowBytes = std::int64_t(kernels::cpu::RowShape{config.headDim}.int4Bytes());
    const std::int64_t rows = settings.hotBufferBytes / rowBytes;
    OCTAVO_TRY(const engine::HitRates usual, engine::replay(trace, rows, warmUpSteps));
    print({{"bench", "tier"},
           {"shape", wanted.modelDir.filename().string()},
           {"context", context},
           {"steps", steps},
           {"miss_rate", missRate},
           {"hot_buffer_rows", rows},
           {"hit_rate", usual.clock},
           {"host_bytes_per_step", (1.0 - usual.clock) * double(lanes * picks * rowBytes)},
           {"command", reproducingCommand(arguments)},
           {"buffers", tableOf(trace, context)}},
          arguments, streams);
    return {};
}

} // namespace

Result<void> runBenchTier(const Arguments& arguments, Streams& streams)
{
    OCTAVO_TRY(const engine::EngineOptions wanted, readEngineOptions(arguments));
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 32768, 64, longestContext));
    OCTAVO_TRY(const std::int64_t steps, arguments.integer("--steps", 256, warmUpSteps + 1, 1 << 16));
    if (arguments.has("--text") == arguments.has("--miss-rate"))
        return Error{ErrorCode::InvalidArgument,
                     "name either a text or a folder of them with --text, or a rate with --miss-rate"};
    if (arguments.has("--miss-rate"))
        return runSynthetic(arguments, streams, wanted, context, steps);
    OCTAVO_TRY(const engine::ModelConfig config, engine::ModelConfig::load(wanted.modelDir));
    OCTAVO_TRY(engine::ModelWeights opened, engine::ModelWeights::open(wanted.modelDir, config));
    const auto weights = std::make_shared<const engine::ModelWeights>(std::move(opened));
    OCTAVO_TRY(const engine::Tokenizer tokenizer, engine::Tokenizer::load(wanted.modelDir / "tokenizer.json"));
    const std::filesystem::path where = arguments.text("--text");
    OCTAVO_TRY(const std::vector<engine::RepositoryFile> files, engine::readRepository(where));
    const std::vector<TokenId> ids = engine::repositoryIds(tokenizer, where.filename().string(), files);
    if (std::int64_t(ids.size()) < context + steps)
        return Error{ErrorCode::InvalidArgument, where.string() + " has " + std::to_string(ids.size()) +
                                                     " tokens, but --context and --steps ask for " +
                                                     std::to_string(context + steps)};
    engine::BackendOptions options;
    options.threads = wanted.threads;
    options.cpuPath = wanted.cpuPath;
    options.sparse = engine::SparseMode::On;
    OCTAVO_TRY(const std::unique_ptr<engine::Backend> made, engine::CpuBackend::create(config, weights, options));
    auto& backend = static_cast<engine::CpuBackend&>(*made);
    OCTAVO_TRY(const engine::SlotId held, engine::readOrReopen(backend, weights->hash,
                                                               std::span(ids).first(std::size_t(context)),
                                                               arguments.text("--state")));
    std::vector<double> stepMs;
    OCTAVO_TRY(const engine::PickTrace trace,
               recordPicks(backend, held, std::span(ids).subspan(std::size_t(context), std::size_t(steps)),
                           options.sparseSettings, stepMs));
    if (trace.picks.front().empty())
        return Error{ErrorCode::InvalidArgument, "a context of " + std::to_string(context) +
                                                     " tokens is too short to be decoded sparsely; ask for more"};
    std::ranges::nth_element(stepMs, stepMs.begin() + std::ptrdiff_t(stepMs.size() / 2));
    const engine::BackendStats stats = backend.stats();
    Json line{{"bench", "tier"},
              {"device", backend.info().device},
              {"shape", wanted.modelDir.filename().string()},
              {"context", context},
              {"steps", steps},
              {"ms_per_step_median", stepMs[stepMs.size() / 2]},
              {"hit_rate", double(stats.hotHits) / double(std::max<std::int64_t>(1, stats.hotHits + stats.hotMisses))},
              {"host_bytes_per_step", double(stats.tierBytesRead) / double(stats.sparseSteps)},
              {"overlap", stats.pickOverlap},
              {"tier_bytes", stats.hostTierBytes},
              {"resident_bytes", engine::residentBytes()}};
    line["command"] = reproducingCommand(arguments);
    line["buffers"] = tableOf(trace, context);
    print(line, arguments, streams);
    return {};
}

} // namespace octavo::cli
