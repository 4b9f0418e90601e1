#include "engine/sampling/loop_watch.h"

#include <QTest>

#include <vector>

using namespace octavo::engine;

namespace {

using Ids = std::vector<TokenId>;

/// `count` ids that are all different.
Ids distinct(int count, TokenId first = 1000)
{
    Ids ids;
    for (int i = 0; i < count; ++i)
        ids.push_back(first + i);
    return ids;
}

Ids repeated(const Ids& stretch, int times)
{
    Ids ids;
    for (int i = 0; i < times; ++i)
        ids.insert(ids.end(), stretch.begin(), stretch.end());
    return ids;
}

Ids joined(std::initializer_list<Ids> parts)
{
    Ids ids;
    for (const Ids& part : parts)
        ids.insert(ids.end(), part.begin(), part.end());
    return ids;
}

/// The length at which an answer of `start` and then `tail` is taken for a loop; 0: it is not.
std::size_t endOf(const Ids& start, const Ids& tail, const Ids& prompt = {})
{
    LoopWatch watch;
    Ids answer;
    for (const Ids* part : {&start, &tail}) {
        for (const TokenId id : *part) {
            answer.push_back(id);
            if (watch.loops(answer, prompt))
                return answer.size();
        }
    }
    return 0;
}

} // namespace

class TestLoopWatch : public QObject
{
    Q_OBJECT

private slots:
    void endsWhatRepeatsFourTimesAndOverLongEnough_data()
    {
        QTest::addColumn<int>("period");
        QTest::addColumn<int>("end");
        QTest::newRow("one token") << 1 << 256;
        QTest::newRow("below eight") << 7 << 256;
        QTest::newRow("a short line") << 8 << 128;
        QTest::newRow("a list entry") << 30 << 128;
        QTest::newRow("a block") << 50 << 200;
        QTest::newRow("the longest") << 256 << 1024;
        QTest::newRow("longer") << 257 << 0;
    }

    void endsWhatRepeatsFourTimesAndOverLongEnough()
    {
        QFETCH(int, period);
        QFETCH(int, end);
        const std::size_t before = 20;
        const std::size_t found = endOf(distinct(int(before)), repeated(distinct(period, 5000), 2000 / period + 4));
        QCOMPARE(found, end == 0 ? 0 : before + std::size_t(end));
    }

    void whatDiffersAtOnePlaceIsNoLoop()
    {
        Ids table; // rows of a table: all alike but for a number
        for (int row = 0; row < 100; ++row) {
            for (TokenId id : distinct(20))
                table.push_back(id == 1007 ? 9000 + row : id);
        }
        QCOMPARE(endOf({}, table), std::size_t(0));
    }

    void threeEqualBlocksAreNoLoop()
    {
        QCOMPARE(endOf({}, joined({repeated(distinct(120), 3), distinct(50, 3000), repeated(distinct(15), 8)})),
                 std::size_t(0));
    }

    void whatStandsInThePromptIsAQuote()
    {
        const Ids rows = repeated(distinct(12), 40);
        const Ids prompt = joined({distinct(300, 2000), rows, distinct(300, 4000)});
        QCOMPARE(endOf({}, rows, prompt), std::size_t(0));
        const Ids few = joined({distinct(300, 2000), repeated(distinct(12), 6)});
        QCOMPARE(endOf({}, repeated(distinct(12), 200), few), std::size_t(128)); // six rows of it do not make a quote
    }
};

QTEST_APPLESS_MAIN(TestLoopWatch)
#include "tst_loop_watch.moc"
