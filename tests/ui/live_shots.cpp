/// The real window over the demo model: reads a repository, asks all panes, saves pictures on the way.
/// octavo_live_shots REPOSITORY FOLDER [light|dark [QUESTION...]]

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
    agents::WorkbenchOptions options;
    options.engine.modelDir = OCTAVO_RESOURCES "/demo-model";
    options.maxNewTokens = 160;
    agents::Workbench workbench(options);
    MainWindow window(&workbench);
    window.setDemoModel(true);
    window.setDashboard(new DashboardPanel(&workbench));
    window.resize(1920, 1080);
    window.show();
    const auto save = [&](const char* name) {
        for (Pane* pane : window.grid()->panes())
            pane->transcript()->flush();
        window.grab().save(folder.filePath(QLatin1String(name) + u'-' + scheme + QStringLiteral(".png")));
    };
    QObject::connect(&workbench, &agents::Workbench::failed,
                     [](const Error& error) { std::fprintf(stderr, "%s\n", error.message.c_str()); });
    workbench.start();
    if (!waitFor([&] { return workbench.isReady(); }, 60))
        return 1;
    QTest::qWait(100);
    save("live-first");
    RepositoryIntake intake(&workbench);
    QObject::connect(&intake, &RepositoryIntake::failed,
                     [](const QString& problem) { std::fprintf(stderr, "%s\n", qPrintable(problem)); });
    intake.add({QString::fromLocal8Bit(argv[1])});
    if (!waitFor([&] { return workbench.agent(7)->context().id != agents::ContextId{}; }, 60))
        return 1;
    QStringList questions;
    for (int i = 4; i < argc; ++i)
        questions += QString::fromLocal8Bit(argv[i]);
    if (questions.isEmpty())
        questions += QStringLiteral("Which files are loaded?");
    for (int i = 0; i < agents::numAgents; ++i) {
        if (const auto asked = workbench.agent(i)->ask(questions[i % questions.size()]); !asked)
            std::fprintf(stderr, "pane %d: %s\n", i, asked.error().message.c_str());
    }
    QTest::qWait(1500);
    save("live-early");
    const auto busy = [&] {
        int count = 0;
        for (int i = 0; i < agents::numAgents; ++i)
            count += workbench.agent(i)->status().activity != agents::Activity::Idle;
        return count;
    };
    waitFor([&] { return busy() <= 4; }, 90);
    save("live-half");
    waitFor([&] { return busy() == 0; }, 90);
    QTest::qWait(300);
    save("live-done");
    window.grid()->setCurrent(window.grid()->panes()[0]);
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
    std::printf("%d panes still busy\n", busy());
    return 0;
}
