#include "kernels/cpu/sparse_rows.h"

#include "kernels/cpu/panels.h"
#include "kernels/cpu/sparse_attend.h"
#include "kernels/cpu/sparse_math.h"
#include "tests/kernels/cpu/sparse_paths.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace octavo::kernels::cpu;

namespace {

std::vector<float> randomFloats(std::size_t n, unsigned seed, float spread = 1.0f)
{
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> values(n);
    for (float& value : values)
        value = normal(generator);
    return values;
}

float peakOf(const float* x, int n)
{
    float peak = 0.0f;
    for (int i = 0; i < n; ++i)
        peak = std::max(peak, std::abs(x[i]));
    return peak;
}

void attend(Path path, RowShape shape, const std::vector<const std::uint8_t*>& rows, const std::vector<float>& queries,
            float scale, float* out, float* maximum, float* sum, const std::vector<float>& lifts = {},
            float* added = nullptr)
{
    const int count = int(queries.size()) / shape.headDim, numRows = int(rows.size());
    std::vector<RowQuery> prepared;
    for (int q = 0; q < count; ++q)
        prepared.push_back(makeRowQuery(shape, queries.data() + q * shape.headDim, scale));
    std::vector<float> work(std::size_t(attendWorkFloats(shape, numRows, count)));
    std::vector<float> some(static_cast<std::size_t>(count));
    attendRows(path, shape, rows.data(), lifts.empty() ? nullptr : lifts.data(), numRows, prepared.data(), count,
               work.data(), out, maximum, sum, added ? added : some.data());
}

} // namespace

class TestSparseRows : public QObject
{
    Q_OBJECT

private slots:
    void halfRoundsToNearestEven();
    void expMatchesTheLibrary();
    void aRowTakesTheBytesOfTheDesign();
    void int4StaysWithinAStepOfItsGroup();
    void noOtherScaleServesMuchBetter();
    void allPathsQuantiseAlike();
    void oddValuesNeverFault();
    void aPageOfInt4RowsIsWithinHalfAStepOfThem();
    void attentionMatchesTheFormulaInDouble_data();
    void attentionMatchesTheFormulaInDouble();
    void allPathsGiveTheSameBits();
};

void TestSparseRows::halfRoundsToNearestEven()
{
    for (std::uint32_t half = 0; half < 0x7C00; ++half) {
        QCOMPARE(floatToHalf(halfToFloat(std::uint16_t(half))), std::uint16_t(half));
        QCOMPARE(floatToHalf(-halfToFloat(std::uint16_t(half))), std::uint16_t(half | 0x8000));
    }
    QCOMPARE(halfToFloat(0x3C00), 1.0f);
    QCOMPARE(halfToFloat(0x0001), 0x1p-24f);
    QCOMPARE(floatToHalf(1.0f + 0x1p-11f), std::uint16_t(0x3C00));        // half way, to even
    QCOMPARE(floatToHalf(1.0f + 3 * 0x1p-11f), std::uint16_t(0x3C02));    // half way, to even
    QCOMPARE(floatToHalf(0x1p-25f), std::uint16_t(0));
    QCOMPARE(floatToHalf(1e30f), std::uint16_t(0x7BFF));
    QCOMPARE(floatToHalf(-std::numeric_limits<float>::infinity()), std::uint16_t(0xFBFF));
    QCOMPARE(floatToHalf(std::numeric_limits<float>::quiet_NaN()), std::uint16_t(0));
}

void TestSparseRows::expMatchesTheLibrary()
{
    for (float x = -86.0f; x <= 0.0f; x += 0.0137f)
        QVERIFY(std::abs(double(expNonPositive(x)) / std::exp(double(x)) - 1.0) < 3e-7);
    QCOMPARE(expNonPositive(0.0f), 1.0f);
    QCOMPARE(expNonPositive(-std::numeric_limits<float>::infinity()), 0.0f);
}

void TestSparseRows::aRowTakesTheBytesOfTheDesign()
{
    QCOMPARE(RowShape{256}.int4Bytes(), std::size_t(272));
}

void TestSparseRows::int4StaysWithinAStepOfItsGroup()
{
    const RowShape shape{256};
    const auto key = randomFloats(256, 1), value = randomFloats(256, 2, 30.0f);
    std::vector<std::uint8_t> row(shape.int4Bytes());
    quantizeRowInt4(bestPath(), shape, key.data(), value.data(), row.data());
    std::vector<float> key4(256), value4(256);
    dequantizeInt4(shape, row.data(), key4.data(), value4.data());
    for (int i = 0; i < 256; ++i) {
        // Full scale takes the peak to code -8; a step of 1/8 of it is the worst that the opposite peak loses, and the
        // clipped candidates are taken only where they do better over all.
        const float keyStep = peakOf(&key[std::size_t(i / 64 * 64)], 64) / 8,
                    valueStep = peakOf(&value[std::size_t(i / 64 * 64)], 64) / 8;
        QVERIFY(std::abs(key[std::size_t(i)] - key4[std::size_t(i)]) <= 2.8f * keyStep);
        QVERIFY(std::abs(value[std::size_t(i)] - value4[std::size_t(i)]) <= 2.8f * valueStep);
    }
    double error = 0, energy = 0;
    for (int i = 0; i < 256; ++i) {
        error += std::pow(double(key[std::size_t(i)] - key4[std::size_t(i)]), 2);
        energy += std::pow(double(key[std::size_t(i)]), 2);
    }
    QVERIFY2(error / energy < 0.013, qPrintable(QString::number(error / energy)));
}

void TestSparseRows::noOtherScaleServesMuchBetter()
{
    // Against a thousand scales of each group, the squared error is at most a hundredth too large on average.
    const RowShape shape{256};
    double taken = 0.0, least = 0.0;
    for (unsigned seed = 0; seed < 8; ++seed) {
        const auto x = randomFloats(512, 40 + seed);
        std::vector<std::uint8_t> row(shape.int4Bytes());
        quantizeRowInt4(bestPath(), shape, x.data(), x.data() + 256, row.data());
        std::vector<float> back(512);
        dequantizeInt4(shape, row.data(), back.data(), back.data() + 256);
        for (std::size_t g = 0; g < 8; ++g) {
            double best = 1e30;
            for (int i = -1000; i <= 1000; ++i) {
                const double scale = double(peakOf(&x[64 * g], 64)) / 8.0 * double(i) / 1000.0;
                double error = 0.0;
                for (std::size_t j = 64 * g; j < 64 * g + 64; ++j) {
                    const double code = scale != 0.0 ? std::clamp(std::round(double(x[j]) / scale), -8.0, 7.0) : 0.0;
                    error += std::pow(double(x[j]) - scale * code, 2);
                }
                best = std::min(best, error);
            }
            least += best;
            for (std::size_t j = 64 * g; j < 64 * g + 64; ++j)
                taken += std::pow(double(x[j] - back[j]), 2);
        }
    }
    QVERIFY2(taken < 1.03 * least, qPrintable(QString::number(taken / least)));
}

void TestSparseRows::allPathsQuantiseAlike()
{
    const RowShape shape{256};
    for (unsigned seed = 0; seed < 50; ++seed) {
        auto x = randomFloats(512, seed);
        x[seed] *= 100.0f;
        std::vector<std::uint8_t> plain(shape.int4Bytes()), fast(shape.int4Bytes());
        quantizeRowInt4(Path::Plain, shape, x.data(), x.data() + 256, plain.data());
        for (const Path path : octavo::test::fasterPaths()) {
            quantizeRowInt4(path, shape, x.data(), x.data() + 256, fast.data());
            QVERIFY(fast == plain);
        }
    }
}

void TestSparseRows::oddValuesNeverFault()
{
    const RowShape shape{64};
    for (const float odd :
         {0.0f, 1e38f, 1e-42f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        const std::vector<float> x(64, odd);
        std::vector<std::uint8_t> four(shape.int4Bytes());
        quantizeRowInt4(bestPath(), shape, x.data(), x.data(), four.data());
        std::vector<float> key(64), value(64);
        dequantizeInt4(shape, four.data(), key.data(), value.data());
        QVERIFY(std::isfinite(key[5]) && std::isfinite(value[63]));
        if (odd == 0.0f)
            QCOMPARE(key[0], 0.0f);
    }
}

void TestSparseRows::aPageOfInt4RowsIsWithinHalfAStepOfThem()
{
    for (const int headDim : {64, 256}) {
        const RowShape shape{headDim};
        constexpr int count = 48, pageTokens = 64;
        const auto d = std::size_t(headDim);
        std::vector<std::vector<std::uint8_t>> storage;
        std::vector<const std::uint8_t*> pointers;
        for (int i = 0; i < count; ++i) {
            auto x = randomFloats(2 * d, unsigned(i));
            for (std::size_t j = 0; j < 64; ++j)
                x[j] *= 0.1f; // groups of one row differ
            storage.emplace_back(shape.int4Bytes());
            quantizeRowInt4(bestPath(), shape, x.data(), x.data() + d, storage.back().data());
            pointers.push_back(storage.back().data());
        }
        const auto run = [&](Path path) {
            std::vector<std::int8_t> codes(2 * pageTokens * d, 99);
            std::vector<float> scales(2 * pageTokens);
            unpackPage(path, shape, pointers.data(), count, pageTokens, codes.data(), codes.data() + pageTokens * d,
                       scales.data(), scales.data() + pageTokens);
            return std::pair(codes, scales);
        };
        const auto [codes, scales] = run(Path::Plain);
        std::vector<float> key(d), value(d);
        for (int t = 0; t < count; ++t) {
            dequantizeInt4(shape, pointers[std::size_t(t)], key.data(), value.data());
            const float keyScale = scales[std::size_t(t)], valueScale = scales[std::size_t(pageTokens + t)];
            for (int i = 0; i < headDim; ++i) {
                const auto keyAt = std::size_t(t / 16 * 16 * headDim + int8PanelOffset(i, t % 16));
                const auto valueAt =
                    std::size_t(pageTokens) * d + std::size_t(i / 16 * 16 * pageTokens + int8PanelOffset(t, i % 16));
                QVERIFY(std::abs(float(codes[keyAt]) * keyScale - key[std::size_t(i)]) <= 0.51f * keyScale);
                QVERIFY(std::abs(float(codes[valueAt]) * valueScale - value[std::size_t(i)]) <= 0.51f * valueScale);
            }
        }
        QCOMPARE(int(codes[std::size_t(count) * d]), 99); // nothing beyond
        for (const Path path : octavo::test::fasterPaths())
            QVERIFY(run(path) == std::pair(codes, scales));
    }
}

void TestSparseRows::attentionMatchesTheFormulaInDouble_data()
{
    QTest::addColumn<int>("headDim");
    QTest::addColumn<int>("rows");
    QTest::addColumn<int>("queries");
    QTest::addColumn<bool>("lifted");
    for (const int headDim : {64, 128, 256}) {
        for (const int rows : {1, 17, 512}) {
            for (const int queries : {1, 2, 6, 7}) {
                for (const bool lifted : {false, true})
                    QTest::addRow("headDim=%d rows=%d queries=%d lifted=%d", headDim, rows, queries, lifted)
                        << headDim << rows << queries << lifted;
            }
        }
    }
}

void TestSparseRows::attentionMatchesTheFormulaInDouble()
{
    QFETCH(int, headDim);
    QFETCH(int, rows);
    QFETCH(int, queries);
    QFETCH(bool, lifted);
    const RowShape shape{headDim};
    const auto d = std::size_t(headDim);
    std::vector<std::vector<std::uint8_t>> storage;
    std::vector<const std::uint8_t*> pointers;
    for (int i = 0; i < rows; ++i) {
        const auto x = randomFloats(2 * d, unsigned(100 + i));
        storage.emplace_back(shape.int4Bytes());
        quantizeRowInt4(bestPath(), shape, x.data(), x.data() + d, storage.back().data());
        pointers.push_back(storage.back().data());
    }
    const auto q = randomFloats(std::size_t(queries) * d, 9, 2.0f);
    const float scale = 1.0f / std::sqrt(float(headDim));
    std::vector<float> out(std::size_t(queries) * d), maximum(9), sum(9), added(9, -1.0f), lifts;
    for (int i = 0; lifted && i < rows; ++i)
        lifts.push_back(std::max(0.0f, float(i % 7) - 2.0f)); // most none
    attend(bestPath(), shape, pointers, q, scale, out.data(), maximum.data(), sum.data(), lifts, added.data());

    std::vector<float> key(d), value(d);
    for (int h = 0; h < queries; ++h) {
        std::vector<double> s(static_cast<std::size_t>(rows)), wanted(d);
        double total = 0, plain = 0;
        for (int i = 0; i < rows; ++i) {
            dequantizeInt4(shape, pointers[std::size_t(i)], key.data(), value.data());
            for (std::size_t j = 0; j < d; ++j)
                s[std::size_t(i)] += double(key[j]) * double(q[std::size_t(h) * d + j]);
            s[std::size_t(i)] = std::exp(s[std::size_t(i)] * double(scale));
            plain += s[std::size_t(i)];
            s[std::size_t(i)] *= lifted ? std::exp(double(lifts[std::size_t(i)])) : 1.0;
            total += s[std::size_t(i)];
            for (std::size_t j = 0; j < d; ++j)
                wanted[j] += s[std::size_t(i)] * double(value[j]);
        }
        for (std::size_t j = 0; j < d; ++j) {
            // Values are below 5; each weight is off by at most half of 1/32767 of the largest.
            const double got = double(out[std::size_t(h) * d + j]) / double(sum[std::size_t(h)]);
            QVERIFY(std::abs(got - wanted[j] / total) < 1e-3);
        }
        const double logSum = double(maximum[std::size_t(h)]) + std::log(double(sum[std::size_t(h)]));
        QVERIFY(std::abs(logSum - std::log(total)) < 5e-4);
        const double share = double(added[std::size_t(h)]) / double(sum[std::size_t(h)]);
        QVERIFY(std::abs(share - (1.0 - plain / total)) < 5e-4);
        QVERIFY(lifted || added[std::size_t(h)] == 0.0f);
    }
}

void TestSparseRows::allPathsGiveTheSameBits()
{
    for (const int headDim : {64, 256}) {
        const RowShape shape{headDim};
        const auto d = std::size_t(headDim);
        constexpr int rows = 333, queries = 7;
        std::vector<std::vector<std::uint8_t>> storage;
        std::vector<const std::uint8_t*> pointers;
        for (int i = 0; i < rows; ++i) {
            const auto x = randomFloats(2 * d, unsigned(i));
            storage.emplace_back(shape.int4Bytes());
            quantizeRowInt4(bestPath(), shape, x.data(), x.data() + d, storage.back().data());
            pointers.push_back(storage.back().data());
        }
        const auto q = randomFloats(queries * d, 77);
        const auto run = [&](Path path) {
            std::vector<float> out(queries * d + 3 * queries), lifts(rows);
            for (std::size_t i = 0; i < rows; ++i)
                lifts[i] = std::max(0.0f, std::sin(float(i)));
            attend(path, shape, pointers, q, 0.07f, out.data(), out.data() + queries * d,
                   out.data() + queries * d + queries, lifts, out.data() + queries * d + 2 * queries);
            return out;
        };
        const auto plain = run(Path::Plain);
        for (const Path path : octavo::test::fasterPaths())
            QVERIFY2(run(path) == plain, pathName(path).data());
    }
}

QTEST_GUILESS_MAIN(TestSparseRows)
#include "tst_sparse_rows.moc"
