/// gpu_workers_bench: the engine's own workers on one GPU or two, a model of random weights, contexts of noise.
///
/// Every agent's context is as long as asked for but was never read: the scheduler's slices append random rows. What is
/// measured is the engine as the window uses it: mailboxes, scheduler, drafts where they pay, events.

#include "tests/gpu/failing_backend.h"
#include "tests/gpu/noise_basis.h"

#include "engine/backend/cuda_backend.h"
#include "engine/local_engine.h"
#include "engine/model/model_shapes.h"
#include "engine/model/random_weights.h"
#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

using namespace octavo;
using namespace octavo::engine;

namespace
{

using Clock = std::chrono::steady_clock;

double secondsBetween(Clock::time_point from, Clock::time_point to)
{
    return std::chrono::duration<double>(to - from).count();
}

struct Options {
    std::string shape = "qwen3.5-27b", tokenizer = "resources/demo-model/tokenizer.json";
    std::vector<std::string> devices{"cuda:0"};
    int agents = 8, layers = 0;
    double seconds = 5.0;
    std::int64_t context = 250'000, hotMiB = 0;
    std::int64_t readerTokens = 0; ///< an agent more reads so many while the others write
    int failAt = 0;                ///< call of the last device that fails
    bool drafts = false;
    bool rounds = false; ///< no engine: steps and speculative rounds of the first device's backend alone
    int draftVocabulary = BackendOptions{}.draftVocabulary;
    bool quantizeHead = false, quantizeDrafts = true;
    SparseSettings sparse;
    std::vector<int> roundAgents{1, 4, 8};
};

/// Slices without logits become noise, as long as `reads` is false.
class NoiseBackend final : public Backend
{
public:
    NoiseBackend(std::unique_ptr<CudaBackend> real, std::shared_ptr<std::atomic<bool>> reads)
        : m_real(std::move(real))
        , m_reads(std::move(reads))
    {
    }
    const ModelConfig& config() const override { return m_real->config(); }
    BackendInfo info() const override { return m_real->info(); }
    BackendStats stats() const override { return m_real->stats(); }
    HardwareReading hardware() const override { return m_real->hardware(); }
    std::int64_t tierBytesRead(SlotId slot) const override { return m_real->tierBytesRead(slot); }
    int maxPrefillSlice() const override { return m_real->maxPrefillSlice(); }
    int maxStepRows() const override { return m_real->maxStepRows(); }
    std::int64_t sequenceBytes(std::int64_t tokens) const override { return m_real->sequenceBytes(tokens); }
    Result<SlotId> createSequence(std::int64_t tokens) override { return m_real->createSequence(tokens); }
    bool prepareSequence(std::int64_t tokens, int parts) override { return m_real->prepareSequence(tokens, parts); }
    Result<SlotId> forkSequence(SlotId source, std::int64_t tokens) override
    {
        return m_real->forkSequence(source, tokens);
    }
    void destroySequence(SlotId slot) override { m_real->destroySequence(slot); }
    std::int64_t length(SlotId slot) const override { return m_real->length(slot); }
    Result<void> prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits) override
    {
        if (!*m_reads && logits.empty())
            return m_real->appendNoise(slot, std::int64_t(tokens.size()));
        return m_real->prefill(slot, tokens, logits);
    }
    Result<void> step(std::span<const StepEntry> entries, std::span<float> logits) override
    {
        return m_real->step(entries, logits);
    }
    bool picksBest() const override { return true; }
    Result<void> stepBest(std::span<const StepEntry> entries, TokenId endId, std::span<TokenId> best) override
    {
        return m_real->stepBest(entries, endId, best);
    }
    Result<void> commit(SlotId slot, int rows) override { return m_real->commit(slot, rows); }
    bool hasMtp() const override { return m_real->hasMtp(); }
    Result<void> draft(std::span<const DraftEntry> entries, float leastChance, std::span<DraftChain> chains) override
    {
        return m_real->draft(entries, leastChance, chains);
    }

private:
    std::unique_ptr<CudaBackend> m_real;
    std::shared_ptr<std::atomic<bool>> m_reads;
};

/// When each agent's tokens came, and how it ended.
class Stopwatch
{
public:
    struct Agent {
        std::vector<Clock::time_point> tokens;
        std::optional<Finished> finished;
        std::optional<Error> failure;
        bool hasEnded() const { return finished || failure; }
    };

    EventSink sink(int agent)
    {
        return [this, agent](RequestId, Event&& event) {
            {
                const std::scoped_lock lock(m_mutex);
                Agent& record = m_agents[agent];
                if (const auto* text = std::get_if<TextAppended>(&event))
                    record.tokens.insert(record.tokens.end(), text->tokens.size(), Clock::now());
                else if (const auto* finished = std::get_if<Finished>(&event))
                    record.finished = *finished;
                else if (const auto* failed = std::get_if<Failed>(&event))
                    record.failure = failed->error;
            }
            m_changed.notify_all();
        };
    }
    template <typename Holds>
    void wait(Holds&& holds)
    {
        std::unique_lock lock(m_mutex);
        m_changed.wait(lock, [&] { return holds(m_agents); });
    }
    std::map<int, Agent> agents() const
    {
        const std::scoped_lock lock(m_mutex);
        return m_agents;
    }

private:
    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::map<int, Agent> m_agents;
};

Result<std::unique_ptr<CudaBackend>> makeBackend(const Options& options, const std::string& device,
                                                 const ModelShape& shape,
                                                 const std::shared_ptr<const ModelWeights>& weights,
                                                 const std::filesystem::path& basis)
{
    BackendOptions wanted;
    wanted.device = device;
    wanted.sparse = SparseMode::On;
    wanted.sketchBasis = basis;
    wanted.contextLimit = options.context;
    wanted.mtp = options.drafts || options.rounds;
    wanted.prefillBlocks = true;
    wanted.draftVocabulary = options.draftVocabulary;
    wanted.quantizeHead = options.quantizeHead;
    wanted.quantizeDrafts = options.quantizeDrafts;
    wanted.sparseSettings = options.sparse;
    if (options.hotMiB > 0)
        wanted.sparseSettings.hotBufferBytes = options.hotMiB << 20;
    OCTAVO_TRY(auto made, CudaBackend::create(shape.config, weights, wanted));
    return std::unique_ptr<CudaBackend>(static_cast<CudaBackend*>(made.release()));
}

double medianMs(int repeats, const std::function<void()>& work)
{
    std::vector<double> times;
    for (int i = -3; i < repeats; ++i) { // a shape is recorded at its second step
        const auto start = Clock::now();
        work();
        if (i >= 0)
            times.push_back(1e3 * secondsBetween(start, Clock::now()));
    }
    std::ranges::nth_element(times, times.begin() + std::ptrdiff_t(times.size() / 2));
    return times[times.size() / 2];
}

/// Steps of one row, and rounds of seven drafts and their verify.
Result<int> runRounds(const Options& options, CudaBackend& backend)
{
    const auto fail = [](const Error& error) {
        std::printf("%s\n", error.message.c_str());
        std::exit(1);
    };
    const auto need = [&](const Result<void>& done) {
        if (!done)
            fail(done.error());
    };
    const TokenId endId = 16'000;
    std::vector<SlotId> slots;
    for (const int agents : options.roundAgents) {
        while (int(slots.size()) < agents) {
            OCTAVO_TRY(const SlotId slot, backend.createSequence(options.context));
            need(backend.appendNoise(slot, options.context - 2'000));
            slots.push_back(slot);
        }
        const int rows = std::min(8, backend.maxStepRows() / agents);
        const std::vector<TokenId> tokens(std::size_t(rows), TokenId(17));
        std::vector<StepEntry> single, verify;
        std::vector<DraftEntry> drafts;
        for (const SlotId slot : slots) {
            single.push_back({slot, std::span(tokens).first(1)});
            verify.push_back({slot, tokens});
            drafts.push_back({slot, 17, 7});
        }
        std::vector<TokenId> best(single.size()), bestOfAll(verify.size() * std::size_t(rows));
        const CudaBackend::PassCounts before = backend.passCounts();
        const std::int64_t missesBefore = backend.stats().hotMisses, hitsBefore = backend.stats().hotHits;
        std::vector<DraftChain> chains(drafts.size());
        const double step = medianMs(30, [&] { need(backend.stepBest(single, endId, best)); });
        const auto check = [&] {
            need(backend.stepBest(verify, endId, bestOfAll));
            for (const SlotId slot : slots)
                need(backend.commit(slot, 1 + int(backend.length(slot) % 2)));
        };
        const double verified = medianMs(20, check);
        double drafted = 0.0, round = 0.0;
        if (backend.hasMtp()) {
            drafted = medianMs(20, [&] { need(backend.draft(drafts, 0.0f, chains)); });
            round = medianMs(20, [&] {
                need(backend.draft(drafts, 0.0f, chains));
                check();
            });
        }
        const CudaBackend::PassCounts after = backend.passCounts();
        const std::int64_t misses = backend.stats().hotMisses - missesBefore;
        const std::int64_t read = misses + backend.stats().hotHits - hitsBefore;
        std::printf("%d agents of %lld tokens: step %.2f ms, verify of %d rows each %.2f ms, 7 drafts %.2f ms, round "
                    "%.2f ms; %.1f%% misses, passes: %lld replayed, %lld recorded, %lld neither\n",
                    agents, static_cast<long long>(options.context - 2'000), step, rows, verified, drafted, round,
                    100.0 * double(misses) / double(std::max<std::int64_t>(1, read)),
                    static_cast<long long>(after.replayed - before.replayed),
                    static_cast<long long>(after.recorded - before.recorded),
                    static_cast<long long>(after.direct - before.direct));
        std::fflush(stdout);
    }
    return 0;
}

Result<int> run(const Options& options)
{
    OCTAVO_TRY(ModelShape shape, modelShape(options.shape));
    if (options.layers > 0) {
        shape.config.numLayers = options.layers;
        shape.config.layerTypes.resize(std::size_t(options.layers));
    }
    shape.config.stopIds.clear();
    const auto started = Clock::now();
    const auto weights = std::make_shared<const ModelWeights>(randomWeights(shape));
    const gpu::TemporaryBasis basis(shape.config, weights->hash);
    OCTAVO_TRY(Tokenizer tokenizer, Tokenizer::load(options.tokenizer));
    const int words = tokenizer.endId() - 64;

    Stopwatch watch; // outlives the engine, whose last events come while it ends
    const auto reads = std::make_shared<std::atomic<bool>>(false);
    std::vector<std::optional<Result<std::unique_ptr<CudaBackend>>>> made(options.devices.size());
    std::vector<std::thread> loaders;
    for (std::size_t i = 0; i < made.size(); ++i)
        loaders.emplace_back(
            [&, i] { made[i].emplace(makeBackend(options, options.devices[i], shape, weights, basis.file())); });
    for (std::thread& loader : loaders)
        loader.join();
    if (options.rounds) {
        if (!*made[0])
            return made[0]->error();
        return runRounds(options, ***made[0]);
    }
    std::vector<EngineDevice> devices;
    for (auto& backend : made) {
        if (!*backend)
            return backend->error();
        std::unique_ptr<Backend> noisy = std::make_unique<NoiseBackend>(**std::move(backend), reads);
        if (options.failAt > 0 && devices.size() + 1 == made.size())
            noisy = std::make_unique<gpu::FailingBackend>(std::move(noisy), options.failAt);
        devices.push_back({std::move(noisy), 0});
    }
    ModelInfo info;
    info.contextLimit = options.context;
    info.bytesPerToken = 4096;
    SchedulerOptions scheduling;
    scheduling.reusePrefixes = false;
    scheduling.readAnswersWhenIdle = false;
    LocalEngine engine(std::move(info), shape.config, std::move(tokenizer), std::move(devices), scheduling);
    std::printf("loaded in %.1f s\n", secondsBetween(started, Clock::now()));
    std::fflush(stdout);

    const auto ask = [&](int agent, std::int64_t promptTokens, int newTokens) -> Result<void> {
        GenerationRequest request;
        request.id = engine.nextRequestId();
        request.agent = AgentId(std::uint32_t(agent));
        request.maxNewTokens = newTokens;
        request.drafts = options.drafts;
        std::uint64_t state = std::uint64_t(agent) * 0x9e3779b97f4a7c15ULL + 1;
        for (std::int64_t i = 0; i < promptTokens; ++i) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            request.prompt.push_back(TokenId((state >> 33) % std::uint64_t(words)));
        }
        return engine.submit(std::move(request), watch.sink(agent));
    };
    constexpr int mostTokens = 20'000; // more than anyone writes in the time
    const std::int64_t contextTokens = options.context - mostTokens;
    for (int agent = 0; agent < options.agents; ++agent)
        OCTAVO_CHECK(ask(agent, contextTokens, mostTokens));
    const auto writing = [&](const std::map<int, Stopwatch::Agent>& agents) {
        return int(agents.size()) == options.agents && std::ranges::all_of(agents, [](const auto& agent) {
                   return agent.second.tokens.size() > 8 || agent.second.hasEnded();
               });
    };
    watch.wait(writing);
    const auto before = engine.metrics();
    const auto begin = Clock::now();
    if (options.readerTokens > 0) {
        *reads = true;
        OCTAVO_CHECK(ask(options.agents, options.readerTokens, 1));
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
    const auto end = Clock::now();
    const auto after = engine.metrics();
    const double seconds = secondsBetween(begin, end);

    // Of each device: who writes there, the tokens of the time when all wrote, the bytes over its link, the worst gap.
    const auto agents = watch.agents();
    double all = 0.0;
    for (std::size_t d = 0; d < after.devices.size(); ++d) {
        const DeviceMetrics& device = after.devices[d];
        int tokens = 0, writers = 0;
        double worstGap = 0.0;
        bool readsToo = false;
        for (const AgentMetrics& agent : device.agents) {
            const auto found = agents.find(int(std::uint32_t(agent.agent)));
            readsToo |= found != agents.end() && found->first == options.agents;
            if (found == agents.end() || found->first >= options.agents)
                continue;
            ++writers;
            Clock::time_point last = begin;
            for (const Clock::time_point at : found->second.tokens) {
                if (at < begin || at > end)
                    continue;
                ++tokens;
                worstGap = std::max(worstGap, secondsBetween(last, at));
                last = at;
            }
        }
        const std::int64_t bytes = device.backend.tierBytesRead - before.devices[d].backend.tierBytesRead;
        const std::int64_t looked = device.backend.pickedRows - before.devices[d].backend.pickedRows;
        const std::int64_t missed = device.backend.hotMisses - before.devices[d].backend.hotMisses;
        std::printf("%s %s%s: %d agents of %lld tokens, %.1f tokens/s, %.2f GB/s over the link, %.1f%% misses, worst "
                    "gap %.1f ms, %.0f W, %s%s\n",
                    device.device.c_str(), device.description.c_str(), readsToo ? " (reading too)" : "", writers,
                    static_cast<long long>(contextTokens), tokens / seconds, double(bytes) / seconds / 1e9,
                    looked > 0 ? 100.0 * double(missed) / double(looked) : 0.0, 1e3 * worstGap, device.powerW,
                    device.link.c_str(), device.failed ? ", FAILED" : "");
        all += tokens / seconds;
    }
    int failed = 0;
    for (const auto& [agent, record] : agents)
        failed += record.failure.has_value();
    std::printf("all: %.1f tokens/s over %.2f s, drafts %s, %d answers failed\n", all, seconds,
                options.drafts ? "on" : "off", failed);
    std::fflush(stdout);
    for (int agent = 0; agent <= options.agents; ++agent)
        engine.cancel(RequestId{std::uint64_t(agent) + 1});
    return 0;
}

} // namespace

int main(int argc, char** argv)
{
    Options options;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i], value = argv[i + 1];
        if (name == "--shape")
            options.shape = value;
        else if (name == "--tokenizer")
            options.tokenizer = value;
        else if (name == "--devices") {
            options.devices.clear();
            for (std::size_t at = 0; at < value.size();) {
                const std::size_t comma = std::min(value.find(',', at), value.size());
                options.devices.push_back(value.substr(at, comma - at));
                at = comma + 1;
            }
        } else if (name == "--agents")
            options.agents = std::atoi(value.c_str());
        else if (name == "--seconds")
            options.seconds = std::atof(value.c_str());
        else if (name == "--layers")
            options.layers = std::atoi(value.c_str());
        else if (name == "--context")
            options.context = std::atoll(value.c_str());
        else if (name == "--hot")
            options.hotMiB = std::atoll(value.c_str());
        else if (name == "--reader")
            options.readerTokens = std::atoll(value.c_str());
        else if (name == "--fail-at")
            options.failAt = std::atoi(value.c_str());
        else if (name == "--drafts")
            options.drafts = value == "on";
        else if (name == "--rounds") {
            options.rounds = value != "off";
            if (options.rounds && value != "on")
                options.roundAgents = {std::atoi(value.c_str())};
        } else if (name == "--draft-vocabulary")
            options.draftVocabulary = std::atoi(value.c_str());
        else if (name == "--picks")
            options.sparse.topK = std::atoi(value.c_str()), options.sparse.longTopK = 0;
        else if (name == "--pick-rule" && (value == "priority" || value == "largest"))
            options.sparse.pickRule = value == "largest" ? PickRule::Largest : PickRule::Priority;
        else if (name == "--quantize-head")
            options.quantizeHead = value == "on";
        else if (name == "--quantize-drafts")
            options.quantizeDrafts = value == "on";
        else {
            std::printf("gpu_workers_bench [--devices cuda:0,cuda:1] [--agents 8] [--context 250000] [--seconds 5]\n"
                        "    [--shape qwen3.5-27b] [--layers N] [--hot MIB] [--drafts on|off] [--reader TOKENS]\n"
                        "    [--fail-at CALL] [--rounds on|AGENTS] [--draft-vocabulary IDS] [--quantize-head on]\n"
                        "    [--quantize-drafts off] [--picks K] [--pick-rule priority|largest]\n"
                        "    [--tokenizer resources/demo-model/tokenizer.json]\n");
            return 2;
        }
    }
    const auto done = run(options);
    if (done)
        return *done;
    std::printf("%s\n", done.error().message.c_str());
    return 1;
}
