#include "engine/memory/paged_rows.h"

#include <QTest>

#include <cstring>
#include <deque>
#include <limits>
#include <random>

using namespace octavo;
using namespace octavo::engine;

namespace
{

constexpr std::int64_t pageBytes = 64, slabPages = 4, slabBytes = slabPages * pageBytes;

class HeapSlab final : public PageSlab
{
public:
    HeapSlab(std::int64_t bytes, std::int64_t& left)
        : m_bytes(std::size_t(bytes))
        , m_left(left)
    {
        m_left -= bytes;
    }
    ~HeapSlab() override { m_left += std::int64_t(m_bytes.size()); }
    std::uint8_t* data() const override { return const_cast<std::uint8_t*>(m_bytes.data()); }

private:
    std::vector<std::uint8_t> m_bytes;
    std::int64_t& m_left;
};

/// A system with so many bytes left.
class HeapSlabs final : public SlabSource
{
public:
    explicit HeapSlabs(std::int64_t& left)
        : m_left(left)
    {
    }
    Result<std::unique_ptr<PageSlab>> allocate(std::int64_t bytes) override
    {
        if (bytes > m_left)
            return Error{ErrorCode::DeviceOutOfMemory, "none left"};
        return std::unique_ptr<PageSlab>(std::make_unique<HeapSlab>(bytes, m_left));
    }
    bool hasSpare(std::int64_t bytes) const override { return bytes <= m_left; }

private:
    std::int64_t& m_left;
};

struct Tiers {
    std::int64_t deviceLeft = 1 << 20, hostLeft = 1 << 20;
    PagePool device{std::make_unique<HeapSlabs>(deviceLeft), pageBytes, slabBytes};
    PagePool host{std::make_unique<HeapSlabs>(hostLeft), pageBytes, slabBytes};

    PagedRows rows(std::int64_t pages, bool tiered, const PagedRows* source = nullptr, std::int64_t shared = 0)
    {
        PagedRows made(device, host);
        if (const auto done = made.reserve(source, shared, pages - shared, tiered, 2); !done)
            qFatal("%s", done.error().message.c_str());
        return made;
    }
    static void fill(PagedRows& rows, std::int64_t pages)
    {
        while (rows.size() < pages) {
            if (!rows.append(true))
                qFatal("no page");
            std::memset(rows[rows.size() - 1].data(), int(rows.size()), std::size_t(pageBytes));
        }
    }
    static std::int64_t spill(PagedRows& rows, std::int64_t end,
                              std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                              PagedRows::Movers movers = PagedRows::Movers::Own)
    {
        const auto moved = rows.spill(
            1, end, most, movers,
            [](std::uint8_t* to, const std::uint8_t* from) {
                std::memcpy(to, from, std::size_t(pageBytes));
                return Result<void>();
            },
            [] { return Result<void>(); });
        return moved ? *moved : -1;
    }
};

} // namespace

class TestPagedRows : public QObject
{
    Q_OBJECT

private slots:
    void aPromiseKeepsPagesForItsHolder();
    void aRefusedPromiseLeavesNothingBehind();
    void aPromiseCanBePreparedInParts();
    void emptySlabsGoBackToTheSystem();
    void emptySlabsGoBackAFewAtATime();
    void forksOfOneContextNeedOnePlaceOfTheHostTierForEachPage();
    void aPlaceIsGivenUpWithTheLastSequenceThatMayMoveThePage();
    void whatMovedIsCountedOnceAndReadByAll();
    void aFailedMoveChangesNothing();
    void whatOthersMayMoveIsMovedForThem();
    void rowsFromElsewhereLieWhereTheyArePut();
    void aRefusedPlaceLeavesNothingBehind();
    void aRefusedForkLeavesItsSourceAlone();
    void allIsGivenBackUnderRandomUse();
};

void TestPagedRows::aPromiseKeepsPagesForItsHolder()
{
    Tiers t;
    t.deviceLeft = 2 * slabBytes;
    QVERIFY(t.device.promise(5));
    QCOMPARE(t.device.bytes(), 2 * slabBytes);
    for (int i = 0; i < 3; ++i)
        QVERIFY(t.device.takeSpare());
    QVERIFY(!t.device.takeSpare());
    for (int i = 0; i < 5; ++i)
        QVERIFY(t.device.take());
    QCOMPARE(t.device.inUse(), std::int64_t(8));
    QCOMPARE(t.device.promised(), std::int64_t(0));
}

void TestPagedRows::aRefusedPromiseLeavesNothingBehind()
{
    Tiers t;
    t.deviceLeft = 3 * slabBytes;
    QVERIFY(t.device.promise(2));
    const auto refused = t.device.promise(11);
    QVERIFY(!refused);
    QCOMPARE(refused.error().code, ErrorCode::DeviceOutOfMemory);
    QCOMPARE(t.device.bytes(), slabBytes);
    QCOMPARE(t.deviceLeft, 2 * slabBytes);
    QVERIFY(t.device.promise(10));
}

void TestPagedRows::aPromiseCanBePreparedInParts()
{
    Tiers t;
    t.hostLeft = 4 * slabBytes;
    QVERIFY(t.host.promise(2));
    const auto prepared = [&](std::int64_t pages) {
        const auto done = t.host.prepare(pages, 1);
        return done ? *done : false;
    };
    QVERIFY(!prepared(10)); // 12 pages are three slabs
    QCOMPARE(t.host.bytes(), 2 * slabBytes);
    QVERIFY(prepared(10));
    QVERIFY(prepared(10)); // takes no more
    QCOMPARE(t.host.bytes(), 3 * slabBytes);
    QCOMPARE(t.host.promised(), std::int64_t(2));
    t.hostLeft = 0; // what was prepared is enough
    QVERIFY(t.host.promise(10));
    QVERIFY(!t.host.prepare(1, 1));
    QCOMPARE(t.host.bytes(), 3 * slabBytes);
}

void TestPagedRows::emptySlabsGoBackToTheSystem()
{
    Tiers t;
    QVERIFY(t.device.promise(12));
    std::vector<std::uint8_t*> pages;
    for (int i = 0; i < 12; ++i)
        pages.push_back(t.device.take());
    QCOMPARE(t.device.shrink(), std::int64_t(0));
    for (const std::size_t i : {0, 1, 2, 3, 4, 5, 6, 7, 8}) // a page of the third slab too
        t.device.giveBack(pages[i]);
    QVERIFY(t.device.promise(2)); // the third slab has one
    QCOMPARE(t.device.shrink(), slabBytes);
    QCOMPARE(t.device.bytes(), 2 * slabBytes);
    t.device.forgo(2);
    QCOMPARE(t.device.shrink(), slabBytes);
    QCOMPARE(t.device.inUse(), std::int64_t(3));
    // What is taken next comes from the slab that stays.
    QVERIFY(t.device.takeSpare());
    QCOMPARE(t.device.bytes(), slabBytes);
}

void TestPagedRows::emptySlabsGoBackAFewAtATime()
{
    Tiers t;
    QVERIFY(t.host.prepare(20, 5));
    QVERIFY(t.host.promise(3)); // of one of the five slabs
    QCOMPARE(t.host.shrink(0, 0), std::int64_t(0));
    QCOMPARE(t.host.shrink(0, 1), slabBytes);
    QCOMPARE(t.host.shrink(2 * pageBytes), 2 * slabBytes); // two pages beside the three promised are more than a slab
    QCOMPARE(t.host.bytes(), 2 * slabBytes);
    QCOMPARE(t.host.shrink(pageBytes), slabBytes);
    QCOMPARE(t.host.shrink(), std::int64_t(0));
    QCOMPARE(t.host.promised(), std::int64_t(3));
}

void TestPagedRows::forksOfOneContextNeedOnePlaceOfTheHostTierForEachPage()
{
    Tiers t;
    PagedRows source = t.rows(12, true);
    Tiers::fill(source, 10);
    QCOMPARE(t.host.promised(), std::int64_t(12));
    std::deque<PagedRows> forks;
    for (int i = 0; i < 7; ++i)
        forks.push_back(t.rows(12, true, &source, 10)); // two pages each of their own
    QCOMPARE(t.host.promised(), std::int64_t(12 + 7 * 2));
    // All of them can move, whoever does it.
    QCOMPARE(Tiers::spill(forks[3], 10, 4), std::int64_t(4));
    QCOMPARE(Tiers::spill(source, 10), std::int64_t(5));
    QCOMPARE(Tiers::spill(forks[0], 10), std::int64_t(0));
    QCOMPARE(t.host.inUse(), std::int64_t(9));
    QCOMPARE(t.host.promised(), std::int64_t(12 + 7 * 2 - 9));
}

void TestPagedRows::aPlaceIsGivenUpWithTheLastSequenceThatMayMoveThePage()
{
    Tiers t;
    auto source = std::make_unique<PagedRows>(t.rows(6, true));
    Tiers::fill(*source, 6);
    PagedRows frozen = t.rows(6, false, source.get(), 6);
    QCOMPARE(t.host.promised(), std::int64_t(6));
    source.reset();
    QCOMPARE(t.host.promised(), std::int64_t(0));
    QCOMPARE(t.device.inUse(), std::int64_t(6));
    QCOMPARE(Tiers::spill(frozen, 6), std::int64_t(0));
    const PagedRows thawed = t.rows(7, true, &frozen, 6);
    QCOMPARE(t.host.promised(), std::int64_t(7));
    QCOMPARE(t.device.claimedBytes(), 7 * pageBytes);
}

void TestPagedRows::whatMovedIsCountedOnceAndReadByAll()
{
    Tiers t;
    PagedRows source = t.rows(12, true);
    Tiers::fill(source, 12);
    const PagedRows frozen = t.rows(12, false, &source, 12);
    QCOMPARE(t.device.claimedBytes(), 12 * pageBytes);
    QCOMPARE(Tiers::spill(source, 11), std::int64_t(10));
    // The fork's pages went too; one is kept for what comes next.
    QCOMPARE(t.device.inUse(), std::int64_t(2));
    QCOMPARE(t.device.claimedBytes(), 3 * pageBytes);
    QCOMPARE(t.device.shrink(), slabBytes); // the first and the last page keep a slab each
    for (std::int64_t i = 0; i < 12; ++i) {
        QCOMPARE(frozen[i].onHost(), i > 0 && i < 11);
        QCOMPARE(int(frozen[i].data()[pageBytes - 1]), int(i + 1));
    }
}

void TestPagedRows::aFailedMoveChangesNothing()
{
    Tiers t;
    PagedRows rows = t.rows(6, true);
    Tiers::fill(rows, 6);
    int copies = 0;
    const auto moved = rows.spill(
        1, 6, 10, PagedRows::Movers::Own,
        [&](std::uint8_t*, const std::uint8_t*) {
            return ++copies < 3 ? Result<void>() : Result<void>(Error{ErrorCode::DeviceFailure, "lost"});
        },
        [] { return Result<void>(); });
    QVERIFY(!moved);
    QCOMPARE(moved.error().code, ErrorCode::DeviceFailure);
    QCOMPARE(t.host.promised(), std::int64_t(6));
    QCOMPARE(t.host.inUse(), std::int64_t(0));
    QCOMPARE(t.device.inUse(), std::int64_t(6));
    QCOMPARE(Tiers::spill(rows, 6), std::int64_t(5));
}

void TestPagedRows::whatOthersMayMoveIsMovedForThem()
{
    Tiers t;
    auto source = std::make_unique<PagedRows>(t.rows(12, true));
    Tiers::fill(*source, 12);
    PagedRows frozen = t.rows(12, false, source.get(), 12);
    const std::int64_t claimed = t.device.claimedBytes();
    QCOMPARE(Tiers::spill(frozen, 10), std::int64_t(0));
    QCOMPARE(Tiers::spill(frozen, 10, 100, PagedRows::Movers::Any), std::int64_t(9));
    QCOMPARE(t.device.claimedBytes(), claimed - 9 * pageBytes); // a frozen sequence takes no page in their place
    for (std::int64_t i = 0; i < 12; ++i) {
        QCOMPARE((*source)[i].onHost(), i > 0 && i < 10);
        QCOMPARE(int(frozen[i].data()[0]), int(i + 1));
    }
    QCOMPARE(t.host.promised(), std::int64_t(12 - 9));
    source.reset(); // nobody may move the rest any more
    QCOMPARE(t.host.promised(), std::int64_t(0));
    QCOMPARE(Tiers::spill(frozen, 12, 100, PagedRows::Movers::Any), std::int64_t(0));
}

void TestPagedRows::rowsFromElsewhereLieWhereTheyArePut()
{
    Tiers t;
    {
        PagedRows placed(t.device, t.host);
        QVERIFY(placed.place(9, 1, 6));
        QCOMPARE(placed.size(), std::int64_t(9));
        for (std::int64_t i = 0; i < 9; ++i)
            QCOMPARE(placed[i].onHost(), i > 0 && i < 6);
        QCOMPARE(t.device.inUse(), std::int64_t(4));
        QCOMPARE(t.host.inUse(), std::int64_t(5));
        QCOMPARE(t.device.promised() + t.host.promised(), std::int64_t(0));
        // A sequence that goes on behind them may move those of the device.
        PagedRows fork = t.rows(11, true, &placed, 9);
        QCOMPARE(t.host.promised(), std::int64_t(4 + 2));
        QCOMPARE(Tiers::spill(fork, 8), std::int64_t(2));
        QVERIFY(placed[7].onHost() && !placed[8].onHost());
    }
    QCOMPARE(t.device.inUse() + t.host.inUse(), std::int64_t(0));
    { // a page outlives its rows for whoever shares it
        std::shared_ptr<const SharedPage> page;
        {
            PagedRows placed(t.device, t.host);
            QVERIFY(placed.place(3, 1, 2));
            page = placed.share(1);
        }
        QVERIFY(page->onHost());
        QCOMPARE(t.device.claimedBytes(), std::int64_t(0));
        QCOMPARE(t.host.inUse(), std::int64_t(1));
    }
    QCOMPARE(t.host.inUse(), std::int64_t(0));
    PagedRows few(t.device, t.host);
    QVERIFY(few.place(2, 1, 1));
    QCOMPARE(t.device.inUse(), std::int64_t(2));
    QCOMPARE(t.host.inUse(), std::int64_t(0));
}

void TestPagedRows::aRefusedPlaceLeavesNothingBehind()
{
    Tiers t;
    t.hostLeft = 0;
    PagedRows placed(t.device, t.host);
    QVERIFY(!placed.place(9, 1, 6));
    QCOMPARE(placed.size(), std::int64_t(0));
    QCOMPARE(t.device.claimedBytes() + t.host.claimedBytes(), std::int64_t(0));
}

void TestPagedRows::aRefusedForkLeavesItsSourceAlone()
{
    Tiers t;
    auto source = std::make_unique<PagedRows>(t.rows(6, true));
    Tiers::fill(*source, 6);
    const PagedRows frozen = t.rows(6, false, source.get(), 6);
    source.reset();
    t.hostLeft = 0;
    QCOMPARE(t.host.shrink(), 2 * slabBytes);
    t.hostLeft = slabBytes; // for four of the seven
    PagedRows fork(t.device, t.host);
    QVERIFY(!fork.reserve(&frozen, 6, 1, true, 2));
    QCOMPARE(fork.size(), std::int64_t(0));
    QCOMPARE(t.host.promised(), std::int64_t(0));
    QCOMPARE(t.device.promised(), std::int64_t(0));
    QCOMPARE(frozen.size(), std::int64_t(6));
}

void TestPagedRows::allIsGivenBackUnderRandomUse()
{
    Tiers t;
    std::mt19937 random(7);
    {
        std::deque<PagedRows> all;
        for (int round = 0; round < 2000; ++round) {
            const std::size_t chosen = all.empty() ? 0 : random() % all.size();
            const unsigned what = random() % 8;
            if (all.empty() || (what == 0 && all.size() < 12)) {
                all.push_back(t.rows(1 + random() % 20, random() % 2 == 0));
            } else if (what == 1 && all.size() < 12) {
                const std::int64_t shared = all[chosen].size() - std::int64_t(random() % 2 && all[chosen].size() > 0);
                PagedRows fork = t.rows(shared + std::int64_t(random() % 4), random() % 2 == 0, &all[chosen], shared);
                all.push_back(std::move(fork));
            } else if (what == 2) {
                std::swap(all[chosen], all.back());
                all.pop_back();
            } else if (what < 5) {
                QVERIFY(Tiers::spill(all[chosen], all[chosen].size() - 1, random() % 5) >= 0);
            } else if (all[chosen].tiered() || all[chosen].devicePromise() > 0) {
                all[chosen].append(true);
            }
            if (round % 100 == 0)
                t.device.shrink();
            // Each page once, wherever it is, and every page that may move has its place.
            std::map<const SharedPage*, bool> pages;
            std::int64_t devicePromises = 0, hostPromises = 0, onDevice = 0, onHost = 0, places = 0;
            for (const PagedRows& rows : all) {
                devicePromises += rows.devicePromise();
                hostPromises += rows.hostPromise();
                for (std::int64_t i = 0; i < rows.size(); ++i)
                    pages[&rows[i]] |= rows.tiered();
            }
            for (const auto& [page, mayMove] : pages) {
                ++(page->onHost() ? onHost : onDevice);
                places += mayMove && !page->onHost();
            }
            QCOMPARE(t.device.inUse(), onDevice);
            QCOMPARE(t.host.inUse(), onHost);
            QCOMPARE(t.device.promised(), devicePromises);
            QCOMPARE(t.host.promised(), hostPromises + places);
        }
    }
    QCOMPARE(t.device.claimedBytes(), std::int64_t(0));
    QCOMPARE(t.host.claimedBytes(), std::int64_t(0));
    t.device.shrink();
    t.host.shrink();
    QCOMPARE(t.deviceLeft, std::int64_t(1 << 20));
    QCOMPARE(t.hostLeft, std::int64_t(1 << 20));
}

QTEST_GUILESS_MAIN(TestPagedRows)
#include "tst_paged_rows.moc"
