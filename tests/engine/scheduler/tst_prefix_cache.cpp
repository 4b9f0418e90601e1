#include "engine/scheduler/prefix_cache.h"

#include "tests/engine/fake_backend.h"

#include <QTest>

using namespace octavo::engine;
using namespace octavo::test;

namespace {

SharedTokens tokens(int count, int seed)
{
    auto ids = std::make_shared<std::vector<TokenId>>();
    for (int i = 0; i < count; ++i)
        ids->push_back(TokenId((i * 7 + seed) % 200));
    return ids;
}

} // namespace

class TestPrefixCache : public QObject
{
    Q_OBJECT

    struct Bench {
        std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
        FakeBackend backend{device};
        PrefixCache cache{backend};

        SlotId put(const SharedTokens& ids, std::int64_t length, PrefixCache::Kind kind = PrefixCache::Kind::Context,
                   int agent = 0)
        {
            const SlotId slot = *backend.createSequence(length);
            cache.insert(slot, ids, length, kind, AgentId(std::uint32_t(agent)));
            return slot;
        }
    };

private slots:
    void findsTheLongestThatFits()
    {
        Bench bench;
        const auto ids = tokens(1000, 1);
        bench.put(ids, 64);
        const SlotId middle = bench.put(ids, 512);
        const SlotId longest = bench.put(ids, 960);
        bench.put(tokens(1000, 2), 960);
        QCOMPARE(bench.cache.longest(*ids, 1000).slot, longest);
        QCOMPARE(bench.cache.longest(*ids, 959).slot, middle);
        QCOMPARE(bench.cache.longest(*ids, 63).slot, noSlot);
        QCOMPARE(bench.cache.longest(*tokens(1000, 3), 1000).length, 0);
    }

    void aDifferenceInTheLastTokenIsNoMatch()
    {
        Bench bench;
        bench.put(tokens(128, 1), 128);
        auto other = *tokens(128, 1);
        other[127] ^= 1;
        QCOMPARE(bench.cache.longest(other, 128).length, 0);
        QVERIFY(!bench.cache.holds(other, 128));
        QVERIFY(bench.cache.holds(*tokens(128, 1), 128));
    }

    void theLeastRecentlyUsedGoesFirst()
    {
        Bench bench;
        const auto a = tokens(64, 1), b = tokens(64, 2), c = tokens(64, 3);
        bench.put(a, 64);
        const SlotId kept = bench.put(b, 64);
        bench.put(c, 64);
        bench.cache.longest(*a, 64);
        QVERIFY(bench.cache.evictOne(kept)); // b is oldest but held
        QVERIFY(!bench.cache.holds(*c, 64));
        QVERIFY(bench.cache.evictOne());
        QVERIFY(!bench.cache.holds(*b, 64));
        QVERIFY(bench.cache.evictOne());
        QVERIFY(!bench.cache.evictOne());
        QCOMPARE(bench.device->liveSlots.load(), 0);
    }

    void anAgentKeepsItsTwoNewestTurns()
    {
        Bench bench;
        using Kind = PrefixCache::Kind;
        const auto ids = tokens(1000, 1);
        bench.put(ids, 64, Kind::Turn, 1);
        bench.put(ids, 128, Kind::Turn, 2);
        bench.put(ids, 192, Kind::Turn, 1);
        bench.put(ids, 256, Kind::Turn, 1);
        QVERIFY(!bench.cache.holds(*ids, 64));
        QVERIFY(bench.cache.holds(*ids, 128) && bench.cache.holds(*ids, 192) && bench.cache.holds(*ids, 256));
        bench.cache.releaseAgent(AgentId{1});
        QCOMPARE(bench.cache.size(), std::size_t(1));
        QVERIFY(bench.cache.holds(*ids, 128));
    }
};

QTEST_GUILESS_MAIN(TestPrefixCache)
#include "tst_prefix_cache.moc"
