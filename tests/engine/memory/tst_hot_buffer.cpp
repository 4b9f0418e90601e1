#include "engine/memory/hot_buffer.h"

#include <QTest>

#include <cstring>
#include <map>
#include <numeric>
#include <random>

using namespace octavo::engine;

namespace {

constexpr std::size_t rowBytes = 64;

HotBuffer bufferOf(std::int64_t rows)
{
    return *HotBuffer::create(rowBytes, 40, rows * std::int64_t(rowBytes + 12));
}

std::vector<HotBuffer::Row> acquire(HotBuffer& buffer, HotBuffer::LaneId lane, const std::vector<std::int32_t>& tokens)
{
    std::vector<HotBuffer::Row> rows(tokens.size());
    buffer.acquire(lane, tokens, rows);
    return rows;
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
    void keepsEveryRowsContentUnderRandomUse();
};

void TestHotBuffer::aBudgetBelowOneRowIsRefused()
{
    const auto buffer = HotBuffer::create(rowBytes, 40, 10);
    QVERIFY(!buffer);
    QCOMPARE(buffer.error().code, octavo::ErrorCode::InvalidArgument);
    QCOMPARE(bufferOf(5).capacity(), std::int64_t(5));
}

void TestHotBuffer::aRowStaysUntilItIsEvicted()
{
    HotBuffer buffer = bufferOf(4);
    const auto lane = buffer.addLane(100);
    buffer.beginStep();
    const auto first = acquire(buffer, lane, {3, 50});
    QVERIFY(first[0].fill && first[1].fill && first[0].row != first[1].row);
    buffer.beginStep();
    const auto second = acquire(buffer, lane, {3, 50});
    QVERIFY(!second[0].fill && !second[1].fill);
    QCOMPARE(second[0].row, first[0].row);
    QCOMPARE(buffer.rowsInUse(), std::int64_t(2));
}

void TestHotBuffer::neverEvictsARowOfTheCurrentStep()
{
    HotBuffer buffer = bufferOf(4);
    const auto a = buffer.addLane(100), b = buffer.addLane(100);
    buffer.beginStep();
    const auto first = acquire(buffer, a, {1, 2, 3});
    const auto second = acquire(buffer, b, {1, 2, 3});
    QVERIFY(first[2].row && second[0].row);
    QVERIFY(!second[1].row && second[1].fill && !second[2].row);
    buffer.beginStep();
    const auto third = acquire(buffer, b, {1, 2, 3});
    QVERIFY(!third[0].fill);
    QVERIFY(third[1].row && third[2].row);
    // A list's own hits are safe from its misses.
    buffer.beginStep();
    const auto fourth = acquire(buffer, b, {1, 2, 3, 4, 5});
    QVERIFY(!fourth[0].fill && !fourth[1].fill && !fourth[2].fill);
    QVERIFY(fourth[3].row && !fourth[4].row);
}

void TestHotBuffer::evictsWhatWasNotUsedForLongest()
{
    HotBuffer buffer = bufferOf(10);
    const auto lane = buffer.addLane(1000);
    // Token 0 is used in each step, the others once.
    for (std::int32_t step = 0; step < 100; ++step) {
        buffer.beginStep();
        const auto rows = acquire(buffer, lane, {0, 1 + step});
        QCOMPARE(rows[0].fill, step == 0);
    }
    QCOMPARE(buffer.counters(lane).hits, std::int64_t(99));
    QCOMPARE(buffer.counters(lane).evictions, std::int64_t(101 - 10));
}

void TestHotBuffer::countsPerLaneAndStep()
{
    HotBuffer buffer = bufferOf(8);
    const auto a = buffer.addLane(10), b = buffer.addLane(10);
    buffer.beginStep();
    acquire(buffer, a, {0, 1});
    acquire(buffer, b, {0});
    buffer.beginStep();
    acquire(buffer, a, {1, 2});
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
    const auto lane = buffer.addLane(10);
    buffer.beginStep();
    acquire(buffer, lane, {4, 5, 6});
    buffer.truncate(lane, 5);
    QCOMPARE(buffer.rowsInUse(), std::int64_t(1));
    buffer.beginStep();
    const auto rows = acquire(buffer, lane, {4, 5});
    QVERIFY(!rows[0].fill && rows[1].fill);
    buffer.removeLane(lane);
    QCOMPARE(buffer.rowsInUse(), std::int64_t(0));
}

void TestHotBuffer::keepsEveryRowsContentUnderRandomUse()
{
    HotBuffer buffer = bufferOf(60);
    std::vector<HotBuffer::LaneId> lanes;
    for (int i = 0; i < 3; ++i)
        lanes.push_back(buffer.addLane(500));
    std::mt19937 random(1);
    std::int64_t hits = 0;
    for (int step = 0; step < 2000; ++step) {
        buffer.beginStep();
        std::map<std::uint8_t*, std::uint32_t> ofThisStep;
        for (std::uint32_t lane = 0; lane < 3; ++lane) {
            std::vector<std::int32_t> tokens;
            for (std::int32_t token = std::int32_t(random() % 40); token < 500; token += 1 + std::int32_t(random() % 40))
                tokens.push_back(token);
            const auto rows = acquire(buffer, lanes[lane], tokens);
            for (std::size_t i = 0; i < tokens.size(); ++i) {
                const std::uint32_t name = lane * 1000 + std::uint32_t(tokens[i]);
                if (!rows[i].row)
                    continue;
                if (rows[i].fill)
                    std::memcpy(rows[i].row, &name, 4);
                std::uint32_t found;
                std::memcpy(&found, rows[i].row, 4);
                QCOMPARE(found, name);
                hits += rows[i].fill ? 0 : 1;
                ofThisStep[rows[i].row] = name;
            }
        }
        for (const auto& [row, name] : ofThisStep) {
            std::uint32_t found;
            std::memcpy(&found, row, 4);
            QCOMPARE(found, name);
        }
    }
    QCOMPARE(buffer.total().hits, hits);
    QVERIFY(hits > 0);
}

QTEST_GUILESS_MAIN(TestHotBuffer)
#include "tst_hot_buffer.moc"
