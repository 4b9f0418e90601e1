#include "ui/dashboard/metrics_history.h"

#include <QTest>

#include <cmath>

using namespace octavo;
using namespace octavo::ui;

namespace {

engine::MetricsSnapshot snapshotAt(double seconds)
{
    engine::MetricsSnapshot snapshot;
    snapshot.timeUs = std::int64_t(seconds * 1e6);
    engine::DeviceMetrics device;
    device.device = "cuda:0";
    device.decodeTokensPerSecond = 120;
    device.backend.hostTierBytes = 1 << 30;
    snapshot.devices.push_back(device);
    return snapshot;
}

engine::AgentMetrics agent(std::uint32_t id, double rate)
{
    engine::AgentMetrics metrics;
    metrics.agent = engine::AgentId{id};
    metrics.decodeTokensPerSecond = rate;
    return metrics;
}

} // namespace

class TestMetricsHistory : public QObject
{
    Q_OBJECT

private slots:
    void ringKeepsTheNewestInOrder();
    void sumsDevicesAndKeepsAgentsApart();
    void unknownStaysUnknown();
    void takesTierRatesFromTheLastSecond();
    void ratesStayRightOnceTheRingIsFull();
    void aCounterThatFallsGivesNoRate();
    void aDeviceThatAppearsLaterIsAligned();
    void tellsTwoDevicesOfOneNameApart();
    void ignoresASnapshotSeenBefore();
    void beginsAnewWhenTheClockDoes();
    void csvLeavesUnknownFieldsEmptyAndQuotesNames();
};

void TestMetricsHistory::ringKeepsTheNewestInOrder()
{
    RingBuffer<int> ring(3);
    QVERIFY(ring.isEmpty());
    for (int value = 1; value <= 5; ++value)
        ring.push(value);
    QCOMPARE(ring.size(), 3);
    QCOMPARE(ring[0], 3);
    QCOMPARE(ring[1], 4);
    QCOMPARE(ring.newest(), 5);
    ring.clear();
    ring.push(9);
    QCOMPARE(ring[0], 9);
}

void TestMetricsHistory::sumsDevicesAndKeepsAgentsApart()
{
    engine::MetricsSnapshot snapshot = snapshotAt(1);
    snapshot.devices[0].agents = {agent(0, 70), agent(3, 50), agent(5, -1), agent(40, 7)};
    snapshot.devices[0].agents[0].worstGapMs = 20;
    snapshot.devices[0].agents[1].worstGapMs = 92;
    snapshot.devices[0].agents[0].ttftMs = 900;
    snapshot.devices[0].agents[0].acceptedDraftsPerRound = 4;
    snapshot.devices[0].agents[1].acceptedDraftsPerRound = 5;
    snapshot.devices.push_back(snapshot.devices[0]);
    snapshot.devices[1].device = "cuda:1";
    snapshot.devices[1].decodeTokensPerSecond = 60;
    snapshot.devices[1].agents = {agent(7, 60)};

    MetricsHistory history;
    history.add(snapshot);
    const AgentsSample& sample = history.agents().newest();
    QCOMPARE(sample.decode, 180.0F);
    QCOMPARE(sample.agentDecode[0], 70.0F);
    QCOMPARE(sample.agentDecode[3], 50.0F);
    QCOMPARE(sample.agentDecode[7], 60.0F);
    QVERIFY(std::isnan(sample.agentDecode[5]));
    QCOMPARE(sample.worstGapMs, 92.0F);
    QCOMPARE(sample.ttftMs, 900.0F);
    QCOMPARE(sample.acceptedDrafts, 4.5F);
    QCOMPARE(history.devices().size(), std::size_t(2));
}

void TestMetricsHistory::unknownStaysUnknown()
{
    engine::MetricsSnapshot snapshot = snapshotAt(1);
    snapshot.devices[0].backend.hostTierBytes = 0;
    MetricsHistory history;
    history.add({}); // an engine that is not there yet
    QVERIFY(history.agents().isEmpty());
    history.add(snapshot);
    snapshot.timeUs += 100000;
    history.add(snapshot);
    const DeviceSample& device = history.devices()[0].samples.newest();
    QVERIFY(std::isnan(device.tierBytesPerSecond));
    QVERIFY(std::isnan(device.hitRate));
    QVERIFY(std::isnan(device.temperatureC));
    QVERIFY(std::isnan(device.powerW));
    const AgentsSample& agents = history.agents().newest();
    QVERIFY(std::isnan(agents.worstGapMs));
    QVERIFY(std::isnan(agents.ttftMs));
    QVERIFY(std::isnan(agents.acceptedDrafts));
}

void TestMetricsHistory::takesTierRatesFromTheLastSecond()
{
    MetricsHistory history;
    for (int tick = 0; tick <= 20; ++tick) {
        engine::MetricsSnapshot snapshot = snapshotAt(10 + tick * 0.1);
        // Ten times as fast in the second second.
        snapshot.devices[0].backend.tierBytesRead = tick <= 10 ? tick * 100 : 1000 + (tick - 10) * 1000;
        snapshot.devices[0].backend.hotHits = tick * 9;
        snapshot.devices[0].backend.hotMisses = tick;
        history.add(snapshot);
    }
    const DeviceSample& sample = history.devices()[0].samples.newest();
    QVERIFY(std::abs(sample.tierBytesPerSecond - 10000.0F) < 1.0F);
    QVERIFY(std::abs(sample.hitRate - 0.9F) < 1e-5F);
}

void TestMetricsHistory::ratesStayRightOnceTheRingIsFull()
{
    MetricsHistory history;
    for (int tick = 0; tick < MetricsHistory::capacity + 50; ++tick) {
        engine::MetricsSnapshot snapshot = snapshotAt(1 + tick * 0.1);
        snapshot.devices[0].backend.tierBytesRead = std::int64_t(tick) * tick;
        history.add(snapshot);
    }
    const double last = MetricsHistory::capacity + 49;
    const double expected = last * last - (last - 10) * (last - 10);
    QVERIFY(std::abs(double(history.devices()[0].samples.newest().tierBytesPerSecond) - expected) < 1.0);
    QCOMPARE(history.agents().size(), MetricsHistory::capacity);
    QCOMPARE(history.devices()[0].samples.size(), MetricsHistory::capacity);
}

void TestMetricsHistory::aCounterThatFallsGivesNoRate()
{
    MetricsHistory history;
    engine::MetricsSnapshot snapshot = snapshotAt(1);
    snapshot.devices[0].backend.tierBytesRead = 5000;
    history.add(snapshot);
    snapshot.timeUs += 100000;
    snapshot.devices[0].backend.tierBytesRead = 100;
    history.add(snapshot);
    QVERIFY(std::isnan(history.devices()[0].samples.newest().tierBytesPerSecond));
}

void TestMetricsHistory::aDeviceThatAppearsLaterIsAligned()
{
    MetricsHistory history;
    history.add(snapshotAt(1));
    engine::MetricsSnapshot snapshot = snapshotAt(1.1);
    snapshot.devices.push_back(snapshot.devices[0]);
    snapshot.devices[1].device = "cuda:1";
    history.add(snapshot);
    history.add(snapshotAt(1.2));
    for (const DeviceHistory& device : history.devices())
        QCOMPARE(device.samples.size(), history.agents().size());
    QVERIFY(std::isnan(history.devices()[1].samples[0].decode));
    QCOMPARE(history.devices()[1].samples[1].decode, 120.0F);
    QVERIFY(std::isnan(history.devices()[1].samples[2].decode));
}

void TestMetricsHistory::tellsTwoDevicesOfOneNameApart()
{
    engine::MetricsSnapshot snapshot = snapshotAt(1);
    snapshot.devices.push_back(snapshot.devices[0]);
    snapshot.devices[1].decodeTokensPerSecond = 7;
    MetricsHistory history;
    history.add(snapshot);
    QCOMPARE(history.devices().size(), std::size_t(2));
    QCOMPARE(history.devices()[0].samples.newest().decode, 120.0F);
    QCOMPARE(history.devices()[1].samples.newest().decode, 7.0F);
}

void TestMetricsHistory::ignoresASnapshotSeenBefore()
{
    MetricsHistory history;
    history.add(snapshotAt(1));
    history.add(snapshotAt(1));
    QCOMPARE(history.agents().size(), 1);
}

void TestMetricsHistory::beginsAnewWhenTheClockDoes()
{
    MetricsHistory history;
    history.add(snapshotAt(100));
    history.add(snapshotAt(0.1));
    QCOMPARE(history.agents().size(), 1);
    QCOMPARE(history.newestSeconds(), 0.1);
}

void TestMetricsHistory::csvLeavesUnknownFieldsEmptyAndQuotesNames()
{
    MetricsHistory history;
    for (double seconds : {1.0, 2.0, 3.0})
        history.add(snapshotAt(seconds));
    const QString csv = history.toCsv(1.0, 3.0, {QStringLiteral("Say \"hi\", twice")});
    const QStringList lines = csv.split(u'\n');
    QCOMPARE(lines.size(), 4); // header, two rows, the end
    QVERIFY(lines[0].startsWith(QStringLiteral("time_s,decode_tokens_per_s,prefill_tokens_per_s,")));
    QVERIFY(lines[0].contains(QStringLiteral("\"Say \"\"hi\"\", twice tokens_per_s\",\"agent 2 tokens_per_s\"")));
    QVERIFY(lines[0].contains(QStringLiteral("cuda:0 hit_rate")));
    QVERIFY(lines[1].startsWith(QStringLiteral("2.000,120,0,,,,,,,,,,,,120,")));
    QVERIFY(lines[2].startsWith(QStringLiteral("3.000,")));
    // One column less in the header: its quoted name holds a comma.
    QCOMPARE(lines[1].count(u','), lines[0].count(u',') - 1);
}

QTEST_GUILESS_MAIN(TestMetricsHistory)
#include "tst_metrics_history.moc"
