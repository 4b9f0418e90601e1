#include "tests/engine/scheduler/scheduler_bench.h"

#include <QTest>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::test;

namespace {

/// A model that quotes its prompt from `from` on, and says something else at the listed places.
auto quoting(std::size_t promptTokens, std::size_t from, std::vector<std::size_t> deviations)
{
    return [=](std::span<const TokenId> history) -> std::optional<TokenId> {
        const std::size_t at = history.size() - promptTokens;
        if (std::ranges::find(deviations, at) != deviations.end())
            return '!';
        return history[(from + at) % promptTokens];
    };
}

/// A model that writes what nothing before it resembles, and an MTP layer that expects it but for places where
/// `isWrong`.
void writeProse(FakeDevice& device, std::size_t promptTokens, std::function<bool(std::size_t at)> isWrong)
{
    const auto answer = someTokens(600, 99);
    device.script = [=](std::span<const TokenId> history) -> std::optional<TokenId> {
        return answer[history.size() - promptTokens];
    };
    device.mtp = [=](std::span<const TokenId> history, int most) {
        std::vector<TokenId> drafts;
        for (int i = 0; i < most; ++i) {
            const std::size_t at = history.size() - promptTokens + std::size_t(i);
            drafts.push_back(isWrong(at) ? '!' : answer[at]);
        }
        return drafts;
    };
    device.passUs = 1000;
}

} // namespace

class TestDrafts : public QObject
{
    Q_OBJECT

    static Recorder::Record answer(const std::vector<TokenId>& prompt, const SamplingParams& sampling, bool drafts,
                                   const std::function<void(FakeDevice&)>& change, int maxNewTokens = 120,
                                   int* steps = nullptr)
    {
        Bench bench([&](FakeDevice& device, SchedulerOptions&) {
            device.maxRows = 16;
            change(device);
        });
        GenerationRequest request;
        request.prompt = prompt;
        request.maxNewTokens = maxNewTokens;
        request.sampling = sampling;
        request.drafts = drafts;
        request.stopStrings = {"~~"};
        const auto record = bench.run(bench.submit(request));
        if (bench.device->misuses > 0)
            qFatal("the backend was misused");
        if (steps)
            *steps = bench.device->steps;
        return record;
    }

private slots:
    void quotesTakeFewerStepsAndReadTheSame()
    {
        const auto prompt = someTokens(500, 1);
        const auto change = [](FakeDevice& device) { device.script = quoting(500, 100, {}); };
        int plainSteps = 0, draftSteps = 0;
        const auto plain = answer(prompt, {}, false, change, 120, &plainSteps);
        const auto drafted = answer(prompt, {}, true, change, 120, &draftSteps);
        QCOMPARE(drafted.tokens, plain.tokens);
        QCOMPARE(plain.finished->stats.acceptedDrafts, 0);
        QCOMPARE(drafted.finished->stats.acceptedDrafts, 119 - draftSteps);
        QVERIFY2(draftSteps * 4 < plainSteps, qPrintable(QString::number(draftSteps)));
    }

    /// Every way for a draft to be cut short: the sequence must go on as if there had been none.
    void aRejectionAtAnyPositionLeavesNoTrace()
    {
        const auto prompt = someTokens(500, 1);
        for (std::size_t deviation = 1; deviation < 60; ++deviation) {
            const auto change = [&](FakeDevice& device) {
                device.script = quoting(500, 100, {deviation, deviation + 1, deviation + 7});
            };
            const auto plain = answer(prompt, {}, false, change);
            const auto drafted = answer(prompt, {}, true, change);
            QCOMPARE(drafted.tokens, plain.tokens);
            QVERIFY(drafted.finished->stats.acceptedDrafts > 0);
        }
    }

    /// The fake's own tokens are a hash of all before: one wrong state and the rest differs.
    void theAnswerAfterAQuoteIsTheSame()
    {
        const auto prompt = someTokens(500, 1);
        const auto change = [](FakeDevice& device) {
            device.script = [quote = quoting(500, 100, {})](auto history) -> std::optional<TokenId> {
                const std::size_t at = history.size() - 500;
                return at % 40 < 25 ? quote(history) : std::nullopt;
            };
        };
        const auto drafted = answer(prompt, {}, true, change);
        QCOMPARE(drafted.tokens, answer(prompt, {}, false, change).tokens);
        QVERIFY(drafted.finished->stats.acceptedDrafts > 10);
    }

    void drawnAnswersAreTheSameTokenByToken()
    {
        const auto prompt = someTokens(500, 1);
        const auto change = [](FakeDevice& device) { device.script = quoting(500, 100, {}); };
        int accepted = 0;
        for (std::uint64_t seed = 0; seed < 40; ++seed) {
            const SamplingParams sampling{.temperature = 0.6f, .topK = 20, .topP = 0.95f, .seed = seed};
            const auto drafted = answer(prompt, sampling, true, change);
            QCOMPARE(drafted.tokens, answer(prompt, sampling, false, change).tokens);
            accepted += int(drafted.finished->stats.acceptedDrafts);
        }
        QVERIFY(accepted > 0);
    }

    void stopsInsideADraftEndTheAnswerThere_data()
    {
        QTest::addColumn<QString>("stop");
        QTest::newRow("stop id") << "id";
        QTest::newRow("stop string") << "string";
    }

    void stopsInsideADraftEndTheAnswerThere()
    {
        QFETCH(const QString, stop);
        for (std::size_t at = 4; at < 30; ++at) {
            auto prompt = someTokens(500, 1);
            for (TokenId& id : prompt)
                id = id == '~' ? '-' : id;
            if (stop == "id")
                prompt[100 + at] = imEnd;
            else
                prompt[100 + at] = prompt[101 + at] = '~';
            const auto change = [](FakeDevice& device) { device.script = quoting(500, 100, {}); };
            const auto plain = answer(prompt, {}, false, change);
            const auto drafted = answer(prompt, {}, true, change);
            QCOMPARE(drafted.finished->reason, FinishReason::Stop);
            QCOMPARE(drafted.text, plain.text);
            QCOMPARE(drafted.text, textOf(std::vector<TokenId>(prompt.begin() + 100, prompt.begin() + 100 + int(at))));
        }
    }

    void noDraftGoesBeyondTheAnswersOrTheContextsEnd()
    {
        for (int maxNewTokens = 1; maxNewTokens < 40; ++maxNewTokens) {
            const auto change = [](FakeDevice& device) { device.script = quoting(500, 100, {}); };
            const auto record = answer(someTokens(500, 1), {}, true, change, maxNewTokens);
            QCOMPARE(record.finished->stats.newTokens, maxNewTokens);
            QCOMPARE(record.finished->reason, FinishReason::Length);
        }
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            device.maxRows = 16;
            device.script = quoting(500, 100, {});
            options.contextLimit = 550;
        });
        bench.drafts = true;
        const auto record = bench.run(bench.ask(0, someTokens(500, 1), 400));
        QCOMPARE(record.finished->reason, FinishReason::ContextFull);
        QCOMPARE(record.finished->stats.newTokens, 50);
        QCOMPARE(bench.device->misuses.load(), 0);
    }

    void draftsStopWhereARowCostsAStep()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.maxRows = 16;
            device.stepUs = 0;
            device.rowUs = 10'000;
            device.script = quoting(500, 100, {});
        });
        bench.drafts = true;
        const auto record = bench.run(bench.ask(0, someTokens(500, 1), 400));
        // Learned at first, tried again now and then.
        QVERIFY2(bench.device->commits < 60, qPrintable(QString::number(bench.device->commits)));
        QVERIFY(record.finished->stats.decodeMs < 400 * 10.0 * 1.03);
    }

    void mtpDraftsWhereNothingCanBeCopied()
    {
        const auto prompt = someTokens(500, 1);
        const auto change = [](FakeDevice& device) { writeProse(device, 500, [](std::size_t) { return false; }); };
        int plainSteps = 0, draftSteps = 0;
        const auto plain = answer(prompt, {}, false, change, 120, &plainSteps);
        const auto drafted = answer(prompt, {}, true, change, 120, &draftSteps);
        QCOMPARE(drafted.tokens, plain.tokens);
        QVERIFY2(draftSteps * 3 < plainSteps, qPrintable(QString::number(draftSteps)));
    }

    void aWrongMtpDraftAtAnyDepthLeavesNoTrace()
    {
        const auto prompt = someTokens(500, 1);
        for (std::size_t wrong = 1; wrong < 40; ++wrong) {
            for (const float temperature : {0.0f, 0.7f}) {
                const auto change = [&](FakeDevice& device) {
                    writeProse(device, 500, [&](std::size_t at) { return at == wrong || at == wrong + 3; });
                };
                const SamplingParams sampling{.temperature = temperature, .seed = wrong};
                const auto drafted = answer(prompt, sampling, true, change, 60);
                QCOMPARE(drafted.tokens, answer(prompt, sampling, false, change, 60).tokens);
                QVERIFY(temperature > 0.0f || drafted.finished->stats.acceptedDrafts > 0);
            }
        }
    }

    /// Whatever MTP is worth, an answer takes next to no longer than without.
    void mtpThatIsWrongIsLeftAlone_data()
    {
        QTest::addColumn<int>("rightOfTen");
        QTest::addColumn<int>("rejectUs");
        for (const int right : {0, 1, 3, 5})
            QTest::addRow("%d of 10 right", right) << right << 0;
        QTest::addRow("7 of 10 right, rejections dear") << 7 << 9'000;
    }

    void mtpThatIsWrongIsLeftAlone()
    {
        QFETCH(const int, rightOfTen);
        QFETCH(const int, rejectUs);
        auto timeOf = [&](bool drafts) {
            Bench bench([&](FakeDevice& device, SchedulerOptions&) {
                device.maxRows = 16;
                device.stepUs = 10'000;
                device.rowUs = 1'500;
                writeProse(device, 500, [=](std::size_t at) { return int(at * 7 % 10) >= rightOfTen; });
                device.passUs = 4'000;
                device.rejectUs = rejectUs;
            });
            bench.drafts = drafts;
            for (int question = 0; question < 4; ++question) // the agent's next answers know of the first
                bench.run(bench.ask(0, someTokens(500, question), 100));
            return double(bench.device->nowUs);
        };
        const double ratio = timeOf(true) / timeOf(false);
        QVERIFY2(ratio < 1.03, qPrintable(QString::number(ratio)));
    }

    void mtpIsTriedAgainOnceItIsRight()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.maxRows = 16;
            device.rowUs = 1'000;
            writeProse(device, 500, [](std::size_t at) { return at < 200; });
        });
        bench.drafts = true;
        const auto record = bench.run(bench.ask(0, someTokens(500, 1), 580));
        QVERIFY2(record.finished->stats.acceptedDrafts > 120,
                 qPrintable(QString::number(record.finished->stats.acceptedDrafts)));
    }

    void whatCanBeCopiedTakesNoPassOfMtp()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.maxRows = 16;
            device.rowUs = 500;
            device.script = quoting(500, 100, {});
            device.mtp = [](auto, int) { return std::vector<TokenId>{'!'}; };
            device.passUs = 3000;
        });
        bench.drafts = true;
        const auto record = bench.run(bench.ask(0, someTokens(500, 1), 300));
        QVERIFY(record.finished->stats.acceptedDrafts > 250);
        QVERIFY2(bench.device->passes < 6, qPrintable(QString::number(bench.device->passes)));
    }

    void aRequestChoosesItsSources()
    {
        const auto prompt = someTokens(500, 1);
        for (const DraftSources sources : {DraftSources::Lookup, DraftSources::Mtp}) {
            Bench bench([](FakeDevice& device, SchedulerOptions&) {
                device.maxRows = 16;
                writeProse(device, 500, [](std::size_t) { return false; });
            });
            GenerationRequest request;
            request.prompt = prompt;
            request.maxNewTokens = 100;
            request.draftSources = sources;
            const auto record = bench.run(bench.submit(request));
            QCOMPARE(bench.device->passes > 0, sources == DraftSources::Mtp);
            QCOMPARE(record.finished->stats.acceptedDrafts > 0, sources == DraftSources::Mtp);
        }
    }

    void aFaultWhileDraftingIsTheDevices()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            writeProse(device, 500, [](std::size_t) { return false; });
            device.onCall = [&device](const std::string& call) {
                if (call == "draft")
                    device.failAt = 1;
            };
        });
        bench.drafts = true;
        const auto record = bench.run(bench.ask(0, someTokens(500, 1), 100));
        QVERIFY(record.failure && record.failure->code == ErrorCode::DeviceFailure);
        QVERIFY(bench.scheduler->failure());
    }

    void withoutMemoryForDraftsTheAnswerGoesOn()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            writeProse(device, 500, [](std::size_t) { return false; });
            device.fault = ErrorCode::OutOfMemory;
            device.onCall = [&device](const std::string& call) {
                if (call == "draft")
                    device.failAt = 1;
            };
        });
        bench.drafts = true;
        const auto record = bench.run(bench.ask(0, someTokens(500, 1), 100));
        QCOMPARE(record.finished->stats.newTokens, 100);
    }

    void eightAgentsShareTheRows()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.maxRows = 24;
            device.script = [](std::span<const TokenId> history) -> std::optional<TokenId> {
                return history[history.size() - 400];
            };
        });
        bench.drafts = true;
        std::vector<RequestId> ids;
        for (int agent = 0; agent < 8; ++agent)
            ids.push_back(bench.ask(agent, someTokens(500, agent), 150));
        for (std::size_t agent = 0; agent < 8; ++agent) {
            const auto record = bench.run(ids[agent]);
            const auto prompt = someTokens(500, int(agent));
            QCOMPARE(record.tokens, std::vector<TokenId>(prompt.begin() + 100, prompt.begin() + 250));
        }
        QCOMPARE(bench.device->misuses.load(), 0);
        QVERIFY(bench.device->commits > 20);
    }
};

QTEST_GUILESS_MAIN(TestDrafts)
#include "tst_drafts.moc"
