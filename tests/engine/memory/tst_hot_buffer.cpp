#include "engine/memory/hot_buffer.h"

#include <QTest>

#include <algorithm>
#include <random>
#include <vector>

using namespace octavo::engine;

namespace {

HotBuffer bufferOf(std::int64_t rows)
{
    return *HotBuffer::create(40, rows * 40);
}

std::int64_t read(HotBuffer& buffer, HotBuffer::LaneId lane, const std::vector<std::int32_t>& tokens)
{
    return buffer.read(lane, tokens);
}

} // namespace

class TestHotBuffer : public QObject
{
    Q_OBJECT

private slots:
    void aBudgetBelowOneRowIsRefused();
    void aRowStaysUntilItIsEvicted();
    void neverEvictsARowOfTheCurrentStep();
    void evictsWhatWasNotUsedForLongest();
    void countsPerLaneAndStep();
    void forgetsRowsThatAreWrittenAnew();
    void countsWhatTheStepBeforeReadToo();
    void holdsWhatItCountsUnderRandomUse();
};

void TestHotBuffer::aBudgetBelowOneRowIsRefused()
{
    const auto buffer = HotBuffer::create(40, 10);
    QVERIFY(!buffer);
    QCOMPARE(buffer.error().code, octavo::ErrorCode::InvalidArgument);
    QCOMPARE(bufferOf(5).capacity(), std::int64_t(5));
}

void TestHotBuffer::aRowStaysUntilItIsEvicted()
{
    HotBuffer buffer = bufferOf(4);
    const auto lane = buffer.addLane(100);
    buffer.beginStep();
    read(buffer, lane, {3, 50});
    QCOMPARE(buffer.total().misses, std::int64_t(2));
    QVERIFY(buffer.holds(lane, 3) && buffer.holds(lane, 50) && !buffer.holds(lane, 4));
    buffer.beginStep();
    read(buffer, lane, {3, 50});
    QCOMPARE(buffer.total().misses, std::int64_t(2));
    QCOMPARE(buffer.total().hits, std::int64_t(2));
    QCOMPARE(buffer.rowsInUse(), std::int64_t(2));
}

void TestHotBuffer::neverEvictsARowOfTheCurrentStep()
{
    HotBuffer buffer = bufferOf(4);
    const auto a = buffer.addLane(100), b = buffer.addLane(100);
    buffer.beginStep();
    read(buffer, a, {1, 2, 3});
    read(buffer, b, {1, 2, 3});
    QVERIFY(buffer.holds(a, 1) && buffer.holds(a, 2) && buffer.holds(a, 3));
    QVERIFY(buffer.holds(b, 1) && !buffer.holds(b, 2) && !buffer.holds(b, 3));
    buffer.beginStep();
    read(buffer, b, {1, 2, 3});
    QCOMPARE(buffer.stepCounters(b).hits, std::int64_t(1));
    QVERIFY(buffer.holds(b, 2) && buffer.holds(b, 3));
    // A list's own hits are safe from its misses.
    buffer.beginStep();
    read(buffer, b, {1, 2, 3, 4, 5});
    QCOMPARE(buffer.stepCounters(b).hits, std::int64_t(3));
    QVERIFY(buffer.holds(b, 1) && buffer.holds(b, 2) && buffer.holds(b, 3) && buffer.holds(b, 4) &&
            !buffer.holds(b, 5));
}

void TestHotBuffer::evictsWhatWasNotUsedForLongest()
{
    HotBuffer buffer = bufferOf(10);
    const auto lane = buffer.addLane(1000);
    // Token 0 is used in each step, the others once.
    for (std::int32_t step = 0; step < 100; ++step) {
        buffer.beginStep();
        read(buffer, lane, {0, 1 + step});
        QCOMPARE(buffer.stepCounters(lane).hits, std::int64_t(step == 0 ? 0 : 1));
    }
    QCOMPARE(buffer.counters(lane).hits, std::int64_t(99));
    QCOMPARE(buffer.counters(lane).evictions, std::int64_t(101 - 10));
}

void TestHotBuffer::countsPerLaneAndStep()
{
    HotBuffer buffer = bufferOf(8);
    const auto a = buffer.addLane(10), b = buffer.addLane(10);
    buffer.beginStep();
    read(buffer, a, {0, 1});
    read(buffer, b, {0});
    buffer.beginStep();
    read(buffer, a, {1, 2});
    QCOMPARE(buffer.counters(a).hits, std::int64_t(1));
    QCOMPARE(buffer.counters(a).misses, std::int64_t(3));
    QCOMPARE(buffer.counters(a).bytesRead, std::int64_t(120));
    QCOMPARE(buffer.stepCounters(a).misses, std::int64_t(1));
    QCOMPARE(buffer.counters(b).misses, std::int64_t(1));
    QCOMPARE(buffer.total().misses, std::int64_t(4));
}

void TestHotBuffer::forgetsRowsThatAreWrittenAnew()
{
    HotBuffer buffer = bufferOf(8);
    const auto lane = buffer.addLane(10), other = buffer.addLane(10);
    buffer.beginStep();
    read(buffer, lane, {4, 5, 6});
    read(buffer, other, {5});
    buffer.truncate(lane, 5);
    QCOMPARE(buffer.rowsInUse(), std::int64_t(2));
    buffer.beginStep();
    read(buffer, lane, {4, 5});
    QCOMPARE(buffer.stepCounters(lane).hits, std::int64_t(1));
    buffer.removeLane(lane);
    QCOMPARE(buffer.rowsInUse(), std::int64_t(1));
    QVERIFY(buffer.holds(other, 5));
}

void TestHotBuffer::countsWhatTheStepBeforeReadToo()
{
    HotBuffer buffer = bufferOf(20);
    const auto lane = buffer.addLane(100), other = buffer.addLane(100);
    buffer.beginStep();
    QCOMPARE(read(buffer, lane, {1, 2, 3}), std::int64_t(0));
    buffer.beginStep(); // of another sequence alone
    QCOMPARE(read(buffer, other, {1, 2, 3}), std::int64_t(0));
    buffer.beginStep();
    QCOMPARE(read(buffer, lane, {2, 3, 4}), std::int64_t(2));
    QCOMPARE(read(buffer, lane, {4, 5}), std::int64_t(1)); // the step's second row
    buffer.beginStep();
    QCOMPARE(read(buffer, lane, {1, 2, 4}), std::int64_t(2)); // 1 was read a step too early
}

void TestHotBuffer::holdsWhatItCountsUnderRandomUse()
{
    HotBuffer buffer = bufferOf(60);
    std::vector<HotBuffer::LaneId> lanes;
    for (int i = 0; i < 3; ++i)
        lanes.push_back(buffer.addLane(500));
    std::mt19937 random(1);
    for (int step = 0; step < 2000; ++step) {
        buffer.beginStep();
        for (const HotBuffer::LaneId lane : lanes) {
            std::vector<std::int32_t> tokens;
            for (std::int32_t token = std::int32_t(random() % 40); token < 500;
                 token += 1 + std::int32_t(random() % 40))
                tokens.push_back(token);
            const std::int64_t before = buffer.counters(lane).hits;
            const auto held =
                std::ranges::count_if(tokens, [&](std::int32_t token) { return buffer.holds(lane, token); });
            read(buffer, lane, tokens);
            QCOMPARE(buffer.counters(lane).hits - before, std::int64_t(held));
        }
        std::int64_t all = 0;
        for (const HotBuffer::LaneId lane : lanes) {
            for (std::int32_t token = 0; token < 500; ++token)
                all += buffer.holds(lane, token) ? 1 : 0;
        }
        QCOMPARE(buffer.rowsInUse(), all);
        QVERIFY(all <= buffer.capacity());
    }
    QVERIFY(buffer.total().hits > 0 && buffer.total().evictions > 0);
}

QTEST_GUILESS_MAIN(TestHotBuffer)
#include "tst_hot_buffer.moc"
