#include "kernels/cpu/sparse_select.h"

#include "tests/kernels/cpu/sparse_paths.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

using namespace octavo::kernels::cpu;

namespace {

// The definition: sort everything.
std::vector<std::int32_t> bySorting(const std::vector<float>& keys, std::int64_t k)
{
    std::vector<std::int32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return keys[std::size_t(a)] > keys[std::size_t(b)]; });
    order.resize(std::min(order.size(), std::size_t(k)));
    std::sort(order.begin(), order.end());
    return order;
}

void select(Path path, const std::vector<float>& keys, std::int64_t k, SelectScratch& scratch,
            std::vector<std::int32_t>& picks)
{
    const float* scores = keys.data();
    const float logSum = 0.0f;
    float kept = 0.0f;
    selectLargest(path, {&scores, &logSum, 1}, std::int64_t(keys.size()), k, scratch, picks, &kept);
}

} // namespace

class TestSparseSelect : public QObject
{
    Q_OBJECT

private slots:
    void picksTheLargestAndTheLowestIndexOfATie_data()
    {
        QTest::addColumn<int>("n");
        QTest::addColumn<int>("k");
        QTest::addColumn<int>("kinds");
        for (const int n : {1, 15, 1000, 20011}) {
            for (const int k : {0, 1, 7, 999, 1000, 2048, 30000}) {
                for (const int kinds : {1, 5, 1000000})
                    QTest::addRow("n=%d k=%d kinds=%d", n, k, kinds) << n << k << kinds;
            }
        }
    }
    void picksTheLargestAndTheLowestIndexOfATie();
    void aMisleadingSampleChangesNothing();
    void nanIsNeverPicked();
    void aLimitIsTheLargestThatEnoughReach();
    void logSumMatchesTheFormulaInDouble();
    void sharedKeysAreTheLargestShareOfAnyHead();
};

void TestSparseSelect::picksTheLargestAndTheLowestIndexOfATie()
{
    QFETCH(int, n);
    QFETCH(int, k);
    QFETCH(int, kinds);
    std::mt19937 random(unsigned(n + k));
    std::vector<float> keys(static_cast<std::size_t>(n));
    for (float& key : keys)
        key = float(int(random() % unsigned(kinds)) - kinds / 2) / 16.0f;
    SelectScratch scratch;
    std::vector<std::int32_t> picks;
    select(Path::Plain, keys, k, scratch, picks);
    QVERIFY(picks == bySorting(keys, k));
    for (const Path path : octavo::test::fasterPaths()) {
        select(path, keys, k, scratch, picks);
        QVERIFY(picks == bySorting(keys, k));
    }
}

void TestSparseSelect::aMisleadingSampleChangesNothing()
{
    // Every sampled key is far above, or far below, the others.
    for (const float sampled : {100.0f, -100.0f}) {
        std::vector<float> keys(61 * 400);
        for (std::size_t i = 0; i < keys.size(); ++i)
            keys[i] = i % 61 == 0 ? sampled : float(i * 7919 % 10007) / 10007.0f;
        SelectScratch scratch;
        std::vector<std::int32_t> picks;
        select(bestPath(), keys, 2048, scratch, picks);
        QVERIFY(picks == bySorting(keys, 2048));
    }
}

void TestSparseSelect::aLimitIsTheLargestThatEnoughReach()
{
    std::mt19937 generator(3);
    for (const int spread : {1, 10, 100'000'000}) {
        for (const int n : {1, 16, 1003}) {
            std::vector<std::int32_t> values;
            for (int i = 0; i < n; ++i)
                values.push_back(std::int32_t(generator() % unsigned(2 * spread)) - spread);
            auto sorted = values;
            std::ranges::sort(sorted, std::greater<>{});
            auto paths = octavo::test::fasterPaths();
            paths.push_back(Path::Plain);
            for (const Path path : paths) {
                for (const int wanted : {1, 7, n, n + 5})
                    QCOMPARE(limitReachedBy(path, values.data(), n, wanted),
                             sorted[std::size_t(std::min(wanted, n) - 1)]);
            }
        }
    }
}

void TestSparseSelect::nanIsNeverPicked()
{
    std::vector<float> keys(3000, std::numeric_limits<float>::quiet_NaN());
    keys[2999] = 1.0f;
    keys[7] = -std::numeric_limits<float>::infinity();
    SelectScratch scratch;
    std::vector<std::int32_t> picks;
    for (const Path path : {Path::Plain, bestPath()}) {
        select(path, keys, 100, scratch, picks);
        QVERIFY(picks == (std::vector<std::int32_t>{7, 2999}));
    }
}

void TestSparseSelect::logSumMatchesTheFormulaInDouble()
{
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0f, 4.0f);
    for (const std::int64_t n : {1, 15, 16, 17, 4096, 5003}) {
        std::vector<float> scores(static_cast<std::size_t>(n));
        double total = 0;
        for (float& score : scores) {
            score = normal(random);
            total += std::exp(double(score));
        }
        const LogSum plain = roughLogSum(Path::Plain, scores.data(), n);
        QVERIFY(std::abs(double(plain.maximum) + std::log(double(plain.sum)) - std::log(total)) < 0.04);
        for (const Path path : octavo::test::fasterPaths()) {
            const LogSum fast = roughLogSum(path, scores.data(), n);
            QCOMPARE(fast.maximum, plain.maximum);
            QVERIFY(fast.sum == plain.sum);
        }
    }
}

void TestSparseSelect::sharedKeysAreTheLargestShareOfAnyHead()
{
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    constexpr std::size_t n = 5003;
    std::vector<std::vector<float>> heads(3, std::vector<float>(n));
    for (auto& head : heads)
        std::ranges::generate(head, [&] { return normal(random); });
    const float* scores[] = {heads[0].data(), heads[1].data(), heads[2].data()};
    const float logSums[] = {14.0f, 12.5f, 15.0f};
    std::vector<float> keys(n);
    for (std::size_t i = 0; i < n; ++i)
        keys[i] = std::max({heads[0][i] - 14.0f, heads[1][i] - 12.5f, heads[2][i] - 15.0f});
    const auto wanted = bySorting(keys, 300);
    float plain[3] = {};
    for (const Path path : {Path::Plain, bestPath()}) {
        SelectScratch scratch;
        std::vector<std::int32_t> picks;
        float kept[3];
        selectLargest(path, {scores, logSums, 3}, n, 300, scratch, picks, kept);
        QVERIFY(picks == wanted);
        for (std::size_t h = 0; h < 3; ++h) {
            double exact = 0;
            for (const std::int32_t i : picks)
                exact += std::exp(double(heads[h][std::size_t(i)]) - double(logSums[h]));
            QVERIFY(std::abs(double(kept[h]) / exact - 1.0) < 0.04);
            if (path == Path::Plain)
                plain[h] = kept[h];
            QCOMPARE(kept[h], plain[h]);
        }
    }
}

QTEST_GUILESS_MAIN(TestSparseSelect)
#include "tst_sparse_select.moc"
