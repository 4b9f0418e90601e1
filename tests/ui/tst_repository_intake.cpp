#include "tests/agents/git_fixture.h"
#include "tests/engine/fake_engine.h"
#include "ui/main_window.h"
#include "ui/notice_bar.h"
#include "ui/pane/pane.h"
#include "ui/repository_intake.h"
#include "ui/start_page.h"
#include "ui/take_up.h"
#include "ui/theme.h"

#include <QPromise>
#include <QSignalSpy>
#include <QTest>

#include <thread>
#include <unistd.h>

using namespace octavo;
using namespace octavo::ui;
using agents::tests::GitFixture;

/// Repositories named at the start or dropped on the first page, and what becomes of those that cannot be read.
class TestRepositoryIntake : public QObject
{
    Q_OBJECT

private:
    std::unique_ptr<agents::Workbench> m_workbench;
    std::unique_ptr<MainWindow> m_window;
    std::unique_ptr<RepositoryIntake> m_intake;

    /// As run_window.cpp does it.
    void open(const QStringList& folders)
    {
        QSignalSpy finished(m_intake.get(), &RepositoryIntake::finished);
        m_window->setExpectingContext(true);
        m_intake->add(folders);
        QTRY_COMPARE_WITH_TIMEOUT(finished.size(), 1, 20000);
    }
    StartPage* firstPage() const { return m_window->findChild<StartPage*>(); }
    bool says(const QString& text) const
    {
        for (const QLabel* label : firstPage()->findChildren<QLabel*>()) {
            if (label->isVisible() && label->text().contains(text))
                return true;
        }
        return false;
    }
    QPushButton* button(const QString& words) const
    {
        for (QPushButton* each : firstPage()->findChildren<QPushButton*>()) {
            if (each->isVisible() && each->text() == words)
                return each;
        }
        return nullptr;
    }

private slots:
    void initTestCase()
    {
        QLocale::setDefault(QLocale::English);
        Theme::instance()->apply(SchemeChoice::Dark);
    }

    void init()
    {
        m_workbench =
            std::make_unique<agents::Workbench>(agents::WorkbenchOptions{}, std::make_unique<test::FakeEngine>());
        m_window = std::make_unique<MainWindow>(m_workbench.get());
        m_intake = std::make_unique<RepositoryIntake>(m_workbench.get());
        connect(m_intake.get(), &RepositoryIntake::failed, m_window.get(), &MainWindow::showOpenProblem);
        connect(m_intake.get(), &RepositoryIntake::finished, m_window.get(),
                [this] { m_window->setExpectingContext(false); });
        connect(m_window.get(), &MainWindow::trustRequested, m_intake.get(), &RepositoryIntake::trust);
        m_window->show();
        m_workbench->start();
        QTRY_VERIFY(m_workbench->isReady());
    }

    void cleanup()
    {
        m_intake.reset();
        m_window.reset();
        m_workbench.reset();
    }

    void everyFailureStaysOnTheFirstPage()
    {
        GitFixture images;
        images.write("a.png", QByteArray("\x89PNG\r\n\x1a\n\0\0", 10));
        images.commit();
        QTemporaryDir plain;
        open({plain.path(), images.root()});
        QVERIFY(firstPage()->isVisible()); // eight empty panes are of no use
        QTRY_VERIFY(says(plain.path())); // a layout shows what is put into it one turn later
        QTRY_VERIFY(says(QStringLiteral("nothing that can be read")));
        QVERIFY(m_workbench->contexts().isEmpty());
        QSignalSpy chosen(m_window.get(), &MainWindow::chooseFilesRequested);
        button(QStringLiteral("Choose files\u2026"))->click();
        QCOMPARE(chosen.value(0).value(0).toString(), plain.path());

        // What works next takes the page away, and the old failures with it.
        GitFixture good;
        good.write("a.cpp", "int a;\n");
        good.commit();
        open({good.root()});
        QVERIFY(!firstPage()->isVisible());
        QCOMPARE(m_workbench->contexts().size(), 1);
        QCOMPARE(m_workbench->agent(7)->context().name, QStringLiteral("repo"));
    }

    void besidePanesInUseFailuresAreNoticesThatWait()
    {
        GitFixture good;
        good.write("a.cpp", "int a;\n");
        good.commit();
        QTemporaryDir first, second;
        open({first.path(), good.root(), second.path()});
        QVERIFY(!firstPage()->isVisible());
        QVERIFY(m_window->notices()->text().contains(second.path()));
        m_window->notices()->button()->click();
        QVERIFY(m_window->notices()->text().contains(first.path())); // not lost to the second
    }

    void aRepositoryOfAnotherUserIsTrustedFromThePage() // B-01
    {
        if (geteuid() != 0)
            QSKIP("giving files to another user needs root");
        GitFixture repository;
        repository.write("a.cpp", "int a;\n");
        repository.commit();
        for (const QString& path : {repository.root(), QString(repository.root() + QStringLiteral("/.git"))})
            QCOMPARE(chown(QFile::encodeName(path).constData(), 12345, 12345), 0);
        open({repository.root()});
        QVERIFY(firstPage()->isVisible());
        QPushButton* trust = button(QStringLiteral("Trust for Octavo only"));
        QVERIFY(trust);
        trust->click();
        QTRY_COMPARE_WITH_TIMEOUT(m_workbench->contexts().size(), qsizetype(1), 20000);
        QTRY_VERIFY(!firstPage()->isVisible());
        m_workbench->removeContext(m_workbench->contexts()[0].id);
        open({repository.root()}); // remembered
        QCOMPARE(m_workbench->contexts().size(), 1);
    }

    void whatAWorkerFoundIsTakenUpInTheThreadOfItsTarget()
    {
        QPromise<int> promise;
        promise.start();
        QObject target;
        int taken = 0;
        QThread* in = nullptr;
        takeUp(promise.future(), &target, [&](int value) {
            taken = value;
            in = QThread::currentThread();
        });
        std::thread worker([&] {
            promise.addResult(7);
            promise.finish();
        });
        worker.join();
        QCOMPARE(taken, 0); // posted
        QTRY_COMPARE(taken, 7);
        QCOMPARE(in, QThread::currentThread());
    }

    void nothingIsTakenUpByATargetThatIsGone()
    {
        for (const bool finishedBefore : {false, true}) {
            QPromise<int> promise;
            promise.start();
            auto target = std::make_unique<QObject>();
            bool taken = false;
            takeUp(promise.future(), target.get(), [&](int) { taken = true; });
            const auto finish = [&] {
                std::thread([&] {
                    promise.addResult(1);
                    promise.finish();
                }).join();
            };
            if (finishedBefore)
                finish();
            target.reset();
            if (!finishedBefore)
                finish();
            QCoreApplication::processEvents();
            QVERIFY(!taken);
        }
    }
};

QTEST_MAIN(TestRepositoryIntake)
#include "tst_repository_intake.moc"
