/// What the dashboard costs the GUI thread: 300 ticks of a made-up machine with two GPUs, painted offscreen.
/// Prints milliseconds of CPU time per tick and the share of a core at ten ticks a second.

#include "tests/ui/simulated_metrics.h"

#include "ui/dashboard/dashboard_panel.h"
#include "ui/theme.h"

#include <QApplication>

#include <cstdio>
#include <ctime>

using namespace octavo;

int main(int argc, char** argv)
{
    qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication app(argc, argv);
    ui::Theme::instance()->apply(ui::SchemeChoice::Dark);
    testing::SimulatedMachine machine(testing::SimulatedMachine::Kind::TwoGpus);
    engine::MetricsSnapshot snapshot;
    ui::DashboardPanel panel([&] { return snapshot; });
    panel.resize(1680, 230);
    panel.show();

    constexpr int ticks = 300;
    for (int seconds : {15, 60, 300}) {
        panel.setWindowSeconds(seconds);
        double cpuMs = 0;
        for (int tick = 0; tick < 700 + ticks; ++tick) {
            snapshot = machine.advance(0.1);
            const std::clock_t begin = std::clock();
            panel.tick();
            QApplication::sendPostedEvents();
            QApplication::processEvents();
            if (tick >= 700)
                cpuMs += 1000.0 * double(std::clock() - begin) / CLOCKS_PER_SEC;
        }
        std::printf("window %3d s: %.2f ms per tick, %.1f%% of a core\n", seconds, cpuMs / ticks, cpuMs / ticks);
    }
    return 0;
}
