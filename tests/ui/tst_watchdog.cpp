#include "agents/store/session_store.h"
#include "tests/ui/real_window.h"
#include "tests/ui/watched_calls.h"
#include "ui/settings/saved_contexts_page.h"
#include "ui/settings/settings_dialog.h"
#include "ui/sidebar/sidebar.h"
#include "ui/source_viewer/source_viewer.h"

#include <QCheckBox>
#include <QElapsedTimer>
#include <QListView>
#include <QThread>
#include <QTimer>

#include <ctime>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;
using octavo::ui::test::RealWindow;

namespace {

constexpr int delayMs = 40, firstDelayMs = 500;
#ifdef __SANITIZE_ADDRESS__
constexpr double longestTurnMs = 400; // checks cost about that much more
#else
constexpr double longestTurnMs = 100;
#endif
constexpr double longestWaitMs = 100;

double threadMs()
{
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

double wallMs()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) * 1e3 + double(now.tv_nsec) * 1e-6;
}

/// How long this thread was ready to run and had no processor; negative where the system does not tell.
double queuedMs()
{
    QFile file(QStringLiteral("/proc/thread-self/schedstat"));
    if (!file.open(QIODevice::ReadOnly))
        return -1;
    const QList<QByteArray> fields = file.readAll().simplified().split(' ');
    return fields.size() < 2 ? -1 : fields[1].toDouble() * 1e-6;
}

/// Counts what the GUI thread works between two turns of its event loop, and how long it sleeps there, waiting for
/// something: not wall time, which a busy machine stretches.
class Beat
{
public:
    Beat()
    {
        QObject::connect(&m_timer, &QTimer::timeout, &m_timer, [this] {
            const double now = threadMs(), wall = wallMs(), queued = queuedMs();
            m_longest = qMax(m_longest, now - m_last);
            if (queued >= 0)
                m_longestWait = qMax(m_longestWait, wall - m_lastWall - (now - m_last) - (queued - m_lastQueued));
            m_last = threadMs();
            m_lastWall = wallMs();
            m_lastQueued = queuedMs();
        });
        m_timer.start(0);
    }
    void begin()
    {
        QCoreApplication::processEvents();
        m_longest = m_longestWait = 0;
        m_last = threadMs();
        m_lastWall = wallMs();
        m_lastQueued = queuedMs();
    }
    double longestMs() const { return m_longest; }
    double longestWaitMs() const { return m_longestWait; }

private:
    QTimer m_timer;
    double m_last = 0, m_lastWall = 0, m_lastQueued = 0, m_longest = 0, m_longestWait = 0;
};

octavo::test::Script answer(const engine::GenerationRequest&)
{
    octavo::test::Script script;
    script.pieces = {"`join` in `src/join.cpp`:\n\n", "```cpp\nint join(int a, int b)\n{\n```\n"};
    return script;
}

} // namespace

/// No engine, git, SQL or file call on the GUI thread (B-43): each is held up on its own thread, the first of its kind
/// by half a second, and noted on ours; and ours waits for none of them.
class TestWatchdog : public QObject
{
    Q_OBJECT

private:
    std::unique_ptr<RealWindow> m_real;
    std::unique_ptr<Beat> m_beat;

    void watch()
    {
        m_beat->begin();
        ui::test::watchCalls({m_real->data.path().toStdString(), m_real->repository.root().toStdString()}, delayMs,
                             firstDelayMs);
    }

    void checkNothingWaited()
    {
        QStringList calls;
        for (const std::string& call : ui::test::offences())
            calls += QString::fromStdString(call);
        QVERIFY2(calls.isEmpty(), qPrintable(calls.join(u'\n')));
        QVERIFY(ui::test::heldCalls() > 0);
        qInfo("%d calls held up, longest turn of the event loop %.0f ms of work, %.0f ms asleep",
              ui::test::heldCalls(), m_beat->longestMs(), m_beat->longestWaitMs());
        ui::test::stopWatching();
        QVERIFY2(m_beat->longestWaitMs() < longestWaitMs, qPrintable(QString::number(m_beat->longestWaitMs())));
        QVERIFY2(m_beat->longestMs() < longestTurnMs, qPrintable(QString::number(m_beat->longestMs())));
    }

private slots:
    void initTestCase()
    {
        QLocale::setDefault(QLocale::English);
        Theme::instance()->apply(SchemeChoice::Dark);
        m_beat = std::make_unique<Beat>();
    }
    void init() { m_real = std::make_unique<RealWindow>(answer); }
    void cleanup()
    {
        ui::test::stopWatching();
        m_real.reset();
    }

    void aCallFromThisThreadWouldBeNoticed()
    {
        ui::test::watchCalls({m_real->data.path().toStdString()}, 0, 0);
        QVERIFY(!QFile::exists(m_real->data.filePath(QStringLiteral("nothing"))));
        QFile file(m_real->data.filePath(QStringLiteral("something")));
        QVERIFY(file.open(QIODevice::WriteOnly));
        auto store = SessionStore::open({});
        QVERIFY(store);
        QVERIFY(ui::test::offences().size() >= 3);
    }

    void waitingForAnotherThreadWouldBeNoticed()
    {
        if (queuedMs() < 0)
            QSKIP("this system does not tell how long a thread was ready and had no processor");
        m_beat->begin();
        QThread::msleep(200);
        QTest::qWait(20);
        QVERIFY2(m_beat->longestWaitMs() > 150, qPrintable(QString::number(m_beat->longestWaitMs())));
        QVERIFY2(m_beat->longestMs() < 150, qPrintable(QString::number(m_beat->longestMs())));
    }

    void startingWithAThousandSessions()
    {
        {
            auto store = SessionStore::open(m_real->database());
            QVERIFY(store);
            QVERIFY(store->database().transaction([&]() -> Result<void> {
                for (int i = 1; i <= 1000; ++i) {
                    StoredConversation conversation;
                    conversation.id = ConversationId(i);
                    conversation.title = QStringLiteral("Session %1").arg(i);
                    conversation.lastUsed = QDateTime::currentDateTimeUtc().addSecs(-i);
                    OCTAVO_CHECK(store->addConversation(conversation));
                }
                return {};
            }));
        }
        watch();
        m_real->open();
        QListView* history = m_real->window->sidebar()->historyView();
        QCOMPARE(history->model()->rowCount(), 1000);
        m_real->key(QStringLiteral("Ctrl+Shift+F"));
        m_real->type(QStringLiteral("Session 77"));
        QTRY_VERIFY(history->model()->rowCount() < 50);
        checkNothingWaited();
    }

    void aDaysWork()
    {
        m_real->open();
        watch();
        m_real->addRepository();
        m_real->key(QStringLiteral("Ctrl+1"));
        m_real->ask(QStringLiteral("Where is join?"));
        QTRY_COMPARE_WITH_TIMEOUT(m_real->agent(0)->status().activity, Activity::Idle, 10000);
        QCOMPARE(m_real->agent(0)->status().outcome, Outcome::Done);
        m_real->key(QStringLiteral("Ctrl+R")); // written anew
        QTRY_COMPARE_WITH_TIMEOUT(m_real->agent(0)->status().activity, Activity::Idle, 10000);
        const ConversationId conversation = m_real->agent(0)->conversation();

        const Citation cited = m_real->agent(0)->messages().back().citations.value(0);
        emit m_real->window->citationActivated(m_real->agent(0)->context().id, cited);
        auto* viewer = m_real->window->findChild<SourceViewer*>();
        QTRY_VERIFY_WITH_TIMEOUT(viewer->code()->toPlainText().contains(QStringLiteral("join")), 10000);
        viewer->close();
        m_real->window->exportTo(m_real->data.filePath(QStringLiteral("a.md")));

        QApplication::setActiveWindow(m_real->window.get());
        m_real->pane(0)->focusComposer();
        m_real->key(QStringLiteral("Ctrl+N"));
        m_real->agent(0)->openConversation(conversation);
        QTRY_COMPARE_WITH_TIMEOUT(m_real->agent(0)->messages().size(), 2, 10000);
        m_real->workbench->renameConversation(conversation, QStringLiteral("Renamed"));
        m_real->workbench->deleteConversation(conversation);
        m_real->workbench->undoDelete(conversation);
        m_real->type(QStringLiteral("a draft"));
        m_real->workbench->removeContext(m_real->workbench->contexts()[0].id);
        QTest::qWait(3 * delayMs);
        checkNothingWaited();
    }

    void settings()
    {
        m_real->open();
        QFile context(m_real->data.filePath(QStringLiteral("00000000000000a1-00000000000000b1-64.context")));
        QVERIFY(context.open(QIODevice::WriteOnly) && context.write("no context") > 0);
        context.close();
        watch();
        SettingsDialog dialog(m_real->workbench.get(), m_real->window->commands(), {},
                              m_real->data.filePath(QStringLiteral("octavo.ini")), m_real->window.get());
        dialog.show();
        dialog.findChild<QLineEdit*>(QStringLiteral("modelFolder"))->setText(m_real->repository.root());
        QTRY_VERIFY_WITH_TIMEOUT(RealWindow::says(&dialog, QStringLiteral("cannot be loaded")) ||
                                     dialog.findChild<QLabel*>(QStringLiteral("verdict"))
                                         ->text()
                                         .contains(QStringLiteral("cannot be loaded")),
                                 10000);
        dialog.findChild<QCheckBox*>(QStringLiteral("mtpDrafts"))->toggle();
        SavedContextsPage saved(StartupSettings(), m_real->data.path().toStdString());
        saved.show();
        QTRY_COMPARE_WITH_TIMEOUT(saved.model().rowCount(), 1, 10000);
        saved.findChild<QPushButton*>(QStringLiteral("savedVerify"))->click();
        QTRY_COMPARE_WITH_TIMEOUT(saved.model().contexts()[0].state, SavedContextState::Damaged, 10000);
        saved.findChild<QPushButton*>(QStringLiteral("savedRemoveAll"))->click();
        saved.findChild<QPushButton*>(QStringLiteral("savedConfirm"))->click();
        QTRY_COMPARE_WITH_TIMEOUT(saved.model().rowCount(), 0, 10000);
        QTest::qWait(5 * delayMs);
        checkNothingWaited();
    }
};

QTEST_MAIN(TestWatchdog)
#include "tst_watchdog.moc"
