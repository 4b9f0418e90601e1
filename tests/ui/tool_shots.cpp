/// Renders the dashboard, the wizard's pages, settings and the source viewer into PNG files, to be looked at:
/// octavo_tool_shots FOLDER REPOSITORY, with QT_SCALE_FACTOR for other scales.

#include "engine/scheduler/saved_context.h"
#include "tests/engine/fake_engine.h"
#include "tests/ui/simulated_metrics.h"

#include "ui/dashboard/dashboard_panel.h"
#include "ui/main_window.h"
#include "ui/settings/model_page.h"
#include "ui/settings/saved_contexts_page.h"
#include "ui/settings/settings_dialog.h"
#include "ui/source_viewer/source_viewer.h"
#include "ui/theme.h"
#include "ui/translation.h"
#include "ui/wizard/add_repository_dialog.h"

#include "agents/workbench.h"

#include <QApplication>
#include <QDir>
#include <QFile>
#include <QLineEdit>
#include <QPushButton>
#include <QTemporaryDir>
#include <QTest>

#include <cstdio>
#include <filesystem>
#include <tuple>

using namespace octavo;

namespace {

bool waitFor(const std::function<bool()>& done)
{
    return QTest::qWaitFor(done, 30000);
}

void save(QWidget& widget, const QString& file)
{
    widget.show();
    QTest::qWait(20);
    if (!widget.grab().save(file))
        std::fprintf(stderr, "%s could not be written\n", qPrintable(file));
}

const QStringList agentNames{"Scheduler", "KV cache", "Tokenizer", "Docs", "Refactor", "Tests", "Security", "Scratch"};

void shootDashboard(testing::SimulatedMachine::Kind kind, const QSize& size, const QString& file)
{
    testing::SimulatedMachine machine(kind);
    engine::MetricsSnapshot snapshot;
    ui::DashboardPanel panel([&] { return snapshot; });
    panel.setAgentNames(agentNames);
    panel.resize(size);
    panel.show();
    QApplication::processEvents();
    for (int tick = 0; tick < 700; ++tick) {
        snapshot = machine.advance(0.1);
        panel.tick();
    }
    save(panel, file);
}

std::unique_ptr<agents::Workbench> makeWorkbench()
{
    auto engine = std::make_unique<test::FakeEngine>([](const engine::GenerationRequest&) {
        test::Script script;
        script.waits = true;
        return script;
    });
    auto workbench = std::make_unique<agents::Workbench>(agents::WorkbenchOptions{}, std::move(engine));
    workbench->start();
    waitFor([&] { return workbench->isReady(); });
    return workbench;
}

void shootWizard(const QString& repository, const std::function<QString(const char*)>& file)
{
    const auto workbench = makeWorkbench();
    workbench->setSetting(QStringLiteral("wizard/prefillTokensPerSecond"), QStringLiteral("3930"));
    ui::AddRepositoryDialog dialog(workbench.get());
    dialog.show();
    auto* next = dialog.findChild<QPushButton*>(QStringLiteral("next"));
    dialog.setFolder(repository);
    waitFor([&] { return next->isEnabled(); });
    save(dialog, file("wizard-1-source"));
    next->click();
    waitFor([&] { return dialog.findChild<ui::FilesPage*>()->hasFiles(); });
    dialog.findChild<QLineEdit*>(QStringLiteral("exclude"))->setText(QStringLiteral("tests/data/**"));
    QTest::qWait(400);
    save(dialog, file("wizard-2-files"));
    dialog.findChild<QPushButton*>(QStringLiteral("asMap"))->click();
    save(dialog, file("wizard-2-map"));
    dialog.findChild<QPushButton*>(QStringLiteral("byName"))->click();
    next->click();
    agents::ContextInfo reading = workbench->contexts().value(0);
    reading.state = agents::ContextState::Reading;
    reading.readTotal = reading.tokens;
    reading.readDone = reading.tokens * 2 / 5;
    dialog.findChild<ui::ReadPage*>()->showContext(reading);
    QTest::qWait(300);
    reading.readDone = reading.tokens * 42 / 100;
    reading.secondsLeft = 19;
    dialog.findChild<ui::ReadPage*>()->showContext(reading);
    save(dialog, file("wizard-3-read"));
    next->click();
    save(dialog, file("wizard-4-panes"));
}

void shootSettings(const std::function<QString(const char*)>& file)
{
    const auto workbench = makeWorkbench();
    const ui::MainWindow window(workbench.get()); // for its commands
    QTemporaryDir folder;
    ui::SettingsDialog dialog(workbench.get(), window.commands(), {}, folder.filePath(QStringLiteral("octavo.ini")));
    using Page = ui::SettingsDialog::Page;
    const std::pair<Page, const char*> pages[] = {{Page::Appearance, "settings-appearance"},
                                                  {Page::Model, "settings-model"},
                                                  {Page::Answers, "settings-answers"},
                                                  {Page::Memory, "settings-memory"},
                                                  {Page::SavedContexts, "settings-saved-none"},
                                                  {Page::Shortcuts, "settings-shortcuts"}};
    for (const auto& [page, name] : pages) {
        dialog.setPage(page);
        if (page == Page::Model) {
            dialog.modelPage()
                ->findChild<QLineEdit*>(QStringLiteral("modelFolder"))
                ->setText(QStringLiteral(OCTAVO_RESOURCES "/demo-model"));
            QTest::qWait(1200);
        }
        save(dialog, file(name));
    }
}

void shootSavedContexts(const std::function<QString(const char*)>& file)
{
    QTemporaryDir folder;
    const std::filesystem::path root = folder.path().toStdString();
    const std::tuple<const char*, int, std::size_t> contexts[] = {
        {"leveldb", 41'077, 28'000'000}, {"werkzeug", 37'455, 25'000'000}, {"ripgrep", 131'004, 60'000'000}};
    for (const auto& [name, tokens, bytes] : contexts) {
        const std::vector<engine::TokenId> ids(std::size_t(tokens), 7);
        const std::vector<std::byte> state(512), rows(bytes);
        engine::SavedContext::Content content;
        content.model = "demo-model";
        content.label = {name, "7ee830d2c1"};
        content.tokens = ids;
        content.states = {{tokens, std::int64_t(rows.size()), {state}}};
        content.rows[0] = {rows};
        if (!engine::SavedContext::write(root / ("00000000000000a1-00000000000000b2-" + std::string(name) + ".context"),
                                         content, [] { return false; }))
            std::fprintf(stderr, "no context was written\n");
    }
    ui::StartupSettings settings;
    settings.savedContextsQuota = qint64(1) << 28;
    ui::SavedContextsPage page(settings, root);
    page.setContentsMargins(24, 20, 24, 20);
    page.resize(700, 600);
    page.show();
    waitFor([&] { return page.model().rowCount() == 3; });
    page.findChild<QPushButton*>(QStringLiteral("savedVerify"))->click();
    QTest::qWait(400);
    save(page, file("settings-saved"));
    page.findChild<QPushButton*>(QStringLiteral("savedRemove"))->click();
    save(page, file("settings-saved-question"));
}

void shootSource(const QString& repository, const QString& file)
{
    const auto workbench = makeWorkbench();
    ui::SourceViewer viewer(workbench.get());
    QFile code(repository + QStringLiteral("/ui/charts/resample.h"));
    if (!code.open(QIODevice::ReadOnly))
        return;
    viewer.showSource(
        {QStringLiteral("ui/charts/resample.h"), QStringLiteral("3f2a9c1d0e"), QString::fromUtf8(code.readAll())}, 44,
        52);
    save(viewer, file);
}

} // namespace

int main(int argc, char** argv)
{
    qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication app(argc, argv);
    if (argc != 3) {
        std::fprintf(stderr, "usage: octavo_tool_shots FOLDER REPOSITORY\n");
        return 2;
    }
    QLocale::setDefault(QLocale::English);
    ui::installTranslation(QLocale(QLocale::English));
    const QDir folder(QString::fromLocal8Bit(argv[1]));
    const QString repository = QString::fromLocal8Bit(argv[2]);
    for (const auto& [choice, name] : {std::pair(ui::SchemeChoice::Dark, QStringLiteral("dark")),
                                       std::pair(ui::SchemeChoice::Light, QStringLiteral("light")),
                                       std::pair(ui::SchemeChoice::HighContrast, QStringLiteral("contrast"))}) {
        ui::Theme::instance()->apply(choice);
        const auto file = [&](const char* what) { return folder.filePath(QLatin1String(what) + u'-' + name + ".png"); };
        shootDashboard(testing::SimulatedMachine::Kind::TwoGpus, {1680, 230}, file("dashboard-gpus"));
        shootDashboard(testing::SimulatedMachine::Kind::Cpu, {1280, 230}, file("dashboard-cpu"));
        shootWizard(repository, file);
        shootSettings(file);
        shootSavedContexts(file);
        shootSource(repository, file("source"));
        ui::Theme::instance()->apply(choice, 2.0);
        const auto large = [&](const char* what) {
            return folder.filePath(QLatin1String(what) + QStringLiteral("-text200-") + name + ".png");
        };
        shootWizard(repository, large);
        shootSettings(large);
    }
    return 0;
}
