/// The real window over the demo model: reads a repository, asks all panes, saves pictures on the way.
/// octavo_live_shots REPOSITORY FOLDER [light|dark [QUESTION...]]
///
/// Reads what the globs in OCTAVO_SHOTS_INCLUDE let through, where that is set: "util/*.h,db/skiplist.h".
/// What was read is kept in FOLDER/contexts, so a second run answers at once; a first one says how long a newcomer
/// waits.

#include "ui/dashboard/dashboard_panel.h"
#include "ui/main_window.h"
#include "ui/pane/pane.h"
#include "ui/repository_intake.h"
#include "ui/theme.h"
#include "ui/transcript/transcript_view.h"
#include "ui/translation.h"
#include "ui/wizard/add_repository_dialog.h"

#include <QApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QLocale>
#include <QTest>

#include <cstdio>

using namespace octavo;
using namespace octavo::ui;

namespace {

bool waitFor(const std::function<bool()>& done, int seconds)
{
    return QTest::qWaitFor(done, seconds * 1000);
}

/// All panes ask about these files.
void addSome(agents::Workbench& workbench, const QString& repository, const QStringList& globs)
{
    agents::IngestOptions options;
    options.repository = repository;
    options.include = globs;
    agents::IngestJob* job = workbench.preview(options);
    QObject::connect(job, &agents::IngestJob::failed, job,
                     [](const Error& error) { std::fprintf(stderr, "%s\n", error.message.c_str()); });
    QObject::connect(job, &agents::IngestJob::finished, job,
                     [&workbench, job, options](const agents::IngestResult& found) {
                         const agents::ContextId context = workbench.addContext(options, found);
                         for (int i = 0; i < agents::numAgents; ++i)
                             workbench.agent(i)->setContext(context);
                         job->deleteLater();
                     });
}

} // namespace

int main(int argc, char** argv)
{
    QApplication app(argc, argv);
    if (argc < 3) {
        std::fprintf(stderr, "usage: octavo_live_shots REPOSITORY FOLDER [light|dark [QUESTION...]]\n");
        return 2;
    }
    QLocale::setDefault(QLocale::English);
    installTranslation(QLocale(QLocale::English));
    const QDir folder(QString::fromLocal8Bit(argv[2]));
    const QString scheme = argc > 3 ? QString::fromLocal8Bit(argv[3]) : QStringLiteral("dark");
    Theme::instance()->apply(Theme::choiceFromName(scheme));
    QElapsedTimer sinceStart;
    sinceStart.start();
    const auto tell = [&](const char* what) {
        std::printf("%s after %.1f s\n", what, double(sinceStart.elapsed()) / 1000);
    };
    agents::WorkbenchOptions options;
    options.engine.modelDir = OCTAVO_RESOURCES "/demo-model";
    options.engine.savedContexts = folder.filePath(QStringLiteral("contexts")).toStdString();
    options.maxNewTokens = 200;
    agents::Workbench workbench(options);
    MainWindow window(&workbench);
    window.setDemoModel(true);
    window.setDashboard(new DashboardPanel(&workbench));
    window.resize(1920, 1080);
    window.show();
    const auto save = [&](const char* name) {
        for (Pane* pane : window.grid()->panes())
            pane->transcript()->flush();
        QCoreApplication::sendPostedEvents(nullptr, QEvent::LayoutRequest); // a button that changed its words
        window.grab().save(folder.filePath(QLatin1String(name) + u'-' + scheme + QStringLiteral(".png")));
    };
    QObject::connect(&workbench, &agents::Workbench::failed,
                     [](const Error& error) { std::fprintf(stderr, "%s\n", error.message.c_str()); });
    workbench.start();
    if (!waitFor([&] { return workbench.isReady(); }, 60))
        return 1;
    tell("ready");
    QTest::qWait(100);
    save("live-first");
    RepositoryIntake intake(&workbench);
    QObject::connect(&intake, &RepositoryIntake::failed,
                     [](const OpenProblem& problem) { std::fprintf(stderr, "%s\n", qPrintable(problem.text)); });
    const QString globs = qEnvironmentVariable("OCTAVO_SHOTS_INCLUDE");
    if (globs.isEmpty())
        intake.add({QString::fromLocal8Bit(argv[1])});
    else
        addSome(workbench, QString::fromLocal8Bit(argv[1]), globs.split(u','));
    const auto isRead = [&] {
        const QList<agents::ContextInfo> contexts = workbench.contexts();
        return !contexts.isEmpty() && contexts[0].state == agents::ContextState::Read;
    };
    if (!waitFor([&] { return workbench.agent(7)->context().id != agents::ContextId{}; }, 120))
        return 1;
    waitFor([&] { return isRead() || workbench.contexts()[0].readDone > workbench.contexts()[0].tokens / 3; }, 600);
    save("live-reading");
    if (!waitFor(isRead, 900))
        return 1;
    tell("read");
    QStringList questions;
    for (int i = 4; i < argc; ++i)
        questions += QString::fromLocal8Bit(argv[i]);
    if (questions.isEmpty())
        questions += QStringLiteral("Which files are loaded?");
    const auto busy = [&] {
        int count = 0;
        for (int i = 0; i < agents::numAgents; ++i)
            count += workbench.agent(i)->status().activity != agents::Activity::Idle;
        return count;
    };
    // One question for each pane in a round; the pictures are of the last one.
    for (qsizetype first = 0; first < questions.size(); first += agents::numAgents) {
        for (int i = 0; i < agents::numAgents; ++i) {
            const QString& question = questions[(first + i) % questions.size()];
            if (const auto asked = workbench.agent(i)->ask(question); !asked)
                std::fprintf(stderr, "pane %d: %s\n", i, asked.error().message.c_str());
        }
        if (first + agents::numAgents >= questions.size()) {
            waitFor([&] { return busy() <= 5; }, 300);
            save("live-half");
        }
        if (first == 0 && waitFor([&] { return busy() < agents::numAgents; }, 300))
            tell("first answer");
        waitFor([&] { return busy() == 0; }, 300);
        QTest::qWait(1000);
    }
    save("live-done");
    window.grid()->setCurrent(window.grid()->panes()[1]);
    window.grid()->setZoomed(true);
    QTest::qWait(200);
    save("live-zoom");
    AddRepositoryDialog wizard(&workbench);
    wizard.show();
    wizard.setFolder(QString::fromLocal8Bit(argv[1]));
    auto* next = wizard.findChild<QPushButton*>(QStringLiteral("next"));
    waitFor([&] { return next->isEnabled(); }, 10);
    next->click();
    waitFor([&] { return wizard.findChild<FilesPage*>()->hasFiles() && next->isEnabled(); }, 60);
    QTest::qWait(300);
    wizard.grab().save(folder.filePath(QStringLiteral("live-wizard-") + scheme + QStringLiteral(".png")));
    wizard.findChild<QPushButton*>(QStringLiteral("asMap"))->click();
    QTest::qWait(100);
    wizard.grab().save(folder.filePath(QStringLiteral("live-map-") + scheme + QStringLiteral(".png")));
    std::printf("%d panes still busy\n", busy());
    return 0;
}
