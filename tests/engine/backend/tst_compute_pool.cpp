#include "engine/backend/compute_pool.h"
#include "engine/backend/task_team.h"

#include <QTest>

#include <atomic>
#include <new>
#include <stdexcept>

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
                wrong += first != threads ? 1 : 0;
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
            const int thrower = round % threads, before = round % 4; // barriers passed before it throws
            QVERIFY_EXCEPTION_THROWN(pool.run([&](int thread) {
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
            QCOMPARE(sum.load(), threads * (threads + 1));
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
                    team.lead()(20, [&](std::int64_t task) {
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
