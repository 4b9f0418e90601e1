#include "tests/gpu/check_backend.h"

#include "tests/engine/scheduler/recorder.h"
#include "tests/gpu/failing_backend.h"

#include "engine/backend/backend_factory.h"
#include "engine/local_engine.h"
#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include <array>
#include <chrono>

namespace octavo::gpu
{

using namespace engine;

namespace
{

constexpr int agents = 8, newTokens = 48;
constexpr std::int64_t contextLimit = 12'000;

using Answers = std::vector<test::Recorder::Record>;

class Workers
{
public:
    Workers(Report& report, const std::string& modelDir, const nlohmann::json& prompts)
        : m_report(report)
        , m_modelDir(modelDir)
    {
        std::vector<std::vector<TokenId>> all;
        for (const auto& prompt : prompts) {
            auto ids = prompt["prompt_ids"].get<std::vector<TokenId>>();
            if (std::int64_t(ids.size()) + newTokens < contextLimit)
                all.push_back(std::move(ids));
        }
        for (std::size_t i = 0; i < std::size_t(agents); ++i)
            m_prompts.push_back(all[i % all.size()]);
    }

    /// A worker for each of `devices`, with an equal part of the memory of the GPU that they share. The calls of the
    /// i-th fail from failAt[i] on.
    std::unique_ptr<LocalEngine> engine(const std::vector<std::string>& devices, std::array<int, 2> failAt = {0, 0})
    {
        auto config = ModelConfig::load(m_modelDir);
        auto tokenizer = Tokenizer::load(m_modelDir / "tokenizer.json");
        auto opened = config ? ModelWeights::open(m_modelDir, *config) : Result<ModelWeights>(config.error());
        if (!m_report.expect(config && tokenizer && opened, "workers: the model cannot be opened"))
            return nullptr;
        const auto weights = std::make_shared<const ModelWeights>(*std::move(opened));
        std::vector<EngineDevice> workers;
        for (const std::string& device : devices) {
            std::size_t freeBytes = 0, totalBytes = 0;
            OCTAVO_REQUIRE(cudaMemGetInfo(&freeBytes, &totalBytes));
            BackendOptions options;
            options.device = device;
            options.contextLimit = contextLimit;
            options.memoryBudgetBytes = std::int64_t(freeBytes) / std::int64_t(devices.size() + 1);
            auto backend = makeBackend(*config, weights, options);
            if (!m_report.expect(backend.has_value(), "workers: %s", backend ? "" : backend.error().message.c_str()))
                return nullptr;
            workers.push_back({std::make_unique<FailingBackend>(*std::move(backend), failAt[workers.size()]),
                               options.memoryBudgetBytes});
        }
        config->stopIds = allStopIds(*config, *tokenizer);
        ModelInfo info;
        info.name = "demo";
        info.contextLimit = contextLimit;
        info.bytesPerToken = 4096;
        return std::make_unique<LocalEngine>(std::move(info), *std::move(config), *std::move(tokenizer),
                                             std::move(workers));
    }

    Answers ask(Engine& engine, bool drafts)
    {
        test::Recorder recorder;
        std::vector<RequestId> ids;
        for (std::size_t i = 0; i < m_prompts.size(); ++i) {
            GenerationRequest request;
            request.id = engine.nextRequestId();
            request.agent = AgentId(std::uint32_t(i));
            request.prompt = m_prompts[i];
            request.maxNewTokens = newTokens;
            request.drafts = drafts;
            ids.push_back(request.id);
            const auto accepted = engine.submit(std::move(request), recorder.sink());
            m_report.expect(accepted.has_value(), "workers: %s", accepted ? "" : accepted.error().message.c_str());
        }
        Answers answers;
        for (const RequestId id : ids) {
            m_report.expect(recorder.waitForEnd(id), "workers: a request did not end");
            answers.push_back(recorder.record(id));
        }
        return answers;
    }

    /// Where an answer differs from what was wanted; those that failed may be a beginning where `mayFail`.
    void compare(const char* what, const Answers& got, const Answers& wanted, bool mayFail = false)
    {
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const auto &answer = got[i].tokens, &whole = wanted[i].tokens;
            const bool isBeginning =
                answer.size() <= whole.size() && std::equal(answer.begin(), answer.end(), whole.begin());
            m_report.expect(got[i].ends == 1 && (got[i].finished ? answer == whole : mayFail && isBeginning),
                            "workers: %s, answer %zu of %zu tokens differs%s%s", what, i, whole.size(),
                            got[i].failure ? ": " : "", got[i].failure ? got[i].failure->message.c_str() : "");
        }
    }

private:
    Report& m_report;
    const std::filesystem::path m_modelDir;
    std::vector<std::vector<TokenId>> m_prompts;
};

std::int64_t accepted(const Answers& answers)
{
    std::int64_t sum = 0;
    for (const auto& answer : answers)
        sum += answer.finished ? answer.finished->stats.acceptedDrafts : 0;
    return sum;
}

} // namespace

void checkWorkers(Report& report, const std::string& modelDir, const nlohmann::json& prompts)
{
    int devices = 0;
    OCTAVO_REQUIRE(cudaGetDeviceCount(&devices));
    const std::vector<std::string> one{"cuda:0"}, two{"cuda:0", devices > 1 ? "cuda:1" : "cuda:0"};
    const auto crowded = resolveDevices({"cuda:0", "cuda:0", "cuda:0"});
    report.expect(!crowded && crowded.error().code == ErrorCode::InvalidArgument &&
                      resolveDevices({"cuda:0", "cuda:0"}),
                  "workers: a GPU takes three of them, or not two");
    Workers workers(report, modelDir, prompts);
    auto engine = workers.engine(one);
    if (!engine)
        return;
    const Answers plain = workers.ask(*engine, false);
    for (const auto& answer : plain)
        report.expect(answer.finished && !answer.tokens.empty(), "workers: an answer failed: %s",
                      answer.failure ? answer.failure->message.c_str() : "no tokens");
    engine = workers.engine(one); // nothing read before
    const Answers drafted = workers.ask(*engine, true);
    workers.compare("with drafts", drafted, plain);
    report.expect(accepted(drafted) > 0, "workers: no draft was accepted");
    report.line("workers: %lld drafts accepted in %d answers of up to %d tokens",
                static_cast<long long>(accepted(drafted)), agents, newTokens);

    engine = workers.engine(two);
    if (!engine)
        return;
    workers.compare("two workers", workers.ask(*engine, true), plain);
    const auto bothWrote = [&] {
        return std::ranges::all_of(engine->metrics().devices, [](const DeviceMetrics& device) {
            return device.backend.decodeTokens > 0 && !device.failed;
        });
    };
    for (int i = 0; i < 100 && !bothWrote(); ++i) // metrics are published a little after what they count
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    report.expect(bothWrote(), "workers: one of two wrote nothing");

    engine = workers.engine(two, {0, 25});
    if (!engine)
        return;
    const Answers halved = workers.ask(*engine, true);
    int failed = 0;
    for (const auto& answer : halved) {
        failed += answer.failure.has_value();
        report.expect(!answer.failure || answer.failure->code == ErrorCode::DeviceFailure, "workers: failed with %s",
                      answer.failure ? answer.failure->message.c_str() : "");
    }
    report.expect(failed > 0 && failed < agents, "workers: %d of %d answers failed with one worker", failed, agents);
    workers.compare("beside a worker that failed", halved, plain, true);
    workers.compare("after a worker failed", workers.ask(*engine, true), plain);
    report.line("workers on %s and %s: one failed with %d of %d answers, the other went on", two[0].c_str(),
                two[1].c_str(), failed, agents);
}

} // namespace octavo::gpu
