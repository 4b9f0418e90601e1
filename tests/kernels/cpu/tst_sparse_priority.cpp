#include "kernels/cpu/sparse_priority.h"

#include "kernels/cpu/sparse_boost.h"
#include "tests/kernels/cpu/sparse_paths.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

using namespace octavo::kernels::cpu;

namespace {

struct Scores {
    Scores(std::size_t n, unsigned seed) : first(n), second(n)
    {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal(0.0f, 2.0f);
        std::ranges::generate(first, [&] { return normal(random); });
        std::ranges::generate(second, [&] { return normal(random); });
    }
    SharedScores shared() const { return {rows, logSums, 2}; }

    std::vector<float> first, second;
    const float* rows[2] = {first.data(), second.data()};
    float logSums[2] = {9.0f, 8.5f};
};

struct Picked {
    std::vector<std::int32_t> picks;
    std::vector<float> lifts;
    bool operator==(const Picked&) const = default;
};

Picked select(Path path, const PriorityTokens& tokens, std::int64_t k)
{
    PriorityScratch scratch;
    Picked picked;
    selectByPriority(path, tokens, k, scratch, picked.picks, picked.lifts);
    return picked;
}

std::vector<Path> allPaths()
{
    auto paths = octavo::test::fasterPaths();
    paths.push_back(Path::Plain);
    return paths;
}

double uniformOf(std::int32_t token)
{
    return (double(boostNumber(token)) + 0.5) / 16777216.0;
}

} // namespace

class TestSparsePriority : public QObject
{
    Q_OBJECT

private slots:
    void boostsAreTheLogsOfNumbersThatAreAllDifferent();
    void everyStretchHasItsShareOfSmallNumbers();
    void picksAndLiftsAreThoseOfTheDefinition();
    void allTokensCountOnceWhereAllArePicked();
    void sumsAreRightOnAverage();
    void whatTheFloorIsFor();
    void aLimitByPlaceTurnsNoCandidateDown();
    void boostsOfALeadSampleAreThoseOfAPeriodAgainAndAgain();
};

void TestSparsePriority::boostsAreTheLogsOfNumbersThatAreAllDifferent()
{
    std::set<std::uint32_t> seen;
    for (std::int32_t token = 0; token < 262144; ++token) {
        const double exact = -std::log(uniformOf(token));
        QVERIFY(std::abs(double(boostOf(token)) - exact) < 4e-5);
        QVERIFY(boostBound(boostPlace(token)) > boostOf(token) - 4e-5f);
        if (token % 16 != 0)
            QCOMPARE(boostPlace(token), boostPlace(token - 1) + 1);
        seen.insert(boostNumber(token));
    }
    QCOMPARE(seen.size(), std::size_t(262144));
}

void TestSparsePriority::everyStretchHasItsShareOfSmallNumbers()
{
    // Of 512 tokens anywhere one in 32 is below 1/32, within two; of 250,000 one in 20,000 below 1/20,000.
    for (std::int32_t begin = 0; begin < 250000; begin += 1000) {
        int small = 0;
        for (std::int32_t token = begin; token < begin + 512; ++token)
            small += uniformOf(token) < 1.0 / 32.0;
        QVERIFY2(std::abs(small - 16) <= 2, qPrintable(QString::number(small)));
    }
    int least = 0;
    for (std::int32_t token = 0; token < 250000; ++token)
        least += uniformOf(token) < 1.0 / 20000.0;
    QVERIFY2(least >= 10 && least <= 15, qPrintable(QString::number(least)));
}

void TestSparsePriority::picksAndLiftsAreThoseOfTheDefinition()
{
    constexpr std::size_t n = 6003;
    const Scores scores(n, 1);
    std::vector<std::int32_t> tokens;
    std::vector<float> lacks;
    for (std::size_t i = 0; i < n; ++i) {
        tokens.push_back(std::int32_t(1000 + 3 * i));
        lacks.push_back(i % 5 == 0 ? 0.9f : 0.0f);
    }
    for (const bool candidates : {false, true}) {
        const PriorityTokens of{.shared = scores.shared(),
                                .n = n,
                                .tokens = candidates ? tokens.data() : nullptr,
                                .first = 512,
                                .lacks = candidates ? lacks.data() : nullptr,
                                .floor = -11.0f};
        std::vector<double> keys(n), sums(n);
        for (std::size_t i = 0; i < n; ++i) {
            keys[i] = std::max({double(scores.first[i]) - 9.0, double(scores.second[i]) - 8.5, -11.0});
            sums[i] = keys[i] - std::log(uniformOf(candidates ? tokens[i] : std::int32_t(512 + i)));
        }
        auto sorted = sums;
        std::ranges::sort(sorted, std::greater<>{});
        for (const std::size_t k : {1, 700, 6002}) {
            const double tau = sorted[k];
            for (const Path path : allPaths()) {
                const Picked found = select(path, of, std::int64_t(k));
                QCOMPARE(found.picks.size(), k);
                QVERIFY(std::ranges::is_sorted(found.picks));
                for (std::size_t i = 0; i < k; ++i) {
                    const auto pick = std::size_t(found.picks[i]);
                    QVERIFY(sums[pick] > tau - 1e-4); // of sums that are this close either may be picked
                    const double lift = std::max({0.0, tau - keys[pick], candidates ? double(lacks[pick]) : 0.0});
                    QVERIFY(std::abs(double(found.lifts[i]) - lift) < 1e-4);
                }
                QVERIFY(found == select(Path::Plain, of, std::int64_t(k)));
            }
        }
    }
}

void TestSparsePriority::allTokensCountOnceWhereAllArePicked()
{
    const Scores scores(100, 2);
    const PriorityTokens of{.shared = scores.shared(), .n = 100, .first = 64, .floor = -20.0f};
    for (const std::int64_t k : {100, 1000}) {
        const Picked all = select(bestPath(), of, k);
        QCOMPARE(all.picks.size(), std::size_t(100));
        QVERIFY(all.lifts == std::vector<float>(100));
    }
}

void TestSparsePriority::sumsAreRightOnAverage()
{
    // Keys that know little of what is summed, and leads that know little of the keys: over many places of the range
    // the estimates' mean is the sum over all tokens.
    constexpr std::size_t n = 3000, places = 400;
    const Scores scores(n, 3);
    std::mt19937 random(4);
    std::normal_distribution<float> normal(0.0f, 1.5f);
    std::vector<std::int32_t> leads(n);
    std::vector<double> weights(n);
    double exact = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
        leads[i] = std::int32_t(100.0f * (std::max(scores.first[i], scores.second[i]) + normal(random)));
        weights[i] = std::exp(double(scores.first[i] + normal(random)));
        exact += weights[i];
    }
    const std::int32_t limit = 250;
    const float unit = 0.01f;
    const LeadRule rule{&limit, &unit, 4.0f, nullptr};
    double sum = 0.0, squares = 0.0, candidates = 0.0;
    for (std::size_t place = 0; place < places; ++place) {
        const auto first = std::int32_t(1 + 613 * place);
        std::vector<std::int32_t> tokens;
        std::vector<float> lacks, own[2];
        std::vector<std::size_t> indices;
        for (std::size_t i = 0; i < n; ++i) {
            const float lack = lackOf(rule, &leads[i], 1);
            if (boostOf(first + std::int32_t(i)) < lack)
                continue;
            indices.push_back(i);
            tokens.push_back(first + std::int32_t(i));
            lacks.push_back(lack);
            own[0].push_back(scores.first[i]);
            own[1].push_back(scores.second[i]);
        }
        candidates += double(tokens.size()) / places;
        const float* rows[] = {own[0].data(), own[1].data()};
        const Picked found = select(bestPath(),
                                    {.shared = {rows, scores.logSums, 2},
                                     .n = std::int64_t(tokens.size()),
                                     .tokens = tokens.data(),
                                     .lacks = lacks.data(),
                                     .floor = -10.5f},
                                    300);
        double estimate = 0.0;
        for (std::size_t i = 0; i < found.picks.size(); ++i)
            estimate += weights[indices[std::size_t(found.picks[i])]] * std::exp(double(found.lifts[i]));
        sum += estimate / exact / places;
        squares += std::pow(estimate / exact - 1.0, 2.0) / places;
    }
    QVERIFY(candidates > 600.0 && candidates < 1800.0);
    const double deviation = std::sqrt(squares / places);
    QVERIFY2(std::abs(sum - 1.0) < 3.0 * deviation && deviation < 0.02,
             qPrintable(QString("%1 +- %2").arg(sum).arg(deviation)));
}

void TestSparsePriority::whatTheFloorIsFor()
{
    // Half the tokens have keys far too low. With a floor they are picked now and then and stand for no more than the
    // floor says; without, hardly ever.
    constexpr std::size_t n = 20000;
    std::vector<float> scores(n);
    for (std::size_t i = 0; i < n; ++i)
        scores[i] = i % 2 == 0 ? 0.0f : -40.0f;
    const float* row = scores.data();
    const float logSum = float(std::log(n / 2.0));
    for (const bool floored : {false, true}) {
        const PriorityTokens of{.shared = {&row, &logSum, 1},
                                .n = n,
                                .first = 512,
                                .floor = floored ? float(std::log(0.1 / n)) : -100.0f};
        const Picked found = select(bestPath(), of, 1000);
        double low = 0.0, stood = 0.0;
        for (std::size_t i = 0; i < found.picks.size(); ++i) {
            if (found.picks[i] % 2 == 1) {
                ++low;
                stood += std::exp(double(found.lifts[i]));
            }
        }
        QVERIFY(floored ? low > 40.0 && low < 140.0 : low == 0.0);
        QVERIFY(!floored || std::abs(stood / 10000.0 - 1.0) < 0.3);
    }
}

void TestSparsePriority::aLimitByPlaceTurnsNoCandidateDown()
{
    for (const float unit : {1e-6f, 1e-3f, 0.1f}) {
        std::vector<std::int32_t> plain(boostPeriod), fast(boostPeriod);
        fillBoostedLimits(Path::Plain, 777, unit, 6.0f, plain.data());
        for (const Path path : allPaths()) {
            fillBoostedLimits(path, 777, unit, 6.0f, fast.data());
            QVERIFY(fast == plain);
        }
        for (std::int32_t token = 0; token < 5 * boostPeriod; ++token) {
            // What a token may lack, in units, and no more than two of them beyond what any of its kind may.
            const std::int32_t limit = plain[std::size_t(boostPlace(token))];
            if (boostOf(token) >= 6.0f)
                QCOMPARE(limit, std::numeric_limits<std::int32_t>::min());
            else
                QVERIFY(double(limit) <= 777.0 - double(boostOf(token)) / double(unit) + 4e-5 / double(unit) +
                                             1e-6 * double(limit < 0 ? -limit : limit));
            const float bound = boostBound(boostPlace(token));
            if (bound < 6.0f)
                QVERIFY(double(limit) >= 775.0 - double(bound) / double(unit) * 1.000001);
        }
    }
}

void TestSparsePriority::boostsOfALeadSampleAreThoseOfAPeriodAgainAndAgain()
{
    for (const Path path : allPaths()) {
        std::vector<std::int32_t> scores(5003, 10);
        addBoosts(path, 0.01f, scores.data(), std::int64_t(scores.size()));
        for (std::size_t i = 0; i < scores.size(); ++i)
            QVERIFY(std::abs(double(scores[i]) - 10.0 + 0.5 - 100.0 * double(boostOf(std::int32_t(i) % boostPeriod))) <=
                    0.51);
    }
}

QTEST_GUILESS_MAIN(TestSparsePriority)
#include "tst_sparse_priority.moc"
