#include "kernels/cpu/sparse_sketch.h"

#include "tests/kernels/cpu/sparse_paths.h"

#include <QTest>

#include <cmath>
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

} // namespace

class TestSparseSketch : public QObject
{
    Q_OBJECT

private slots:
    void aTokenTakes34BytesAtRank64() { QCOMPARE(sketchBlockBytes(64), std::size_t(16 * 34)); }
    void keepsEachCoordinateWithinAStep();
    void writingALaneLeavesTheOthers();
    void scoresAreTheProductsOfWhatIsKept_data();
    void scoresAreTheProductsOfWhatIsKept();
    void aZeroKeyScoresZero();
};

void TestSparseSketch::keepsEachCoordinateWithinAStep()
{
    for (const int rank : {8, 64, 128}) {
        const auto z = randomFloats(std::size_t(rank), 1);
        std::vector<std::uint8_t> block(sketchBlockBytes(rank));
        writeSketch(rank, z.data(), block.data(), 5);
        std::vector<float> kept(static_cast<std::size_t>(rank));
        readSketch(rank, block.data(), 5, kept.data());
        float peak = 0;
        for (const float x : z)
            peak = std::max(peak, std::abs(x));
        for (std::size_t c = 0; c < z.size(); ++c)
            QVERIFY(std::abs(z[c] - kept[c]) <= 1.01f * peak / 8);
    }
}

void TestSparseSketch::writingALaneLeavesTheOthers()
{
    std::vector<std::uint8_t> block(sketchBlockBytes(64));
    for (int lane = 0; lane < 16; ++lane)
        writeSketch(64, randomFloats(64, unsigned(lane)).data(), block.data(), lane);
    auto again = block;
    writeSketch(64, randomFloats(64, 99).data(), again.data(), 7);
    std::vector<float> before(64), after(64);
    for (int lane = 0; lane < 16; ++lane) {
        readSketch(64, block.data(), lane, before.data());
        readSketch(64, again.data(), lane, after.data());
        QCOMPARE(before == after, lane != 7);
    }
    writeSketch(64, randomFloats(64, 7).data(), again.data(), 7);
    QVERIFY(again == block);
}

void TestSparseSketch::scoresAreTheProductsOfWhatIsKept_data()
{
    QTest::addColumn<int>("rank");
    QTest::addColumn<int>("queries");
    for (const int rank : {8, 64, 128}) {
        for (const int queries : {1, 2, 4, 7})
            QTest::addRow("rank=%d queries=%d", rank, queries) << rank << queries;
    }
}

void TestSparseSketch::scoresAreTheProductsOfWhatIsKept()
{
    QFETCH(int, rank);
    QFETCH(int, queries);
    constexpr int blocks = 5;
    const std::size_t blockBytes = sketchBlockBytes(rank), r = std::size_t(rank);
    std::vector<std::uint8_t> store(blocks * blockBytes);
    for (int t = 0; t < 16 * blocks; ++t)
        writeSketch(rank, randomFloats(r, unsigned(t)).data(), store.data() + std::size_t(t / 16) * blockBytes, t % 16);
    std::vector<SketchQuery> q;
    std::vector<std::vector<float>> coordinates;
    for (int i = 0; i < queries; ++i) {
        coordinates.push_back(randomFloats(r, unsigned(1000 + i)));
        q.push_back(makeSketchQuery(rank, coordinates.back().data(), 0.0625f));
    }
    const auto run = [&](Path path) {
        std::vector<float> scores(std::size_t(queries) * 16 * blocks);
        std::vector<float*> rows;
        for (int i = 0; i < queries; ++i)
            rows.push_back(scores.data() + i * 16 * blocks);
        scoreSketches(path, rank, store.data(), blocks, q.data(), queries, rows.data());
        return scores;
    };
    const auto plain = run(Path::Plain);
    std::vector<float> key(r);
    for (int t = 0; t < 16 * blocks; ++t) {
        readSketch(rank, store.data() + std::size_t(t / 16) * blockBytes, t % 16, key.data());
        for (int i = 0; i < queries; ++i) {
            double exact = 0, size = 0;
            for (std::size_t c = 0; c < r; ++c) {
                exact += double(key[c]) * double(coordinates[std::size_t(i)][c]) * 0.0625;
                size += std::abs(double(key[c])) * 0.0625;
            }
            // An int8 query is off by half a step of about 3.5 / 127 in each coordinate at most.
            const double got = double(plain[std::size_t(i * 16 * blocks + t)]);
            QVERIFY(std::abs(got - exact) <= size * 0.02);
        }
    }
    for (const Path path : octavo::test::fasterPaths())
        QVERIFY2(run(path) == plain, pathName(path).data());
}

void TestSparseSketch::aZeroKeyScoresZero()
{
    std::vector<std::uint8_t> block(sketchBlockBytes(64));
    writeSketch(64, std::vector<float>(64).data(), block.data(), 0);
    const SketchQuery query = makeSketchQuery(64, randomFloats(64, 3).data(), 1.0f);
    std::vector<float> scores(16);
    float* row = scores.data();
    scoreSketches(Path::Plain, 64, block.data(), 1, &query, 1, &row);
    QCOMPARE(scores[0], 0.0f);
    const SketchQuery zero = makeSketchQuery(64, std::vector<float>(64).data(), 1.0f);
    QCOMPARE(zero.offset, 0);
    QCOMPARE(zero.scale, 0.0f);
}

QTEST_GUILESS_MAIN(TestSparseSketch)
#include "tst_sparse_sketch.moc"
