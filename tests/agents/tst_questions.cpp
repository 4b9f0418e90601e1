#include "tests/agents/workbench_bench.h"

using namespace octavo;
using namespace octavo::agents;
using namespace octavo::agents::tests;
using octavo::test::Script;

/// What an agent does with a question: asked, refused, stopped, asked again.
class TestQuestions : public QObject
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

QTEST_GUILESS_MAIN(TestQuestions)
#include "tst_questions.moc"
