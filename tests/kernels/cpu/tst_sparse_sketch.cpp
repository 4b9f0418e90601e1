#include "kernels/cpu/sparse_sketch.h"

#include "kernels/cpu/sparse_boost.h"
#include "tests/kernels/cpu/sparse_paths.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace octavo::kernels::cpu;

namespace {

std::vector<float> randomFloats(std::size_t n, unsigned seed)
{
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float& value : values)
        value = normal(generator);
    return values;
}

// Sketches of 16 * blocks tokens whose coordinates fall off, as those of keys do.
struct Store {
    Store(int sketchRank, int blocks) : rank(sketchRank), deviations(std::size_t(sketchRank))
    {
        for (std::size_t c = 0; c < deviations.size(); ++c)
            deviations[c] = 8.0f / float(c + 4);
        leads.resize(std::size_t(blocks * leadBlockBytes(rank)));
        rests.resize(std::size_t(16 * blocks * restBytes(rank)));
        for (int t = 0; t < 16 * blocks; ++t)
            write(t, unsigned(t));
    }
    std::vector<float> coordinates(unsigned seed) const
    {
        auto z = randomFloats(std::size_t(rank), seed);
        for (std::size_t c = 0; c < z.size(); ++c)
            z[c] *= deviations[c];
        return z;
    }
    void write(int token, unsigned seed)
    {
        writeSketch(rank, coordinates(seed).data(), deviations.data(), leads.data() + token / 16 * leadBlockBytes(rank),
                    token % 16, rests.data() + token * restBytes(rank));
    }
    std::vector<float> read(int token) const
    {
        std::vector<float> z(static_cast<std::size_t>(rank));
        readSketch(rank, view(), token, deviations.data(), z.data());
        return z;
    }
    SketchView view() const { return {leads.data(), rests.data()}; }
    std::vector<SketchQuery> queries(int count) const
    {
        std::vector<SketchQuery> q;
        for (int i = 0; i < count; ++i)
            q.push_back(makeSketchQuery(rank, randomFloats(std::size_t(rank), unsigned(1000 + i)).data(),
                                        deviations.data(), 0.0625f));
        return q;
    }

    int rank;
    std::vector<float> deviations;
    std::vector<std::uint8_t> leads, rests;
};

template <typename Value>
std::vector<Value*> rowsOf(std::vector<Value>& values, int count, std::size_t each)
{
    std::vector<Value*> rows;
    for (int i = 0; i < count; ++i)
        rows.push_back(values.data() + std::size_t(i) * each);
    return rows;
}

std::vector<float> allScores(Path path, const Store& store, int blocks, const std::vector<SketchQuery>& q)
{
    std::vector<float> scores(q.size() * std::size_t(16 * blocks));
    scoreSketches(path, store.rank, store.view(), blocks, q.data(), int(q.size()),
                  rowsOf(scores, int(q.size()), std::size_t(16 * blocks)).data());
    return scores;
}

} // namespace

class TestSparseSketch : public QObject
{
    Q_OBJECT

private slots:
    void aTokenTakes32BytesAtRank64();
    void keepsEachCoordinateWithinAFractionOfItsDeviation();
    void theUpperBitsAreACodeByThemselves();
    void writingALaneLeavesTheOthers();
    void scoresAreTheProductsOfWhatIsKept_data();
    void scoresAreTheProductsOfWhatIsKept();
    void candidatesAreTheTokensWhoseBoostReachesWhatTheirLeadsLack_data() { scoresAreTheProductsOfWhatIsKept_data(); }
    void candidatesAreTheTokensWhoseBoostReachesWhatTheirLeadsLack();
    void leadsFindWhatTheWholeSketchPutsFirst();
    void aUnitWithoutBoundGivesTheSameCandidatesOnAllPaths();
    void oddValuesNeverFault();
};

void TestSparseSketch::aTokenTakes32BytesAtRank64()
{
    QCOMPARE(sketchBytes(64), 32);
    for (const int rank : {16, 32, 64, 256})
        QCOMPARE(leadBytes(rank) + restBytes(rank), sketchBytes(rank));
}

void TestSparseSketch::keepsEachCoordinateWithinAFractionOfItsDeviation()
{
    for (const int rank : {16, 64, 128}) {
        const Store store(rank, 8);
        double error = 0.0, energy = 0.0;
        for (int t = 0; t < 128; ++t) {
            const auto z = store.coordinates(unsigned(t)), kept = store.read(t);
            for (std::size_t c = 0; c < z.size(); ++c) {
                const double size = std::abs(double(z[c])) / double(store.deviations[c]);
                const double off = std::abs(double(z[c] - kept[c])) / double(store.deviations[c]);
                // Half of the widest step that is closed; further out all fall on one level.
                QVERIFY(size > 2.26 ? off <= 0.37 + (size - 2.26) : off <= 0.31);
                error += off * off;
                energy += size * size;
            }
        }
        QVERIFY2(error / energy < 0.02, qPrintable(QString::number(error / energy)));
    }
}

void TestSparseSketch::theUpperBitsAreACodeByThemselves()
{
    // A query along one lead coordinate sees four levels of it, in order.
    std::vector<float> deviations(64, 1.0f), along(64);
    along[5] = 1.0f;
    const SketchQuery query = makeSketchQuery(64, along.data(), deviations.data(), 1.0f);
    std::vector<std::uint8_t> leads(std::size_t(leadBlockBytes(64))), rests(std::size_t(16 * restBytes(64)));
    const float values[8] = {-3.0f, -1.1f, -0.9f, -0.1f, 0.1f, 0.9f, 1.1f, 3.0f};
    for (int t = 0; t < 8; ++t) {
        std::vector<float> z(64);
        z[5] = values[t];
        writeSketch(64, z.data(), deviations.data(), leads.data(), t, rests.data() + t * restBytes(64));
    }
    std::vector<std::int32_t> scores(16);
    std::int32_t* row = scores.data();
    scoreLeads(Path::Plain, 64, leads.data(), 1, 1, &query, 1, &row);
    const int wanted[8] = {0, 0, 1, 1, 2, 2, 3, 3};
    for (int t = 0; t < 8; ++t)
        QCOMPARE(scores[std::size_t(t)], 127 * wanted[t]);
}

void TestSparseSketch::writingALaneLeavesTheOthers()
{
    Store store(64, 1);
    const auto leads = store.leads, rests = store.rests;
    std::vector<std::vector<float>> before;
    for (int t = 0; t < 16; ++t)
        before.push_back(store.read(t));
    store.write(7, 99);
    for (int t = 0; t < 16; ++t)
        QCOMPARE(store.read(t) == before[std::size_t(t)], t != 7);
    store.write(7, 7);
    QVERIFY(store.leads == leads && store.rests == rests);
}

void TestSparseSketch::scoresAreTheProductsOfWhatIsKept_data()
{
    QTest::addColumn<int>("rank");
    QTest::addColumn<int>("queries");
    for (const int rank : {16, 64, 128}) {
        for (const int queries : {1, 2, 4, 6, 7})
            QTest::addRow("rank=%d queries=%d", rank, queries) << rank << queries;
    }
}

void TestSparseSketch::scoresAreTheProductsOfWhatIsKept()
{
    QFETCH(int, rank);
    QFETCH(int, queries);
    constexpr int blocks = 5;
    const Store store(rank, blocks);
    const auto q = store.queries(queries);
    const auto plain = allScores(Path::Plain, store, blocks, q);
    for (int t = 0; t < 16 * blocks; ++t) {
        const auto key = store.read(t);
        for (int i = 0; i < queries; ++i) {
            const auto coordinates = randomFloats(std::size_t(rank), unsigned(1000 + i));
            double exact = 0, size = 0, peak = 0;
            for (std::size_t c = 0; c < key.size(); ++c) {
                exact += double(key[c]) * double(coordinates[c]) * 0.0625;
                size += std::abs(double(key[c] / store.deviations[c])) * 0.0625;
                peak = std::max(peak, std::abs(double(coordinates[c] * store.deviations[c])));
            }
            // An int8 query is off by half a step in each coordinate at most.
            QVERIFY(std::abs(double(plain[std::size_t(i * 16 * blocks + t)]) - exact) <= size * peak / 127.0 * 0.51);
        }
    }
    for (const Path path : octavo::test::fasterPaths())
        QVERIFY2(allScores(path, store, blocks, q) == plain, pathName(path).data());
}

void TestSparseSketch::candidatesAreTheTokensWhoseBoostReachesWhatTheirLeadsLack()
{
    QFETCH(int, rank);
    QFETCH(int, queries);
    constexpr int blocks = 37; // no multiple of what a kernel takes at once
    constexpr std::size_t tokens = 16 * blocks, room = tokens + 16;
    constexpr std::int32_t first = 4096 * 3 - 160; // a period ends among them
    const Store store(rank, blocks);
    const auto q = store.queries(queries);
    const auto whole = allScores(Path::Plain, store, blocks, q);
    std::vector<std::int32_t> leads(std::size_t(queries) * tokens);
    scoreLeads(Path::Plain, rank, store.leads.data(), blocks, 1, q.data(), queries,
               rowsOf(leads, queries, tokens).data());
    for (const auto& [share, mostLack] :
         {std::pair{0.0, 30.0f}, {0.02, 4.0f}, {0.02, 30.0f}, {0.5, 6.0f}, {1.0, 30.0f}}) {
        std::vector<std::int32_t> limits, boosted(std::size_t(queries) * boostPeriod);
        std::vector<float> units;
        for (int i = 0; i < queries; ++i) {
            std::vector<std::int32_t> sorted(leads.begin() + std::ptrdiff_t(std::size_t(i) * tokens),
                                             leads.begin() + std::ptrdiff_t(std::size_t(i + 1) * tokens));
            std::ranges::sort(sorted, std::greater<>{});
            limits.push_back(share == 0.0 ? sorted.front() + 1 : sorted[std::size_t(share * double(tokens - 1))]);
            units.push_back(i == 0 ? 1e-6f : q[std::size_t(i)].leadUnit); // one that tells nothing apart
            fillBoostedLimits(Path::Plain, limits.back(), units.back(), mostLack,
                              &boosted[std::size_t(i) * boostPeriod]);
        }
        const LeadRule rule{limits.data(), units.data(), mostLack, boosted.data()};
        // The definition, without the limits by position.
        std::vector<std::int32_t> wanted;
        std::vector<float> lacking;
        for (std::size_t t = 0; t < tokens; ++t) {
            double lack = double(mostLack);
            for (std::size_t i = 0; i < std::size_t(queries); ++i)
                lack = std::min(lack, double(float(limits[i] - leads[i * tokens + t]) * units[i]));
            if (double(boostOf(first + std::int32_t(t))) < lack)
                continue;
            wanted.push_back(first + std::int32_t(t));
            lacking.push_back(float(std::max(0.0, lack)));
        }
        auto paths = octavo::test::fasterPaths();
        paths.push_back(Path::Plain);
        for (const Path path : paths) {
            std::vector<std::int32_t> found(room);
            std::vector<float> scores(std::size_t(queries) * room), lacks(room);
            const std::int64_t count =
                scoreCandidates(path, rank, store.view(), blocks, q.data(), queries, rule, first, found.data(),
                                lacks.data(), rowsOf(scores, queries, room).data());
            found.resize(std::size_t(count));
            lacks.resize(std::size_t(count));
            QVERIFY2(found == wanted, pathName(path).data());
            QVERIFY2(lacks == lacking, pathName(path).data());
            for (std::size_t i = 0; i < std::size_t(queries); ++i) {
                for (std::size_t c = 0; c < found.size(); ++c)
                    QCOMPARE(scores[i * room + c], whole[i * tokens + std::size_t(found[c] - first)]);
            }
        }
    }
    for (const Path path : octavo::test::fasterPaths()) { // every third block
        std::vector<std::int32_t> some(std::size_t(queries) * 13 * 16);
        scoreLeads(path, rank, store.leads.data(), 13, 3, q.data(), queries, rowsOf(some, queries, 13 * 16).data());
        for (std::size_t i = 0; i < std::size_t(queries); ++i) {
            for (std::size_t t = 0; t < 13 * 16; ++t)
                QCOMPARE(some[i * 13 * 16 + t], leads[i * tokens + t / 16 * 48 + t % 16]);
        }
    }
}

void TestSparseSketch::leadsFindWhatTheWholeSketchPutsFirst()
{
    // Of 4,096 tokens the 128 best by the whole sketch are nearly all among the 512 best by the leads.
    constexpr int blocks = 256, tokens = 16 * blocks;
    const Store store(64, blocks);
    const auto q = store.queries(1);
    const auto whole = allScores(Path::Plain, store, blocks, q);
    std::vector<std::int32_t> leads(tokens), places(tokens);
    std::int32_t* row = leads.data();
    scoreLeads(Path::Plain, 64, store.leads.data(), blocks, 1, q.data(), 1, &row);
    std::iota(places.begin(), places.end(), 0);
    const auto best = [&](const auto& by, std::ptrdiff_t count) {
        auto sorted = places;
        std::ranges::stable_sort(sorted, [&](int a, int b) { return by[std::size_t(a)] > by[std::size_t(b)]; });
        sorted.resize(std::size_t(count));
        std::ranges::sort(sorted);
        return sorted;
    };
    const auto wanted = best(whole, 128), promising = best(leads, 512);
    std::vector<std::int32_t> both;
    std::ranges::set_intersection(wanted, promising, std::back_inserter(both));
    QVERIFY2(both.size() >= 122, qPrintable(QString::number(both.size())));
}

void TestSparseSketch::aUnitWithoutBoundGivesTheSameCandidatesOnAllPaths()
{
    // What leads that are just at the limit lack of it is then no number.
    constexpr int blocks = 37, queries = 2;
    constexpr std::size_t tokens = 16 * blocks, room = tokens + 16;
    const Store store(64, blocks);
    const auto q = store.queries(queries);
    std::vector<std::int32_t> leads(queries * tokens);
    scoreLeads(Path::Plain, 64, store.leads.data(), blocks, 1, q.data(), queries,
               rowsOf(leads, queries, tokens).data());
    const float units[queries] = {q[0].leadUnit, std::numeric_limits<float>::infinity()};
    std::int32_t limits[queries];
    std::vector<std::int32_t> boosted(queries * boostPeriod);
    for (int i = 0; i < queries; ++i) {
        const auto own = leads.begin() + std::ptrdiff_t(i) * std::ptrdiff_t(tokens);
        std::vector<std::int32_t> sorted(own, own + std::ptrdiff_t(tokens));
        std::ranges::sort(sorted);
        limits[i] = sorted[tokens * 9 / 10];
        fillBoostedLimits(Path::Plain, limits[i], units[i], 4.0f, &boosted[std::size_t(i) * boostPeriod]);
    }
    const LeadRule rule{limits, units, 4.0f, boosted.data()};
    const auto candidates = [&](Path path) {
        std::vector<std::int32_t> found(room);
        std::vector<float> scores(queries * room), lacks(room);
        found.resize(std::size_t(scoreCandidates(path, 64, store.view(), blocks, q.data(), queries, rule, 0,
                                                 found.data(), lacks.data(), rowsOf(scores, queries, room).data())));
        lacks.resize(found.size());
        return std::pair(found, lacks);
    };
    const auto plain = candidates(Path::Plain);
    QVERIFY(!plain.first.empty());
    for (const Path path : octavo::test::fasterPaths())
        QVERIFY2(candidates(path) == plain, pathName(path).data());
}

void TestSparseSketch::oddValuesNeverFault()
{
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> ones(64, 1.0f), zeros(64);
    std::vector<std::uint8_t> leads(std::size_t(leadBlockBytes(64))), rests(std::size_t(16 * restBytes(64)));
    for (const float odd : {0.0f, 1e38f, infinity, std::numeric_limits<float>::quiet_NaN()}) {
        const std::vector<float> x(64, odd);
        for (const auto* deviations : {&ones, &zeros}) {
            writeSketch(64, x.data(), deviations->data(), leads.data(), 3, rests.data());
            std::vector<float> kept(64);
            readSketch(64, {leads.data(), rests.data()}, 3, deviations->data(), kept.data());
            QVERIFY(std::isfinite(kept[63]));
            QVERIFY(makeSketchQuery(64, x.data(), deviations->data(), 1.0f).leadUnit >= 1e-6f);
        }
    }
    const SketchQuery none = makeSketchQuery(64, zeros.data(), ones.data(), 1.0f);
    QCOMPARE(none.offset, 0);
    QCOMPARE(none.scale, 0.0f);
}

QTEST_GUILESS_MAIN(TestSparseSketch)
#include "tst_sparse_sketch.moc"
