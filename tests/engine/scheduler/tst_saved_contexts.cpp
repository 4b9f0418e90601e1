/// The scheduler with saved contexts: what is saved, opened beside writers, and gone on from.

#include "tests/engine/scheduler/saved_contexts_test.h"

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::test;

class TestSavedContexts : public SavedContextsTest
{
    Q_OBJECT

private slots:
    void init() { clear(); }

    void afterARestartOnlyTheQuestionIsRead()
    {
        const auto context = someTokens(2000, 1);
        const auto prompt = context + someTokens(30, 2);
        {
            auto first = start();
            QCOMPARE(first->run(first->ask(0, prompt, 20, 2000)).tokens, fakeAnswer(prompt, 20));
            first->scheduler->flushSavedContexts();
        }
        QCOMPARE(files().size(), 1);
        auto second = start();
        const auto record = second->run(second->ask(3, prompt, 20, 2000));
        QCOMPARE(record.finished->stats.reusedTokens, 1984);
        QCOMPARE(second->device->tokensRead.load(), 2030 - 1984);
        QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
    }

    void aReadingThatIsLeftGoesOnFromThere_data()
    {
        QTest::addColumn<QString>("leftBy");
        for (const char* how : {"stop", "the end of the program", "a crash"})
            QTest::newRow(how) << QString::fromLatin1(how);
    }

    void aReadingThatIsLeftGoesOnFromThere()
    {
        QFETCH(const QString, leftBy);
        const auto context = someTokens(12'000, 1);
        const std::int64_t whole = roundDownToStride(12'000);
        std::int64_t read = 0;
        {
            auto first = std::make_unique<Bench>([&](FakeDevice&, SchedulerOptions& options) {
                options.savedContexts = m_dir.filePath("contexts").toStdString();
                options.savedContextsQuota = 1 << 30;
                options.modelHash = 1;
                options.checkpointInterval = 1024;
                options.saveReadingEveryUs = leftBy == u"a crash" ? 0 : std::int64_t{1} << 50;
            });
            const RequestId reading = first->ask(0, context, 0, 12'000);
            while (first->device->tokensRead < 7'000)
                first->scheduler->runRound();
            read = first->device->tokensRead;
            QVERIFY(read < whole);
            if (leftBy == u"stop") {
                first->scheduler->cancel(reading);
                QCOMPARE(first->recorder.record(reading).finished->reason, FinishReason::Cancelled);
                const auto again = first->run(first->ask(1, context, 0, 12'000)); // from memory
                QCOMPARE(again.finished->stats.reusedTokens, read);
                QCOMPARE(first->device->tokensRead.load(), whole);
                return;
            }
            first->scheduler->flushSavedContexts();
            if (leftBy == u"a crash") { // what is on disk now is all there is
                QCOMPARE(files().size(), 1); // older parts are gone
                QVERIFY(QDir(m_dir.path()).rename("contexts", "kept"));
                first.reset();
                QDir(m_dir.filePath("contexts")).removeRecursively();
                QVERIFY(QDir(m_dir.path()).rename("kept", "contexts"));
            }
        }
        QCOMPARE(files().size(), 1);
        const auto part = SavedContext::open(m_dir.filePath("contexts/" + files()[0]).toStdString());
        QVERIFY(part && part->info().isPart());
        QCOMPARE(part->info().wantedTokens, whole);
        if (leftBy == u"the end of the program")
            QCOMPARE(part->info().tokens(), read);
        QVERIFY(part->info().tokens() > read / 2 && part->info().tokens() <= read);
        auto second = start();
        const auto prompt = context + someTokens(30, 2);
        second->run(second->ask(1, context, 0, 12'000));
        QCOMPARE(second->device->tokensRead.load(), whole - part->info().tokens());
        QCOMPARE(second->run(second->ask(2, prompt, 5, 12'000)).tokens, fakeAnswer(prompt, 5));
        second->scheduler->flushSavedContexts();
        QCOMPARE(files().size(), 1); // the part went with the whole
        const auto saved = SavedContext::open(m_dir.filePath("contexts/" + files()[0]).toStdString());
        QVERIFY(saved && !saved->info().isPart());
        QCOMPARE(saved->info().tokens(), whole);
    }

    void aSavedContextOpensBesideWriters() // B-24
    {
        const auto context = someTokens(12'000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 12'000));
        }
        auto second = start(1 << 30, 1, 4096);
        const auto written = someTokens(100, 2);
        const RequestId writer = second->ask(0, written, 15'000);
        while (second->recorder.record(writer).tokens.empty())
            second->scheduler->runRound();
        std::vector<int> stepsAt;
        second->device->onCall = [&](const std::string& call) {
            if (call == "restore")
                stepsAt.push_back(second->device->steps);
            else if (call == "step")
                ::usleep(200); // so that the file is checked before the answer ends
        };
        const auto prompt = context + someTokens(30, 3);
        const auto record = second->run(second->ask(1, prompt, 5, 12'000));
        QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
        QCOMPARE(record.finished->stats.reusedTokens, 11'968);
        QCOMPARE(stepsAt.size(), std::size_t(12)); // of 47,872 bytes
        for (std::size_t part = 1; part < stepsAt.size(); ++part)
            QCOMPARE_GT(stepsAt[part], stepsAt[part - 1]); // the other pane wrote between any two
        QVERIFY(!second->recorder.record(writer).hasEnded());
        second->scheduler->cancel(writer);
        const auto tokens = second->recorder.record(writer).tokens;
        QCOMPARE(tokens, fakeAnswer(written, int(tokens.size())));
    }

    void roomForASavedContextComesInPartsBesideWriters()
    {
        const auto context = someTokens(4'000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 4'000));
        }
        auto second = start();
        second->device->prepareCalls = 40;
        second->device->prepareUs = 30'000;
        const RequestId writer = second->ask(0, someTokens(64, 2), 15'000);
        while (second->recorder.record(writer).tokens.empty())
            second->scheduler->runRound();
        second->device->onCall = [](const std::string& call) {
            if (call == "step")
                ::usleep(200); // so that the file is checked before the answer ends
        };
        const auto prompt = context + someTokens(30, 3);
        const auto record = second->run(second->ask(1, prompt, 5, 4'000));
        QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
        QCOMPARE(record.finished->stats.reusedTokens, roundDownToStride(4'000));
        second->scheduler->cancel(writer);
        const double gap = second->recorder.record(writer).finished->stats.worstGapMs;
        QVERIFY2(gap >= 30.0 && gap <= 250.0, qPrintable(QString::number(gap))); // of 1,200 ms in all
    }

    /// Where saving on the way would slow the reading down, only what ends it early keeps what was read.
    void aDeviceThatLosesBySavingIsNotAskedToWhileItReads()
    {
        const auto context = someTokens(12'000, 1);
        {
            Bench bench([&](FakeDevice& device, SchedulerOptions& options) {
                options.savedContexts = m_dir.filePath("contexts").toStdString();
                options.savedContextsQuota = 1 << 30;
                options.modelHash = 1;
                options.checkpointInterval = 1024;
                options.saveReadingEveryUs = 0;
                device.savesWhileReading = false;
            });
            bench.ask(0, context, 0, 12'000);
            while (bench.device->tokensRead < 7'000)
                bench.scheduler->runRound();
            bench.scheduler->flushSavedContexts();
            QCOMPARE(files().size(), 0);
        }
        QCOMPARE(files().size(), 1);
    }

    void whatIsOpenedIsLetGoOfWhenNobodyWaitsForIt()
    {
        const auto context = someTokens(4000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 4000));
        }
        for (int rounds = 0; rounds < 12; ++rounds) {
            auto second = start(1 << 30, 1, 4096);
            const RequestId id = second->ask(0, context + someTokens(30, 2), 5, 4000);
            for (int round = 0; round < rounds; ++round)
                second->scheduler->runRound();
            second->scheduler->cancel(id);
            QCOMPARE(second->recorder.record(id).ends, 1);
            second->runAll();
            // Another one opens it all the same, and the first's sequences are gone.
            const auto prompt = context + someTokens(30, 3);
            const auto record = second->run(second->ask(1, prompt, 5, 4000));
            QCOMPARE(record.finished->stats.reusedTokens, 3968);
            QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
            second->scheduler->releaseAgent(AgentId{0});
            second->scheduler->releaseAgent(AgentId{1});
            QVERIFY(second->device->liveSlots <= 8);
            second->scheduler.reset();
            QCOMPARE(second->device->liveSlots.load(), 0);
            QCOMPARE(second->device->misuses.load(), 0);
        }
    }

    void aFaultWhileAContextIsOpenedCostsNoMoreThanReadingIt()
    {
        const auto context = someTokens(4000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 4000));
        }
        const auto prompt = context + someTokens(30, 2);
        for (const int call : {1, 2, 3}) { // begin, room, the first part
            auto second = start(1 << 30, 1, 4096);
            second->device->fault = ErrorCode::OutOfMemory;
            second->device->failAt = call;
            const auto record = second->run(second->ask(0, prompt, 5, 4000));
            QCOMPARE(second->device->failAt.load(), 0);
            QVERIFY2(record.finished, record.failure ? record.failure->message.c_str() : "");
            QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
            QCOMPARE(record.finished->stats.reusedTokens, 0);
        }
    }

    void theProgramsEndWaitsForTheFileInHand()
    {
        const auto context = someTokens(2000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 2000));
        }
        auto second = start();
        QCOMPARE(second->run(second->ask(0, context, 0, 2000)).finished->stats.reusedTokens, 1984);
    }

    void anotherModelsContextsAreNotUsed()
    {
        const auto context = someTokens(1000, 1);
        {
            auto first = start(1 << 30, 1);
            first->run(first->ask(0, context, 0, 1000));
        }
        auto other = start(1 << 30, 2);
        QCOMPARE(other->run(other->ask(0, context, 0, 1000)).finished->stats.reusedTokens, 0);
    }

    void theQuotaKeepsWhatWasUsedLast()
    {
        std::int64_t each = 0;
        {
            auto bench = start();
            bench->run(bench->ask(0, someTokens(960, 9), 0, 960));
            bench->scheduler->flushSavedContexts();
            each = QFileInfo(m_dir.filePath("contexts/" + files().first())).size();
            clear();
        }
        auto bench = start(3 * each);
        for (int context = 0; context < 6; ++context) {
            bench->run(bench->ask(0, someTokens(960, context), 0, 960));
            bench->scheduler->flushSavedContexts();
            QVERIFY(files().size() <= 3);
            ::usleep(20'000); // file times must differ
        }
        QCOMPARE(files().size(), 3);
        auto second = start(3 * each);
        QCOMPARE(second->run(second->ask(0, someTokens(960, 5), 0, 960)).finished->stats.reusedTokens, 960);
        QCOMPARE(second->run(second->ask(0, someTokens(960, 0), 0, 960)).finished->stats.reusedTokens, 0);
    }

    void aContextLargerThanTheQuotaIsNotSaved()
    {
        auto bench = start(5000);
        bench->run(bench->ask(0, someTokens(960, 1), 0, 960));
        bench->scheduler->flushSavedContexts();
        QVERIFY(files().isEmpty());
    }

    void aLaterCommitGoesOnBeforeItsFirstChange_data()
    {
        QTest::addColumn<int>("changed"); // of 4000 tokens, at the end
        for (const int changed : {40, 100, 200, 400, 1000})
            QTest::addRow("%d", changed) << changed;
    }

    void aLaterCommitGoesOnBeforeItsFirstChange()
    {
        QFETCH(int, changed);
        const auto kept = someTokens(4000 - changed, 1);
        {
            auto first = start();
            first->run(first->ask(0, kept + someTokens(changed, 2), 0, 4000));
        }
        const auto prompt = kept + someTokens(changed, 3) + someTokens(30, 4);
        auto second = start();
        const auto record = second->run(second->ask(0, prompt, 20, 4000));
        const int least = 4000 - 2 * std::max(changed, 4000 / 64) - 64; // read again: twice the change, or a 32nd
        QVERIFY(record.finished->stats.reusedTokens >= least);
        QVERIFY(record.finished->stats.reusedTokens <= 4000 - changed);
        QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
        // In memory it does so too, and both commits are saved now.
        const auto third = kept + someTokens(changed, 5);
        QVERIFY(second->run(second->ask(1, third, 5, 4000)).finished->stats.reusedTokens >= least);
        second->scheduler->flushSavedContexts();
        QCOMPARE(files().size(), 3);
    }

    void aLaterCommitGoesOnWhereRowsLieOtherwiseThanTheWholes_data()
    {
        QTest::addColumn<int>("changed"); // of 4000 tokens, at the end; from 3000 on rows lie in another way
        QTest::addColumn<int>("least");
        QTest::newRow("behind") << 200 << 3500;
        QTest::newRow("before") << 1100 << 1800;
        QTest::newRow("far before") << 2100 << 960;
    }

    void aLaterCommitGoesOnWhereRowsLieOtherwiseThanTheWholes()
    {
        QFETCH(int, changed);
        QFETCH(int, least);
        const auto start = [this] {
            return std::make_unique<Bench>([&](FakeDevice& device, SchedulerOptions& options) {
                options.savedContexts = m_dir.filePath("contexts").toStdString();
                options.savedContextsQuota = 1 << 30;
                options.checkpointInterval = 512;
                device.otherRowsFrom = 3000;
            });
        };
        const auto kept = someTokens(4000 - changed, 1);
        {
            auto first = start();
            first->run(first->ask(0, kept + someTokens(changed, 2), 0, 4000));
        }
        const auto file = SavedContext::open(m_dir.filePath("contexts/" + files().first()).toStdString());
        QVERIFY(file && file->verify());
        const auto prompt = kept + someTokens(changed, 3) + someTokens(30, 4);
        auto second = start();
        const auto record = second->run(second->ask(0, prompt, 20, 4000));
        QVERIFY2(record.finished->stats.reusedTokens >= least,
                 qPrintable(QString::number(record.finished->stats.reusedTokens)));
        QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
    }

    void contextsThatWaitToBeSavedGiveWayToRequests()
    {
        // An image takes nearly all there is, and goes on taking it until it is written.
        Bench bench([&](FakeDevice& device, SchedulerOptions& options) {
            options.savedContexts = m_dir.filePath("contexts").toStdString();
            options.savedContextsQuota = 1 << 30;
            options.memoryBudgetBytes = 200'000;
            options.checkpointInterval = 4096; // one image a context
            device.imageBytes = 150'000;
        });
        for (int context = 0; context < 5; ++context) {
            const auto prompt = someTokens(4000, context) + someTokens(30, 9);
            const RequestId id = bench.ask(0, prompt, 20, 4000);
            QTRY_VERIFY_WITH_TIMEOUT((bench.scheduler->runRound(), bench.recorder.record(id).hasEnded()), 20'000);
            const auto record = bench.recorder.record(id);
            QVERIFY2(record.finished, record.failure ? record.failure->message.c_str() : "");
            QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
        }
        bench.scheduler->flushSavedContexts();
        QVERIFY(!files().isEmpty());
        QVERIFY(bench.backend->stats().memoryUsedBytes <= 200'000);
    }

    void leavingAReadingCostsNoSavedContext()
    {
        const auto whole = someTokens(12'000, 1), left = someTokens(12'000, 2);
        {
            auto first = start();
            first->run(first->ask(0, whole, 0, 12'000));
        }
        QCOMPARE(files().size(), 1);
        const QString kept = files().first();
        const qint64 bytes = QFileInfo(m_dir.filePath("contexts/" + kept)).size();
        {
            auto second = start(bytes * 5 / 4);
            second->ask(0, left, 0, 12'000);
            while (second->device->tokensRead < 7'000)
                second->scheduler->runRound();
            QVERIFY(second->device->tokensRead < roundDownToStride(12'000));
        }
        QCOMPARE(files(), QStringList(kept));
    }

    void aFolderThatCannotBeWrittenCostsNothingElse()
    {
        QFile blocker(m_dir.filePath("contexts")); // a file where the folder should be
        QVERIFY(blocker.open(QIODevice::WriteOnly));
        blocker.close();
        auto bench = start();
        const auto prompt = someTokens(960, 1);
        QCOMPARE(bench->run(bench->ask(0, prompt, 5, 960)).tokens, fakeAnswer(prompt, 5));
        bench->scheduler->flushSavedContexts();
        bench.reset();
        blocker.remove();
    }
};

QTEST_GUILESS_MAIN(TestSavedContexts)
#include "tst_saved_contexts.moc"
