#include "tests/ui/scripted_window.h"
#include "ui/header_bar.h"
#include "ui/setting_keys.h"
#include "ui/transcript/transcript_view.h"

#include <QInputMethodEvent>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QScrollBar>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;

/// Writing a question: sending, history, drafts, editing the last one.
class TestComposer : public test::ScriptedWindow
{
    Q_OBJECT

private slots:
    void enterSendsAndShiftEnterBreaksTheLine()
    {
        type(QStringLiteral("first"));
        key(QStringLiteral("Shift+Return"));
        type(QStringLiteral("second"));
        QVERIFY(test::script(agent(7)).asked.isEmpty());
        const int tall = pane(7)->composer()->height();
        key(QStringLiteral("Return"));
        QCOMPARE(test::script(agent(7)).asked, QStringList{QStringLiteral("first\nsecond")});
        QVERIFY(pane(7)->composer()->text().isEmpty());
        QVERIFY(pane(7)->composer()->height() < tall);
    }

    void composingInputIsNotSent()
    {
        ComposerEdit* edit = pane(7)->composer()->edit();
        QInputMethodEvent compose(QStringLiteral("にほ"), {});
        QCoreApplication::sendEvent(edit, &compose);
        QTest::keyClick(edit, Qt::Key_Return);
        QVERIFY(test::script(agent(7)).asked.isEmpty());
        QInputMethodEvent commit;
        commit.setCommitString(QStringLiteral("日本"));
        QCoreApplication::sendEvent(edit, &commit);
        QTest::keyClick(edit, Qt::Key_Return);
        QCOMPARE(test::script(agent(7)).asked, QStringList{QStringLiteral("日本")});
    }

    void enterWhileAnAnswerIsMadeSaysSoAndKeepsTheText()
    {
        AgentStatus writing = agent(7)->status();
        writing.activity = Activity::Writing;
        test::setStatus(agent(7), writing);
        type(QStringLiteral("next"));
        QVERIFY(!words(7).contains(QStringLiteral("Still answering")));
        key(QStringLiteral("Return"));
        QVERIFY(words(7).contains(QStringLiteral("Still answering")));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("next"));
        QVERIFY(test::script(agent(7)).asked.isEmpty());
        writing.activity = Activity::Idle;
        test::setStatus(agent(7), writing);
        QVERIFY(!words(7).contains(QStringLiteral("Still answering")));
        key(QStringLiteral("Return"));
        QCOMPARE(test::script(agent(7)).asked, QStringList{QStringLiteral("next")});
    }

    void pageKeysScrollTheAnswers()
    {
        test::addMessage(agent(3), MessageRole::User, QStringLiteral("long?"));
        test::addMessage(agent(3), MessageRole::Assistant, QStringLiteral("A line.\n\n").repeated(200));
        m_window->grid()->setCurrent(pane(3));
        pane(3)->focusComposer();
        const QScrollBar* bar = pane(3)->transcript()->verticalScrollBar();
        QTRY_VERIFY(bar->maximum() > 1000 && bar->value() == bar->maximum());
        key(QStringLiteral("PgUp"));
        QVERIFY(bar->value() < bar->maximum());
        QVERIFY(!pane(3)->transcript()->followsEnd());
        QVERIFY(pane(3)->composer()->edit()->hasFocus());
        key(QStringLiteral("PgDown"));
        QCOMPARE(bar->value(), bar->maximum());
        QVERIFY(pane(3)->transcript()->followsEnd());
    }

    void lettersTypedElsewhereInThePaneGoIntoTheQuestion()
    {
        m_window->grid()->setCurrent(pane(3));
        pane(3)->transcript()->setFocus();
        for (const QChar letter : QStringLiteral("why")) // each to what has the focus by then
            type(letter);
        QCOMPARE(pane(3)->composer()->text(), QStringLiteral("why"));
        QVERIFY(pane(3)->composer()->edit()->hasFocus());
        pane(3)->transcript()->setFocus();
        type(QStringLiteral(" ")); // scrolls
        QCOMPARE(pane(3)->composer()->text(), QStringLiteral("why"));
        key(QStringLiteral("Ctrl+A")); // no letter
        QCOMPARE(pane(3)->composer()->text(), QStringLiteral("why"));
        QVERIFY(pane(3)->transcript()->hasFocus());
    }

    void upWalksThroughWhatWasAsked()
    {
        for (const char* question : {"one", "two"}) {
            type(QString::fromLatin1(question));
            key(QStringLiteral("Return"));
            agent(7)->stop();
        }
        type(QStringLiteral("draft"));
        key(QStringLiteral("Up"));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("two"));
        key(QStringLiteral("Up"));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("one"));
        key(QStringLiteral("Down"));
        key(QStringLiteral("Down"));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("draft"));
    }

    void aRefusedQuestionStaysInTheComposer()
    {
        test::script(agent(7)).failNextAsk = true;
        type(QStringLiteral("too long"));
        key(QStringLiteral("Return"));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("too long"));
        bool said = false;
        for (const QLabel* label : pane(7)->findChildren<QLabel*>())
            said = said || (label->isVisible() && label->text().contains(QStringLiteral("249,900 of 250,000")));
        QVERIFY(said);
    }

    void leavingAnEditBringsTheDraftBack()
    {
        m_window->grid()->setCurrent(pane(3));
        pane(3)->focusComposer();
        type(QStringLiteral("my draft"));
        key(QStringLiteral("Ctrl+Shift+E"));
        key(QStringLiteral("Esc"));
        QCOMPARE(pane(3)->composer()->text(), QStringLiteral("my draft"));
        QCOMPARE(test::script(agent(3)).stops, 0);
    }

    void whoTypesWithoutAPauseIsSavedMeanwhile() // B-47
    {
        QString& kept = test::script(agent(7)).draft;
        for (int i = 0; i < 500 && kept.isEmpty(); ++i) {
            type(QStringLiteral("x"));
            QTest::qWait(10);
        }
        QVERIFY(!kept.isEmpty());
        key(QStringLiteral("Ctrl+Shift+A"));
        for (int i = 0; i < 500 && m_workbench->setting(setting_keys::askAll).isEmpty(); ++i) {
            type(QStringLiteral("y"));
            QTest::qWait(10);
        }
        QVERIFY(!m_workbench->setting(setting_keys::askAll).isEmpty());
        m_window->close();
        const QString typed = m_window->header()->askField()->text();
        openWindow();
        QCOMPARE(m_window->header()->askField()->text(), typed);
    }

    void anOldQuestionThatIsShownIsNoDraft()
    {
        type(QStringLiteral("one"));
        key(QStringLiteral("Return"));
        agent(7)->stop();
        type(QStringLiteral("my draft"));
        key(QStringLiteral("Up"));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("one"));
        pane(7)->saveDraft();
        QCOMPARE(agent(7)->draft(), QStringLiteral("my draft"));
        QVERIFY(agent(7)->ask(QStringLiteral("for all"))); // as Ask all does: the walk goes on
        agent(7)->stop();
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("one"));
        key(QStringLiteral("Down"));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("for all"));
        key(QStringLiteral("Return"));
        QCOMPARE(test::script(agent(7)).asked.last(), QStringLiteral("for all"));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("my draft"));
        QCOMPARE(agent(7)->draft(), QStringLiteral("my draft"));
    }

    void anotherConversationEndsTheWalkAndKeepsTheDraft()
    {
        type(QStringLiteral("one"));
        key(QStringLiteral("Return"));
        agent(7)->stop();
        type(QStringLiteral("my draft"));
        key(QStringLiteral("Up"));
        agent(7)->newConversation();
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("my draft"));
    }

    void aQuestionForAllLeavesTheDraftUnderAnEdit()
    {
        type(QStringLiteral("one"));
        key(QStringLiteral("Return"));
        agent(7)->stop();
        type(QStringLiteral("my draft"));
        key(QStringLiteral("Ctrl+Shift+E"));
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("one"));
        QVERIFY(agent(7)->ask(QStringLiteral("for all")));
        agent(7)->stop();
        pane(7)->saveDraft();
        QCOMPARE(pane(7)->composer()->text(), QStringLiteral("my draft"));
        QCOMPARE(agent(7)->draft(), QStringLiteral("my draft"));

        key(QStringLiteral("Ctrl+Shift+E"));
        type(QStringLiteral(", but changed"));
        QVERIFY(agent(7)->ask(QStringLiteral("for all again")));
        QCOMPARE(agent(7)->draft(), QStringLiteral("my draft\n\nfor all, but changed"));
        QCOMPARE(pane(7)->composer()->text(), agent(7)->draft());
    }
};

QTEST_MAIN(TestComposer)
#include "tst_composer.moc"
