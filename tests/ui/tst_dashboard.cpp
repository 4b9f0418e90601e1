#include "tests/ui/simulated_metrics.h"

#include "ui/charts/resample.h"
#include "ui/dashboard/dashboard_panel.h"
#include "ui/theme.h"

#include <QFile>
#include <QImage>
#include <QMenu>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>

using namespace octavo;
using namespace octavo::ui;

namespace {

/// Counts the paint events of a widget and its children, and the pixels they covered.
class PaintWatch : public QObject
{
public:
    explicit PaintWatch(QWidget& widget)
    {
        widget.installEventFilter(this);
        for (QWidget* child : widget.findChildren<QWidget*>())
            child->installEventFilter(this);
    }
    bool eventFilter(QObject*, QEvent* event) override
    {
        count += event->type() == QEvent::Paint;
        return false;
    }
    int count = 0;
};

struct Fixture {
    explicit Fixture(testing::SimulatedMachine::Kind kind = testing::SimulatedMachine::Kind::TwoGpus)
        : machine(kind)
    {
        panel.resize(1680, 230);
        panel.show();
    }
    void run(int ticks)
    {
        for (int i = 0; i < ticks; ++i) {
            snapshot = machine.advance(0.1);
            panel.tick();
            QApplication::processEvents();
        }
    }
    QStringList texts() const
    {
        QStringList result;
        for (const QLabel* label : panel.findChildren<QLabel*>()) {
            if (label->isVisible())
                result += label->text();
        }
        return result;
    }

    testing::SimulatedMachine machine;
    engine::MetricsSnapshot snapshot;
    DashboardPanel panel{[this] { return snapshot; }};
};

} // namespace

class TestDashboard : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase() { Theme::instance()->apply(SchemeChoice::Dark); }

    void columnsStandOnAFixedGrid();
    void columnsBridgeALateTickButNotALongHole();
    void axesEndAtRoundNumbers();
    void workSpansAreCollectedOnce();
    void coverageTellsKindsAndAgentsApart();

    void contextsThatAreReadHaveALaneOfTheirOwn();
    void givesEachDeviceACard();
    void showsADashForWhatIsNotKnown();
    void showsWhatADeviceFailedOf();
    void sumsUpAllAgents();
    void pauseHoldsTheChartsWhileRecordingGoesOn();
    void whatIsShownInAPauseIsExportedHoweverLateItIs();
    void theTimeWindowIsChosenFromItsMenu();
    void paintsNothingWhileNothingChanges();
    void hoverReadsAMoment();
    void writesCsvAndPngAwayFromTheGuiThread();
    void saysWhyAFileCannotBeWritten();
    void everyControlHasANameAndIsReachedByTab();
};

void TestDashboard::columnsStandOnAFixedGrid()
{
    std::vector<double> times;
    for (int i = 0; i < 100; ++i)
        times.push_back(i * 0.1);
    const auto columnsAt = [&](double end) {
        TimeWindow window{end, 5.0, 0.1};
        return resample(
            window, 10, int(times.size()),
            [&](double t) { return int(std::upper_bound(times.begin(), times.end(), t) - times.begin()); },
            [&](int i) { return times[std::size_t(i)]; }, [&](int i) { return float(i); });
    };
    const std::vector<float> first = columnsAt(8.25);
    QCOMPARE(first.size(), std::size_t(10));
    QCOMPARE(first.front(), 37.0F);   // samples 35 .. 39 stand in [3.5, 4.0)
    QCOMPARE(columnsAt(8.45), first); // the same column still
    const std::vector<float> next = columnsAt(8.75);
    QCOMPARE(next.front(), first[1]); // moved on by one whole column
}

void TestDashboard::columnsBridgeALateTickButNotALongHole()
{
    const std::vector<double> times{0.05, 0.25, 0.95};
    const std::vector<float> values = resample(
        TimeWindow{0.99, 1.0, 0.1}, 10, 3,
        [&](double t) { return int(std::upper_bound(times.begin(), times.end(), t) - times.begin()); },
        [&](int i) { return times[std::size_t(i)]; }, [](int i) { return float(i + 1); });
    QCOMPARE(values[0], 1.0F);
    QCOMPARE(values[1], 1.0F);
    QCOMPARE(values[2], 2.0F);
    QVERIFY(std::isnan(values[8]));
    QCOMPARE(values[9], 3.0F);
}

void TestDashboard::axesEndAtRoundNumbers()
{
    QCOMPARE(niceCeiling(349), 400.0F);
    QCOMPARE(niceCeiling(400), 400.0F);
    QCOMPARE(niceCeiling(0.07F), 0.08F);
    QCOMPARE(niceCeiling(91), 100.0F);
    QCOMPARE(niceCeiling(0), 1.0F);
    QCOMPARE(niceCeiling(unknownValue), 1.0F);
}

void TestDashboard::workSpansAreCollectedOnce()
{
    engine::MetricsSnapshot snapshot;
    snapshot.devices.resize(2);
    snapshot.timeUs = 1000;
    snapshot.devices[0].recentWork = {{engine::WorkSpan::Kind::Decode, 1, 100, 50, 1}};
    snapshot.devices[1].recentWork = {{engine::WorkSpan::Kind::Decode, 2, 90, 50, 1}};
    WorkHistory work;
    work.add(snapshot);
    QCOMPARE(work.size(), 2);
    work.add(snapshot);
    QCOMPARE(work.size(), 2);
    snapshot.devices[0].recentWork.push_back({engine::WorkSpan::Kind::Decode, 1, 150, 50, 1});
    work.add(snapshot);
    QCOMPARE(work.size(), 3);
    snapshot.timeUs = 10; // the engine began anew
    snapshot.devices[0].recentWork = {{engine::WorkSpan::Kind::Decode, 1, 5, 2, 1}};
    snapshot.devices[1].recentWork.clear();
    work.add(snapshot);
    QCOMPARE(work.size(), 1);
}

void TestDashboard::coverageTellsKindsAndAgentsApart()
{
    using Kind = engine::WorkSpan::Kind;
    engine::MetricsSnapshot snapshot;
    snapshot.devices.resize(1);
    snapshot.timeUs = 10'000'000;
    snapshot.devices[0].recentWork = {
        {Kind::Prefill, 0b001, 1'000'000, 2'500'000, 512}, // columns 1, 2 and half of 3
        {Kind::Verify, 0b110, 5'250'000, 500'000, 8},      // half of column 5
        {Kind::Decode, 0b100, 9'250'000, 1'250'000, 1},    // reaches past the end: shown once it is over
    };
    WorkHistory work;
    work.add(snapshot);
    const LaneCoverage coverage = work.coverage({9.999, 10, 1}, 10, 3);
    QCOMPARE(coverage.at(Kind::Prefill, 0, 0), 0.0F);
    QCOMPARE(coverage.at(Kind::Prefill, 0, 1), 1.0F);
    QCOMPARE(coverage.at(Kind::Prefill, 0, 2), 1.0F);
    QVERIFY(std::abs(coverage.at(Kind::Prefill, 0, 3) - 0.5F) < 1e-4F);
    QCOMPARE(coverage.at(Kind::Prefill, 1, 1), 0.0F);
    QCOMPARE(coverage.at(Kind::Verify, 0, 5), 0.0F);
    QVERIFY(std::abs(coverage.at(Kind::Verify, 1, 5) - 0.5F) < 1e-4F);
    QVERIFY(std::abs(coverage.at(Kind::Verify, 2, 5) - 0.5F) < 1e-4F);
    QCOMPARE(coverage.at(Kind::Decode, 2, 9), 0.0F);

    const LaneCoverage later = work.coverage({11.999, 10, 1}, 10, 3); // moved on by two columns
    QCOMPARE(later.at(Kind::Prefill, 0, 0), 1.0F);
    QVERIFY(std::abs(later.at(Kind::Prefill, 0, 1) - 0.5F) < 1e-4F);
    QVERIFY(std::abs(later.at(Kind::Decode, 2, 7) - 0.75F) < 1e-4F);
    QVERIFY(std::abs(later.at(Kind::Decode, 2, 8) - 0.5F) < 1e-4F);
    QCOMPARE(later.at(Kind::Decode, 2, 9), 0.0F);

    WorkHistory anew; // adding up bit by bit gives what working it out at once gives
    anew.add(snapshot);
    QVERIFY(anew.coverage({11.999, 10, 1}, 10, 3) == later);
    const LaneCoverage young = anew.coverage({2.999, 10, 1}, 10, 3); // begins before time 0
    QCOMPARE(std::count(young.share.begin(), young.share.end(), 0.0F), std::ptrdiff_t(young.share.size()));
}

/// A context is read by an agent past the panes' numbers: the newcomer's first half minute, which nobody else shows.
void TestDashboard::contextsThatAreReadHaveALaneOfTheirOwn()
{
    using Kind = engine::WorkSpan::Kind;
    engine::MetricsSnapshot snapshot;
    snapshot.devices.resize(1);
    snapshot.devices[0].device = "cpu";
    snapshot.devices[0].prefillTokensPerSecond = 2100;
    snapshot.timeUs = 10'000'000;
    snapshot.devices[0].recentWork = {{Kind::Prefill, 1U << 9 | 1U << 11, 1'000'000, 1'000'000, 512},
                                      {Kind::Decode, 1U << 7, 5'000'000, 1'000'000, 1}};
    WorkHistory work;
    work.add(snapshot);
    const LaneCoverage coverage = work.coverage({9.999, 10, 1}, 10, numWorkLanes);
    QCOMPARE(coverage.at(Kind::Prefill, contextLane, 1), 1.0F);
    QCOMPARE(coverage.at(Kind::Prefill, 7, 1), 0.0F);
    QCOMPARE(coverage.at(Kind::Decode, 7, 5), 1.0F);
    QCOMPARE(coverage.at(Kind::Decode, contextLane, 5), 0.0F);

    Fixture f(testing::SimulatedMachine::Kind::Cpu);
    f.snapshot = snapshot;
    f.panel.tick();
    QApplication::processEvents();
    QVERIFY(f.panel.findChild<QLabel*>(QStringLiteral("figures"))
                ->text()
                .startsWith(QStringLiteral("reading %1 tok/s").arg(QLocale().toString(2100))));
}

void TestDashboard::givesEachDeviceACard()
{
    Fixture f;
    QVERIFY(f.texts().contains(QStringLiteral("No device yet. Figures appear once a model is loaded.")));
    f.run(20);
    QCOMPARE(f.panel.findChildren<DeviceCard*>().size(), 2);
    const QStringList texts = f.texts();
    QVERIFY(!texts.contains(QStringLiteral("No device yet. Figures appear once a model is loaded.")));
    QVERIFY(texts.contains(QStringLiteral("GPU 0")));
    QVERIFY(texts.contains(QStringLiteral("RTX 3090 · PCIe 4 x4")));
    QVERIFY(texts.contains(QStringLiteral("61 °C · 248 W")));
    QVERIFY(texts.contains(QStringLiteral("22.3 / 24 GiB")));
    QVERIFY(texts.contains(QStringLiteral("18.4 / 40 GiB")));
    const SegmentBar* bar = f.panel.findChild<SegmentBar*>();
    QVERIFY(bar->legend().contains(QStringLiteral("Weights: ")));
    QVERIFY(bar->legend().contains(QStringLiteral("Hot buffer: ")));
    QVERIFY(bar->legend().contains(QStringLiteral("Free: ")));
}

void TestDashboard::showsADashForWhatIsNotKnown()
{
    Fixture f(testing::SimulatedMachine::Kind::Cpu);
    engine::DeviceMetrics cpu;
    cpu.device = "cpu";
    f.snapshot.timeUs = 1000000;
    f.snapshot.devices = {cpu};
    f.panel.tick();
    QApplication::processEvents();
    const QStringList texts = f.texts();
    QVERIFY(texts.contains(QStringLiteral("CPU")));
    QVERIFY(texts.contains(dash() + QStringLiteral(" °C · ") + dash() + QStringLiteral(" W")));
    QCOMPARE(texts.count(dash()), 2); // RAM and host tier
    QVERIFY(texts.contains(QStringLiteral("drafts %1 · worst gap %1 · TTFT %1").arg(dash())));
    QCOMPARE(f.panel.findChild<LineChart*>(QStringLiteral("tierRead"))->valueText(), dash());
    QCOMPARE(f.panel.findChild<LineChart*>(QStringLiteral("hotBufferHits"))->valueText(), dash());
    QCOMPARE(f.panel.findChild<LineChart*>(QStringLiteral("tierRead"))->accessibleName(), QStringLiteral("Tier read"));
}

void TestDashboard::showsWhatADeviceFailedOf()
{
    Fixture f;
    f.run(3);
    f.snapshot = f.machine.advance(0.1);
    f.snapshot.devices[1].failed = true;
    f.snapshot.devices[1].failure = "GPU 1 was lost: the driver reported error 999.";
    f.panel.tick();
    QApplication::processEvents();
    QVERIFY(f.texts().contains(QStringLiteral("GPU 1 was lost: the driver reported error 999.")));
    QVERIFY(!f.texts().contains(QStringLiteral("21.1 / 24 GiB")));
}

void TestDashboard::sumsUpAllAgents()
{
    Fixture f;
    f.run(30);
    double sum = 0;
    for (const engine::DeviceMetrics& device : f.snapshot.devices)
        sum += device.decodeTokensPerSecond;
    QCOMPARE(f.panel.findChild<QLabel*>(QStringLiteral("combinedRate"))->text(),
             QStringLiteral("%1 tok/s").arg(sum, 0, 'f', 0));
    QVERIFY(f.panel.findChild<QLabel*>(QStringLiteral("figures"))->text().contains(QStringLiteral("worst gap 96 ms")));
}

void TestDashboard::pauseHoldsTheChartsWhileRecordingGoesOn()
{
    Fixture f;
    f.run(30);
    auto* pause = f.panel.findChild<QPushButton*>(QStringLiteral("pause"));
    QTest::mouseClick(pause, Qt::LeftButton);
    QVERIFY(f.panel.isPaused());
    QCOMPARE(pause->text(), QStringLiteral("Resume"));
    QApplication::processEvents();
    const QImage before = f.panel.grab().toImage();
    f.run(50);
    QCOMPARE(f.panel.grab().toImage(), before);
    QCOMPARE(f.panel.history().agents().size(), 80);
    QTest::keyClick(pause, Qt::Key_Space);
    QVERIFY(!f.panel.isPaused());
    QVERIFY(f.panel.grab().toImage() != before);
}

void TestDashboard::whatIsShownInAPauseIsExportedHoweverLateItIs()
{
    Fixture f;
    f.run(50);
    f.panel.setPaused(true);
    QTemporaryDir folder;
    QSignalSpy exported(&f.panel, &DashboardPanel::exported);
    const auto csv = [&](const QString& name) {
        f.panel.exportCsv(folder.filePath(name));
        if (!exported.wait())
            qWarning("nothing was exported");
        QFile file(folder.filePath(name));
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    };
    const QByteArray atOnce = csv(QStringLiteral("a.csv"));
    QVERIFY(atOnce.count('\n') > 40);
    f.run(MetricsHistory::capacity + 10); // the rings have forgotten all of it
    QCOMPARE(csv(QStringLiteral("b.csv")), atOnce);
    f.panel.setPaused(false);
    QVERIFY(csv(QStringLiteral("c.csv")) != atOnce);
}

void TestDashboard::theTimeWindowIsChosenFromItsMenu()
{
    Fixture f;
    f.run(30);
    QSignalSpy changed(&f.panel, &DashboardPanel::windowSecondsChanged);
    auto* button = f.panel.findChild<QPushButton*>(QStringLiteral("timeWindow"));
    QCOMPARE(button->text(), QStringLiteral("60 s"));
    QCOMPARE(button->menu()->actions().size(), 3);
    button->menu()->actions().at(2)->trigger();
    QCOMPARE(f.panel.windowSeconds(), 300);
    QCOMPARE(button->text(), QStringLiteral("5 min"));
    QCOMPARE(changed.size(), 1);
}

void TestDashboard::paintsNothingWhileNothingChanges()
{
    Fixture f;
    f.run(30);
    QApplication::processEvents();
    PaintWatch watch(f.panel);
    for (int i = 0; i < 5; ++i) {
        f.panel.tick(); // the same snapshot again
        QApplication::processEvents();
    }
    QCOMPARE(watch.count, 0);
    f.run(3);
    QApplication::processEvents();
    QVERIFY(watch.count > 0);
}

void TestDashboard::hoverReadsAMoment()
{
    Fixture f;
    f.run(100);
    QApplication::processEvents();
    auto* chart = f.panel.findChild<StackedChart*>();
    chart->setNames({QStringLiteral("Scheduler")});
    const QString text = chart->textAt(chart->columns({0, 60, 0.1}) - 2);
    QVERIFY2(text.startsWith(QStringLiteral("Scheduler: 6")) || text.startsWith(QStringLiteral("Scheduler: 7")),
             qPrintable(text));
    QVERIFY(text.contains(QStringLiteral("\nAll: 3")));
    QCOMPARE(chart->textAt(0), QStringLiteral("All: ") + dash()); // before there was anything
    auto* strip = f.panel.findChild<SchedulerStrip*>();
    strip->setNames({QStringLiteral("Scheduler"), QStringLiteral("KV cache"), QStringLiteral("Tokenizer")});
    const int lane = (strip->height() - 16) / numWorkLanes;
    QVERIFY(strip->textAt({strip->width() - 10, strip->height() - lane * 6 - lane / 2})
                .startsWith(QStringLiteral("Tokenizer, ")));
    QVERIFY(strip->textAt({strip->width() - 10, strip->height() - lane * 6 - lane / 2})
                .contains(QStringLiteral("reading")));
    QCOMPARE(strip->textAt({10, 2}), QString());
}

void TestDashboard::writesCsvAndPngAwayFromTheGuiThread()
{
    QTemporaryDir folder;
    Fixture f;
    f.run(30);
    QSignalSpy exported(&f.panel, &DashboardPanel::exported);
    f.panel.exportCsv(folder.filePath(QStringLiteral("d.csv")));
    f.panel.exportImage(folder.filePath(QStringLiteral("d.png")));
    QVERIFY(exported.isEmpty());
    QTRY_COMPARE(exported.size(), 2);
    QFile csv(folder.filePath(QStringLiteral("d.csv")));
    QVERIFY(csv.open(QIODevice::ReadOnly));
    QCOMPARE(csv.readAll().count('\n'), 31);
    QCOMPARE(QImage(folder.filePath(QStringLiteral("d.png"))).width(), f.panel.width());
}

void TestDashboard::saysWhyAFileCannotBeWritten()
{
    Fixture f;
    f.run(3);
    QSignalSpy failed(&f.panel, &DashboardPanel::exportFailed);
    f.panel.exportCsv(QStringLiteral("/nowhere/at/all.csv"));
    QTRY_COMPARE(failed.size(), 1);
    QVERIFY(failed[0][0].toString().startsWith(QStringLiteral("/nowhere/at/all.csv could not be written: ")));
}

void TestDashboard::everyControlHasANameAndIsReachedByTab()
{
    Fixture f;
    f.run(3);
    QSet<QWidget*> buttons;
    for (QPushButton* button : f.panel.findChildren<QPushButton*>()) {
        QVERIFY2(!button->accessibleName().isEmpty(), qPrintable(button->objectName()));
        QVERIFY(button->focusPolicy() & Qt::TabFocus);
        buttons += button;
    }
    QCOMPARE(buttons.size(), 4);
    for (LineChart* chart : f.panel.findChildren<LineChart*>())
        QVERIFY(!chart->accessibleName().isEmpty());
    for (SegmentBar* bar : f.panel.findChildren<SegmentBar*>())
        QVERIFY(!bar->accessibleName().isEmpty());
}

QTEST_MAIN(TestDashboard)
#include "tst_dashboard.moc"
