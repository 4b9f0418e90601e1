#include "agents/store/database.h"
#include "agents/workbench.h"
#include "tests/agents/git_fixture.h"
#include "tests/engine/fake_engine.h"
#include "tests/engine/fake_tokenizer.h"

#include <QSignalSpy>

#include <algorithm>
#include <span>

using namespace octavo;
using namespace octavo::agents;
using octavo::agents::tests::GitFixture;
using octavo::test::FakeEngine;
using octavo::test::Script;

namespace {

/// A workbench on a fake engine, started, with a context of two files.
struct Bench {
    GitFixture fixture;
    QTemporaryDir data;
    FakeEngine* engine = nullptr;
    std::unique_ptr<Workbench> workbench;
    std::function<Script(const engine::GenerationRequest&)> script;
    std::int64_t contextLimit = 250'000;

    explicit Bench(std::function<Script(const engine::GenerationRequest&)> scriptFor = {})
        : script(std::move(scriptFor))
    {
        fixture.write("src/join.cpp", "int join(int a, int b)\n{\n    return a + b;\n}\n");
        fixture.write("README.md", "# Sample\n");
        fixture.commit();
    }

    void open()
    {
        workbench.reset();
        WorkbenchOptions options;
        options.databasePath = data.filePath(QStringLiteral("octavo.db"));
        auto fake = std::make_unique<FakeEngine>(script, contextLimit);
        engine = fake.get();
        workbench = std::make_unique<Workbench>(options, std::move(fake));
        QSignalSpy ready(workbench.get(), &Workbench::ready);
        workbench->start();
        QVERIFY(ready.wait());
    }

    IngestResult preview()
    {
        IngestOptions options;
        options.repository = fixture.root();
        std::unique_ptr<IngestJob> job(workbench->preview(options));
        IngestResult out;
        bool done = false;
        QObject::connect(job.get(), &IngestJob::finished, job.get(), [&](const IngestResult& result) {
            out = result;
            done = true;
        });
        if (!QTest::qWaitFor([&] { return done; }))
            qWarning("preview did not finish");
        return out;
    }

    ContextId addContext()
    {
        IngestOptions options;
        options.repository = fixture.root();
        return workbench->addContext(options, preview());
    }

    ContextInfo context(ContextId id) const
    {
        for (const ContextInfo& info : workbench->contexts()) {
            if (info.id == id)
                return info;
        }
        return {};
    }

    void openWithContext(int panes = 1)
    {
        open();
        const ContextId id = addContext();
        QTRY_COMPARE(context(id).state, ContextState::Read);
        for (int i = 0; i < panes; ++i)
            workbench->agent(i)->setContext(id);
    }

    Agent& agent(int index = 0) const { return *workbench->agent(index); }

    std::vector<engine::GenerationRequest> questions() const
    {
        std::vector<engine::GenerationRequest> out;
        for (const auto& request : engine->requests()) {
            if (request.maxNewTokens > 0)
                out.push_back(request);
        }
        return out;
    }
};

Script saying(std::vector<std::string> pieces)
{
    Script out;
    out.pieces = std::move(pieces);
    return out;
}

void check(const Result<void>& result)
{
    QVERIFY2(result, result ? "" : result.error().message.c_str());
}

#define WAIT_IDLE(agent) QTRY_COMPARE((agent).status().activity, Activity::Idle)

} // namespace

class TestWorkbench : public QObject
{
    Q_OBJECT

private slots:
    void aQuestionIsAnsweredWithCitations()
    {
        Bench bench([](const auto&) {
            return saying({"`join` is in `src/join.cpp`:\n\n```cpp\nint join", "(int a, int b)\n{\n```\n", "Done."});
        });
        bench.openWithContext();
        Agent& agent = bench.agent();
        QString streamed;
        connect(&agent, &Agent::textAppended, this, [&](MessageId, const QString& text) { streamed += text; });
        QSignalSpy added(&agent, &Agent::messageAdded);
        check(agent.ask("Where is join?"));
        QCOMPARE(added.size(), 2); // question and pending answer show at once
        QCOMPARE(agent.messages()[1].state, MessageState::Pending);
        WAIT_IDLE(agent);
        const Message answer = agent.messages()[1];
        QCOMPARE(answer.state, MessageState::Complete);
        QCOMPARE(answer.text, streamed);
        QVERIFY(answer.text.endsWith("Done."));
        QCOMPARE(answer.citations.size(), 2);
        QCOMPARE(answer.citations[1].state, CitationState::Verified);
        QCOMPARE(answer.citations[1].line, 1);
        QCOMPARE(answer.citations[1].lastLine, 2);
        QCOMPARE(agent.status().outcome, Outcome::Done);
        QCOMPARE(bench.workbench->conversations().size(), 1);
        QCOMPARE(bench.workbench->conversations()[0].title, QStringLiteral("Where is join?"));
        QCOMPARE(bench.workbench->conversations()[0].pane, 0);
    }

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

    void theQuestionOfThePaneLookedAtGoesFirst()
    {
        Bench bench;
        bench.openWithContext(2);
        bench.agent(1).setAttended(true);
        for (const int pane : {0, 1}) {
            check(bench.agent(pane).ask("Where is join?"));
            WAIT_IDLE(bench.agent(pane));
        }
        bench.agent(1).setAttended(false);
        check(bench.agent(1).ask("And now?"));
        WAIT_IDLE(bench.agent(1));
        const auto questions = bench.questions();
        QCOMPARE(questions.size(), std::size_t(3));
        QVERIFY(questions[1].priority < questions[0].priority);
        QCOMPARE(questions[2].priority, questions[0].priority);
    }

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

    void draftsComeFromWhereTheSettingsSay()
    {
        Bench bench;
        bench.openWithContext();
        struct { bool lookup, mtp, drafts; engine::DraftSources sources; } const cases[] = {
            {true, true, true, engine::DraftSources::All},
            {true, false, true, engine::DraftSources::Lookup},
            {false, true, true, engine::DraftSources::Mtp},
            {false, false, false, engine::DraftSources::All},
        };
        for (const auto& choice : cases) {
            bench.workbench->setDrafts(choice.lookup, choice.mtp);
            check(bench.agent().ask(QStringLiteral("why?")));
            QTRY_COMPARE(bench.agent().status().activity, Activity::Idle);
            QCOMPARE(bench.questions().back().drafts, choice.drafts);
            QCOMPARE(bench.questions().back().draftSources, choice.sources);
        }
    }

    void everyPromptIsAPrefixOfTheNext()
    {
        Bench bench([](const auto& r) { return saying({r.maxNewTokens > 0 ? "Some answer." : ""}); });
        bench.openWithContext();
        for (const char* question : {"first", "second", "third"}) {
            check(bench.agent().ask(QString::fromLatin1(question)));
            WAIT_IDLE(bench.agent());
        }
        const auto asked = bench.questions();
        QCOMPARE(asked.size(), std::size_t(3));
        for (std::size_t i = 1; i < asked.size(); ++i) {
            const auto& before = asked[i - 1].prompt;
            QVERIFY(asked[i].prompt.size() > before.size());
            QVERIFY(std::equal(before.begin(), before.end(), asked[i].prompt.begin()));
            QCOMPARE(asked[i].contextTokens, asked[0].contextTokens);
        }
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

    void stopKeepsTheTextAndDropsWhatComesLater()
    {
        Bench bench([](const auto& r) {
            Script script = saying({"kept ", "dropped"});
            script.waits = r.maxNewTokens > 0;
            return script;
        });
        bench.openWithContext();
        Agent& agent = bench.agent();
        agent.stop(); // before anything: nothing
        QCOMPARE(agent.status().activity, Activity::Idle);
        check(agent.ask("why?"));
        QTRY_COMPARE(agent.messages()[1].text, QStringLiteral("kept "));
        agent.stop();
        QCOMPARE(agent.status().activity, Activity::Stopping);
        bench.engine->resume();
        WAIT_IDLE(agent);
        QCOMPARE(agent.messages()[1].text, QStringLiteral("kept "));
        QCOMPARE(agent.messages()[1].state, MessageState::Stopped);
        QCOMPARE(agent.status().outcome, Outcome::Stopped);
        agent.stop(); // after: nothing
        QCOMPARE(agent.messages()[1].state, MessageState::Stopped);
    }

    void requestsThatCrossDoNotMix()
    {
        Bench bench([](const auto& r) {
            Script script = r.prompt.size() % 2 == 0 ? saying({"even ", "even"}) : saying({"odd ", "odd"});
            script.microsBetweenPieces = 2000;
            return script;
        });
        bench.openWithContext();
        Agent& agent = bench.agent();
        for (int i = 0; i < 5; ++i) {
            check(agent.ask(QString(i % 2 + 1, u'q')));
            QTest::qWait(i * 2);
            agent.stop();
            check(agent.ask(QString(i % 2 + 2, u'q'))); // at once, the older one still ending
            WAIT_IDLE(agent);
            const QString last = agent.messages().last().text;
            QCOMPARE(agent.messages().last().state, MessageState::Complete);
            QVERIFY2(last == QLatin1String("even even") || last == QLatin1String("odd odd"), qPrintable(last));
        }
    }

    void oneQuestionAtATime()
    {
        Bench bench([](const auto& r) {
            Script script = saying({"a", "b"});
            script.waits = r.maxNewTokens > 0;
            return script;
        });
        bench.openWithContext();
        check(bench.agent().ask("one"));
        QCOMPARE(bench.agent().ask("two").error().code, ErrorCode::Busy);
        QCOMPARE(bench.agent().regenerate().error().code, ErrorCode::Busy);
        QCOMPARE(bench.agent().messages().size(), 2);
        bench.engine->resume();
        WAIT_IDLE(bench.agent());
    }

    void aFullContextIsRefusedBeforeAnythingIsStored() // B-25
    {
        Bench bench;
        bench.contextLimit = 700;
        bench.openWithContext();
        const auto refused = bench.agent().ask(QString(600, u'q'));
        QVERIFY(!refused);
        QCOMPARE(refused.error().code, ErrorCode::ContextFull);
        QVERIFY2(refused.error().message.find("of 700 tokens") != std::string::npos, refused.error().message.c_str());
        QCOMPARE(bench.agent().messages().size(), 0);
        QCOMPARE(bench.workbench->conversations().size(), 0);
        check(bench.agent().ask("short"));
        WAIT_IDLE(bench.agent());
    }

    void aPasteLargerThanTheLimitIsRefusedByItsSize() // B-25
    {
        Bench bench;
        bench.openWithContext(numAgents);
        const QString paste(5 << 20, u'x'); // no token has more than a few bytes
        const Result<void> refused = bench.agent().ask(paste);
        QVERIFY(!refused);
        QCOMPARE(refused.error().code, ErrorCode::ContextFull);
        QCOMPARE(bench.workbench->askAll(paste).asked, 0);
        QCOMPARE(bench.agent().status().activity, Activity::Idle);
        QCOMPARE(bench.agent().messages().size(), 0);
    }

    void aLongQuestionIsCountedElsewhere() // B-43
    {
        Bench bench;
        bench.openWithContext(numAgents);
        const QString paste = QStringLiteral("why? ").repeated(30'000);
        QCOMPARE(bench.workbench->askAll(paste).asked, numAgents);
        for (int i = 0; i < numAgents; ++i) { // this thread has not counted it
            QCOMPARE(bench.agent(i).status().activity, Activity::Queued);
            QCOMPARE(bench.agent(i).messages().size(), 0);
            QCOMPARE(bench.agent(i).ask("meanwhile").error().code, ErrorCode::Busy);
        }
        bench.agent(2).stop();
        bench.agent(3).newConversation();
        QCOMPARE(bench.agent(2).status().activity, Activity::Idle);
        for (const int i : {0, 1, 4, 5, 6, 7}) {
            QTRY_COMPARE(bench.agent(i).messages().size(), 2);
            WAIT_IDLE(bench.agent(i));
            QCOMPARE(bench.agent(i).messages()[0].text, paste);
            QCOMPARE(bench.agent(i).messages()[1].state, MessageState::Complete);
        }
        for (const int i : {2, 3})
            QCOMPARE(bench.agent(i).messages().size(), 0);
        const auto questions = bench.questions();
        QCOMPARE(questions.size(), std::size_t(6));
        for (const auto& question : questions)
            QCOMPARE(question.prompt, questions[0].prompt);
        check(bench.agent(0).editLast(paste + "!"));
        QCOMPARE(bench.agent(0).messages()[0].text, paste); // until it is counted
        QTRY_COMPARE(bench.agent(0).messages()[0].text, paste + "!");
        WAIT_IDLE(bench.agent(0));
        QCOMPARE(bench.agent(0).messages().size(), 2);
    }

    void aLongQuestionThatDoesNotFitComesBack() // B-25
    {
        Bench bench;
        bench.contextLimit = 60'000;
        bench.openWithContext();
        const QString paste(100'000, u'x');
        QSignalSpy refused(&bench.agent(), &Agent::questionRefused);
        check(bench.agent().ask(paste));
        QVERIFY(refused.wait());
        QCOMPARE(refused[0][0].toString(), paste);
        const auto error = refused[0][1].value<Error>();
        QCOMPARE(error.code, ErrorCode::ContextFull);
        QVERIFY2(error.message.find("of 60000 tokens are used") != std::string::npos, error.message.c_str());
        QCOMPARE(bench.agent().status().activity, Activity::Idle);
        QCOMPARE(bench.agent().messages().size(), 0);
        check(bench.agent().ask("a short one"));
        WAIT_IDLE(bench.agent());
    }

    void aLongQuestionThatIsStoppedOrLeftComesBack()
    {
        Bench bench;
        bench.openWithContext();
        const QString paste(100'000, u'x');
        QSignalSpy refused(&bench.agent(), &Agent::questionRefused);
        check(bench.agent().ask(paste));
        bench.agent().stop();
        QCOMPARE(refused.size(), 1);
        QCOMPARE(refused[0][0].toString(), paste);
        QCOMPARE(refused[0][1].value<Error>().code, ErrorCode::Cancelled);
        QCOMPARE(bench.agent().status().activity, Activity::Idle);
        check(bench.agent().ask(paste));
        bench.agent().newConversation();
        QCOMPARE(refused.size(), 2);
        QCOMPARE(refused[1][0].toString(), paste);
        QTest::qWait(200); // what was counted for nobody is dropped
        QCOMPARE(bench.agent().messages().size(), 0);
        QCOMPARE(refused.size(), 2);
    }

    void withoutAContextThereIsNothingToAsk()
    {
        Bench bench;
        bench.open();
        QCOMPARE(bench.agent().ask("hello").error().code, ErrorCode::NotFound);
        QCOMPARE(bench.workbench->askAll("hello").asked, 0);
    }

    void failuresAreToldAndTheNextQuestionWorks()
    {
        int count = 0;
        Bench bench([&count](const auto& r) {
            Script script = saying({"some text"});
            if (r.maxNewTokens > 0 && count++ == 0)
                script.failure = Error{ErrorCode::DeviceFailure, "the device is gone"};
            return script;
        });
        bench.openWithContext();
        Agent& agent = bench.agent();
        check(agent.ask("one"));
        WAIT_IDLE(agent);
        QCOMPARE(agent.messages()[1].state, MessageState::Failed);
        QCOMPARE(agent.messages()[1].problem, QStringLiteral("the device is gone"));
        QCOMPARE(agent.messages()[1].text, QStringLiteral("some text"));
        QCOMPARE(agent.status().outcome, Outcome::Failed);
        bench.engine->refuseNext(Error{ErrorCode::Busy, "the queue is full"});
        check(agent.ask("two"));
        WAIT_IDLE(agent);
        QCOMPARE(agent.messages()[3].problem, QStringLiteral("the queue is full"));
        check(agent.ask("three"));
        WAIT_IDLE(agent);
        QCOMPARE(agent.messages()[5].state, MessageState::Complete);
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

    void regenerateAndEditReplaceTheLastTurn()
    {
        Bench bench([](const auto& r) { return saying({r.maxNewTokens > 0 ? std::to_string(r.prompt.size()) : ""}); });
        bench.openWithContext();
        Agent& agent = bench.agent();
        QVERIFY(!agent.regenerate());
        check(agent.ask("one"));
        WAIT_IDLE(agent);
        check(agent.ask("two"));
        WAIT_IDLE(agent);
        const QString first = agent.messages()[3].text;
        QSignalSpy reset(&agent, &Agent::conversationReset);
        check(agent.regenerate());
        QCOMPARE(reset.size(), 1);
        WAIT_IDLE(agent);
        QCOMPARE(agent.messages().size(), 4);
        QCOMPARE(agent.messages()[3].text, first); // the same prompt went out
        check(agent.editLast("three!"));
        WAIT_IDLE(agent);
        QCOMPARE(agent.messages().size(), 4);
        QCOMPARE(agent.messages()[2].text, QStringLiteral("three!"));
        bench.open();
        QCOMPARE(bench.agent().messages().size(), 4);
        QCOMPARE(bench.agent().messages()[2].text, QStringLiteral("three!"));
    }

    void anEditThatIsRefusedChangesNothing()
    {
        Bench bench;
        bench.openWithContext();
        Agent& agent = bench.agent();
        check(agent.ask("one"));
        WAIT_IDLE(agent);
        const Result<void> edited = agent.editLast("  ");
        QVERIFY(!edited);
        QCOMPARE(edited.error().code, ErrorCode::InvalidArgument);
        QCOMPARE(agent.messages().size(), 2);
        bench.open();
        QCOMPARE(bench.agent().messages().size(), 2);
        QCOMPARE(bench.agent().messages()[1].text, QStringLiteral("An answer."));
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
        QVERIFY(std::ranges::equal(questions[0].prompt, std::span(questions[1].prompt).first(questions[0].prompt.size())));
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

    void anAnswerThatEndedEarlyGoesOn()
    {
        Bench bench([](const auto& r) {
            Script script = saying({"see `README", ".md`\n"});
            script.waits = r.maxNewTokens > 0 && r.prompt.back() == '\n'; // not the one that goes on
            if (!script.waits)
                script.pieces = {".md` and more"};
            return script;
        });
        bench.openWithContext();
        QVERIFY(!bench.agent().continueAnswer());
        check(bench.agent().ask("why?"));
        QTRY_COMPARE(bench.agent().messages()[1].text, QStringLiteral("see `README"));
        bench.open();
        QCOMPARE(bench.agent().messages()[1].state, MessageState::Interrupted);
        check(bench.agent().continueAnswer());
        QCOMPARE(bench.agent().messages()[1].state, MessageState::Pending);
        WAIT_IDLE(bench.agent());
        QCOMPARE(bench.agent().messages().size(), 2);
        QCOMPARE(bench.agent().messages()[1].text, QStringLiteral("see `README.md` and more"));
        QCOMPARE(bench.agent().messages()[1].state, MessageState::Complete);
        QCOMPARE(bench.agent().messages()[1].citations.size(), 1);
        const auto sent = bench.questions()[0].prompt;
        QVERIFY(QByteArray::fromStdString(bench.engine->tokenizer().decode(sent)).endsWith("see `README"));
        bench.open();
        QCOMPARE(bench.agent().messages()[1].text, QStringLiteral("see `README.md` and more"));
        QVERIFY(!bench.agent().continueAnswer()); // it is complete now
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

    void aRepositoryThatIsGoneIsAMessage() // B-15
    {
        Bench bench;
        bench.openWithContext();
        QVERIFY(QDir(bench.fixture.root()).removeRecursively());
        bench.open();
        QTRY_COMPARE(bench.workbench->contexts()[0].state, ContextState::Failed);
        QVERIFY(bench.workbench->contexts()[0].problem.contains("does not exist"));
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

    void textArrivesAtMostOncePerFrame()
    {
        Bench bench([](const auto& r) {
            Script script = saying(std::vector<std::string>(r.maxNewTokens > 0 ? 400 : 1, "w "));
            script.microsBetweenPieces = 500;
            return script;
        });
        bench.openWithContext();
        QElapsedTimer clock;
        int signalsSeen = 0;
        connect(&bench.agent(), &Agent::textAppended, this, [&] { ++signalsSeen; });
        clock.start();
        check(bench.agent().ask("go"));
        WAIT_IDLE(bench.agent());
        QCOMPARE(bench.agent().messages()[1].text.size(), 800);
        QVERIFY2(signalsSeen <= clock.elapsed() / 16 + 2, qPrintable(QString::number(signalsSeen)));
    }
};

QTEST_GUILESS_MAIN(TestWorkbench)
#include "tst_workbench.moc"
