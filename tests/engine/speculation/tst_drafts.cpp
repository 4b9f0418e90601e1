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
        QVERIFY2(bench.device->commits < 40, qPrintable(QString::number(bench.device->commits)));
        QVERIFY(record.finished->stats.decodeMs < 400 * 10.0 * 1.03);
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
