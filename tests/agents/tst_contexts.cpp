#include "tests/agents/workbench_bench.h"

using namespace octavo;
using namespace octavo::agents;
using namespace octavo::agents::tests;
using octavo::test::Script;

/// Contexts: counted, read once for all, waited for, taken up again, removed.
class TestContexts : public QObject
{
    Q_OBJECT

private slots:
    void aContextIsAsUrgentAsTheQuestionThatWaitsForIt()
    {
        Bench bench([](const auto& request) {
            Script script;
            script.waits = request.maxNewTokens == 0;
            return script;
        });
        bench.open();
        const ContextId id = bench.addContext();
        QTRY_COMPARE(bench.context(id).state, ContextState::Reading);
        const engine::GenerationRequest reading = bench.engine->requests()[0];
        const auto priority = [&] {
            const auto changed = bench.engine->priorities();
            const auto found = changed.find(reading.id);
            return found != changed.end() ? found->second : reading.priority;
        };
        const int background = priority();
        bench.agent(0).setContext(id);
        bench.agent(1).setContext(id);
        bench.agent(1).setAttended(true);
        check(bench.agent(0).ask("Where is join?"));
        QTRY_VERIFY(priority() < background);
        const int question = priority();
        check(bench.agent(1).ask("Where is join?"));
        QTRY_VERIFY(priority() < question);
        bench.agent(1).stop();
        QTRY_COMPARE(priority(), question);
        bench.engine->resume();
        WAIT_IDLE(bench.agent(0));
        QCOMPARE(bench.agent(0).messages().last().state, MessageState::Complete);
    }

    void previewCountsWhatIsSent() // B-17
    {
        Bench bench;
        bench.open();
        const IngestResult result = bench.preview();
        QCOMPARE(result.packed.size(), 2);
        const ContextId id = bench.addContext();
        QTRY_COMPARE(bench.context(id).state, ContextState::Read);
        QCOMPARE(qint64(bench.engine->requests()[0].prompt.size()), result.tokens);
        QCOMPARE(bench.engine->requests()[0].contextTokens, result.tokens);
    }

    void onlyContextsThatPanesUseAreMadeReadyAtTheStart()
    {
        Bench bench;
        bench.openWithContext();
        bench.fixture.write("src/more.cpp", "int more;\n");
        bench.fixture.commit();
        const ContextId unused = bench.addContext();
        QTRY_COMPARE(bench.context(unused).state, ContextState::Read);
        const ContextId used = bench.agent().context().id;

        bench.open();
        QTRY_COMPARE(bench.context(used).state, ContextState::Read);
        QTest::qWait(50);
        QCOMPARE(bench.engine->requests().size(), std::size_t(1));
        QCOMPARE(bench.context(unused).state, ContextState::Ready);
        // A question makes and reads it.
        bench.agent(1).setContext(unused);
        check(bench.agent(1).ask("And this one?"));
        WAIT_IDLE(bench.agent(1));
        QCOMPARE(bench.agent(1).status().outcome, Outcome::Done);
        QCOMPARE(bench.context(unused).state, ContextState::Read);
    }

    void aReadingThatTheEndInterruptedGoesOnAtTheNextStart()
    {
        const auto reads = [](const engine::GenerationRequest& request) {
            Script script;
            script.waits = request.maxNewTokens == 0;
            return script;
        };
        Bench bench(reads);
        bench.open();
        const ContextId interrupted = bench.addContext(), stopped = bench.addContext();
        QTRY_COMPARE(bench.context(interrupted).state, ContextState::Reading);
        QTRY_COMPARE(bench.context(stopped).state, ContextState::Reading);
        bench.workbench->cancelReading(stopped); // by the user: that stays
        bench.open();
        QTRY_COMPARE(bench.context(interrupted).state, ContextState::Reading);
        bench.engine->resume();
        QTRY_COMPARE(bench.context(interrupted).state, ContextState::Read);
        QCOMPARE(bench.context(stopped).state, ContextState::Ready);
        bench.open();
        QTest::qWait(50);
        QCOMPARE(bench.context(interrupted).state, ContextState::Ready); // no pane uses it, and it was read
    }

    void contextsOfEarlierSessionsAreReadyWhenTheWorkbenchIs()
    {
        Bench bench;
        bench.openWithContext(0);
        bench.addContext();
        bench.workbench.reset(); // of the first engine, before it goes
        WorkbenchOptions options;
        options.databasePath = bench.database;
        auto fake = std::make_unique<octavo::test::FakeEngine>(bench.script, bench.contextLimit);
        bench.engine = fake.get();
        bench.workbench = std::make_unique<Workbench>(options, std::move(fake));
        QList<ContextInfo> seen; // as a window takes them, which is made then
        QObject::connect(bench.workbench.get(), &Workbench::ready, bench.workbench.get(),
                         [&] { seen = bench.workbench->contexts(); });
        QSignalSpy ready(bench.workbench.get(), &Workbench::ready);
        bench.workbench->start();
        QVERIFY(ready.wait());
        QVERIFY(!seen.isEmpty());
        for (const ContextInfo& info : std::as_const(seen))
            QVERIFY(info.state != ContextState::Preparing);
    }

    void whatWasReadBeforeIsToldWhileReadingGoesOn()
    {
        Bench bench([](const auto&) {
            Script script;
            script.waits = true;
            script.reused = 40;
            return script;
        });
        bench.open();
        const ContextId id = bench.addContext();
        QTRY_COMPARE(bench.context(id).readReused, qint64(40));
        bench.workbench->cancelReading(id);
        QCOMPARE(bench.context(id).state, ContextState::Ready);
        QVERIFY(bench.context(id).readDone > 0); // where it stopped
    }

    void aContextIsReadOnceForAllPanes()
    {
        Bench bench;
        bench.openWithContext(numAgents);
        QCOMPARE(bench.workbench->askAll("What is this?").asked, numAgents);
        for (int i = 0; i < numAgents; ++i)
            WAIT_IDLE(bench.agent(i));
        QCOMPARE(bench.engine->requests().size(), std::size_t(1 + numAgents));
        QCOMPARE(bench.context(bench.agent().context().id).panes, numAgents);
    }

    void questionsWaitForTheirContext()
    {
        Bench bench([](const auto& r) {
            Script script = saying({"x"});
            script.waits = r.maxNewTokens == 0;
            return script;
        });
        bench.open();
        const ContextId id = bench.addContext();
        bench.agent(0).setContext(id);
        bench.agent(1).setContext(id);
        QTRY_COMPARE(bench.context(id).state, ContextState::Reading);
        AskedAll now = bench.workbench->askAll("now?");
        QCOMPARE(now.asked, 2);
        QVERIFY(now.refused.isEmpty()); // those without a context are not asked
        now = bench.workbench->askAll("again?");
        QCOMPARE(now.asked, 0);
        QCOMPARE(now.refused.size(), 2);
        QCOMPARE(now.refused[1].first, 1);
        QCOMPARE(int(now.refused[1].second.code), int(ErrorCode::Busy));
        QTRY_COMPARE(bench.agent(0).status().activity, Activity::Reading);
        bench.agent(1).stop(); // stopped while it waits: at once, and reading goes on
        WAIT_IDLE(bench.agent(1));
        QCOMPARE(bench.agent(1).messages()[1].state, MessageState::Stopped);
        QCOMPARE(bench.questions().size(), std::size_t(0));
        bench.engine->resume();
        WAIT_IDLE(bench.agent(0));
        QCOMPARE(bench.agent(0).messages()[1].state, MessageState::Complete);
        QCOMPARE(bench.questions().size(), std::size_t(1));
    }

    void sourceComesFromTheCommit()
    {
        Bench bench;
        bench.openWithContext();
        bench.fixture.write("src/join.cpp", "changed since\n");
        const ContextId id = bench.agent().context().id;
        auto source = bench.workbench->source(id, "src/join.cpp");
        QTRY_VERIFY(source.isFinished());
        QVERIFY(source.result());
        QVERIFY(source.result()->text.startsWith("int join"));
        auto missing = bench.workbench->source(id, "nope");
        QTRY_VERIFY(missing.isFinished());
        QCOMPARE(missing.result().error().code, ErrorCode::NotFound);
        QCOMPARE(bench.workbench->packedFiles(id).size(), 2);
        QCOMPARE(bench.workbench->skippedFiles(id).size(), 0);
    }

    void removedContextsLeaveTheirConversations()
    {
        Bench bench;
        bench.openWithContext();
        check(bench.agent().ask("one"));
        WAIT_IDLE(bench.agent());
        QSignalSpy removed(bench.workbench.get(), &Workbench::contextRemoved);
        bench.workbench->removeContext(bench.agent().context().id);
        QCOMPARE(removed.size(), 1);
        QCOMPARE(bench.agent().context().id, ContextId{});
        QCOMPARE(bench.workbench->conversations()[0].contextName, QStringLiteral("repo"));
        bench.open();
        QCOMPARE(bench.workbench->contexts().size(), 0);
        QCOMPARE(bench.workbench->conversations().size(), 1);
    }

    void aRepositoryThatIsGoneIsAMessage() // B-15
    {
        Bench bench;
        bench.openWithContext();
        QVERIFY(QDir(bench.fixture.root()).removeRecursively());
        bench.open();
        QTRY_COMPARE(bench.workbench->contexts()[0].state, ContextState::Failed);
        QVERIFY(bench.workbench->contexts()[0].problem.contains("is no longer at"));
        QCOMPARE(bench.agent().ask("hello").error().code, ErrorCode::NotFound);
    }

    void cancelledPreviewsEndAsCancelled()
    {
        Bench bench;
        for (int i = 0; i < 200; ++i)
            bench.fixture.write("d/" + QByteArray::number(i) + ".c", QByteArray("int a;\n").repeated(i));
        bench.fixture.commit();
        bench.open();
        IngestOptions options;
        options.repository = bench.fixture.root();
        std::unique_ptr<IngestJob> job(bench.workbench->preview(options));
        job->cancel();
        ErrorCode code{};
        bool ended = false;
        connect(job.get(), &IngestJob::failed, this, [&](const Error& error) {
            code = error.code;
            ended = true;
        });
        QTRY_VERIFY(ended);
        QCOMPARE(code, ErrorCode::Cancelled);
        delete bench.workbench->preview(options); // deleting cancels, and nothing is heard
    }
};

QTEST_GUILESS_MAIN(TestContexts)
#include "tst_contexts.moc"
