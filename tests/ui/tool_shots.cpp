/// Renders the dashboard, the wizard's pages, settings and the source viewer into PNG files, to be looked at:
/// octavo_tool_shots FOLDER, with QT_SCALE_FACTOR for other scales.

#include "tests/ui/simulated_metrics.h"

#include "ui/dashboard/dashboard_panel.h"
#include "ui/theme.h"

#include <QApplication>
#include <QDir>

#include <cstdio>

using namespace octavo;

namespace {

void save(QWidget& widget, const QSize& size, const QString& file)
{
    widget.resize(size);
    widget.show();
    QApplication::processEvents();
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
    save(panel, size, file);
}

} // namespace

int main(int argc, char** argv)
{
    qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication app(argc, argv);
    const QDir folder(QString::fromLocal8Bit(argc > 1 ? argv[1] : "."));
    for (const auto& [choice, name] : {std::pair(ui::SchemeChoice::Dark, QStringLiteral("dark")),
                                       std::pair(ui::SchemeChoice::Light, QStringLiteral("light"))}) {
        ui::Theme::instance()->apply(choice);
        const auto file = [&](const char* what) { return folder.filePath(QLatin1String(what) + u'-' + name + ".png"); };
        shootDashboard(testing::SimulatedMachine::Kind::TwoGpus, {1680, 230}, file("dashboard-gpus"));
        shootDashboard(testing::SimulatedMachine::Kind::Cpu, {1280, 230}, file("dashboard-cpu"));
    }
    return 0;
}
