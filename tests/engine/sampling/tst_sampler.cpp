#include "engine/sampling/sampler.h"

#include <QTest>

#include <cmath>
#include <limits>
#include <map>
#include <random>

using namespace octavo::engine;

namespace {

constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

std::map<TokenId, double> frequencies(const SamplingParams& params, const std::vector<float>& logits, TokenId endId,
                                      int draws = 40000)
{
    Sampler sampler(params);
    std::map<TokenId, double> shares;
    for (int i = 0; i < draws; ++i)
        shares[sampler.sample(logits, endId).value_or(-1)] += 1.0 / draws;
    return shares;
}

} // namespace

class TestSampler : public QObject
{
    Q_OBJECT

private slots:
    void greedyTakesTheLargestAndTheLowestIdOfATie()
    {
        Sampler sampler({});
        QCOMPARE(sampler.sample(std::vector<float>{1, 3, 3, 2}, 4), std::optional<TokenId>(1));
        QCOMPARE(sampler.sample(std::vector<float>{notANumber, -2, infinity, -3}, 4), std::optional<TokenId>(1));
        QCOMPARE(sampler.sample(std::vector<float>{1, 2, 9}, 2), std::optional<TokenId>(1));
    }

    void argmaxOfALongRowIsTheFirstOfTheLargestFiniteLogits()
    {
        std::mt19937 random(4);
        for (int trial = 0; trial < 300; ++trial) {
            // Few values, so that there are ties; both zeros; lengths round the block of 256.
            std::vector<float> logits(std::size_t(1 + int(random() % 1100)));
            const int shift = int(random() % 9);
            for (float& logit : logits)
                logit = float(int(random() % 9) - shift) * (random() % 2 == 0 ? 1.0f : -1.0f) * 0.25f;
            logits[random() % logits.size()] = notANumber;
            logits[random() % logits.size()] = infinity;
            logits[random() % logits.size()] = -infinity;
            const TokenId endId = TokenId(random() % (logits.size() + 2));
            std::optional<TokenId> expected;
            for (TokenId id = 0; id < endId && std::size_t(id) < logits.size(); ++id) {
                const float logit = logits[std::size_t(id)];
                if (std::isfinite(logit) && (!expected || logit > logits[std::size_t(*expected)]))
                    expected = id;
            }
            QCOMPARE(Sampler::argmax(logits, endId), expected);
        }
    }

    void nothingIsDrawnWhereNoFiniteLogitIsLeft()
    {
        for (const float temperature : {0.0f, 1.0f}) {
            Sampler sampler({.temperature = temperature});
            QVERIFY(!sampler.sample(std::vector<float>{notANumber, infinity, -infinity}, 3));
            QVERIFY(!sampler.sample(std::vector<float>{}, 3));
            QVERIFY(!sampler.sample(std::vector<float>{1, 2}, 0));
        }
    }

    void drawsInProportionToTheSoftmax()
    {
        const std::vector<float> logits = {0.0f, std::log(2.0f), notANumber, std::log(5.0f), infinity, 8.0f};
        const auto shares = frequencies({.temperature = 1.0f, .seed = 1}, logits, 5);
        QCOMPARE(shares.size(), std::size_t(3));
        // Three standard deviations of 40,000 draws are below 0.0075.
        QVERIFY(std::abs(shares.at(0) - 1.0 / 8) < 0.0075);
        QVERIFY(std::abs(shares.at(1) - 2.0 / 8) < 0.0075);
        QVERIFY(std::abs(shares.at(3) - 5.0 / 8) < 0.0075);
    }

    void temperatureSharpens()
    {
        const std::vector<float> logits = {0.0f, std::log(3.0f)};
        const auto shares = frequencies({.temperature = 0.5f, .seed = 2}, logits, 2);
        QVERIFY(std::abs(shares.at(1) - 0.9) < 0.0075);
    }

    void topKKeepsTheLargestAndTheLowestIdsOfATie()
    {
        const auto shares = frequencies({.temperature = 1.0f, .topK = 2, .seed = 3}, {1, 2, 1, 1}, 4, 2000);
        QCOMPARE(shares.size(), std::size_t(2));
        QVERIFY(shares.contains(0) && shares.contains(1));
    }

    void topPKeepsTheFewestThatReachIt()
    {
        const std::vector<float> logits = {std::log(1.0f), std::log(5.0f), std::log(3.0f), std::log(1.0f)};
        const auto shares = frequencies({.temperature = 1.0f, .topP = 0.75f, .seed = 4}, logits, 4);
        QCOMPARE(shares.size(), std::size_t(2));
        QVERIFY(std::abs(shares.at(1) - 5.0 / 8) < 0.0075);
        QCOMPARE(frequencies({.temperature = 1.0f, .topP = 0.0f}, logits, 4, 100).size(), std::size_t(1));
    }

    void minPDropsWhatIsSmallBesideTheLargest()
    {
        const std::vector<float> logits = {std::log(1.0f), std::log(10.0f), std::log(6.0f)};
        const auto shares = frequencies({.temperature = 1.0f, .minP = 0.2f, .seed = 5}, logits, 3, 2000);
        QCOMPARE(shares.size(), std::size_t(2));
        QVERIFY(!shares.contains(0));
    }

    void theSameSeedDrawsTheSameTokens()
    {
        std::vector<float> logits(1000);
        for (std::size_t i = 0; i < logits.size(); ++i)
            logits[i] = float(i * 7919 % 1000) / 200.0f;
        const auto draw = [&](std::uint64_t seed) {
            Sampler sampler({.temperature = 0.8f, .topK = 400, .topP = 0.9f, .minP = 0.01f, .seed = seed});
            std::vector<TokenId> ids;
            for (int i = 0; i < 12; ++i)
                ids.push_back(*sampler.sample(logits, 1000));
            return ids;
        };
        QVERIFY(draw(42) == draw(42));
        QVERIFY(draw(42) != draw(43));
        // Every machine must draw these.
        QCOMPARE(draw(42), recorded());
    }

    void aTinyTemperatureIsGreedy()
    {
        const auto shares = frequencies({.temperature = 1e-30f}, {1.0f, 1.5f, 1.25f}, 3, 100);
        QCOMPARE(shares.size(), std::size_t(1));
        QVERIFY(shares.contains(1));
    }

private:
    static std::vector<TokenId> recorded();
};

std::vector<TokenId> TestSampler::recorded()
{
    return {519, 990, 866, 125, 534, 99, 607, 309, 767, 581, 212, 927};
}

QTEST_GUILESS_MAIN(TestSampler)
#include "tst_sampler.moc"
