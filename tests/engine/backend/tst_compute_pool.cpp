#include "engine/backend/compute_pool.h"
#include "engine/backend/task_team.h"

#include <QTest>

#include <atomic>
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

using namespace octavo::engine;

class TestComputePool : public QObject
{
    Q_OBJECT

private slots:
    void everyThreadRunsAndBarriersOrderThem_data() { threads(); }
    void everyThreadRunsAndBarriersOrderThem()
    {
        QFETCH(int, threads);
        ComputePool pool(threads);
        for (int run = 0; run < 100; ++run) {
            std::atomic<int> first = 0, wrong = 0;
            pool.run([&](int thread) {
                ++first;
                pool.barrier(thread);
                wrong += first != pool.active() ? 1 : 0;
            });
            QCOMPARE(wrong.load(), 0);
        }
    }

    void whatAnyThreadThrowsIsThrownByRunAndThePoolWorksOn_data() { threads(); }
    void whatAnyThreadThrowsIsThrownByRunAndThePoolWorksOn()
    {
        QFETCH(int, threads);
        ComputePool pool(threads);
        for (int round = 0; round < 60; ++round) {
            const int anyThread = round % threads, before = round % 4; // barriers passed before it throws
            QVERIFY_EXCEPTION_THROWN(pool.run([&](int thread) {
                const int thrower = anyThread % pool.active();
                for (int step = 0; step < 3; ++step) {
                    if (thread == thrower && step == before)
                        throw std::bad_alloc();
                    pool.barrier(thread);
                }
                if (thread == thrower && before == 3)
                    throw std::bad_alloc();
            }),
                                     std::bad_alloc);
            std::atomic<int> sum = 0; // the very next run is whole
            pool.run([&](int thread) {
                sum += thread + 1;
                pool.barrier(thread);
                sum += thread + 1;
            });
            QCOMPARE(sum.load(), pool.active() * (pool.active() + 1));
        }
    }

    void ofSeveralExceptionsOneIsThrown()
    {
        ComputePool pool(4);
        for (int round = 0; round < 20; ++round)
            QVERIFY_EXCEPTION_THROWN(pool.run([](int) { throw std::runtime_error("all"); }), std::runtime_error);
    }

    void aTaskThatThrowsEndsItsRoundAndTheHelpersGoHome_data() { threads(); }
    void aTaskThatThrowsEndsItsRoundAndTheHelpersGoHome()
    {
        QFETCH(int, threads);
        ComputePool pool(threads);
        TaskTeam team(threads);
        auto stretch = [&](int bad) {
            std::atomic<int> done = 0;
            pool.run([&](int thread) {
                pool.barrier(thread);
                if (thread != 0) {
                    team.help(thread);
                    return;
                }
                const TaskTeam::Homecoming homecoming{team};
                for (int round = 0; round < 3; ++round) {
                    team.lead(pool.active())(20, [&](std::int64_t task) {
                        if (task == bad)
                            throw std::bad_alloc();
                        ++done;
                    });
                }
            });
            return done.load();
        };
        for (int round = 0; round < 20; ++round) {
            QVERIFY_EXCEPTION_THROWN(stretch(round % 20), std::bad_alloc);
            QCOMPARE(stretch(-1), 60);
        }
    }

    void aPoolThatWaitsForItsThreadsTakesFewerOfThemAndTriesAgain()
    {
        for (const int threads : {2, 5}) {
            ComputePool pool(threads);
            TaskTeam team(threads);
            std::atomic<int> sum = 0;
            auto stretch = [&] {
                pool.run([&](int thread) {
                    pool.barrier(thread);
                    if (thread != 0) {
                        team.help(thread);
                        return;
                    }
                    const TaskTeam::Homecoming homecoming{team};
                    team.lead(pool.active())(20, [&](std::int64_t task) { sum += int(task); });
                });
            };
            bool alone = false, together = false;
            for (int round = 0; round < 400 && !(alone && together); ++round) {
                pool.run([&](int thread) {
                    if (thread > 0 && !alone) // as if another program had its processor
                        std::this_thread::sleep_for(std::chrono::milliseconds(8));
                });
                sum = 0;
                stretch();
                QCOMPARE(sum.load(), 190);
                together |= alone && pool.active() == threads;
                alone |= pool.active() == 1;
                if (alone)
                    std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
            QVERIFY(alone);
            QVERIFY(together);
        }
    }

    void crowdingIsJudgedByWhatIsLostOverTime()
    {
        constexpr std::int64_t ms = 1'000'000;
        Crowding crowding(8);
        std::int64_t now = 0;
        auto pass = [&](std::int64_t milliseconds, double lostShare) {
            for (std::int64_t i = 0; i < milliseconds; ++i)
                crowding.record(now += ms, ms, std::int64_t(lostShare * double(ms)));
        };
        pass(1000, 0.3); // far cores, short steps: no reason
        QCOMPARE(crowding.advised(), 8);
        pass(20, 0.8);
        QCOMPARE(crowding.advised(), 4);
        pass(20, 0.1); // four have what they need
        QCOMPARE(crowding.advised(), 4);
        pass(100, 0.1);
        QCOMPARE(crowding.advised(), 8); // and are asked whether eight have, too
        pass(60, 0.8);
        QVERIFY(crowding.advised() <= 2);
        pass(60, 0.8);
        QCOMPARE(crowding.advised(), 1);
        // Tries that fail become rare: of ten crowded seconds, most are spent with fewer threads.
        int withAll = 0;
        for (int i = 0; i < 10'000; ++i) {
            withAll += crowding.advised() == 8;
            crowding.record(now += ms, ms, crowding.advised() > 1 ? ms : 0);
        }
        QVERIFY2(withAll < 500, qPrintable(QString::number(withAll)));
        pass(4000, 0.0);
        QCOMPARE(crowding.advised(), 8);
    }

private:
    static void threads()
    {
        QTest::addColumn<int>("threads");
        for (const int threads : {1, 2, 5})
            QTest::addRow("%d", threads) << threads;
    }
};

QTEST_GUILESS_MAIN(TestComputePool)
#include "tst_compute_pool.moc"
