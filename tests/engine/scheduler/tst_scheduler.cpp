#include "tests/engine/scheduler/scheduler_bench.h"

#include <QTest>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::test;

class TestScheduler : public QObject
{
    Q_OBJECT

private slots:
    void writesWhatTheModelLikesBest()
    {
        Bench bench;
        const auto prompt = someTokens(100, 1);
        const auto record = bench.run(bench.ask(0, prompt));
        QVERIFY(record.finished);
        QCOMPARE(record.finished->reason, FinishReason::Length);
        QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
        QCOMPARE(record.text, textOf(record.tokens));
        QCOMPARE(record.finished->stats.promptTokens, 100);
        QCOMPARE(record.finished->stats.newTokens, 20);
        QCOMPARE(bench.device->misuses.load(), 0);
    }

    void stopIdsEndTheAnswerAndStayUnseen()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.script = [](auto history) -> std::optional<TokenId> {
                return history.size() < 70 ? 'a' : imEnd;
            };
        });
        const auto record = bench.run(bench.ask(0, someTokens(64, 1), 50));
        QCOMPARE(record.finished->reason, FinishReason::Stop);
        QCOMPARE(record.text, std::string("aaaaaa"));
        QCOMPARE(record.tokens.size(), std::size_t(6));
    }

    void stopStringsEndTheAnswerBeforeThem()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.script = [](auto history) -> std::optional<TokenId> {
                return std::string("one\nEND two")[history.size() - 64];
            };
        });
        GenerationRequest request;
        request.prompt = someTokens(64, 1);
        request.maxNewTokens = 11;
        request.stopStrings = {"\nEND"};
        const auto record = bench.run(bench.submit(request));
        QCOMPARE(record.finished->reason, FinishReason::Stop);
        QCOMPARE(record.text, std::string("one"));
    }

    void anAnswerThatRepeatsItselfEndsWhereThatIsAskedFor()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.script = [](auto history) -> std::optional<TokenId> {
                return std::string("- the same line\n")[history.size() % 16];
            };
        });
        GenerationRequest request;
        request.prompt = someTokens(64, 1);
        request.maxNewTokens = 1000;
        request.endsLoops = true;
        const auto cut = bench.run(bench.submit(request));
        QCOMPARE(cut.finished->reason, FinishReason::Repeats);
        QCOMPARE(cut.tokens.size(), std::size_t(128));
        request.sampling.temperature = 1.0f; // drawn by chance: nobody knows that it goes on so
        request.prompt = someTokens(64, 1);
        QVERIFY(bench.run(bench.submit(request)).finished->reason != FinishReason::Repeats);
        request.sampling.temperature = 0.0f;
        request.endsLoops = false;
        request.prompt = someTokens(64, 1);
        QCOMPARE(bench.run(bench.submit(request)).finished->reason, FinishReason::Length);
    }

    void aCharacterCutByTheEndComesOutAsAReplacement()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.script = [](auto history) -> std::optional<TokenId> {
                return history.size() == 64 ? 'x' : 0xe6;
            };
        });
        const auto record = bench.run(bench.ask(0, someTokens(64, 1), 2));
        QCOMPARE(record.text, std::string("x\xef\xbf\xbd"));
    }

    void aContextThatFillsUpKeepsTheAnswerSoFar()
    {
        Bench bench([](FakeDevice&, SchedulerOptions& options) { options.contextLimit = 128; });
        const auto prompt = someTokens(120, 1);
        const auto record = bench.run(bench.ask(0, prompt, 50));
        QCOMPARE(record.finished->reason, FinishReason::ContextFull);
        QCOMPARE(record.tokens, fakeAnswer(prompt, 8));
        QCOMPARE(bench.device->misuses.load(), 0);
    }

    void refusesPromptsBeyondTheLimitWithUsedLimitAndNeeded()
    {
        GenerationRequest request;
        request.prompt = someTokens(250, 1);
        request.contextTokens = 190;
        const auto refused = checkRequest(request, 261, 200);
        QCOMPARE(refused.error().code, ErrorCode::ContextFull);
        for (const char* part : {"used 190", "limit 200", "needed 251"})
            QVERIFY2(refused.error().message.find(part) != std::string::npos, refused.error().message.c_str());
        request.prompt.resize(200);
        QVERIFY(!checkRequest(request, 261, 200)); // not one token left for an answer
        request.maxNewTokens = 0;
        QVERIFY(checkRequest(request, 261, 200));
    }

    void refusesWhatNoModelCouldRead_data()
    {
        QTest::addColumn<QList<int>>("prompt");
        QTest::addColumn<int>("maxNewTokens");
        QTest::addColumn<int>("contextTokens");
        QTest::newRow("empty") << QList<int>{} << 1 << 0;
        QTest::newRow("id below 0") << QList<int>{1, -1} << 1 << 0;
        QTest::newRow("id beyond the vocabulary") << QList<int>{1, 261} << 1 << 0;
        QTest::newRow("negative length") << QList<int>{1} << -1 << 0;
        QTest::newRow("context longer than the prompt") << QList<int>{1, 2} << 1 << 3;
    }

    void refusesWhatNoModelCouldRead()
    {
        QFETCH(const QList<int>, prompt);
        QFETCH(const int, maxNewTokens);
        QFETCH(const int, contextTokens);
        GenerationRequest request;
        request.prompt.assign(prompt.begin(), prompt.end());
        request.maxNewTokens = maxNewTokens;
        request.contextTokens = contextTokens;
        QCOMPARE(checkRequest(request, 261, 1000).error().code, ErrorCode::InvalidArgument);
    }

    // --- Reuse -------------------------------------------------------------------------------------------------------

    void aSecondAgentReadsOnlyItsQuestion()
    {
        Bench bench;
        const auto context = someTokens(1000, 1);
        const auto first = bench.run(bench.ask(0, context + someTokens(30, 2), 20, 1000));
        const std::int64_t readBefore = bench.device->tokensRead;
        const auto prompt = context + someTokens(25, 3);
        const auto second = bench.run(bench.ask(1, prompt, 20, 1000));
        QCOMPARE(first.finished->stats.reusedTokens, 0);
        QCOMPARE(second.finished->stats.reusedTokens, 960); // 1000 rounded down to 64s
        QCOMPARE(bench.device->tokensRead - readBefore, 65);
        QCOMPARE(second.tokens, fakeAnswer(prompt, 20));
        QCOMPARE(second.progress.front().done, 960);
        QCOMPARE(second.progress.front().reused, 960);
    }

    void answersAreTheSameHoweverTheyCameAbout_data()
    {
        QTest::addColumn<int>("contextTokens");
        for (int tokens : {1, 63, 64, 65, 127, 128, 700, 2049, 9000})
            QTest::addRow("context of %d", tokens) << tokens;
    }

    /// Fresh, a second time, by another agent, as a follow-up, beside seven others, without reuse.
    void answersAreTheSameHoweverTheyCameAbout()
    {
        QFETCH(const int, contextTokens);
        for (const int questionTokens : {1, 63, 64, 65}) {
            const auto context = someTokens(contextTokens, 1);
            const auto prompt = context + someTokens(questionTokens, 2);
            const auto expected = fakeAnswer(prompt, 20);
            Bench bench;
            QCOMPARE(bench.run(bench.ask(0, prompt, 20, contextTokens)).tokens, expected);
            QCOMPARE(bench.run(bench.ask(0, prompt, 20, contextTokens)).tokens, expected);
            QCOMPARE(bench.run(bench.ask(1, prompt, 20, contextTokens)).tokens, expected);

            const auto followUp = prompt + expected + someTokens(40, 3);
            const auto expectedNext = fakeAnswer(followUp, 20);
            QCOMPARE(bench.run(bench.ask(0, followUp, 20, contextTokens)).tokens, expectedNext);
            bench.runAll(); // reads that answer too
            QCOMPARE(bench.run(bench.ask(0, followUp + expectedNext + someTokens(9, 4), 20, contextTokens)).tokens,
                     fakeAnswer(followUp + expectedNext + someTokens(9, 4), 20));

            Bench crowd;
            std::vector<RequestId> ids;
            for (int agent = 0; agent < 8; ++agent)
                ids.push_back(crowd.ask(agent, context + someTokens(questionTokens, 2 + agent), 20, contextTokens));
            for (int agent = 0; agent < 8; ++agent)
                QCOMPARE(crowd.run(ids[std::size_t(agent)]).tokens,
                         fakeAnswer(context + someTokens(questionTokens, 2 + agent), 20));

            Bench plain([](FakeDevice&, SchedulerOptions& options) { options.reusePrefixes = false; });
            QCOMPARE(plain.run(plain.ask(0, prompt, 20, contextTokens)).tokens, expected);
            QCOMPARE(bench.device->misuses + crowd.device->misuses + plain.device->misuses, 0);
        }
    }

    void aContextBeingReadIsWaitedForNotReadAgain()
    {
        Bench bench;
        const auto context = someTokens(9000, 1);
        std::vector<RequestId> ids;
        for (int agent = 0; agent < 8; ++agent)
            ids.push_back(bench.ask(agent, context + someTokens(30, 10 + agent), 5, 9000));
        for (int agent = 0; agent < 8; ++agent) {
            const auto record = bench.run(ids[std::size_t(agent)]);
            QCOMPARE(record.tokens, fakeAnswer(context + someTokens(30, 10 + agent), 5));
        }
        QVERIFY2(bench.device->tokensRead < 9000 + 8 * 128, qPrintable(QString::number(bench.device->tokensRead)));
    }

    void aWaitingAgentGoesOnWhenTheReaderIsCancelled()
    {
        Bench bench;
        const auto context = someTokens(12'000, 1);
        const RequestId reader = bench.ask(0, context + someTokens(10, 2), 5, 12'000);
        const RequestId waiting = bench.ask(1, context + someTokens(10, 3), 5, 12'000);
        for (int round = 0; round < 12; ++round)
            bench.scheduler->runRound();
        bench.scheduler->cancel(reader);
        QCOMPARE(bench.recorder.record(reader).finished->reason, FinishReason::Cancelled);
        QCOMPARE(bench.run(waiting).tokens, fakeAnswer(context + someTokens(10, 3), 5));
    }

    void aReadThatWasCancelledGoesOnFromItsLastCheckpoint()
    {
        Bench bench;
        const auto context = someTokens(12'000, 1);
        const RequestId first = bench.ask(0, context, 0, 12'000);
        while (bench.device->tokensRead < 8192)
            bench.scheduler->runRound();
        bench.scheduler->cancel(first);
        const auto second = bench.run(bench.ask(0, context + someTokens(10, 3), 5, 12'000));
        QCOMPARE(second.finished->stats.reusedTokens, 8192);
        QCOMPARE(second.tokens, fakeAnswer(context + someTokens(10, 3), 5));
    }

    void readingAloneKeepsTheContextAndWritesNothing()
    {
        Bench bench;
        const auto context = someTokens(1000, 1);
        const auto read = bench.run(bench.ask(0, context, 0, 1000));
        QCOMPARE(read.finished->reason, FinishReason::Length);
        QVERIFY(read.text.empty());
        const auto again = bench.run(bench.ask(1, context, 0, 1000));
        QCOMPARE(again.finished->stats.reusedTokens, 960);
        QCOMPARE(bench.device->tokensRead.load(), 960);
    }

    void aFollowUpFindsTheAnswerRead()
    {
        Bench bench;
        const auto prompt = someTokens(500, 1);
        const auto answer = bench.run(bench.ask(0, prompt, 200)).tokens;
        bench.runAll();
        const auto next = bench.run(bench.ask(0, prompt + answer + someTokens(20, 2), 5));
        QCOMPARE(next.finished->stats.reusedTokens, 640 + 0); // 700 tokens, rounded down
        QCOMPARE(next.tokens, fakeAnswer(prompt + answer + someTokens(20, 2), 5));
    }

    void aReleasedAgentLeavesNothingButSharedContexts()
    {
        Bench bench;
        bench.run(bench.ask(0, someTokens(500, 1), 100));
        bench.runAll();
        QVERIFY(bench.device->liveSlots > 0);
        bench.scheduler->releaseAgent(AgentId{0});
        QCOMPARE(bench.device->liveSlots.load(), 0);
        bench.run(bench.ask(0, someTokens(640, 2), 0, 640));
        const int context = bench.device->liveSlots; // its end and places before it
        bench.run(bench.ask(0, someTokens(640, 2) + someTokens(200, 3), 10, 640));
        QVERIFY(bench.device->liveSlots > context);
        bench.scheduler->releaseAgent(AgentId{0});
        QCOMPARE(bench.device->liveSlots.load(), context);
    }

    // --- Memory ------------------------------------------------------------------------------------------------------

    void idleSequencesMakeRoomForNewOnes()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            device.stateBytes = 1000;
            device.bytesPerToken = 1;
            options.memoryBudgetBytes = 6000;
            options.readAnswersWhenIdle = false;
        });
        for (int question = 0; question < 20; ++question) {
            const auto prompt = someTokens(1500, question);
            QCOMPARE(bench.run(bench.ask(question % 8, prompt, 10, 1500)).tokens, fakeAnswer(prompt, 10));
            QVERIFY(bench.backend->stats().memoryUsedBytes <= 6000);
        }
    }

    void whatCannotFitIsRefusedWithUsedLimitAndNeeded()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            device.bytesPerToken = 1 << 20;
            options.memoryBudgetBytes = std::int64_t{1000} << 20;
        });
        const auto record = bench.run(bench.ask(0, someTokens(2000, 1)));
        QVERIFY(record.failure);
        QCOMPARE(record.failure->code, ErrorCode::OutOfMemory);
        for (const char* part : {"used 0 MiB", "limit 1000 MiB", "needed 2021 MiB"})
            QVERIFY2(record.failure->message.find(part) != std::string::npos, record.failure->message.c_str());
        const auto next = bench.run(bench.ask(0, someTokens(200, 2)));
        QCOMPARE(next.tokens, fakeAnswer(someTokens(200, 2), 20));
    }

    void whatDoesNotFitNowWaitsForOthersToEnd()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            device.stateBytes = 0;
            device.bytesPerToken = 1;
            options.memoryBudgetBytes = 1500;
        });
        const RequestId first = bench.ask(0, someTokens(1000, 1));
        const RequestId second = bench.ask(1, someTokens(1000, 2));
        QCOMPARE(bench.run(second).tokens, fakeAnswer(someTokens(1000, 2), 20));
        QVERIFY(bench.recorder.record(first).finished);
    }

    void aBackendOutOfMemoryGivesUpIdleSequencesFirst()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) {
            device.stateBytes = 100;
            device.bytesPerToken = 1;
            device.memoryBytes = 3000;
        });
        for (int question = 0; question < 6; ++question) {
            const auto prompt = someTokens(1500, question);
            QCOMPARE(bench.run(bench.ask(0, prompt, 10, 1500)).tokens, fakeAnswer(prompt, 10));
        }
    }

    void anAnswerWithoutMemoryEndsAlone()
    {
        Bench bench;
        std::vector<RequestId> ids;
        for (int agent = 0; agent < 8; ++agent)
            ids.push_back(bench.ask(agent, someTokens(300, agent), 40));
        std::map<SlotId, int> steps;
        bench.device->onReserve = [&](SlotId slot, int) -> Result<void> {
            if (steps[slot]++ < 10 || slot != steps.begin()->first)
                return {};
            return Error{ErrorCode::OutOfMemory, "no page is left"};
        };
        bench.runAll();
        int failed = 0;
        for (int agent = 0; agent < 8; ++agent) {
            const auto record = bench.recorder.record(ids[std::size_t(agent)]);
            QCOMPARE(record.ends, 1);
            if (record.failure) {
                ++failed;
                QCOMPARE(record.failure->message, std::string("no page is left"));
                QVERIFY(!record.tokens.empty()); // what was written stays
            } else {
                QCOMPARE(record.tokens, fakeAnswer(someTokens(300, agent), 40));
            }
        }
        QCOMPARE(failed, 1);
        QCOMPARE(bench.device->misuses.load(), 0);
    }

    void anAnswerTakesTheMemoryOfIdleSequencesAndOfItsDrafts()
    {
        Bench bench;
        bench.drafts = true;
        const auto repeated = someTokens(200, 1) + someTokens(200, 1);
        bench.run(bench.ask(1, someTokens(900, 2), 10));
        bench.runAll();
        QVERIFY(bench.device->liveSlots > 0);
        int refusals = 0;
        bench.device->onReserve = [&](SlotId, int rows) -> Result<void> {
            if (bench.device->liveSlots == 1 && rows == 1)
                return {};
            ++refusals;
            return Error{ErrorCode::OutOfMemory, "no page is left"};
        };
        bench.device->script = [&](std::span<const TokenId> history) {
            return std::optional(history[history.size() - 200]);
        };
        const auto record = bench.run(bench.ask(0, repeated, 40));
        QVERIFY2(record.finished, record.failure ? record.failure->message.c_str() : "");
        QCOMPARE(record.tokens, someTokens(40, 1));
        QVERIFY(refusals > 1);
        QCOMPARE(bench.device->commits.load(), 0);
    }

    /// A context that is kept, an answer whose drafts would need the rest of the memory and more, then another request.
    void draftsAreGivenUpBeforeContexts_data()
    {
        QTest::addColumn<bool>("ofScheduler"); // whose limit it is
        QTest::addColumn<int>("draftBytes");
        QTest::addColumn<bool>("draftsFit");
        for (const bool ofScheduler : {true, false}) {
            const char* whose = ofScheduler ? "scheduler" : "backend";
            QTest::addRow("they fit, limit of the %s", whose) << ofScheduler << 3000 << true;
            QTest::addRow("they do not, limit of the %s", whose) << ofScheduler << 5500 << false;
        }
    }

    void draftsAreGivenUpBeforeContexts()
    {
        QFETCH(bool, ofScheduler);
        QFETCH(int, draftBytes);
        QFETCH(bool, draftsFit);
        constexpr std::int64_t limit = 6000;
        Bench bench([&](FakeDevice& device, SchedulerOptions& options) {
            device.stateBytes = 100;
            device.bytesPerToken = 1;
            device.draftBytes = draftBytes;
            (ofScheduler ? options.memoryBudgetBytes : device.memoryBytes) = limit;
            options.readAnswersWhenIdle = false;
        });
        bench.drafts = true;
        const auto context = someTokens(1024, 1), repeated = someTokens(200, 2) + someTokens(200, 2);
        bench.run(bench.ask(0, context + someTokens(20, 3), 5, 1024));
        bench.device->script = [](std::span<const TokenId> history) {
            return history.size() > 200 && history.size() < 1000 ? std::optional(history[history.size() - 200])
                                                                 : std::optional(TokenId(65));
        };
        const RequestId copying = bench.ask(1, repeated, 100);
        while (bench.recorder.record(copying).tokens.size() < 20 && bench.scheduler->runRound())
            QVERIFY(bench.backend->stats().memoryUsedBytes <= limit);
        QCOMPARE(bench.device->commits > 0, draftsFit);
        const int commits = bench.device->commits;
        // What needs the drafts' place gets it, and the context is still there.
        const RequestId large = bench.ask(2, someTokens(2400, 4), 5);
        while (!bench.recorder.record(large).hasEnded() && bench.scheduler->runRound())
            QVERIFY(bench.backend->stats().memoryUsedBytes <= limit);
        QVERIFY(bench.recorder.record(large).finished);
        const auto record = bench.run(copying);
        QVERIFY(record.finished);
        QCOMPARE(record.tokens, someTokens(100, 2));
        QVERIFY(draftsFit || bench.device->commits == commits);
        const auto again = bench.run(bench.ask(3, context + someTokens(20, 5), 5, 1024));
        QCOMPARE(again.finished->stats.reusedTokens, std::int64_t{1024});
        QCOMPARE(bench.device->misuses.load(), 0);
    }

    void idleReadingTakesNothingFromOthers()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            device.stateBytes = 1000;
            device.bytesPerToken = 1;
            options.memoryBudgetBytes = 9000; // one context, and little more
        });
        const auto one = someTokens(6000, 1), two = someTokens(6000, 2);
        const RequestId first = bench.ask(0, one + someTokens(50, 3), 200, 6000);
        const RequestId second = bench.ask(1, two + someTokens(50, 4), 200, 6000); // waits for the first to end
        bench.run(first);
        const auto answer = bench.run(second);
        bench.runAll();
        QVERIFY(bench.device->tokensRead > 2 * 6050); // the second's answer is read
        QVERIFY2(bench.device->tokensRead <= 2 * 6050 + 256, std::to_string(bench.device->tokensRead).c_str());
        const auto again =
            bench.run(bench.ask(1, two + someTokens(50, 4) + answer.tokens + someTokens(60, 5), 10, 6000));
        QVERIFY(again.finished->stats.reusedTokens >= 6200);
    }

    void whoNeedsMemoryDoesNotWaitForIdleReading()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            device.stateBytes = 100;
            device.bytesPerToken = 1;
            device.maxSlice = 64;
            options.memoryBudgetBytes = 9000;
        });
        bench.run(bench.ask(0, someTokens(3000, 1), 1000));
        bench.scheduler->runRound(); // reads its answer, of which much is left
        const std::int64_t before = bench.device->tokensRead;
        const auto prompt = someTokens(8000, 2);
        const auto record = bench.run(bench.ask(1, prompt, 20));
        QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
        QCOMPARE(bench.device->tokensRead - before, 8000);
    }

    void nothingIsLeftBehind()
    {
        Bench bench;
        for (int agent = 0; agent < 8; ++agent)
            bench.ask(agent, someTokens(700, agent), 300, 500);
        for (int round = 0; round < 30; ++round)
            bench.scheduler->runRound();
        bench.scheduler.reset();
        QCOMPARE(bench.device->liveSlots.load(), 0);
        QCOMPARE(bench.device->misuses.load(), 0);
    }

    // --- Fairness ----------------------------------------------------------------------------------------------------

    void aLongReadLeavesWritersTheirTokens()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            options.contextLimit = 300'000;
            device.readUsPerToken = 300;
        });
        std::vector<RequestId> writers;
        for (int agent = 0; agent < 7; ++agent)
            writers.push_back(bench.ask(agent, someTokens(64, agent), 400));
        for (int round = 0; round < 20; ++round)
            bench.scheduler->runRound();
        const RequestId reader = bench.ask(7, someTokens(60'000, 9), 5, 60'000);
        for (const RequestId id : writers) {
            const auto record = bench.run(id);
            QVERIFY2(record.finished->stats.worstGapMs <= 250.0,
                     qPrintable(QString::number(record.finished->stats.worstGapMs)));
        }
        QVERIFY(!bench.recorder.record(reader).progress.empty());
        QVERIFY(bench.recorder.record(reader).progress.back().done > 1000);
        QVERIFY(bench.run(reader).finished);
    }

    void memoryOfALongContextComesInPartsBesideWriters()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            options.contextLimit = 300'000;
            device.prepareCalls = 40;
            device.prepareUs = 30'000;
        });
        const RequestId writer = bench.ask(0, someTokens(64, 1), 200);
        while (bench.recorder.record(writer).tokens.empty())
            bench.scheduler->runRound();
        const RequestId reader = bench.ask(1, someTokens(4'000, 2), 5);
        for (int agent = 3; agent < 8; ++agent)
            bench.ask(agent, someTokens(4'000, agent), 5);
        const RequestId question = bench.ask(2, someTokens(64, 3), 5); // needs none of it and does not wait for it
        QVERIFY(bench.run(question).finished);
        QVERIFY(bench.recorder.record(reader).progress.empty());
        const auto written = bench.run(writer);
        QVERIFY2(written.finished->stats.worstGapMs <= 250.0,
                 qPrintable(QString::number(written.finished->stats.worstGapMs)));
        QVERIFY(bench.run(reader).finished);
        bench.runAll();
        // Where nobody writes, nobody is to be spared.
        bench.ask(1, someTokens(5'000, 4), 5);
        bench.scheduler->runRound();
        QVERIFY(!bench.recorder.record(RequestId{bench.lastId}).progress.empty());
    }

    void whatMustGoForALongContextGoesBeforeItsMemoryIsPrepared()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            device.stateBytes = 50'000; // of what stays in memory too
            device.memoryBytes = options.memoryBudgetBytes = 180'000; // a writer and a context of 4,000 tokens
            device.prepareCalls = 40;
            device.prepareUs = 30'000;
        });
        QVERIFY(bench.run(bench.ask(1, someTokens(4'000, 2), 5)).finished); // stays in memory
        const RequestId writer = bench.ask(0, someTokens(64, 1), 200);
        while (bench.recorder.record(writer).tokens.empty())
            bench.scheduler->runRound();
        const RequestId reader = bench.ask(2, someTokens(4'000, 3), 5);
        const auto written = bench.run(writer);
        QVERIFY2(written.finished->stats.worstGapMs <= 250.0,
                 qPrintable(QString::number(written.finished->stats.worstGapMs)));
        QVERIFY(bench.run(reader).finished);
    }

    void writersGetHalfTheTimeBesideALongRead()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            options.contextLimit = 300'000;
            device.stepUs = 20'000;
        });
        const RequestId writer = bench.ask(0, someTokens(64, 1), 200);
        bench.scheduler->runRound();
        bench.ask(1, someTokens(250'000, 2), 5, 250'000);
        const std::int64_t start = bench.device->nowUs;
        bench.run(writer);
        const double seconds = double(bench.device->nowUs - start) / 1e6;
        QVERIFY2(seconds < 200 * 0.020 * 2.2, qPrintable(QString::number(seconds)));
    }

    void aShortQuestionGoesBeforeALongRead()
    {
        Bench bench;
        const RequestId reader = bench.ask(0, someTokens(15'000, 1), 5);
        for (int round = 0; round < 3; ++round)
            bench.scheduler->runRound();
        const RequestId question = bench.ask(1, someTokens(300, 2), 5, 0, 3);
        bench.run(question);
        QVERIFY(!bench.recorder.record(reader).hasEnded());
    }

    void theVisiblePaneIsReadFirst()
    {
        Bench bench;
        const RequestId hidden = bench.ask(0, someTokens(9000, 1), 5, 0, 1);
        const RequestId visible = bench.ask(1, someTokens(9000, 2), 5, 0, 0);
        bench.run(visible);
        QVERIFY(!bench.recorder.record(hidden).hasEnded());
        QVERIFY(bench.recorder.record(hidden).progress.back().done > 0); // but it is not starved
        QVERIFY(bench.run(hidden).finished);
    }

    void equalReadersTakeTurns()
    {
        Bench bench;
        const RequestId a = bench.ask(0, someTokens(9000, 1), 5);
        const RequestId b = bench.ask(1, someTokens(9000, 2), 5);
        while (bench.recorder.record(a).progress.empty() || bench.recorder.record(a).progress.back().done < 4500)
            bench.scheduler->runRound();
        QVERIFY(bench.recorder.record(b).progress.back().done > 2000);
    }

    void eightAgentsWriteInOneBatch()
    {
        Bench bench;
        std::vector<RequestId> ids;
        for (int agent = 0; agent < 8; ++agent)
            ids.push_back(bench.ask(agent, someTokens(64, agent), 100));
        for (const RequestId id : ids)
            QVERIFY(bench.run(id).finished);
        QCOMPARE(bench.device->widestStep.load(), 8);
        QVERIFY2(bench.device->steps < 150, qPrintable(QString::number(bench.device->steps)));
    }

    void moreWritersThanRowsTakeTurns()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions&) { device.maxRows = 3; });
        std::vector<RequestId> ids;
        for (int agent = 0; agent < 8; ++agent)
            ids.push_back(bench.ask(agent, someTokens(64, agent), 30));
        for (std::size_t agent = 0; agent < 8; ++agent)
            QCOMPARE(bench.run(ids[agent]).tokens, fakeAnswer(someTokens(64, int(agent)), 30));
        QCOMPARE(bench.device->widestStep.load(), 3);
    }

    void requestsOfOneAgentRunOneAfterAnother()
    {
        Bench bench;
        const RequestId first = bench.ask(0, someTokens(100, 1), 50, 0, 5);
        const RequestId second = bench.ask(0, someTokens(100, 2), 5, 0, 0);
        bench.run(second);
        QVERIFY(bench.recorder.record(first).finished);
        QCOMPARE(bench.recorder.record(second).finished->stats.ttftMs
                     > bench.recorder.record(first).finished->stats.decodeMs,
                 true);
    }

    // --- Ends --------------------------------------------------------------------------------------------------------

    void cancelEndsARequestAtOnce_data()
    {
        QTest::addColumn<int>("rounds");
        QTest::newRow("before it starts") << 0;
        QTest::newRow("while it is read") << 2;
        QTest::newRow("while it is written") << 40;
        QTest::newRow("after it ended") << 5000;
    }

    void cancelEndsARequestAtOnce()
    {
        QFETCH(const int, rounds);
        Bench bench([](FakeDevice&, SchedulerOptions& options) { options.readAnswersWhenIdle = false; });
        const RequestId id = bench.ask(0, someTokens(9000, 1), 200);
        for (int round = 0; round < rounds; ++round)
            bench.scheduler->runRound();
        bench.scheduler->cancel(id);
        bench.scheduler->cancel(id);
        bench.scheduler->cancel(RequestId{99});
        const auto record = bench.recorder.record(id);
        QCOMPARE(record.ends, 1);
        QCOMPARE(record.finished->reason, rounds == 5000 ? FinishReason::Length : FinishReason::Cancelled);
        QVERIFY(!bench.scheduler->runRound());
        QCOMPARE(bench.recorder.record(id).afterEnd, 0);
        QCOMPARE(record.text, textOf(record.tokens));
    }

    /// Where the device picks, logits are fetched only for answers that are drawn from them.
    void greedyAnswersAreTheSameWhereTheDevicePicks()
    {
        for (const bool drafts : {false, true}) {
            std::vector<std::vector<TokenId>> answers;
            for (const bool picks : {false, true}) {
                Bench bench([picks](FakeDevice& device, SchedulerOptions&) { device.picksBest = picks; });
                bench.drafts = drafts;
                std::vector<RequestId> ids;
                for (int agent = 0; agent < 3; ++agent)
                    ids.push_back(bench.ask(agent, someTokens(70, agent), 15));
                bench.runAll();
                QVERIFY(bench.device->steps > 0);
                QCOMPARE(bench.device->bestSteps.load(), picks ? bench.device->steps.load() : 0);
                for (const RequestId id : ids)
                    answers.push_back(bench.recorder.record(id).tokens);
                QCOMPARE(bench.device->misuses.load(), 0);
                if (!picks)
                    continue;
                GenerationRequest request; // draws, beside a greedy one
                request.agent = AgentId{5};
                request.prompt = someTokens(70, 5);
                request.maxNewTokens = 10;
                request.sampling.temperature = 0.7f;
                const int before = bench.device->bestSteps;
                const RequestId drawn = bench.submit(request), greedy = bench.ask(6, someTokens(70, 6), 10);
                bench.runAll();
                QCOMPARE(bench.device->bestSteps.load(), before);
                QCOMPARE(bench.recorder.record(drawn).tokens.size(), std::size_t(10));
                QCOMPARE(bench.recorder.record(greedy).tokens, fakeAnswer(someTokens(70, 6), 10));
            }
            for (std::size_t agent = 0; agent < 3; ++agent) {
                QCOMPARE(answers[agent], fakeAnswer(someTokens(70, int(agent)), 15));
                QCOMPARE(answers[agent + 3], answers[agent]);
            }
        }
    }

    void bytesFromTheHostTierAreShownForEachAgent()
    {
        Bench bench([](FakeDevice& device, SchedulerOptions& options) {
            device.tierBytesPerRow = 1000;
            options.readAnswersWhenIdle = false;
        });
        const auto bytesOf = [&](std::uint32_t agent) {
            DeviceMetrics metrics;
            bench.scheduler->describe(metrics);
            const auto found = std::ranges::find(metrics.agents, AgentId{agent}, &AgentMetrics::agent);
            return found == metrics.agents.end() ? std::int64_t(-2) : found->tierBytesRead;
        };
        bench.ask(0, someTokens(70, 0), 12);
        bench.ask(1, someTokens(70, 1), 5);
        while (bytesOf(0) < 3000)
            QVERIFY(bench.scheduler->runRound());
        bench.runAll();
        QCOMPARE(bytesOf(0), std::int64_t(11'000)); // the first token is the reading's
        QCOMPARE(bytesOf(1), std::int64_t(4'000));
        bench.run(bench.ask(1, someTokens(70, 2), 8));
        QCOMPARE(bytesOf(1), std::int64_t(7'000));
        bench.device->tierBytesPerRow = -1;
        bench.run(bench.ask(1, someTokens(70, 3), 8));
        QCOMPARE(bytesOf(1), std::int64_t(-1));
    }

    void aFaultAtAnyCallEndsEachRequestExactlyOnce()
    {
        for (const ErrorCode code : {ErrorCode::DeviceFailure, ErrorCode::OutOfMemory, ErrorCode::InvalidArgument}) {
            bool reached = true;
            for (int call = 1; reached; ++call) {
                Bench bench;
                bench.drafts = true;
                bench.device->fault = code;
                bench.device->failAt = call;
                std::vector<RequestId> ids;
                for (int agent = 0; agent < 3; ++agent)
                    ids.push_back(
                        bench.ask(agent, someTokens(500, 1) + someTokens(500, 1) + someTokens(70, agent), 12, 900));
                bench.runAll();
                reached = bench.device->failAt == 0;
                for (std::size_t agent = 0; agent < ids.size(); ++agent) {
                    const auto record = bench.recorder.record(ids[agent]);
                    QCOMPARE(record.ends, 1);
                    QCOMPARE(record.afterEnd, 0);
                    if (record.finished)
                        QCOMPARE(record.tokens, fakeAnswer(someTokens(500, 1) + someTokens(500, 1)
                                                               + someTokens(70, int(agent)), 12));
                }
                QCOMPARE(bench.scheduler->failure().has_value(), reached && code == ErrorCode::DeviceFailure);
                if (bench.scheduler->failure()) {
                    const auto late = bench.run(bench.ask(0, someTokens(10, 1)));
                    QCOMPARE(late.failure->code, ErrorCode::DeviceFailure);
                }
            }
        }
    }

    void aCallThatThrowsForWantOfMemoryEndsNoMoreThanItsRequests()
    {
        bool reached = true;
        for (int call = 1; reached && call < 200; ++call) {
            Bench bench;
            bench.device->throws = true;
            bench.device->failAt = call;
            std::vector<RequestId> ids;
            for (int agent = 0; agent < 3; ++agent)
                ids.push_back(bench.ask(agent, someTokens(900, 1) + someTokens(70, agent), 12, 900));
            bench.runAll();
            reached = bench.device->failAt == 0;
            for (std::size_t agent = 0; agent < ids.size(); ++agent) {
                const auto record = bench.recorder.record(ids[agent]);
                QCOMPARE(record.ends, 1);
                QCOMPARE(record.afterEnd, 0);
                if (record.failure)
                    QVERIFY(record.failure->message.find("memory ran out while") != std::string::npos);
                else
                    QCOMPARE(record.tokens, fakeAnswer(someTokens(900, 1) + someTokens(70, int(agent)), 12));
            }
            QVERIFY(!bench.scheduler->failure());
            const auto next = bench.run(bench.ask(0, someTokens(900, 1) + someTokens(40, 9), 12, 900));
            QCOMPARE(next.tokens, fakeAnswer(someTokens(900, 1) + someTokens(40, 9), 12));
        }
        QVERIFY(!reached);
    }

    void aSinkThatThrowsEndsItsOwnRequestAlone()
    {
        bool threw = true;
        for (int at = 1; threw && at < 200; ++at) {
            Bench bench;
            const auto prompt = someTokens(300, 1), other = someTokens(300, 2);
            int events = 0, ends = 0, behind = 0;
            std::optional<Error> failure;
            GenerationRequest request;
            request.id = RequestId{77};
            request.maxNewTokens = 20;
            bench.scheduler->submit(
                request, std::make_shared<const std::vector<TokenId>>(prompt),
                [&](RequestId, Event&& event) {
                    const bool isLast =
                        !std::holds_alternative<PrefillProgress>(event) && !std::holds_alternative<TextAppended>(event);
                    behind += events >= at && !isLast ? 1 : 0;
                    if (++events == at)
                        throw std::bad_alloc();
                    ends += isLast ? 1 : 0;
                    if (const auto* failed = std::get_if<Failed>(&event))
                        failure = failed->error;
                },
                0);
            const RequestId beside = bench.ask(1, other);
            bench.runAll();
            threw = events >= at;
            QCOMPARE(bench.recorder.record(beside).tokens, fakeAnswer(other, 20));
            QVERIFY(bench.recorder.record(beside).finished);
            QCOMPARE(behind, 0);
            QVERIFY(ends == 1 || (ends == 0 && events == at)); // it was the end itself that was not taken
            QCOMPARE(failure.has_value(), threw && ends == 1);
            if (failure)
                QCOMPARE(failure->code, ErrorCode::OutOfMemory);
            QCOMPARE(bench.scheduler->numRequests(), 0);
        }
        QVERIFY(!threw);
    }

    void failAllTellsEveryoneTheCodeWhateverTheirSinksThrow()
    {
        Bench bench;
        int told = 0;
        GenerationRequest request;
        request.id = RequestId{77};
        bench.scheduler->submit(
            request, std::make_shared<const std::vector<TokenId>>(someTokens(50, 1)),
            [&](RequestId, Event&& event) {
                told += std::holds_alternative<Failed>(event) ? 1 : 0;
                throw std::runtime_error("no");
            },
            0);
        const RequestId writing = bench.ask(1, someTokens(50, 2), 100), queued = bench.ask(1, someTokens(50, 3));
        for (int round = 0; round < 4; ++round)
            bench.scheduler->runRound();
        bench.scheduler->failAll({ErrorCode::DeviceFailure, "it is over"});
        for (const RequestId id : {writing, queued}) {
            const auto record = bench.recorder.record(id);
            QCOMPARE(record.ends, 1);
            QCOMPARE(record.failure->code, ErrorCode::DeviceFailure);
            QCOMPARE(record.failure->message, std::string("it is over"));
        }
        QCOMPARE(told, 1);
        QVERIFY(!bench.scheduler->failure());
        QCOMPARE(bench.run(bench.ask(2, someTokens(60, 4))).tokens, fakeAnswer(someTokens(60, 4), 20));
    }

    // --- Metrics -----------------------------------------------------------------------------------------------------

    void figuresFollowTheWork()
    {
        Bench bench;
        const RequestId id = bench.ask(3, someTokens(1000, 1), 100);
        while (bench.recorder.record(id).tokens.size() < 60)
            bench.scheduler->runRound();
        DeviceMetrics metrics;
        bench.scheduler->describe(metrics);
        QCOMPARE(metrics.agents.size(), std::size_t(1));
        const AgentMetrics& agent = metrics.agents[0];
        QCOMPARE(agent.agent, AgentId{3});
        QCOMPARE(agent.state, SequenceState::Writing);
        QVERIFY(agent.contextTokens >= 1060);
        QVERIFY(agent.ttftMs >= 100.0 && agent.ttftMs < 150.0);     // 1000 tokens at 0.1 ms
        QVERIFY(agent.worstGapMs >= 10.0 && agent.worstGapMs < 15.0);
        QVERIFY(agent.decodeTokensPerSecond > 40 && agent.decodeTokensPerSecond <= 101);
        QVERIFY(!metrics.recentWork.empty());
        QCOMPARE(metrics.recentWork.back().kind, WorkSpan::Kind::Decode);
        QCOMPARE(metrics.recentWork.back().agentMask, 8u);
        QVERIFY(metrics.recentWork.size() < 40); // steps in a row are one span
        bench.run(id);
        bench.scheduler->describe(metrics);
        QCOMPARE(metrics.agents[0].state, SequenceState::Idle);
        QCOMPARE(metrics.agents[0].decodeTokensPerSecond, -1.0);
    }
};

QTEST_GUILESS_MAIN(TestScheduler)
#include "tst_scheduler.moc"
