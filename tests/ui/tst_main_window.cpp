#include "tests/ui/long_answer.h"
#include "tests/ui/scripted_window.h"
#include "ui/command_palette.h"
#include "ui/header_bar.h"
#include "ui/notice_bar.h"
#include "ui/setting_keys.h"
#include "ui/sidebar/sidebar.h"
#include "ui/start_page.h"
#include "ui/transcript/transcript_view.h"
#include "ui/translation.h"

#include <QAction>
#include <QClipboard>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QToolButton>
#include <QTranslator>

#include <ctime>

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

/// Panes, their keys and the commands; what the window says and when.
class TestMainWindow : public test::ScriptedWindow
{
    Q_OBJECT

private slots:
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

    void thePaletteShowsIconsAndKeys()
    {
        key(QStringLiteral("F1"));
        auto* palette = m_window->findChild<CommandPalette*>();
        QVERIFY(palette);
        const QAbstractItemModel& rows = *palette->list()->model();
        QVERIFY(rows.rowCount() > 25);
        for (int row = 0; row < rows.rowCount(); ++row) {
            const QModelIndex index = rows.index(row, 0);
            QVERIFY2(!index.data(Qt::DecorationRole).value<QIcon>().isNull(), qPrintable(index.data().toString()));
            const QString keys = index.data(CommandPalette::KeyRole).toString();
            QVERIFY(keys.isEmpty() || !index.data().toString().contains(keys));
            QVERIFY(index.data(Qt::AccessibleTextRole).toString().contains(keys));
        }
        QTest::keyClicks(palette->field(), QStringLiteral("xqxq"));
        QVERIFY(!palette->list()->isVisible()); // and says so
        QTest::keyClick(palette->field(), Qt::Key_Escape);
        QTRY_VERIFY(!m_window->findChild<CommandPalette*>());
        m_window->activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
        key(QStringLiteral("F1"));
        palette = m_window->findChild<CommandPalette*>();
        QVERIFY(palette);
        auto* close = palette->findChild<QToolButton*>(); // there is no title bar to close it by
        QVERIFY(close);
        close->click();
        QTRY_VERIFY(!m_window->findChild<CommandPalette*>());
    }

    void theFieldForAllShowsTheKeyThatLeadsToIt()
    {
        QAction* ask = m_window->findChild<QAction*>(QStringLiteral("askAll"));
        const auto shows = [&](const QString& text) {
            for (const QLabel* label : m_window->header()->askField()->findChildren<QLabel*>()) {
                if (label->isVisible() && label->text() == text)
                    return true;
            }
            return false;
        };
        QVERIFY(shows(ask->shortcut().toString(QKeySequence::NativeText)));
        ask->setShortcut(QKeySequence(QStringLiteral("F4")));
        QVERIFY(shows(QStringLiteral("F4")));
        ask->setShortcuts(QList<QKeySequence>());
        QVERIFY(!shows(QString()) && !shows(QStringLiteral("F4")));
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

    void aPaneSaysHowFarItsContextIsRead()
    {
        ContextInfo context = agent(7)->context();
        context.state = ContextState::Reading;
        context.readTotal = context.tokens;
        context.readDone = context.tokens * 42 / 100;
        context.readReused = context.tokens * 30 / 100;
        context.secondsLeft = 31;
        m_window->grid()->setShape(GridShape::One); // where there is room for all of it
        test::setContext(agent(7), context);
        QTRY_VERIFY2(words(7).contains(QStringLiteral("reading 41%, 0:31 left")), qPrintable(words(7)));
        QVERIFY2(words(7).contains(QStringLiteral("resumed at 30%")), qPrintable(words(7)));
        m_window->grid()->setShape(GridShape::EightWide);
        QTest::qWait(50);
        QVERIFY(words(7).contains(QStringLiteral("reading 41%")));
        AgentStatus failed = agent(7)->status();
        failed.outcome = Outcome::Failed;
        test::setStatus(agent(7), failed);
        QVERIFY2(!words(7).contains(QStringLiteral("reading 41%")), qPrintable(words(7)));
        QVERIFY2(words(7).contains(QStringLiteral("failed")), qPrintable(words(7)));
        context.state = ContextState::Preparing;
        test::setStatus(agent(7), AgentStatus());
        test::setContext(agent(7), context);
        QVERIFY(words(7).contains(QStringLiteral("preparing")));
        context.state = ContextState::Read;
        test::setContext(agent(7), context);
        QVERIFY(words(7).contains(QStringLiteral("idle")));
    }

    void theRateOfTheLastAnswerStays()
    {
        QVERIFY2(words(3).contains(QStringLiteral("83.2 tok/s")), qPrintable(words(3)));
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
