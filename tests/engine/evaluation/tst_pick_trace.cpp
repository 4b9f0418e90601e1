#include "engine/evaluation/pick_trace.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <random>

using namespace octavo;
using namespace octavo::engine;

namespace
{

PickTrace traceOf(std::int64_t tokens, std::vector<std::vector<std::int32_t>> picks)
{
    PickTrace trace;
    trace.lanes = 1;
    trace.tokens = tokens;
    trace.picks = std::move(picks);
    return trace;
}

/// Half of each step's picks are favourites, the others anything.
PickTrace randomTrace()
{
    std::mt19937 random(5);
    PickTrace trace;
    trace.lanes = 2;
    trace.tokens = 4000;
    for (int i = 0; i < 2 * 120; ++i) {
        std::vector<std::int32_t> picks;
        while (picks.size() < 100) {
            const auto token = std::int32_t(picks.size() < 50 ? random() % 200 : random() % 4000);
            if (std::ranges::find(picks, token) == picks.end())
                picks.push_back(token);
        }
        std::ranges::sort(picks);
        trace.picks.push_back(picks);
    }
    return trace;
}

} // namespace

class TestPickTrace : public QObject
{
    Q_OBJECT

private slots:
    void aRowTwiceInARowIsAHit()
    {
        const auto rates = replay(traceOf(10, {{1, 2}, {2, 3}, {2, 3}}), 4, 0);
        QVERIFY(rates);
        QCOMPARE(rates->clock, 3.0 / 6.0);
        QCOMPARE(rates->leastRecent, 3.0 / 6.0);
        QCOMPARE(rates->optimum, 3.0 / 6.0);
    }

    void theOptimumKeepsWhatComesBack()
    {
        // Room for two: LRU drops 1 when 3 comes, the optimum drops 2.
        const auto rates = replay(traceOf(10, {{1}, {2}, {3}, {1}}), 2, 0);
        QVERIFY(rates);
        QCOMPARE(rates->leastRecent, 0.0);
        QCOMPARE(rates->optimum, 1.0 / 4.0);
    }

    void aSyntheticStreamMissesAsOftenAsAsked()
    {
        for (const double wanted : {0.0, 0.07, 0.5, 1.0}) {
            const auto trace = syntheticTrace(2, 20000, 500, 60, wanted);
            QVERIFY(trace);
            QCOMPARE(trace->steps(), std::int64_t(60));
            for (const auto& picks : trace->picks) {
                QCOMPARE(picks.size(), std::size_t(500));
                QVERIFY(std::ranges::is_sorted(picks));
                QVERIFY(std::ranges::adjacent_find(picks) == picks.end());
                QVERIFY(picks.front() >= 0 && picks.back() < 20000);
            }
            const auto rates = replay(*trace, 4000, 20);
            QVERIFY(rates);
            QVERIFY(std::abs(1.0 - rates->clock - wanted) < 0.002);
            QVERIFY(std::abs(1.0 - rates->leastRecent - wanted) < 0.002);
        }
        QVERIFY(!syntheticTrace(2, 999, 500, 60, 0.1));
        QVERIFY(!syntheticTrace(2, 20000, 500, 60, 1.5));
    }

    void warmUpStepsDoNotCount()
    {
        const auto rates = replay(traceOf(10, {{1, 2}, {1, 2}, {1, 2}}), 4, 1);
        QVERIFY(rates);
        QCOMPARE(rates->clock, 1.0);
    }

    void noRuleBeatsTheOptimumAndMoreRowsServeBetter()
    {
        const PickTrace trace = randomTrace();
        HitRates before;
        for (const std::int64_t rows : {300, 600, 2000}) {
            const auto rates = replay(trace, rows, 10);
            QVERIFY(rates);
            QVERIFY(rates->clock <= rates->optimum && rates->leastRecent <= rates->optimum);
            QVERIFY(rates->clock >= before.clock && rates->optimum > before.optimum);
            QVERIFY(rates->clock > 0.1);
            before = *rates;
        }
    }

    void aBufferSmallerThanAStepIsRefused()
    {
        const auto rates = replay(traceOf(10, {{1, 2, 3}}), 2, 0);
        QVERIFY(!rates);
        QCOMPARE(rates.error().code, ErrorCode::InvalidArgument);
    }
};

QTEST_GUILESS_MAIN(TestPickTrace)
#include "tst_pick_trace.moc"
