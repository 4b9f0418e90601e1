#include "ui/run_window.h"

#include "ui/dashboard/dashboard_panel.h"
#include "ui/main_window.h"
#include "ui/notice_bar.h"
#include "ui/pane/pane.h"
#include "ui/repository_intake.h"
#include "ui/settings/startup_settings.h"
#include "ui/single_instance.h"
#include "ui/theme.h"
#include "ui/translation.h"
#include "ui/window_tools.h"

#include <QApplication>
#include <QIcon>
#include <QLocale>
#include <QMessageBox>

#include <utility>

namespace octavo::ui {

namespace {

/// The model that comes with Octavo: what is used where none is named.
const char* const demoModelName = "demo-model";

} // namespace

int runWindow(const agents::WorkbenchOptions& options, const WindowStart& start)
{
    SingleInstance instance(options.databasePath);
    if (!instance.isFirst() && instance.raiseFirst(start.repositories))
        return 0;

    installTranslation(QLocale());
    if (!instance.takeOver()) { // two at one database would write over each other
        QMessageBox::critical(nullptr, QStringLiteral("Octavo"),
                              QCoreApplication::translate("octavo::ui::SingleInstance",
                                                          "Octavo runs already but does not answer. Wait for it or "
                                                          "end it, then start again."));
        return 1;
    }
    Theme::instance()->apply(SchemeChoice::System);
    QApplication::setWindowIcon(QIcon(QStringLiteral(":/icons/octavo.svg")));
    agents::WorkbenchOptions chosen = options;
    const StartupSettings settings = StartupSettings::load();
    settings.applyTo(chosen, start.given);
    chosen.agentName = MainWindow::tr("Agent %1");
    agents::Workbench workbench(chosen);
    MainWindow window(&workbench);
    window.setDashboard(new DashboardPanel(&workbench));
    const auto* dashboard = window.findChild<DashboardPanel*>();
    QObject::connect(dashboard, &DashboardPanel::exportFailed, window.notices(), &NoticeBar::tell);
    QObject::connect(dashboard, &DashboardPanel::exported, window.notices(), [&window](const QString& path) {
        window.notices()->tell(MainWindow::tr("Exported to %1").arg(path));
    });
    new WindowTools(&window, settings);
    window.setDemoModel(chosen.engine.modelDir.filename() == demoModelName);

    RepositoryIntake intake(&workbench);
    intake.setTokenBudget(start.tokenBudget);
    if (start.trusted)
        intake.trustAtStart(start.repositories);
    QObject::connect(&intake, &RepositoryIntake::shortened, window.notices(), &NoticeBar::tell);
    QObject::connect(&intake, &RepositoryIntake::failed, &window, &MainWindow::showOpenProblem);
    QObject::connect(&window, &MainWindow::trustRequested, &intake, &RepositoryIntake::trust);
    QObject::connect(&intake, &RepositoryIntake::finished, &window, [&] { window.setExpectingContext(false); });
    QStringList early = start.repositories; // named before the model was loaded
    const auto take = [&](const QStringList& paths) {
        if (!workbench.isReady()) {
            early += paths;
            return;
        }
        if (paths.isEmpty())
            return;
        window.setExpectingContext(true);
        intake.add(paths);
    };
    QObject::connect(&workbench, &agents::Workbench::ready, &window, [&] { take(std::exchange(early, {})); });
    QObject::connect(&window, &MainWindow::openRequested, &window, take);
    QObject::connect(&instance, &SingleInstance::raiseRequested, &window, [&](const QStringList& more) {
        window.raiseWindow();
        take(more);
    });
    window.show();
    workbench.start();
    return QApplication::exec();
}

} // namespace octavo::ui
