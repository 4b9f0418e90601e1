#include "agents/store/database.h"
#include "tests/agents/workbench_bench.h"
#include "tests/engine/fake_tokenizer.h"

#include <algorithm>
#include <span>

using namespace octavo;
using namespace octavo::agents;
using namespace octavo::agents::tests;
using octavo::test::Script;

/// The whole through restarts, locked files, lost devices and its end at any moment.
class TestWorkbench : public QObject
{
    Q_OBJECT

private slots:
    void aStoreThatIsLockedAtTheStartIsTakenUpLater() // B-49
    {
        Bench bench;
        bench.openWithContext();
        check(bench.agent().ask("Before?"));
        WAIT_IDLE(bench.agent());
        bench.agent(1).setDraft("kept draft");
        bench.workbench.reset();
        {
            auto other = Database::open(bench.data.filePath(QStringLiteral("octavo.db")));
            QVERIFY(other);
            check(other->execute("BEGIN EXCLUSIVE"));
            bench.open(); // works, on what stands in
            QVERIFY(bench.workbench->conversations().isEmpty());
            QSignalSpy problems(bench.workbench.get(), &Workbench::saveProblem);
            bench.agent(2).setContext(bench.addContext());
            check(bench.agent(2).ask("Meanwhile?"));
            WAIT_IDLE(bench.agent(2));
            check(other->execute("COMMIT"));
            QTRY_COMPARE_WITH_TIMEOUT(bench.workbench->conversations().size(), qsizetype(2), 20000);
            QTRY_VERIFY(!problems.isEmpty() && problems.last()[0].toString().isEmpty());
        }
        QCOMPARE(bench.agent(1).draft(), QStringLiteral("kept draft"));
        QTRY_COMPARE(bench.agent(0).messages().size(), qsizetype(2)); // as it was left
        QCOMPARE(bench.agent(0).messages()[0].text, QStringLiteral("Before?"));
        QCOMPARE(bench.agent(2).messages()[0].text, QStringLiteral("Meanwhile?"));
        check(bench.agent(2).ask("And now?"));
        WAIT_IDLE(bench.agent(2));
        bench.open(); // all of it is kept
        QCOMPARE(bench.workbench->conversations().size(), qsizetype(2));
        QCOMPARE(bench.agent(0).messages().size(), qsizetype(2));
        QCOMPARE(bench.agent(2).messages().size(), qsizetype(4));
        QCOMPARE(bench.agent(2).messages()[3].state, MessageState::Complete);
    }

    void eightPanesWriteOnWhileAnotherProgramHoldsTheFile() // B-49
    {
        Bench bench([](const engine::GenerationRequest& request) {
            Script script = saying({"one ", "two ", "three"});
            script.waits = request.maxNewTokens > 0;
            return script;
        });
        bench.openWithContext(numAgents);
        QStringList problems;
        connect(bench.workbench.get(), &Workbench::saveProblem, this, [&](const QString& p) { problems += p; });
        for (int i = 0; i < numAgents; ++i)
            check(bench.agent(i).ask(QStringLiteral("why?")));
        for (int i = 0; i < numAgents; ++i)
            QTRY_COMPARE(bench.agent(i).messages().last().text, QStringLiteral("one "));
        auto other = Database::open(bench.data.filePath(QStringLiteral("octavo.db")));
        QVERIFY(other);
        check(other->execute("BEGIN EXCLUSIVE"));
        bench.engine->resume();
        for (int i = 0; i < numAgents; ++i)
            QTRY_COMPARE(bench.agent(i).status().outcome, Outcome::Done);
        QTRY_VERIFY_WITH_TIMEOUT(!problems.isEmpty(), 10'000);
        QVERIFY2(!problems[0].contains(QStringLiteral("SQL"), Qt::CaseInsensitive), qPrintable(problems[0]));
        check(other->execute("COMMIT"));
        QTRY_COMPARE_WITH_TIMEOUT(problems.last(), QString(), 10'000);
        bench.open();
        for (int i = 0; i < numAgents; ++i) {
            QCOMPARE(bench.agent(i).messages().last().text, QStringLiteral("one two three"));
            QCOMPARE(bench.agent(i).messages().last().state, MessageState::Complete);
        }
    }

    void aQuestionIsNotReplacedByAConversationThatOpensLate()
    {
        Bench bench;
        bench.openWithContext();
        check(bench.agent().ask("first"));
        WAIT_IDLE(bench.agent());
        const ConversationId first = bench.agent().conversation();
        bench.agent().newConversation();
        bench.agent().openConversation(first); // arrives from the store's thread, after what follows
        check(bench.agent().ask("second"));
        WAIT_IDLE(bench.agent());
        QTest::qWait(50);
        QVERIFY(bench.agent().conversation() != first);
        QCOMPARE(bench.agent().messages()[0].text, QStringLiteral("second"));
    }

    void aLostDeviceIsLoadedAgain() // B-35
    {
        Bench bench;
        bench.openWithContext();
        Workbench& workbench = *bench.workbench;
        Agent& agent = bench.agent();
        check(agent.ask("one"));
        WAIT_IDLE(agent);
        QSignalSpy changed(&workbench, &Workbench::deviceChanged);
        bench.engine->lose("fake stopped working: it fell off the bus");
        QTRY_COMPARE(workbench.deviceProblem(), QStringLiteral("fake stopped working: it fell off the bus"));
        check(agent.ask("two"));
        WAIT_IDLE(agent);
        QCOMPARE(agent.messages().last().state, MessageState::Failed);
        QCOMPARE(agent.messages().size(), 4); // nothing is lost
        const ContextId id = agent.context().id;

        bench.engine->refuseReload({ErrorCode::DeviceFailure, "it does not come back: start Octavo again"});
        workbench.reload();
        QVERIFY(workbench.isReloading());
        QTRY_VERIFY(!workbench.isReloading());
        QTest::qWait(500); // the engine still tells of the first failure meanwhile
        QCOMPARE(workbench.deviceProblem(), QStringLiteral("it does not come back: start Octavo again"));

        workbench.reload();
        QTRY_VERIFY(!workbench.isReloading());
        QCOMPARE(workbench.deviceProblem(), QString());
        QVERIFY(changed.size() >= 5);
        const std::size_t before = bench.engine->requests().size();
        QTRY_COMPARE(bench.context(id).state, ContextState::Read);
        QVERIFY(bench.engine->requests().size() >= before); // read once more
        QCOMPARE(bench.engine->requests().back().maxNewTokens, 0);
        check(agent.regenerate());
        WAIT_IDLE(agent);
        QCOMPARE(agent.messages().last().state, MessageState::Complete);
        workbench.reload(); // quitting does not wait for more than the engine needs
    }

    void aConversationOpensWithWhatIsNotWrittenYet() // B-49: the file is locked, answers come all the same
    {
        Bench bench([](const auto& r) {
            Script script = saying({"begun ", "and ended"});
            script.waits = r.maxNewTokens > 0;
            return script;
        });
        bench.openWithContext();
        Agent& agent = bench.agent();
        check(agent.ask("one"));
        QTRY_COMPARE(agent.messages()[1].text, QStringLiteral("begun "));
        const ConversationId asked = agent.conversation();
        auto other = Database::open(bench.data.filePath(QStringLiteral("octavo.db")));
        QVERIFY(other);
        check(other->execute("BEGIN IMMEDIATE"));
        bench.engine->resume();
        WAIT_IDLE(agent);
        const Message answer = agent.messages()[1];
        QCOMPARE(answer.text, QStringLiteral("begun and ended"));
        agent.newConversation();
        agent.openConversation(asked);
        QTRY_COMPARE_WITH_TIMEOUT(agent.conversation(), asked, 10'000);
        QCOMPARE(agent.messages().size(), 2);
        QCOMPARE(agent.messages()[1].text, answer.text);
        QCOMPARE(agent.messages()[1].state, MessageState::Complete);
        check(other->execute("COMMIT"));
        check(agent.ask("two"));
        WAIT_IDLE(agent);
        const auto questions = bench.questions(); // the second goes on from all of the first
        QVERIFY(
            std::ranges::equal(questions[0].prompt, std::span(questions[1].prompt).first(questions[0].prompt.size())));
        const auto written = bench.engine->tokenizer().encode("and ended", engine::SpecialTokens::Plain);
        QVERIFY(!std::ranges::search(questions[1].prompt, written).empty());
        bench.open();
        QCOMPARE(bench.agent().messages().size(), 4);
        QCOMPARE(bench.agent().messages()[1].text, answer.text);
    }

    void everythingIsThereAfterARestart()
    {
        Bench bench([](const auto&) { return saying({"an answer about `README.md`\n"}); });
        bench.openWithContext();
        bench.agent().setName("Ada");
        check(bench.agent().ask("remember me"));
        WAIT_IDLE(bench.agent());
        bench.agent().setDraft("half a thou");
        bench.workbench->setSetting("theme", "dark");
        const auto before = bench.questions()[0].prompt;
        bench.open();
        Agent& agent = bench.agent();
        QCOMPARE(agent.name(), QStringLiteral("Ada"));
        QCOMPARE(agent.draft(), QStringLiteral("half a thou"));
        QCOMPARE(bench.workbench->setting("theme"), QStringLiteral("dark"));
        QCOMPARE(agent.messages().size(), 2);
        QCOMPARE(agent.messages()[1].text, QStringLiteral("an answer about `README.md`\n"));
        QCOMPARE(agent.messages()[1].citations.size(), 1);
        QCOMPARE(agent.context().name, QStringLiteral("repo"));
        check(agent.ask("and now?"));
        WAIT_IDLE(agent);
        const auto after = bench.questions()[0].prompt; // goes on from the very same ids
        QVERIFY(std::equal(before.begin(), before.end(), after.begin()));
        QCOMPARE(bench.workbench->conversations().size(), 1);
        QCOMPARE(bench.workbench->conversations()[0].messages, 4);
    }

    void anAnswerCutOffByTheEndIsInterrupted()
    {
        Bench bench([](const auto& r) {
            Script script = saying({"begun ", "never"});
            script.waits = r.maxNewTokens > 0;
            return script;
        });
        bench.openWithContext();
        check(bench.agent().ask("why?"));
        QTRY_COMPARE(bench.agent().messages()[1].text, QStringLiteral("begun "));
        bench.open(); // destroys the workbench while it is busy
        QCOMPARE(bench.agent().messages()[1].state, MessageState::Interrupted);
        QCOMPARE(bench.agent().messages()[1].text, QStringLiteral("begun "));
    }

    void destroyedAtAnyMoment()
    {
        for (int ms : {0, 1, 3, 8, 20}) {
            Bench bench([](const auto&) {
                Script script = saying(std::vector<std::string>(50, "word "));
                script.microsBetweenPieces = 500;
                return script;
            });
            bench.open();
            const ContextId id = bench.addContext();
            for (int i = 0; i < numAgents; ++i)
                bench.agent(i).setContext(id);
            bench.workbench->askAll("go");
            IngestOptions options;
            options.repository = bench.fixture.root();
            bench.workbench->preview(options);
            bench.workbench->search("go");
            QTest::qWait(ms);
            bench.workbench.reset();
        }
    }

    void conversationsAreSearchedRenamedDeletedAndBroughtBack()
    {
        Bench bench([](const auto&) { return saying({"flamingo"}); });
        bench.openWithContext();
        Agent& agent = bench.agent();
        check(agent.ask("first question"));
        WAIT_IDLE(agent);
        agent.newConversation();
        check(agent.ask("second question"));
        WAIT_IDLE(agent);
        Workbench& workbench = *bench.workbench;
        QCOMPARE(workbench.conversations().size(), 2);
        const ConversationId first = workbench.conversations()[1].id;
        auto found = workbench.search("flam first");
        QTRY_VERIFY(found.isFinished());
        QCOMPARE(found.result().size(), 0);
        found = workbench.search("flam");
        QTRY_VERIFY(found.isFinished());
        QCOMPARE(found.result().size(), 2);
        workbench.renameConversation(first, "Renamed");
        QCOMPARE(workbench.conversations()[1].title, QStringLiteral("Renamed"));
        workbench.deleteConversation(first);
        QCOMPARE(workbench.conversations().size(), 1);
        workbench.undoDelete(first);
        QCOMPARE(workbench.conversations()[1].title, QStringLiteral("Renamed"));
        agent.openConversation(first);
        QTRY_COMPARE(agent.conversation(), first);
        QCOMPARE(agent.messages()[0].text, QStringLiteral("first question"));
        workbench.deleteConversation(first);
        QCOMPARE(agent.messages().size(), 0);
        bench.open();
        QCOMPARE(bench.workbench->conversations().size(), 1);
        QCOMPARE(bench.agent().messages().size(), 0);
    }

    void aDeletedConversationComesBackWithoutItsRemovedContext()
    {
        Bench bench;
        bench.openWithContext();
        Agent& agent = bench.agent();
        check(agent.ask("one"));
        WAIT_IDLE(agent);
        const ConversationId asked = agent.conversation();
        QSignalSpy problems(bench.workbench.get(), &Workbench::saveProblem);
        bench.workbench->deleteConversation(asked);
        bench.workbench->removeContext(agent.context().id);
        bench.workbench->undoDelete(asked);
        agent.openConversation(asked);
        QTRY_COMPARE(agent.conversation(), asked);
        bench.open();
        QCOMPARE(problems.size(), 0);
        QCOMPARE(bench.agent().conversation(), asked); // the pane could be saved
        QCOMPARE(bench.agent().messages().size(), 2);
    }
};

QTEST_GUILESS_MAIN(TestWorkbench)
#include "tst_workbench.moc"
