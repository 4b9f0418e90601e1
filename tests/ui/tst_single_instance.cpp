#include "agents/workbench.h"
#include "ui/run_window.h"
#include "ui/single_instance.h"

#include <QListView>
#include <QMessageBox>
#include <QSemaphore>
#include <QTemporaryDir>
#include <QThread>
#include <QTimer>
#include <QSignalSpy>
#include <QtTest>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;

/// One window per database (B-49).
class TestSingleInstance : public QObject
{
    Q_OBJECT

private slots:
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
};

QTEST_MAIN(TestSingleInstance)
#include "tst_single_instance.moc"
