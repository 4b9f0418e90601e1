#include "engine/scheduler/placement.h"

#include <QTest>

#include <array>

using namespace octavo::engine;

class TestPlacement : public QObject
{
    Q_OBJECT

private slots:
    void followsTheContext()
    {
        const std::array candidates{
            PlacementCandidate{.freeBytes = 100},
            PlacementCandidate{.residentTokens = 5000, .freeBytes = 10, .neededBytes = 20, .requests = 7}};
        QCOMPARE(placeRequest(candidates), std::size_t(1));
    }

    void aSharedSystemPromptIsNoContext()
    {
        const std::array candidates{PlacementCandidate{.residentTokens = 200, .requests = 1}, PlacementCandidate{}};
        QCOMPARE(placeRequest(candidates), std::size_t(1));
    }

    void roomComesBeforeLoad()
    {
        const std::array candidates{PlacementCandidate{.freeBytes = 5, .neededBytes = 10},
                                    PlacementCandidate{.freeBytes = 50, .neededBytes = 10, .requests = 3}};
        QCOMPARE(placeRequest(candidates), std::size_t(1));
    }

    void thenLoadThenFreeMemory()
    {
        const std::array byLoad{PlacementCandidate{.freeBytes = 50, .requests = 2},
                                PlacementCandidate{.freeBytes = 20, .requests = 1}};
        QCOMPARE(placeRequest(byLoad), std::size_t(1));
        const std::array byMemory{PlacementCandidate{.freeBytes = 50}, PlacementCandidate{.freeBytes = 60}};
        QCOMPARE(placeRequest(byMemory), std::size_t(1));
    }

    void failedDevicesAreLeftOut()
    {
        const std::array candidates{PlacementCandidate{.failed = true, .residentTokens = 9000, .freeBytes = 100},
                                    PlacementCandidate{.requests = 9}};
        QCOMPARE(placeRequest(candidates), std::size_t(1));
        QVERIFY(!placeRequest(std::span(candidates).first(1)));
        QVERIFY(!placeRequest({}));
    }
};

QTEST_GUILESS_MAIN(TestPlacement)
#include "tst_placement.moc"
