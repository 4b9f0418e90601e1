#include "engine/local_engine.h"

#include "tests/engine/fake_backend.h"
#include "tests/engine/fake_tokenizer.h"
#include "tests/engine/scheduler/recorder.h"

#include <QTest>

#include <future>
#include <thread>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::test;

namespace {

using Devices = std::vector<std::shared_ptr<FakeDevice>>;

Devices someDevices(int count)
{
    Devices devices;
    for (int i = 0; i < count; ++i) {
        devices.push_back(std::make_shared<FakeDevice>());
        devices.back()->name = "fake:" + std::to_string(i);
    }
    return devices;
}

std::unique_ptr<LocalEngine> makeEngine(std::vector<EngineDevice> parts, SchedulerOptions scheduling)
{
    ModelConfig config;
    config.vocabSize = 261;
    Tokenizer tokenizer = fakeTokenizer();
    config.stopIds = allStopIds(config, tokenizer);
    ModelInfo info;
    info.name = "fake";
    info.contextLimit = 100'000;
    info.bytesPerToken = 16;
    return std::make_unique<LocalEngine>(info, config, std::move(tokenizer), std::move(parts), scheduling);
}

std::unique_ptr<LocalEngine> makeEngine(const Devices& devices, SchedulerOptions scheduling = {}, bool budgets = true)
{
    std::vector<EngineDevice> parts;
    for (const auto& device : devices)
        parts.push_back({std::make_unique<FakeBackend>(device), budgets ? device->memoryBytes : 0, {}});
    return makeEngine(std::move(parts), std::move(scheduling));
}

std::vector<TokenId> prompt(int count, int seed)
{
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i)
        tokens.push_back(TokenId(33 + (i * 31 + seed * 17 + i * i % 7) % 90));
    return tokens;
}

GenerationRequest question(Engine& engine, int agent, std::vector<TokenId> tokens, int maxNewTokens = 20)
{
    GenerationRequest request;
    request.id = engine.nextRequestId();
    request.agent = AgentId(std::uint32_t(agent));
    request.prompt = std::move(tokens);
    request.maxNewTokens = maxNewTokens;
    return request;
}

/// Holds a device inside its first call until opened: what happens meanwhile happens while it is busy.
class Gate
{
public:
    explicit Gate(FakeDevice& device)
    {
        device.onCall = [this](const std::string&) {
            if (!m_wasEntered.exchange(true))
                m_entered.set_value();
            m_opened.wait();
        };
    }
    void waitUntilBusy() { m_entered.get_future().wait(); }
    void open() { m_open.set_value(); }

private:
    std::promise<void> m_entered, m_open;
    std::shared_future<void> m_opened = m_open.get_future().share();
    std::atomic<bool> m_wasEntered = false;
};

} // namespace

class TestLocalEngine : public QObject
{
    Q_OBJECT

private slots:
    void answersOnAnyNumberOfDevices_data()
    {
        QTest::addColumn<int>("devices");
        for (int devices : {1, 2, 3})
            QTest::addRow("%d", devices) << devices;
    }

    void answersOnAnyNumberOfDevices()
    {
        QFETCH(const int, devices);
        const Devices parts = someDevices(devices);
        Recorder recorder;
        const auto engine = makeEngine(parts);
        std::vector<RequestId> ids;
        for (int agent = 0; agent < 24; ++agent) {
            auto request = question(*engine, agent % 8, prompt(900, agent % 5));
            ids.push_back(request.id);
            QVERIFY(engine->submit(std::move(request), recorder.sink()));
        }
        for (std::size_t i = 0; i < ids.size(); ++i) {
            QVERIFY(recorder.waitForEnd(ids[i]));
            QCOMPARE(recorder.record(ids[i]).tokens, fakeAnswer(prompt(900, int(i % 5)), 20));
            QCOMPARE(recorder.record(ids[i]).ends, 1);
        }
    }

    void requestsThatCrossKeepToThemselves()
    {
        Recorder recorder;
        const auto engine = makeEngine(someDevices(1));
        auto first = question(*engine, 0, prompt(300, 1), 400);
        auto second = question(*engine, 1, prompt(300, 2), 400);
        const RequestId a = first.id, b = second.id;
        QVERIFY(engine->submit(std::move(first), recorder.sink()));
        QVERIFY(recorder.waitFor(a, [](const auto& record) { return record.tokens.size() > 3; }));
        QVERIFY(engine->submit(std::move(second), recorder.sink()));
        QVERIFY(recorder.waitForEnd(a) && recorder.waitForEnd(b));
        QCOMPARE(recorder.record(a).tokens, fakeAnswer(prompt(300, 1), 400));
        QCOMPARE(recorder.record(b).tokens, fakeAnswer(prompt(300, 2), 400));
    }

    void aFullMailboxIsSaidAndSendsNothing()
    {
        const Devices devices = someDevices(1);
        Gate gate(*devices[0]);
        Recorder recorder;
        const auto engine = makeEngine(devices);
        QVERIFY(engine->submit(question(*engine, 0, prompt(100, 1)), recorder.sink()));
        gate.waitUntilBusy();
        std::vector<RequestId> accepted;
        Result<void> last;
        RequestId refused{};
        for (std::size_t i = 0; i <= DeviceWorker::mailboxCapacity; ++i) {
            auto request = question(*engine, 1 + int(i), prompt(100, 2), 1);
            const RequestId id = request.id;
            last = engine->submit(std::move(request), recorder.sink());
            if (last)
                accepted.push_back(id);
            else
                refused = id;
        }
        QCOMPARE(accepted.size(), DeviceWorker::mailboxCapacity);
        QVERIFY(!last);
        QCOMPARE(last.error().code, ErrorCode::Busy);
        gate.open();
        for (const RequestId id : accepted)
            QVERIFY(recorder.waitForEnd(id));
        QCOMPARE(recorder.record(refused).ends, 0);
    }

    void cancelReachesARequestWhileTheDeviceIsBusy()
    {
        const Devices devices = someDevices(1);
        Gate gate(*devices[0]);
        Recorder recorder;
        const auto engine = makeEngine(devices);
        auto running = question(*engine, 0, prompt(5000, 1), 50'000);
        auto queued = question(*engine, 1, prompt(100, 2), 50'000);
        const RequestId a = running.id, b = queued.id;
        QVERIFY(engine->submit(std::move(running), recorder.sink()));
        gate.waitUntilBusy();
        QVERIFY(engine->submit(std::move(queued), recorder.sink()));
        engine->cancel(a);
        engine->cancel(b);
        engine->cancel(RequestId{12345});
        gate.open();
        QVERIFY(recorder.waitForEnd(a) && recorder.waitForEnd(b));
        QCOMPARE(recorder.record(a).finished->reason, FinishReason::Cancelled);
        QCOMPARE(recorder.record(b).finished->reason, FinishReason::Cancelled);
        QVERIFY(recorder.record(b).tokens.empty());
    }

    void aSinkMayCancelItsOwnRequest()
    {
        Recorder recorder;
        const auto engine = makeEngine(someDevices(1));
        auto request = question(*engine, 0, prompt(100, 1), 90'000);
        const RequestId id = request.id;
        QVERIFY(engine->submit(std::move(request), [&, inner = recorder.sink()](RequestId from, Event&& event) {
            if (std::holds_alternative<TextAppended>(event))
                engine->cancel(from);
            inner(from, std::move(event));
        }));
        QVERIFY(recorder.waitForEnd(id));
        QCOMPARE(recorder.record(id).finished->reason, FinishReason::Cancelled);
    }

    void destroyingABusyEngineEndsEveryRequest()
    {
        const Devices devices = someDevices(2);
        Recorder recorder;
        std::vector<RequestId> ids;
        {
            const auto engine = makeEngine(devices);
            for (int agent = 0; agent < 20; ++agent) {
                auto request = question(*engine, agent, prompt(3000, agent), 50'000);
                ids.push_back(request.id);
                QVERIFY(engine->submit(std::move(request), recorder.sink()));
            }
            QVERIFY(recorder.waitFor(ids[0], [](const auto& record) { return !record.progress.empty(); }));
        }
        for (const RequestId id : ids) {
            QCOMPARE(recorder.record(id).ends, 1);
            QCOMPARE(recorder.record(id).finished->reason, FinishReason::Cancelled);
        }
        for (const auto& device : devices) {
            QCOMPARE(device->liveSlots.load(), 0);
            QCOMPARE(device->misuses.load(), 0);
        }
    }

    void anIdInUseIsRefused()
    {
        const Devices devices = someDevices(1);
        Gate gate(*devices[0]);
        Recorder recorder;
        const auto engine = makeEngine(devices);
        auto request = question(*engine, 0, prompt(100, 1));
        auto again = request;
        QVERIFY(engine->submit(std::move(request), recorder.sink()));
        QCOMPARE(engine->submit(std::move(again), recorder.sink()).error().code, ErrorCode::InvalidArgument);
        gate.open();
    }

    void agentsGatherWhereTheirContextIs()
    {
        const Devices devices = someDevices(2);
        for (const auto& device : devices)
            device->memoryBytes = 10'000'000;
        Recorder recorder;
        const auto engine = makeEngine(devices);
        std::vector<RequestId> ids;
        for (int agent = 0; agent < 8; ++agent) { // two contexts, four agents each
            auto request = question(*engine, agent, prompt(4000, agent % 2));
            request.prompt.resize(4000 + std::size_t(agent), TokenId('a' + agent));
            request.contextTokens = 4000;
            const RequestId id = request.id;
            QVERIFY(engine->submit(std::move(request), recorder.sink()));
            ids.push_back(id);
            if (agent % 3 == 0)
                QVERIFY(recorder.waitForEnd(id));
        }
        for (const RequestId id : ids)
            QVERIFY(recorder.waitForEnd(id));
        QVERIFY(devices[0]->tokensRead > 4000 - 64 && devices[0]->tokensRead < 5000);
        QVERIFY(devices[1]->tokensRead > 4000 - 64 && devices[1]->tokensRead < 5000);
    }

    void aFailedDeviceLosesItsSequencesAndNothingElse()
    {
        for (int call = 1; call < 30; ++call) {
            const Devices devices = someDevices(2);
            devices[0]->failAt = call;
            Recorder recorder;
            const auto engine = makeEngine(devices);
            std::vector<RequestId> ids;
            for (int agent = 0; agent < 6; ++agent) {
                auto request = question(*engine, agent, prompt(700, agent), 30);
                ids.push_back(request.id);
                QVERIFY(engine->submit(std::move(request), recorder.sink()));
            }
            int failed = 0;
            for (std::size_t agent = 0; agent < ids.size(); ++agent) {
                QVERIFY(recorder.waitForEnd(ids[agent]));
                const auto record = recorder.record(ids[agent]);
                if (record.failure) {
                    ++failed;
                    QCOMPARE(record.failure->code, ErrorCode::DeviceFailure);
                    QVERIFY(record.failure->message.find("fake:0") != std::string::npos);
                } else {
                    QCOMPARE(record.tokens, fakeAnswer(prompt(700, int(agent)), 30));
                }
            }
            QVERIFY(failed > 0 && failed < 6);
            QTRY_VERIFY(engine->metrics().devices[0].failed);
            QVERIFY(!engine->metrics().devices[0].failure.empty());
            QVERIFY(!engine->metrics().devices[1].failed);

            auto again = question(*engine, 0, prompt(700, 0), 30); // the agents reload on the other device
            const RequestId id = again.id;
            QVERIFY(engine->submit(std::move(again), recorder.sink()));
            QVERIFY(recorder.waitForEnd(id));
            QCOMPARE(recorder.record(id).tokens, fakeAnswer(prompt(700, 0), 30));
        }
    }

    void aLostDeviceComesBackWithAReload() // B-35
    {
        const Devices devices = someDevices(2);
        Recorder recorder;
        int made = 0;
        std::optional<Error> fault = Error{ErrorCode::DeviceFailure, "still gone"};
        std::vector<EngineDevice> parts;
        for (const auto& device : devices)
            parts.push_back({std::make_unique<FakeBackend>(device), 0,
                             [&, device](const std::atomic<bool>*) -> Result<std::unique_ptr<Backend>> {
                                 ++made;
                                 if (fault)
                                     return *fault;
                                 return std::unique_ptr<Backend>(std::make_unique<FakeBackend>(device));
                             }});
        const auto engine = makeEngine(std::move(parts), {});
        const auto ask = [&](int agent, const std::vector<TokenId>& tokens) {
            auto request = question(*engine, agent, tokens);
            const RequestId id = request.id;
            const auto accepted = engine->submit(std::move(request), recorder.sink());
            if (accepted)
                recorder.waitForEnd(id);
            return accepted ? recorder.record(id) : Recorder::Record{{}, {}, {}, {}, accepted.error(), 1, 0};
        };
        QVERIFY(engine->reload({}, nullptr)); // nothing is lost
        QCOMPARE(made, 0);
        for (const auto& device : devices)
            device->failAt = 1;
        for (int agent = 0; agent < 2; ++agent)
            QCOMPARE(ask(agent, prompt(700, agent)).failure->code, ErrorCode::DeviceFailure);
        QTRY_COMPARE(ask(2, prompt(700, 2)).failure->message,
                     std::string("no device works any more; reload the model"));
        const auto refused = engine->reload({}, nullptr);
        QVERIFY(!refused);
        QCOMPARE(refused.error().message, std::string("still gone"));
        QCOMPARE(devices[0]->liveSlots.load(), 0); // what it held is freed before
        fault.reset();
        std::vector<std::string> stages;
        QVERIFY(engine->reload([&](const LoadProgress& progress) { stages.push_back(progress.stage); }, nullptr));
        QCOMPARE(stages, (std::vector<std::string>{"Preparing fake:0", "Preparing fake:1"}));
        QVERIFY(!engine->metrics().devices[0].failed);
        for (int agent = 0; agent < 4; ++agent)
            QCOMPARE(ask(agent, prompt(700, agent)).tokens, fakeAnswer(prompt(700, agent), 20));
    }

    void withNoDeviceLeftSubmitSaysSo()
    {
        const Devices devices = someDevices(1);
        devices[0]->failAt = 1;
        Recorder recorder;
        const auto engine = makeEngine(devices);
        auto request = question(*engine, 0, prompt(100, 1));
        const RequestId id = request.id;
        QVERIFY(engine->submit(std::move(request), recorder.sink()));
        QVERIFY(recorder.waitForEnd(id));
        std::optional<ErrorCode> refused; // once the failure is known to those who ask
        QTRY_VERIFY([&] {
            const auto again = engine->submit(question(*engine, 0, prompt(100, 1)), recorder.sink());
            if (!again)
                refused = again.error().code;
            return refused.has_value();
        }());
        QCOMPARE(*refused, ErrorCode::DeviceFailure);
    }

    void cancelReachesALoadingModel() // B-36
    {
        EngineOptions options;
        options.modelDir = OCTAVO_RESOURCES "/demo-model";
        options.devices = {"cpu"};
        options.threads = 1;
        std::atomic<bool> cancel = false;
        const auto cancelled = Engine::create(
            options, [&](const LoadProgress& progress) { cancel = progress.stage == "Preparing cpu"; }, &cancel);
        QVERIFY(!cancelled);
        QCOMPARE(cancelled.error().code, ErrorCode::Cancelled);
    }

    void withoutBudgetsTheDeviceWithMoreFreeMemoryIsTaken() // a GPU knows its own memory
    {
        const Devices devices = someDevices(2);
        devices[0]->memoryBytes = 1'000'000;
        devices[1]->memoryBytes = 2'000'000;
        Recorder recorder;
        const auto engine = makeEngine(devices, {}, false);
        const auto asked = [&](int agent, int tokens) {
            auto request = question(*engine, agent, prompt(tokens, agent));
            const RequestId id = request.id;
            return engine->submit(std::move(request), recorder.sink()) && recorder.waitForEnd(id);
        };
        QVERIFY(asked(0, 5000));
        QCOMPARE(devices[0]->tokensRead.load(), 0);
        QVERIFY(devices[1]->tokensRead > 0);
    }

    void aChangedPriorityReachesTheDevice()
    {
        const Devices devices = someDevices(1);
        Gate gate(*devices[0]);
        Recorder recorder;
        SchedulerOptions scheduling;
        scheduling.maxSequences = 1;
        const auto engine = makeEngine(devices, scheduling);
        std::vector<RequestId> ids;
        for (const int priority : {0, 5, 10}) {
            auto request = question(*engine, priority, prompt(100, priority));
            request.priority = priority;
            ids.push_back(request.id);
            QVERIFY(engine->submit(std::move(request), recorder.sink()));
            if (priority == 0)
                gate.waitUntilBusy();
        }
        engine->setPriority(ids[2], 1);
        engine->setPriority(RequestId{99}, 1);
        gate.open();
        QVERIFY(recorder.waitForEnd(ids[1]));
        QVERIFY(recorder.record(ids[2]).hasEnded()); // it came before
    }

    void moreContextThanTheModelAllowsIsRefusedUnlessItWasAWish()
    {
        EngineOptions options;
        options.modelDir = OCTAVO_RESOURCES "/demo-model";
        options.devices = {"cpu"};
        options.threads = 1;
        options.contextLimit = 1'000'000;
        const auto refused = Engine::create(options);
        QVERIFY(!refused);
        QVERIFY(refused.error().message.find("1000000") != std::string::npos);
        options.contextLimitIsWish = true;
        const auto taken = Engine::create(options);
        QVERIFY2(taken, taken ? "" : taken.error().message.c_str());
        QCOMPARE_GT((*taken)->model().contextLimit, 0);
        QCOMPARE_LT((*taken)->model().contextLimit, 1'000'000);
    }

    void metricsNeverWaitForAStep()
    {
        const Devices devices = someDevices(1);
        Gate gate(*devices[0]);
        Recorder recorder;
        const auto engine = makeEngine(devices);
        QVERIFY(engine->submit(question(*engine, 0, prompt(100, 1)), recorder.sink()));
        gate.waitUntilBusy();
        const MetricsSnapshot snapshot = engine->metrics(); // would not come back before the gate opens
        QCOMPARE(snapshot.devices.size(), std::size_t(1));
        QCOMPARE(snapshot.devices[0].device, std::string("fake:0"));
        QVERIFY(snapshot.processResidentBytes > 0);
        gate.open();
    }
};

QTEST_GUILESS_MAIN(TestLocalEngine)
#include "tst_local_engine.moc"
