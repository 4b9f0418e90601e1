#include "engine/scheduler/slice_planner.h"

#include <QTest>

using octavo::engine::SlicePlanner;

class TestSlicePlanner : public QObject
{
    Q_OBJECT

private slots:
    void theFirstSliceOnlyMeasures()
    {
        const SlicePlanner planner({});
        QCOMPARE(planner.sliceFor(100'000, true), 64);
        QCOMPARE(planner.sliceFor(10, true), 10);
    }

    void slicesFitTheBudgetAtAnyRate_data()
    {
        QTest::addColumn<double>("usPerToken");
        for (double us : {1.0, 50.0, 200.0, 900.0, 1800.0})
            QTest::addRow("%.0f us a token", us) << us;
    }

    void slicesFitTheBudgetAtAnyRate()
    {
        QFETCH(const double, usPerToken);
        SlicePlanner planner({});
        int tokens = 0;
        for (int i = 0; i < 20; ++i) {
            tokens = planner.sliceFor(1'000'000, true);
            QCOMPARE(tokens % 64, 0);
            QVERIFY(tokens <= 2048);
            QVERIFY(tokens * usPerToken <= 120'000 || tokens == 64);
            planner.recordSlice(tokens, std::int64_t(tokens * usPerToken), true, false);
        }
        QVERIFY(tokens == 2048 || (tokens + 64) * usPerToken > 120'000); // the budget is used
    }

    void aSlowSliceShrinksTheNextAtOnce()
    {
        SlicePlanner planner({});
        for (int i = 0; i < 10; ++i)
            planner.recordSlice(1024, 50'000, true, false);
        QCOMPARE(planner.sliceFor(100'000, true), 2048);
        planner.recordSlice(1024, 200'000, true, false);
        QVERIFY(planner.sliceFor(100'000, true) <= 614);
    }

    void aLongSliceOwesWritersAsMuchTime()
    {
        SlicePlanner planner({});
        QVERIFY(planner.sliceIsDue());
        planner.recordSlice(64, 30'000, true, false);
        QVERIFY(!planner.sliceIsDue());
        planner.recordStep(10'000);
        planner.recordStep(10'000);
        QVERIFY(!planner.sliceIsDue());
        planner.recordStep(10'000);
        QVERIFY(planner.sliceIsDue());
    }

    void aShortReadOwesWritersOneStep()
    {
        SlicePlanner planner({});
        planner.recordSlice(64, 30'000, true, true);
        QVERIFY(!planner.sliceIsDue());
        planner.recordStep(1);
        QVERIFY(planner.sliceIsDue());
    }
};

QTEST_GUILESS_MAIN(TestSlicePlanner)
#include "tst_slice_planner.moc"
