#include "tests/ui/long_answer.h"
#include "tests/ui/scripted_scene.h"
#include "tests/ui/scripted_workbench.h"
#include "ui/command_palette.h"
#include "ui/compare_view.h"
#include "ui/conversation_export.h"
#include "ui/header_bar.h"
#include "ui/main_window.h"
#include "ui/notice_bar.h"
#include "ui/pane/composer.h"
#include "ui/pane/pane.h"
#include "ui/pane/pane_header.h"
#include "ui/run_window.h"
#include "ui/setting_keys.h"
#include "ui/sidebar/sidebar.h"
#include "ui/single_instance.h"
#include "ui/start_page.h"
#include "ui/theme.h"
#include "ui/transcript/transcript_view.h"
#include "ui/translation.h"

#include <QAccessible>
#include <QAction>
#include <QClipboard>
#include <QComboBox>
#include <QInputMethodEvent>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QMessageBox>
#include <QMimeData>
#include <QScrollBar>
#include <QSemaphore>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QThread>
#include <QTimer>
#include <QTranslator>
#include <QtTest>

#include <csignal>
#include <ctime>
#include <sys/wait.h>
#include <unistd.h>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr double longestTurnMs = 400; // checks cost about that much more
#else
constexpr double longestTurnMs = 50;
#endif

/// What this thread has worked.
double threadMs()
{
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

} // namespace

class TestMainWindow : public QObject
{
    Q_OBJECT

private:
    std::unique_ptr<Workbench> m_workbench;
    std::unique_ptr<MainWindow> m_window;

    Pane* pane(int place) const { return m_window->grid()->panes()[place]; }
    Agent* agent(int index) const { return m_workbench->agent(index); }
    void key(const QString& sequence)
    {
        const QKeyCombination k = QKeySequence(sequence)[0];
        QWidget* to = QApplication::focusWidget() ? QApplication::focusWidget() : m_window.get();
        QTest::keyClick(to, k.key(), k.keyboardModifiers());
    }
    void type(const QString& text) { QTest::keyClicks(QApplication::focusWidget(), text); }
    void openWindow()
    {
        m_window = std::make_unique<MainWindow>(m_workbench.get());
        m_window->resize(1600, 900);
        m_window->show();
        QApplication::setActiveWindow(m_window.get());
        QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
    }

    /// What a pane shows, in labels.
    QString words(int place) const
    {
        QStringList all;
        for (const QLabel* label : pane(place)->findChildren<QLabel*>()) {
            if (label->isVisible())
                all += label->text();
        }
        return all.join(u'|');
    }

private slots:
    void initTestCase()
    {
        QLocale::setDefault(QLocale::English);
        Theme::instance()->apply(SchemeChoice::Dark);
    }

    void init()
    {
        m_workbench = test::makeWorkbench();
        test::playScene(m_workbench.get());
        openWindow();
        m_window->grid()->setCurrent(pane(7));
        pane(7)->focusComposer();
    }

    void cleanup()
    {
        m_window.reset();
        m_workbench.reset();
    }

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

    void askAllAsksEveryPaneThatIsFree()
    {
        key(QStringLiteral("Ctrl+Shift+A"));
        QCOMPARE(QApplication::focusWidget(), m_window->header()->askField());
        type(QStringLiteral("what is this?"));
        key(QStringLiteral("Return"));
        int asked = 0;
        for (int i = 0; i < numAgents; ++i)
            asked += test::script(agent(i)).asked.size();
        QCOMPARE(asked, 3); // done, failed and idle
        QVERIFY(m_window->header()->askField()->text().isEmpty());
    }

    void askAllSaysWhoRefusedAndWhy()
    {
        test::script(agent(7)).failNextAsk = true; // idle, and full
        key(QStringLiteral("Ctrl+Shift+A"));
        type(QStringLiteral("what is this?"));
        key(QStringLiteral("Return"));
        const QString said = m_window->notices()->text();
        QVERIFY2(said.contains(QStringLiteral("2")), qPrintable(said)); // sent to
        QVERIFY2(said.contains(agent(7)->name() + QStringLiteral(": context full: 249,900")), qPrintable(said));

        type(QStringLiteral("again?")); // now only the one that was full is free
        test::script(agent(7)).failNextAsk = true;
        key(QStringLiteral("Return"));
        QVERIFY(m_window->notices()->text().contains(QStringLiteral("249,900")));
        QCOMPARE(m_window->header()->askField()->text(), QStringLiteral("again?")); // it went nowhere

        for (int i = 0; i < numAgents; ++i) {
            test::setStatus(agent(i), {});
            test::setContext(agent(i), {});
        }
        key(QStringLiteral("Return"));
        QVERIFY(!m_workbench->contexts().isEmpty());
        QVERIFY(m_window->notices()->text().contains(QStringLiteral("choose one")));
    }

    void whatRunsIsNotEndedByANewConversation()
    {
        m_window->grid()->setCurrent(pane(0)); // writing
        pane(0)->focusComposer();
        const qsizetype messages = agent(0)->messages().size();
        QVERIFY(messages > 0);
        key(QStringLiteral("Ctrl+N"));
        QCOMPARE(agent(0)->messages().size(), messages);
        QVERIFY(m_window->notices()->text().contains(QStringLiteral("busy")));
        const ContextId before = agent(0)->context().id;
        for (QMenu* menu : pane(0)->findChildren<QMenu*>()) {
            emit menu->aboutToShow();
            for (QAction* action : menu->actions()) {
                if (action->isCheckable() && !action->isChecked())
                    action->trigger();
            }
        }
        QCOMPARE(agent(0)->context().id, before);
        QCOMPARE(agent(0)->messages().size(), messages);
    }

    void namesWithAnAmpersandAreNoShortcuts()
    {
        ContextInfo context = agent(7)->context();
        context.name = QStringLiteral("R&D");
        context.id = ContextId{99};
        test::setContexts(m_workbench.get(), {context});
        test::setContext(agent(7), context);
        bool found = false;
        for (QToolButton* button : pane(7)->findChildren<QToolButton*>()) {
            QVERIFY2(button->shortcut().isEmpty(), qPrintable(button->text()));
            found = found || button->text().contains(QStringLiteral("R&&D"));
        }
        for (QPushButton* button : pane(7)->findChildren<QPushButton*>())
            found = found || button->text().contains(QStringLiteral("R&&D"));
        QVERIFY(found);
        for (QMenu* menu : pane(7)->findChildren<QMenu*>()) {
            emit menu->aboutToShow();
            for (QAction* action : menu->actions())
                QVERIFY2(!action->text().contains(QStringLiteral("R&D")), qPrintable(action->text()));
        }
    }

    void escapeStopsTheCurrentPaneOnly()
    {
        m_window->grid()->setCurrent(pane(0));
        pane(0)->focusComposer();
        key(QStringLiteral("Esc"));
        QCOMPARE(test::script(agent(0)).stops, 1);
        QCOMPARE(test::script(agent(1)).stops, 0);
    }

    void escapeLeavesAFieldAndStopsNoAnswer()
    {
        m_window->grid()->setCurrent(pane(0)); // writing
        pane(0)->focusComposer();
        key(QStringLiteral("Ctrl+Shift+F"));
        auto* search = m_window->findChild<QLineEdit*>(QStringLiteral("historySearch"));
        QCOMPARE(QApplication::focusWidget(), search);
        type(QStringLiteral("kv"));
        key(QStringLiteral("Esc"));
        QVERIFY(!search->isVisible());
        QVERIFY(search->text().isEmpty());
        QCOMPARE(QApplication::focusWidget(), pane(0)->composer()->edit());

        key(QStringLiteral("Ctrl+Shift+A"));
        type(QStringLiteral("half a question"));
        key(QStringLiteral("Esc"));
        QCOMPARE(QApplication::focusWidget(), pane(0)->composer()->edit());
        QCOMPARE(m_window->header()->askField()->text(), QStringLiteral("half a question"));

        key(QStringLiteral("Ctrl+F"));
        QVERIFY(QApplication::focusWidget() != pane(0)->composer()->edit());
        QWidget* bar = QApplication::focusWidget()->parentWidget();
        key(QStringLiteral("Tab")); // to a button of the bar
        QVERIFY(bar->isAncestorOf(QApplication::focusWidget()));
        QVERIFY(qobject_cast<QToolButton*>(QApplication::focusWidget()));
        key(QStringLiteral("Esc"));
        QVERIFY(!bar->isVisible());
        QCOMPARE(test::script(agent(0)).stops, 0);
    }

    void keysReachEveryPane()
    {
        for (int i = 0; i < numAgents; ++i) {
            key(QStringLiteral("Ctrl+%1").arg(i + 1));
            QCOMPARE(m_window->currentPane(), pane(i));
            QCOMPARE(QApplication::focusWidget(), pane(i)->composer()->edit());
        }
        key(QStringLiteral("F6"));
        QCOMPARE(m_window->currentPane(), pane(0));
        key(QStringLiteral("Shift+F6"));
        QCOMPARE(m_window->currentPane(), pane(7));
    }

    void oneKeyZoomsAPaneAndBack()
    {
        key(QStringLiteral("F11"));
        QVERIFY(pane(7)->isVisible());
        for (int i = 0; i < 7; ++i)
            QVERIFY(!pane(i)->isVisible());
        key(QStringLiteral("Ctrl+3"));
        QVERIFY(pane(2)->isVisible() && !pane(7)->isVisible());
        key(QStringLiteral("F11"));
        for (int i = 0; i < numAgents; ++i)
            QVERIFY(pane(i)->isVisible());
    }

    void everyGridShowsTheCurrentPane()
    {
        for (const GridShape shape :
             {GridShape::One, GridShape::Two, GridShape::Four, GridShape::EightWide, GridShape::EightTall}) {
            m_window->grid()->setShape(shape);
            int visible = 0;
            for (Pane* each : m_window->grid()->panes())
                visible += each->isVisible();
            QCOMPARE(visible, gridShapePanes(shape));
            QVERIFY(m_window->currentPane()->isVisible());
            QCOMPARE(gridShapeFromName(gridShapeName(shape)), shape);
        }
    }

    void theMainVerbsHaveKeys()
    {
        m_window->grid()->setCurrent(pane(3));
        pane(3)->focusComposer();
        key(QStringLiteral("Ctrl+Shift+C"));
        QVERIFY(QGuiApplication::clipboard()->text().contains(QStringLiteral("**TryDuration**")));
        key(QStringLiteral("Ctrl+R"));
        QCOMPARE(test::script(agent(3)).regenerations, 1);
        type(QStringLiteral("my draft"));
        key(QStringLiteral("Ctrl+Shift+E"));
        QCOMPARE(pane(3)->composer()->text(), QStringLiteral("Explain reverse proxy retries."));
        type(QStringLiteral(" Briefly."));
        key(QStringLiteral("Return"));
        QCOMPARE(test::script(agent(3)).edits.value(0), QStringLiteral("Explain reverse proxy retries. Briefly."));
    }

    void anAnswerThatEndedEarlyGoesOnByKeyAndPalette()
    {
        type(QStringLiteral("a long one"));
        key(QStringLiteral("Return"));
        test::appendText(agent(7), QStringLiteral("It begins"));
        key(QStringLiteral("Esc"));
        QCOMPARE(agent(7)->messages().back().state, MessageState::Stopped);
        key(QStringLiteral("Ctrl+Return"));
        QCOMPARE(test::script(agent(7)).continuations, 1);
        QCOMPARE(test::script(agent(7)).regenerations, 0);
        key(QStringLiteral("Ctrl+K"));
        auto* palette = m_window->findChild<CommandPalette*>();
        QVERIFY(palette);
        QTest::keyClicks(palette->field(), QStringLiteral("continue"));
        QTest::keyClick(palette->field(), Qt::Key_Return);
        QCOMPARE(test::script(agent(7)).continuations, 2);
        // Where there is nothing to go on with, the pane says so.
        key(QStringLiteral("Ctrl+4"));
        key(QStringLiteral("Ctrl+Return"));
        bool said = false;
        for (const QLabel* label : pane(3)->findChildren<QLabel*>())
            said = said || (label->isVisible() && label->text().contains(QStringLiteral("did not end early")));
        QVERIFY(said);
    }

    void aBusyPaneIsOneAndBusyPanesAreMany()
    {
        QVERIFY(installTranslation(QLocale(QLocale::English)));
        auto* english = qApp->findChild<QTranslator*>();
        if (!english)
            QSKIP("built without Qt's linguist tools");
        const auto give = [&](int busy) {
            for (int i = 0; i < numAgents; ++i) {
                AgentStatus status = agent(i)->status();
                status.activity = i < busy ? Activity::Writing : Activity::Idle;
                test::setStatus(agent(i), status);
            }
            test::setContext(agent(0), m_workbench->contexts()[2]);
            test::setContext(agent(1), m_workbench->contexts()[2]);
            emit m_window->sidebar()->contextForAllRequested(ContextId{1});
            return m_window->notices()->text();
        };
        QCOMPARE(give(1), QStringLiteral("1 pane is busy and keeps its context."));
        QCOMPARE(give(2), QStringLiteral("2 panes are busy and keep their context."));
        QCoreApplication::removeTranslator(english);
        delete english;
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

    void findOpensAndClosesByKey()
    {
        m_window->grid()->setCurrent(pane(3));
        pane(3)->focusComposer();
        key(QStringLiteral("Ctrl+F"));
        type(QStringLiteral("tries"));
        QVERIFY(pane(3)->transcript()->foundCount() >= 2);
        key(QStringLiteral("Esc"));
        QCOMPARE(pane(3)->transcript()->foundCount(), 0);
        QCOMPARE(QApplication::focusWidget(), pane(3)->transcript());
    }

    void aPaneIsRenamedInPlace()
    {
        key(QStringLiteral("F2"));
        type(QStringLiteral("Notes"));
        key(QStringLiteral("Return"));
        QCOMPARE(agent(7)->name(), QStringLiteral("Notes"));
        key(QStringLiteral("Ctrl+8"));
        key(QStringLiteral("F2"));
        type(QStringLiteral("Other"));
        key(QStringLiteral("Esc"));
        QCOMPARE(agent(7)->name(), QStringLiteral("Notes"));
    }

    void draftsOrderGridAndGeometryComeBack()
    {
        type(QStringLiteral("half a question"));
        key(QStringLiteral("Alt+Shift+Left"));
        m_window->grid()->setShape(GridShape::Four);
        m_window->close();
        openWindow();
        QCOMPARE(m_window->grid()->order(), QStringLiteral("01234576"));
        QCOMPARE(m_window->grid()->shape(), GridShape::Four);
        QCOMPARE(m_window->currentPane()->agent()->index(), 7);
        QCOMPARE(m_window->currentPane()->composer()->text(), QStringLiteral("half a question"));
    }

    void spoiltSettingsAreIgnored()
    {
        m_workbench->setSetting(setting_keys::paneOrder, QStringLiteral("0011xyz"));
        m_workbench->setSetting(setting_keys::gridShape, QStringLiteral("17"));
        m_workbench->setSetting(setting_keys::geometry, QStringLiteral("@@@"));
        m_workbench->setSetting(setting_keys::textScale, QStringLiteral("NaN"));
        openWindow();
        QCOMPARE(m_window->grid()->order(), QStringLiteral("01234567"));
        QCOMPARE(m_window->grid()->shape(), GridShape::EightWide);
        QCOMPARE(Theme::instance()->textScale(), 1.0);
    }

    void aDeletedConversationComesBackWithUndo()
    {
        QListView* history = m_window->sidebar()->historyView();
        QCOMPARE(history->model()->rowCount(), 6);
        history->setCurrentIndex(history->model()->index(2, 0));
        history->setFocus();
        QTest::keyClick(history, Qt::Key_Delete);
        QCOMPARE(history->model()->rowCount(), 5);
        QVERIFY(m_window->notices()->isVisible());
        m_window->notices()->button()->click();
        QCOMPARE(history->model()->rowCount(), 6);
    }

    void noDeletionIsLostToTheNextNotice()
    {
        QListView* history = m_window->sidebar()->historyView();
        NoticeBar* notices = m_window->notices();
        QTest::mouseMove(m_window.get(), QPoint(5, 5)); // under the pointer a notice stays
        for (int i = 0; i < 3; ++i) {
            history->setFocus();
            history->setCurrentIndex(history->model()->index(0, 0));
            QTest::keyClick(history, Qt::Key_Delete);
        }
        QCOMPARE(history->model()->rowCount(), 3);
        const QString offered = notices->text();
        notices->tell(QStringLiteral("Answer copied"));
        QCOMPARE(notices->text(), QStringLiteral("Answer copied"));
        QTRY_COMPARE_WITH_TIMEOUT(notices->text(), offered, 20000); // back by itself
        notices->button()->click();
        QCOMPARE(history->model()->rowCount(), 4);
        QVERIFY(notices->isVisible() && notices->text() != offered); // the one below it
        key(QStringLiteral("Ctrl+Shift+T"));
        key(QStringLiteral("Ctrl+Shift+T"));
        QCOMPARE(history->model()->rowCount(), 6);
        QVERIFY(!notices->isVisible()); // nothing is left to be undone
        key(QStringLiteral("Ctrl+Shift+T"));
        QCOMPARE(history->model()->rowCount(), 6);
        QVERIFY(notices->isVisible());
    }

    void anOfferStaysWhileItsButtonHasTheFocus()
    {
        NoticeBar* notices = m_window->notices();
        QTest::mouseMove(m_window.get(), QPoint(5, 5));
        notices->offer(QStringLiteral("deleted"), QStringLiteral("Undo"), [] {});
        notices->button()->setFocus();
        QVERIFY(!notices->isCounting());
        pane(7)->focusComposer();
        QVERIFY(notices->isCounting());
    }

    void theHistoryIsSearchedWhileTyping()
    {
        key(QStringLiteral("Ctrl+Shift+F"));
        type(QStringLiteral("compaction"));
        QListView* history = m_window->sidebar()->historyView();
        QTRY_COMPARE(history->model()->rowCount(), 1);
        QTest::keyClick(QApplication::focusWidget(), Qt::Key_Down);
        QTest::keyClick(history, Qt::Key_Return);
    }

    void listModelsKeepTheirRules()
    {
        QAbstractItemModelTester contexts(m_window->sidebar()->contextView()->model(),
                                          QAbstractItemModelTester::FailureReportingMode::QtTest);
        QAbstractItemModelTester history(m_window->sidebar()->historyView()->model(),
                                         QAbstractItemModelTester::FailureReportingMode::QtTest);
        ContextInfo info = m_workbench->contexts()[1];
        info.state = ContextState::Read;
        emit m_workbench->contextChanged(info);
        m_workbench->removeContext(info.id);
        QCOMPARE(m_window->sidebar()->contextView()->model()->rowCount(), 6);
        m_workbench->renameConversation(ConversationId{3}, QStringLiteral("renamed"));
        m_workbench->deleteConversation(ConversationId{2});
        QCOMPARE(m_window->sidebar()->historyView()->model()->rowCount(), 5);
    }

    void aContextIsGivenToThePaneOrToAll()
    {
        QListView* contexts = m_window->sidebar()->contextView();
        const QModelIndex fmt = contexts->model()->index(3, 0);
        QTest::mouseClick(contexts->viewport(), Qt::LeftButton, {}, contexts->visualRect(fmt).center());
        QCOMPARE(agent(7)->context().name, QStringLiteral("fmt"));
        emit m_window->sidebar()->contextForAllRequested(ContextId{1});
        QCOMPARE(agent(7)->context().name, QStringLiteral("vllm"));
        QCOMPARE(agent(4)->context().name, QStringLiteral("fmt")); // writing: left alone
    }

    void compareAlignsAnswersToOneQuestion()
    {
        for (int i = 0; i < 3; ++i) {
            test::addMessage(agent(i), MessageRole::User, QStringLiteral("same?"));
            test::addMessage(agent(i), MessageRole::Assistant, QStringLiteral("answer %1").arg(i));
        }
        QList<Agent*> all;
        for (int i = 0; i < numAgents; ++i)
            all += agent(i);
        QCOMPARE(comparableQuestions(all).front(), QStringLiteral("same?"));
        key(QStringLiteral("Ctrl+Shift+M"));
        auto* compare = m_window->findChild<CompareView*>();
        QVERIFY(compare && compare->isVisible());
        QCOMPARE(compare->columnCount(), 3);
        // Each column's answer is its conversation's newest: it can be written anew from here.
        auto* column = compare->findChild<TranscriptView*>();
        column->setFocus();
        for (const int press : {int(Qt::Key_Tab), int(Qt::Key_Tab), int(Qt::Key_Return)})
            QTest::keyClick(column, Qt::Key(press));
        QCOMPARE(test::script(agent(0)).regenerations, 1);
        key(QStringLiteral("Esc"));
        QVERIFY(m_window->grid()->isVisible());
    }

    void compareFollowsWhatIsAskedMeanwhile()
    {
        key(QStringLiteral("Ctrl+Shift+M"));
        auto* compare = m_window->findChild<CompareView*>();
        auto* questions = compare->findChild<QComboBox*>();
        // The newest question is shown, as after asking all.
        QString newest;
        qint64 id = 0;
        for (int i = 0; i < numAgents; ++i) {
            for (const Message& message : agent(i)->messages()) {
                if (message.role == MessageRole::User && qint64(message.id) > id) {
                    id = qint64(message.id);
                    newest = message.text;
                }
            }
        }
        questions->setCurrentIndex(questions->findData(newest));
        m_window->header()->askField()->setFocus();
        type(QStringLiteral("a new one?"));
        key(QStringLiteral("Return"));
        QTRY_COMPARE(questions->currentData().toString(), QStringLiteral("a new one?"));
        QCOMPARE(compare->columnCount(), 3);
        test::appendText(agent(7), QStringLiteral("arrives"));
        const auto views = compare->findChildren<TranscriptView*>();
        QTRY_VERIFY(std::any_of(views.begin(), views.end(), [](TranscriptView* view) {
            view->flush();
            return view->plainText().contains(QStringLiteral("arrives"));
        }));
        // Who looks at an older one goes on looking at it, and the new one is in the list.
        questions->setCurrentIndex(questions->findData(newest));
        agent(7)->stop();
        QVERIFY(agent(7)->ask(QStringLiteral("one more?")));
        QTRY_VERIFY(questions->findData(QStringLiteral("one more?")) >= 0);
        QCOMPARE(questions->currentData().toString(), newest);
    }

    void exportKeepsLinesAndFences()
    {
        test::setMessages(agent(7), {});
        test::addMessage(agent(7), MessageRole::User, QStringLiteral("Why\n  x = 1\nfails?"));
        test::addMessage(agent(7), MessageRole::Assistant, QStringLiteral("So:\n\n````cpp\nint a;\n```\n"),
                         MessageState::Stopped);
        test::changeLast(agent(7), [](Message& message) {
            Citation citation;
            citation.displayPath = QStringLiteral("a`b``.cpp");
            message.citations = {citation};
        });
        test::addMessage(agent(7), MessageRole::User, QStringLiteral("and?"));
        test::addMessage(agent(7), MessageRole::Assistant, QStringLiteral("- one\n  ```\n  x\n  ```\n- `~~~` two"));
        const QString text = conversationAsMarkdown(*agent(7));
        QVERIFY2(text.contains(QStringLiteral("\n> Why  \n>   x = 1  \n> fails?\n")), qPrintable(text));
        QVERIFY2(text.contains(QStringLiteral("\nint a;\n```\n````\n")), qPrintable(text));
        QVERIFY2(text.contains(QStringLiteral("```a`b``.cpp```")), qPrintable(text));
        QVERIFY2(text.endsWith(QStringLiteral("- `~~~` two\n")), qPrintable(text)); // nothing was open there
    }

    void exportsMarkdownAndJson()
    {
        QTemporaryDir folder;
        m_window->grid()->setCurrent(pane(3));
        for (const QString& name : {QStringLiteral("a.md"), QStringLiteral("a.json")}) {
            m_window->exportTo(folder.filePath(name));
            QTRY_VERIFY(QFile::exists(folder.filePath(name)));
            QFile file(folder.filePath(name));
            QVERIFY(file.open(QIODevice::ReadOnly));
            const QByteArray content = file.readAll();
            QVERIFY(content.contains("TryDuration"));
            QVERIFY(content.contains("reverseproxy.go"));
        }
        m_window->exportTo(QStringLiteral("/nowhere/at/all.md"));
        QTRY_VERIFY(m_window->notices()->text().contains(QStringLiteral("/nowhere")));
    }

    void thePaletteFindsCommandsByAFewLetters()
    {
        QVERIFY(commandScore(QStringLiteral("zp"), QStringLiteral("Zoom the pane, and back")) > 0);
        QVERIFY(commandScore(QStringLiteral("xq"), QStringLiteral("Zoom the pane, and back")) < 0);
        key(QStringLiteral("Ctrl+Shift+P"));
        auto* palette = m_window->findChild<CommandPalette*>();
        QVERIFY(palette);
        QTest::keyClicks(palette->field(), QStringLiteral("zoom"));
        QTest::keyClick(palette->field(), Qt::Key_Return);
        QVERIFY(m_window->grid()->isZoomed());
    }

    void everyCommandHasAKeyOfItsOwn()
    {
        QStringList seen;
        for (const QAction* action : m_window->commands()) {
            QVERIFY(!action->objectName().isEmpty());
            for (const QKeySequence& key : action->shortcuts()) {
                QVERIFY2(!seen.contains(key.toString()), qPrintable(key.toString()));
                seen += key.toString();
            }
        }
        QVERIFY(seen.size() > 25);
    }

    void statesDifferInWords()
    {
        QVERIFY(words(0).contains(QStringLiteral("writing")));
        QVERIFY(words(2).contains(QStringLiteral("55,020 of 131,004 tokens")));
        QVERIFY(words(2).contains(QStringLiteral("0:19 left")));
        QVERIFY(words(6).contains(QStringLiteral("Needed 5.1 GiB")));
        QVERIFY(words(7).contains(QStringLiteral("22,140 tokens loaded")));
        QVERIFY(words(7).contains(QStringLiteral("\u2013 tok/s"))); // not known is a dash
        QVERIFY(!words(7).contains(QStringLiteral("0.0 tok/s")));
        AgentStatus queued = agent(7)->status();
        queued.activity = Activity::Queued;
        test::setStatus(agent(7), queued);
        QVERIFY(words(7).contains(QStringLiteral("queued")));
        AgentStatus full = agent(3)->status();
        full.contextTokens = 249500;
        test::setStatus(agent(3), full);
        QVERIFY(words(3).contains(QStringLiteral("500 tokens are left")));
    }

    void lostSavesAreSaidOnAllPanes()
    {
        test::reportSaveProblem(m_workbench.get(), QStringLiteral("the disk is full"));
        int said = 0;
        for (const QLabel* label : m_window->grid()->findChildren<QLabel*>())
            said += label->isVisible() && label->text().contains(QStringLiteral("the disk is full"));
        QCOMPARE(said, numAgents);
        test::reportSaveProblem(m_workbench.get(), {});
        for (const QLabel* label : m_window->grid()->findChildren<QLabel*>())
            QVERIFY(!(label->isVisible() && label->text().contains(QStringLiteral("disk"))));
    }

    void aLostDeviceIsSaidAndLoadedAgainFromAnyPane() // B-35
    {
        const auto button = [&](int place) { return pane(place)->findChild<QPushButton*>(QStringLiteral("reload")); };
        QVERIFY(!button(0)->isVisible());
        test::reportDevice(m_workbench.get(), QStringLiteral("cuda:0 stopped working: error 999"));
        for (int i = 0; i < numAgents; ++i) {
            QVERIFY(button(i)->isVisible());
            QVERIFY(words(i).contains(QStringLiteral("error 999")));
        }
        button(3)->click();
        QVERIFY(m_workbench->isReloading());
        QVERIFY(!button(0)->isEnabled());
        QVERIFY(words(0).contains(QStringLiteral("loaded again")));
        test::reportDevice(m_workbench.get(), {});
        for (int i = 0; i < numAgents; ++i)
            QVERIFY(!button(i)->isVisible());
    }

    void everythingInteractiveHasANameAndARole()
    {
        int interactive = 0, links = 0;
        QStringList unnamed;
        const std::function<void(QAccessibleInterface*)> walk = [&](QAccessibleInterface* at) {
            if (!at || !at->isValid() || at->state().invisible)
                return;
            switch (at->role()) {
            case QAccessible::Button:
            case QAccessible::Link:
            case QAccessible::ButtonMenu:
            case QAccessible::CheckBox:
            case QAccessible::ComboBox:
            case QAccessible::EditableText:
            case QAccessible::List:
            case QAccessible::ListItem:
            case QAccessible::Document:
            case QAccessible::MenuItem:
            case QAccessible::Slider:
            case QAccessible::ScrollBar:
                ++interactive;
                links += at->role() == QAccessible::Link;
                if (at->text(QAccessible::Name).isEmpty() && at->role() != QAccessible::ScrollBar) {
                    const QObject* object = at->object();
                    unnamed +=
                        QStringLiteral("%1 %2 in %3")
                            .arg(QLatin1String(object ? object->metaObject()->className() : "?"),
                                 object ? object->objectName() : QString(),
                                 QLatin1String(object && object->parent() ? object->parent()->metaObject()->className()
                                                                          : "?"));
                }
                break;
            default:
                break;
            }
            for (int i = 0; i < at->childCount(); ++i)
                walk(at->child(i));
        };
        walk(QAccessible::queryAccessibleInterface(m_window.get()));
        QVERIFY2(unnamed.isEmpty(), qPrintable(unnamed.join(u'\n')));
        QVERIFY(interactive > 60);
        QVERIFY(links > 0); // of answers: painted, and yet there
    }

    void tabVisitsEveryControlOfAPane()
    {
        m_window->grid()->setShape(GridShape::One);
        m_window->header()->askField()->setFocus();
        QSet<QWidget*> visited;
        for (int i = 0; i < 200; ++i) {
            visited += QApplication::focusWidget();
            QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
        }
        QVERIFY(visited.contains(pane(7)->composer()->edit()));
        for (QWidget* widget : m_window->findChildren<QWidget*>()) {
            if (widget->isVisible() && widget->isEnabled() && (widget->focusPolicy() & Qt::TabFocus) &&
                !widget->focusProxy())
                QVERIFY2(visited.contains(widget), widget->metaObject()->className());
        }
    }

    void tabLeavesTheCardOfAFailedPane()
    {
        Pane* failed = nullptr;
        for (Pane* each : m_window->grid()->panes()) {
            if (each->agent()->status().outcome == Outcome::Failed)
                failed = each;
        }
        QVERIFY(failed);
        test::addMessage(failed->agent(), MessageRole::Assistant, QStringLiteral("See [a](https://b.example/)."),
                         MessageState::Failed); // things that Tab stops at, above the card
        const auto buttons = failed->transcript()->viewport()->findChildren<QPushButton*>();
        QList<QPushButton*> shown;
        for (QPushButton* button : buttons) {
            if (button->isVisible())
                shown += button;
        }
        QVERIFY(!shown.isEmpty());
        for (const char* step : {"Tab", "Shift+Tab"}) {
            shown[0]->setFocus();
            QCOMPARE(QApplication::focusWidget(), shown[0]);
            key(QString::fromLatin1(step));
            QVERIFY2(QApplication::focusWidget() != shown[0], step);
        }
        shown[0]->setFocus();
        AgentStatus idle = failed->agent()->status();
        idle.outcome = Outcome::None;
        test::setStatus(failed->agent(), idle); // the card goes
        QVERIFY(!shown[0]->isVisible());
        QVERIFY(QApplication::focusWidget() && QApplication::focusWidget()->isVisible());
    }

    void streamingLeavesTheEventLoopFree() // B-37
    {
        // Eight panes write at once, each turn what some 50 tokens are, with code of 2,000 lines and a table of 80 rows
        // in it. What the GUI thread works in a turn is counted, not the time that a busy machine stretches.
        for (int i = 0; i < numAgents; ++i) {
            test::addMessage(agent(i), MessageRole::User, QStringLiteral("long?"));
            test::addMessage(agent(i), MessageRole::Assistant, {}, MessageState::Pending);
        }
        QCoreApplication::processEvents();
        const QString text = test::longAnswer(12000);
        constexpr int perTurn = 200;
        double longest = 0;
        for (int at = 0; at < text.size(); at += perTurn) {
            const double before = threadMs();
            for (int i = 0; i < numAgents; ++i) {
                test::appendText(agent(i), text.mid(at, perTurn));
                pane(i)->transcript()->flush();
            }
            QCoreApplication::processEvents();
            longest = qMax(longest, threadMs() - before);
        }
        qInfo("longest turn %.1f ms of CPU for 8 x %d characters", longest, perTurn);
        QVERIFY2(longest < longestTurnMs, qPrintable(QString::number(longest)));
        for (int i = 0; i < numAgents; ++i)
            QVERIFY(pane(i)->transcript()->plainText().contains(QStringLiteral("line1999")));
    }

    void aSecondStartRaisesTheFirst()
    {
        const QString key = QStringLiteral("test-%1").arg(QCoreApplication::applicationPid());
        auto first = std::make_unique<SingleInstance>(key);
        QVERIFY(first->isFirst());
        QSignalSpy raised(first.get(), &SingleInstance::raiseRequested);
        // The second runs in a thread here: it waits for an answer that this thread gives.
        bool second = true, answered = false;
        std::unique_ptr<QThread> other(QThread::create([&] {
            SingleInstance instance(key);
            second = instance.isFirst();
            answered = instance.raiseFirst({QStringLiteral("/tmp/repo")});
        }));
        other->start();
        QTRY_COMPARE(raised.size(), 1);
        QTRY_VERIFY(other->isFinished());
        QVERIFY(!second);
        QVERIFY(answered);
        QCOMPARE(raised[0][0].toStringList(), QStringList{QStringLiteral("/tmp/repo")});
        first.reset();
        QVERIFY(SingleInstance(key).isFirst());
    }

    void aSecondWindowDoesNotOpenTheDatabaseOfOneThatHangs() // B-49
    {
        QTemporaryDir data;
        agents::WorkbenchOptions options;
        options.databasePath = data.filePath(QStringLiteral("octavo.db"));
        auto first = std::make_unique<SingleInstance>(options.databasePath); // its thread is this one: no answer comes
        QVERIFY(first->isFirst());
        QString told;
        QTimer look;
        connect(&look, &QTimer::timeout, &look, [&] {
            auto* box = qobject_cast<QMessageBox*>(QApplication::activeModalWidget());
            if (box == nullptr)
                return QApplication::exit(77); // a window is open
            told = box->text();
            box->accept();
        });
        look.start(500);
        QCOMPARE(runWindow(options, {}), 1);
        look.stop();
        QVERIFY2(told.contains(QStringLiteral("does not answer")), qPrintable(told));
        QVERIFY(!QFile::exists(options.databasePath));
        // One that only took a moment to end leaves its place.
        first.reset();
        QSemaphore held, seen;
        std::unique_ptr<QThread> ending(QThread::create([&] {
            const SingleInstance quitting(options.databasePath);
            held.release();
            seen.acquire();
            QThread::msleep(200);
        }));
        ending->start();
        held.acquire();
        SingleInstance second(options.databasePath);
        QVERIFY(!second.isFirst());
        seen.release();
        QVERIFY(second.takeOver());
        ending->wait();
    }

    void aDeadFirstWindowLocksNobodyOut() // B-49
    {
        const QString key = QStringLiteral("dead-%1").arg(QCoreApplication::applicationPid());
        int ready[2];
        QCOMPARE(pipe(ready), 0);
        const pid_t child = fork();
        QVERIFY(child >= 0);
        if (child == 0) {
            const SingleInstance first(key);
            const char answer = first.isFirst() ? 'y' : 'n';
            if (write(ready[1], &answer, 1) != 1)
                _exit(1);
            for (;;)
                pause();
        }
        char answer = 0;
        QCOMPARE(read(ready[0], &answer, 1), ssize_t(1));
        QCOMPARE(answer, 'y');
        QVERIFY(!SingleInstance(key).isFirst());
        QCOMPARE(kill(child, SIGKILL), 0);
        int status = 0;
        QCOMPARE(waitpid(child, &status, 0), child);
        ::close(ready[0]);
        ::close(ready[1]);
        SingleInstance after(key);
        QVERIFY(after.isFirst());
        // And it answers: the socket that the dead one left is taken over.
        QSignalSpy raised(&after, &SingleInstance::raiseRequested);
        std::unique_ptr<QThread> other(QThread::create([&] { SingleInstance(key).raiseFirst({}); }));
        other->start();
        QTRY_COMPARE(raised.size(), 1);
        QTRY_VERIFY(other->isFinished());
    }

    void speaksGermanWhereTheTranslationIsBuilt()
    {
        if (!QFile::exists(QStringLiteral(":/translations/octavo_de.qm")))
            QSKIP("built without Qt's linguist tools");
        QVERIFY(installTranslation(QLocale(QLocale::German)));
        openWindow();
        QCOMPARE(m_window->header()->compareButton()->text(), QStringLiteral("Vergleichen"));
        bool writing = false;
        for (const QLabel* label : pane(0)->findChildren<QLabel*>())
            writing = writing || label->text() == u"schreibt";
        QVERIFY(writing);
        QVERIFY(!installTranslation(QLocale(QLocale::Zulu)));
        qDeleteAll(qApp->findChildren<QTranslator*>()); // which removes them
    }

    void textAtTwiceTheSizeStillFits()
    {
        Theme::instance()->apply(SchemeChoice::Light, 2.0);
        m_window->grid()->setShape(GridShape::Two);
        QCoreApplication::processEvents();
        // Nothing is squeezed below what it needs: every visible button shows its whole text.
        for (const QPushButton* button : m_window->findChildren<QPushButton*>()) {
            if (button->isVisible())
                QVERIFY2(button->width() >= button->minimumSizeHint().width(), qPrintable(button->text()));
        }
        QVERIFY(m_window->width() <= 1920);
        // Names of contexts make way for names of panes.
        m_window->grid()->setShape(GridShape::EightWide);
        m_window->resize(1920, 1080);
        QTest::qWait(50);
        for (const Pane* pane : m_window->grid()->panes()) {
            const QToolButton* context = pane->findChild<PaneHeader*>()->contextButton();
            const int needed = QFontMetrics(context->font()).horizontalAdvance(context->text());
            QVERIFY2(needed <= context->width(),
                     qPrintable(QStringLiteral("%1: %2 in %3").arg(context->text()).arg(needed).arg(context->width())));
        }
        Theme::instance()->apply(SchemeChoice::Dark, 1.0);
    }

    void loadingAndItsFailureAreShown()
    {
        auto workbench = test::makeWorkbench();
        test::reportLoad(workbench.get(), QStringLiteral("Reading weights"), 3, 10);
        MainWindow window(workbench.get());
        window.show();
        test::reportLoad(workbench.get(), QStringLiteral("Reading weights"), 5'000'000, 10'000'000);
        const auto says = [&](const QString& text) {
            for (const QLabel* label : window.findChildren<QLabel*>()) {
                if (label->isVisible() && label->text().contains(text))
                    return true;
            }
            return false;
        };
        QVERIFY(says(QStringLiteral("Reading weights")));
        test::failLoading(workbench.get(), Error{ErrorCode::FileUnreadable, "/models/x: no such folder"});
        QVERIFY(says(QStringLiteral("/models/x: no such folder")));
        test::becomeReady(workbench.get());
        QVERIFY(says(QStringLiteral("Eight agents over your code")));
    }

    void theLookHoldsBeforeTheModelIsLoaded()
    {
        m_window->close(); // keeps the geometry
        m_workbench->setSetting(setting_keys::textScale, QStringLiteral("2"));
        test::reportLoad(m_workbench.get(), QStringLiteral("Reading weights"), 3, 10); // not ready any more
        MainWindow window(m_workbench.get());
        window.show();
        QCOMPARE(Theme::instance()->textScale(), 1.0);
        test::readSettings(m_workbench.get());
        QCOMPARE(Theme::instance()->textScale(), 2.0);
        window.resize(1300, 850); // by the user, while the model loads
        test::becomeReady(m_workbench.get());
        QCOMPARE(window.size(), QSize(1300, 850));
        Theme::instance()->apply(SchemeChoice::Dark, 1.0);
    }

    void aLinkWhoseWordsHideItsAddressIsAskedAbout()
    {
        emit pane(7)->transcript()->linkActivated(QStringLiteral("https://evil.example/?q=secret"),
                                                  QStringLiteral("https://docs.example/"));
        QVERIFY(m_window->notices()->isVisible());
        QVERIFY(m_window->notices()->text().contains(QStringLiteral("https://evil.example/?q=secret")));
        QVERIFY(m_window->notices()->button()->isVisible());
        emit pane(7)->transcript()->linkActivated(QStringLiteral("file:///etc/passwd"), QStringLiteral("docs"));
        QVERIFY(m_window->notices()->text().contains(QStringLiteral("Not a web address")));
    }

    void theFirstPageIsHonestAndLeadsOn()
    {
        auto workbench = test::makeWorkbench();
        engine::ModelInfo demo;
        demo.name = "demo-model";
        demo.parameters = 49'000'000;
        test::setModel(workbench.get(), demo);
        MainWindow window(workbench.get());
        window.setDemoModel(true);
        window.show();
        QStringList said;
        for (const QLabel* label : window.findChildren<QLabel*>()) {
            if (label->isVisible())
                said += label->text();
        }
        const QString page = said.join(u'\n');
        for (const char* word : {"parameters", "names the wrong file", "Qwen3.8-27B", "whether it fits"})
            QVERIFY2(page.contains(QLatin1String(word)), word);
        // A folder that is dropped is read without further questions.
        QSignalSpy opened(&window, &MainWindow::openRequested);
        auto* page1 = window.findChild<StartPage*>();
        QMimeData data;
        data.setUrls({QUrl::fromLocalFile(QStringLiteral("/src/mine")), QUrl(QStringLiteral("https://example.org"))});
        QDropEvent drop(QPointF(100, 100), Qt::CopyAction, &data, Qt::LeftButton, {});
        static_cast<QObject*>(page1)->event(&drop); // as the desktop's drag would, past the application
        QCOMPARE(opened.size(), 1);
        QCOMPARE(opened[0][0].toStringList(), QStringList{QStringLiteral("/src/mine")});
    }
};

QTEST_MAIN(TestMainWindow)
#include "tst_main_window.moc"
