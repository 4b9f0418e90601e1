#pragma once

#include "engine/scheduler/scheduler.h"

#include "tests/engine/fake_backend.h"
#include "tests/engine/fake_tokenizer.h"
#include "tests/engine/scheduler/recorder.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace octavo::test {
using namespace octavo::engine;

/// Token ids that look like text, different for each seed.
inline std::vector<TokenId> someTokens(int count, int seed)
{
    std::vector<TokenId> tokens;
    std::uint64_t state = std::uint64_t(seed) * 7919 + 13;
    for (int i = 0; i < count; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        tokens.push_back(TokenId(33 + (state >> 33) % 90));
    }
    return tokens;
}

inline std::vector<TokenId> operator+(std::vector<TokenId> a, const std::vector<TokenId>& b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// A scheduler on a fake device, driven round by round.
struct Bench {
    explicit Bench(const std::function<void(FakeDevice&, SchedulerOptions&)>& change = {})
    {
        device->readUsPerToken = 100;
        device->stepUs = 10'000;
        options.tokenizer = &tokenizer;
        options.stopIds = {imEnd, endOfText};
        options.contextLimit = 20'000;
        options.nowUs = device->clock();
        if (change)
            change(*device, options);
        backend = std::make_unique<FakeBackend>(device);
        scheduler = std::make_unique<Scheduler>(*backend, options);
    }

    RequestId submit(GenerationRequest request)
    {
        request.id = RequestId{++lastId};
        auto prompt = std::make_shared<const std::vector<TokenId>>(std::exchange(request.prompt, {}));
        scheduler->submit(request, prompt, recorder.sink(), device->nowUs);
        return request.id;
    }

    RequestId ask(int agent, std::vector<TokenId> prompt, int maxNewTokens = 20, std::int64_t contextTokens = 0,
                  int priority = 0)
    {
        GenerationRequest request;
        request.agent = AgentId(std::uint32_t(agent));
        request.prompt = std::move(prompt);
        request.maxNewTokens = maxNewTokens;
        request.contextTokens = contextTokens;
        request.priority = priority;
        request.drafts = drafts;
        return submit(request);
    }

    Recorder::Record run(RequestId id)
    {
        for (int round = 0; round < 100'000 && !recorder.record(id).hasEnded(); ++round)
            scheduler->runRound();
        return recorder.record(id);
    }

    void runAll()
    {
        for (int round = 0; round < 100'000 && scheduler->runRound(); ++round) {
        }
    }

    Tokenizer tokenizer = fakeTokenizer();
    std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
    SchedulerOptions options;
    Recorder recorder;
    std::unique_ptr<FakeBackend> backend;
    std::unique_ptr<Scheduler> scheduler;
    std::uint64_t lastId = 0;
    bool drafts = false;
};

inline std::string textOf(const std::vector<TokenId>& tokens)
{
    return std::string(tokens.begin(), tokens.end());
}

} // namespace octavo::test
