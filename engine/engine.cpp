#include "engine/engine.h"

#include "engine/backend/backend_factory.h"
#include "engine/local_engine.h"
#include "engine/model/weights.h"
#include "engine/scheduler/memory_budget.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <new>
#include <system_error>

namespace octavo::engine {
namespace {

constexpr std::int64_t defaultContextLimit = 250'000;

/// One limit for every agent: what was asked for, checked against the model.
Result<std::int64_t> chooseContextLimit(std::int64_t asked, bool isWish, const ModelConfig& config)
{
    const std::int64_t most = config.maxPositions > 0 ? config.maxPositions : defaultContextLimit;
    if (asked < 0)
        return Error{ErrorCode::InvalidArgument,
                     "the context limit is " + std::to_string(asked) + " tokens, must not be negative"};
    if (isWish)
        asked = std::min(asked, most);
    if (asked > most)
        return Error{ErrorCode::InvalidArgument, "the context limit is " + std::to_string(asked)
                                                     + " tokens, the model allows " + std::to_string(most)};
    return asked > 0 ? asked : std::min(defaultContextLimit, most);
}

std::string modelName(const std::filesystem::path& dir)
{
    const std::filesystem::path normal = (dir / "").lexically_normal(); // ends in a slash, so that "." has a parent
    const std::string name = normal.parent_path().filename().string();
    return name.empty() || name == "." ? std::filesystem::absolute(dir).filename().string() : name;
}

bool isCancelled(const std::atomic<bool>* cancel)
{
    return cancel && cancel->load();
}

/// Engine::create(), but for what a full machine makes it throw.
Result<std::unique_ptr<Engine>> load(const EngineOptions& options,
                                     const std::function<void(const LoadProgress&)>& progress,
                                     const std::atomic<bool>* cancel)
{
    const Error cancelled{ErrorCode::Cancelled, "loading " + options.modelDir.string() + " was cancelled"};
    auto report = [&](std::string stage, std::int64_t done, std::int64_t total) {
        if (progress)
            progress({std::move(stage), done, total});
    };
    OCTAVO_TRY(const std::vector<std::string> names, resolveDevices(options.devices));
    const auto steps = std::int64_t(names.size()) + 2;

    report("Reading the configuration", 0, steps);
    OCTAVO_TRY(ModelConfig config, ModelConfig::load(options.modelDir));
    OCTAVO_TRY(Tokenizer tokenizer, Tokenizer::load(options.modelDir / "tokenizer.json"));
    if (tokenizer.endId() > config.vocabSize)
        return Error{ErrorCode::ShapeMismatch,
                     (options.modelDir / "tokenizer.json").string() + ": has ids up to "
                         + std::to_string(tokenizer.endId() - 1) + ", the model knows "
                         + std::to_string(config.vocabSize) + "; they are not of one model"};
    config.stopIds = allStopIds(config, tokenizer);
    OCTAVO_TRY(const std::int64_t contextLimit,
               chooseContextLimit(options.contextLimit, options.contextLimitIsWish, config));
    if (isCancelled(cancel))
        return cancelled;

    report("Opening the weights", 1, steps);
    OCTAVO_TRY(ModelWeights opened, ModelWeights::open(options.modelDir, config));
    const auto weights = std::make_shared<const ModelWeights>(std::move(opened));

    // Devices of the host share its memory; a GPU's is its own, and its backend knows it.
    const auto onHost =
        std::ranges::count_if(names, [](const std::string& name) { return !name.starts_with("cuda:"); });
    std::vector<EngineDevice> devices;
    for (const std::string& name : names) {
        if (isCancelled(cancel))
            return cancelled;
        report("Preparing " + name, std::int64_t(devices.size()) + 2, steps);
        BackendOptions backendOptions;
        backendOptions.device = name;
        backendOptions.threads = options.threads;
        backendOptions.cpuPath = options.cpuPath;
        backendOptions.contextLimit = contextLimit;
        backendOptions.memoryBudgetBytes = options.memoryBudgetBytes / std::max<std::int64_t>(onHost, 1);
        backendOptions.sparse = options.sparse;
        backendOptions.quantize = options.quantize;
        backendOptions.cancel = cancel;
        backendOptions.onQuantized = [&](std::int64_t done, std::int64_t total) {
            report("Quantising the weights for " + name, done, total);
            return !isCancelled(cancel);
        };
        auto backend = makeBackend(config, weights, backendOptions);
        if (!backend)
            return backend.error().code == ErrorCode::Cancelled ? cancelled : backend.error();
        // A reset takes the memory of all that runs on a GPU, another worker's too.
        const bool isAlone = std::ranges::count(names, name) == 1;
        const auto again = [config, backendOptions, isAlone, dir = options.modelDir, hash = weights->hash](
                               const std::atomic<bool>* cancelAgain) mutable -> Result<std::unique_ptr<Backend>> {
            OCTAVO_TRY(ModelWeights fresh, ModelWeights::open(dir, config));
            if (fresh.hash != hash)
                return Error{ErrorCode::Unsupported, dir.string() + " holds another model by now; start Octavo again"};
            if (isAlone)
                resetDevice(backendOptions.device);
            backendOptions.cancel = cancelAgain;
            backendOptions.onQuantized = [cancelAgain](std::int64_t, std::int64_t) {
                return !isCancelled(cancelAgain);
            };
            return makeBackend(config, std::make_shared<const ModelWeights>(std::move(fresh)), backendOptions);
        };
        devices.push_back({*std::move(backend), backendOptions.memoryBudgetBytes, again});
    }
    if (options.memoryBudgetBytes == 0) { // now that the weights are in memory
        const auto memory = availableMemory();
        for (std::size_t i = 0; i < devices.size(); ++i) {
            if (memory && !names[i].starts_with("cuda:"))
                devices[i].memoryBudgetBytes = defaultSequenceBudget(*memory) / onHost;
        }
    }

    ModelInfo info;
    info.name = modelName(options.modelDir);
    info.dir = options.modelDir;
    info.hash = weights->hash ^ (tokenizer.hash() * 0x9e3779b97f4a7c15ULL);
    info.parameters = weights->parameters;
    info.contextLimit = contextLimit;
    const Backend& first = *devices.front().backend;
    info.bytesPerToken = (first.sequenceBytes(contextLimit) - first.sequenceBytes(0)) / contextLimit;
    report("Ready", steps, steps);
    spdlog::info("{}: {} parameters, contexts of {} tokens on {} devices", info.name, info.parameters, contextLimit,
                 devices.size());
    SchedulerOptions scheduling;
    scheduling.savedContexts = options.savedContexts;
    scheduling.savedContextsQuota = options.savedContextsQuota;
    return std::unique_ptr<Engine>(std::make_unique<LocalEngine>(
        std::move(info), std::move(config), std::move(tokenizer), std::move(devices), std::move(scheduling)));
}

} // namespace

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options,
                                               const std::function<void(const LoadProgress&)>& progress,
                                               const std::atomic<bool>* cancel)
{
    const auto dir = [&] { return options.modelDir.string(); }; // what it allocates may fail too
    try {
        return load(options, progress, cancel);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, "memory ran out while " + dir() + " was loaded; close other programs"};
    } catch (const std::system_error& thrown) {
        return Error{ErrorCode::OutOfMemory, "the system refused something while " + dir() + " was loaded (" +
                                                 thrown.what() + "); close other programs or ask for fewer threads"};
    } catch (const std::exception& thrown) {
        return Error{ErrorCode::FormatInvalid, "an error inside while " + dir() + " was loaded: " + thrown.what()};
    }
}

} // namespace octavo::engine
