#include "engine/memory/sparse_attention.h"

#include <QTest>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <random>
#include <thread>
#include <tuple>

using namespace octavo::engine;
namespace cpu = octavo::kernels::cpu;

namespace {

constexpr int layers = 2, kvHeads = 2, heads = 4, dim = 64;

// Keys with structure, so that few directions matter.
std::vector<float> randomRows(std::int64_t tokens, unsigned seed)
{
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> rows(std::size_t(tokens * kvHeads * dim));
    for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = normal(generator) * (i % dim < 16 ? 3.0f : 0.5f) + 0.5f;
    return rows;
}

SketchBasis sampleBasis(int rank)
{
    KeyStatistics statistics(layers, kvHeads, dim);
    const auto keys = randomRows(400, 77);
    for (std::size_t i = 0; i < 400; ++i) {
        for (int layer = 0; layer < layers; ++layer) {
            for (int head = 0; head < kvHeads; ++head)
                statistics.add(layer, head, &keys[(i * kvHeads + std::size_t(head)) * dim]);
        }
    }
    return *statistics.fit(rank, 1);
}

ParallelFor threaded(int threads)
{
    return [threads](std::int64_t count, const std::function<void(std::int64_t)>& body) {
        std::atomic<std::int64_t> next = 0;
        std::vector<std::jthread> workers;
        for (int i = 0; i < threads; ++i) {
            workers.emplace_back([&] {
                for (std::int64_t task = next++; task < count; task = next++)
                    body(task);
            });
        }
    };
}

// With topK picks.
SparseAttention attentionWith(SparseSettings settings, const ParallelFor& parallel = serialFor(),
                              cpu::Path path = cpu::bestPath(), int rank = 32)
{
    settings.onlyTopK();
    return *SparseAttention::create(sampleBasis(rank), heads, settings, path, parallel);
}

void fill(SparseAttention& attention, SparseSequence& sequence, std::int64_t begin, std::int64_t count, unsigned seed)
{
    QVERIFY(attention.prepareAppend(sequence, begin, count));
    for (int layer = 0; layer < layers; ++layer) {
        const auto keys = randomRows(count, seed + unsigned(layer)),
                   values = randomRows(count, seed + 10 + unsigned(layer));
        attention.append(sequence, layer, begin, count, keys.data(), kvHeads * dim, values.data(), kvHeads * dim);
    }
}

std::vector<float> query(unsigned seed)
{
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0f, 2.0f);
    std::vector<float> q(heads * dim);
    for (float& x : q)
        x = normal(generator);
    return q;
}

// Attention in double over the tier's own rows `tokens`, of which token t counts e^lifts[t] times, as context / sum.
std::vector<double> exactly(const SparseSequence& sequence, int layer, const std::vector<float>& q, int head,
                            const std::vector<std::int32_t>& tokens, const std::vector<float>& lifts = {})
{
    std::vector<double> context(dim);
    double sum = 0;
    std::vector<float> key(dim), value(dim);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
        const std::int32_t token = tokens[t];
        cpu::dequantizeInt4({dim}, sequence.tier().row(layer, token, head / 2), key.data(), value.data());
        double score = 0;
        for (std::size_t i = 0; i < dim; ++i)
            score += double(key[i]) * double(q[std::size_t(head) * dim + i]);
        const double weight = std::exp(score / 8.0 + (lifts.empty() ? 0.0 : double(lifts[t])));
        sum += weight;
        for (std::size_t i = 0; i < dim; ++i)
            context[i] += weight * double(value[i]);
    }
    for (double& x : context)
        x /= sum;
    return context;
}

// The sum of e^score over some tokens, in double, lifted as above.
double massOf(const SparseSequence& sequence, int layer, const std::vector<float>& q, int head,
              const std::vector<std::int32_t>& tokens, const std::vector<float>& lifts = {})
{
    std::vector<float> key(dim), value(dim);
    double sum = 0.0;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
        cpu::dequantizeInt4({dim}, sequence.tier().row(layer, tokens[t], head / 2), key.data(), value.data());
        double score = 0.0;
        for (std::size_t i = 0; i < dim; ++i)
            score += double(key[i]) * double(q[std::size_t(head) * dim + i]) / 8.0;
        sum += std::exp(score + (lifts.empty() ? 0.0 : double(lifts[t])));
    }
    return sum;
}

std::vector<std::int32_t> range(std::int64_t begin, std::int64_t end)
{
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = begin; i < end; ++i)
        tokens.push_back(std::int32_t(i));
    return tokens;
}

} // namespace

class TestSparseAttention : public QObject
{
    Q_OBJECT

private slots:
    void withEnoughPicksItIsDenseAttention_data();
    void withEnoughPicksItIsDenseAttention();
    void attendsExactlyToWhatItPicked_data();
    void attendsExactlyToWhatItPicked();
    void picksByPriorityStandForWhatIsLeftOut();
    void sumsOverPicksAreRightOnAverage();
    void stepsInARowPickMostlyTheSame();
    void scoresHoldTheMeanThatKeysLackInTheTier();
    void sharedAndPerHeadListsDiffer();
    void theSketchFindsThePlantedToken();
    void threadsBatchAndBufferChangeNothing();
    void askingForLeadsChangesNothing();
    void picksAreTheFewerOfBothNumbers();
    void allPathsPickAlike();
    void lookingAtAFewTokensIsNearlyAsGood();
    void aSampleThatMisleadsChangesNothing();
    void aBasisWithoutDeviationsIsRefused();
    void forksShareRowsUntilOneWrites();
    void rewrittenRowsAreReadAnew();
    void tailEstimateFollowsTheNumberOfPicks_data();
    void tailEstimateFollowsTheNumberOfPicks();
    void adaptiveBudgetGrowsOnlyWhereAsked();
    void memoryIsWithinThreePercentOfTheFormula();
};

void TestSparseAttention::withEnoughPicksItIsDenseAttention_data()
{
    QTest::addColumn<bool>("perHead");
    QTest::addColumn<qint64>("hotBytes");
    for (const bool perHead : {false, true}) {
        for (const qint64 bytes : {2000, 10'000'000})
            QTest::addRow("perHead=%d buffer=%lld", perHead, bytes) << perHead << bytes;
    }
}

void TestSparseAttention::withEnoughPicksItIsDenseAttention()
{
    QFETCH(bool, perHead);
    QFETCH(qint64, hotBytes);
    SparseAttention attention = attentionWith({.topK = 3000, .perHead = perHead, .hotBufferBytes = hotBytes});
    auto sequence = *attention.createSequence(3000);
    fill(attention, *sequence, 0, 3000, 1);
    const auto q = query(4);
    attention.beginStep();
    for (int layer = 0; layer < layers; ++layer) {
        const auto& part = attention.attend(*sequence, layer, 64, 2960, q.data());
        for (int head = 0; head < heads; ++head) {
            const auto wanted = exactly(*sequence, layer, q, head, range(64, 2960));
            for (int i = 0; i < dim; ++i) {
                const double got =
                    double(part.context[std::size_t(head * dim + i)]) / double(part.sum[std::size_t(head)]);
                // 2,896 weights of 15 bits, times values of size 10.
                QVERIFY(std::abs(got - wanted[std::size_t(i)]) < 1e-3);
            }
            QCOMPARE(part.tailLog[std::size_t(head)], -std::numeric_limits<float>::infinity());
        }
    }
    attention.destroySequence(std::move(sequence));
    QCOMPARE(attention.hotRowsInUse(), std::int64_t(0));
}

void TestSparseAttention::attendsExactlyToWhatItPicked_data()
{
    QTest::addColumn<bool>("perHead");
    QTest::addColumn<bool>("byPriority");
    QTest::addColumn<double>("lookAt");
    for (const bool perHead : {true, false}) {
        for (const bool byPriority : {true, false}) {
            for (const double lookAt : {0.0, 2.0})
                QTest::addRow("perHead=%d byPriority=%d lookAt=%g", perHead, byPriority, lookAt)
                    << perHead << byPriority << lookAt;
        }
    }
}

void TestSparseAttention::attendsExactlyToWhatItPicked()
{
    QFETCH(bool, perHead);
    QFETCH(bool, byPriority);
    QFETCH(double, lookAt);
    SparseAttention attention = attentionWith({.topK = 700,
                                               .perHead = perHead,
                                               .lookAt = lookAt,
                                               .pickRule = byPriority ? PickRule::Priority : PickRule::Largest});
    auto sequence = *attention.createSequence(9000);
    fill(attention, *sequence, 0, 9000, 1);
    const auto q = query(9);
    attention.beginStep();
    const auto& part = attention.attend(*sequence, 1, 512, 8192, q.data());
    for (int head = 0; head < heads; ++head) {
        const int list = perHead ? head / 2 : 0;
        const auto& picks = sequence->picks(1, list);
        const auto& lifts = attention.lifts(list);
        QCOMPARE(picks.size(), std::size_t(700));
        QVERIFY(std::is_sorted(picks.begin(), picks.end()));
        QVERIFY(picks.front() >= 512 && picks.back() < 8192);
        QCOMPARE(lifts.size(), std::size_t(byPriority ? 700 : 0));
        QVERIFY(lifts.empty() || (*std::ranges::min_element(lifts) == 0.0f && *std::ranges::max_element(lifts) > 1.0f));
        const auto wanted = exactly(*sequence, 1, q, head, picks, lifts);
        const double sum = double(part.sum[std::size_t(head)]);
        for (int i = 0; i < dim; ++i)
            QVERIFY(std::abs(double(part.context[std::size_t(head * dim + i)]) / sum - wanted[std::size_t(i)]) < 5e-4);
        const float mean = attention.meanScore(1, head / 2, &q[std::size_t(head * dim)]);
        const double mass = massOf(*sequence, 1, q, head, picks, lifts);
        QVERIFY(std::abs(double(part.maximum[std::size_t(head)] - mean) + std::log(sum) - std::log(mass)) < 1e-3);
        if (byPriority) {
            const double added = mass - massOf(*sequence, 1, q, head, picks);
            QVERIFY(std::abs(double(part.tailLog[std::size_t(head)] - mean) - std::log(added)) < 1e-3);
        }
    }
}

void TestSparseAttention::picksByPriorityStandForWhatIsLeftOut()
{
    // Attention spread over all tokens, the more on each the more its value follows the query: the largest alone are no
    // fair choice of them.
    auto q = query(7);
    for (float& x : q)
        x *= 0.1f;
    constexpr std::int64_t tokens = 9000;
    const auto keys = randomRows(tokens, 21);
    double errors[2] = {};
    for (const bool byPriority : {false, true}) {
        SparseAttention attention =
            attentionWith({.topK = 500, .pickRule = byPriority ? PickRule::Priority : PickRule::Largest});
        auto sequence = *attention.createSequence(tokens);
        QVERIFY(attention.prepareAppend(*sequence, 0, tokens));
        attention.append(*sequence, 0, 0, tokens, keys.data(), kvHeads * dim, keys.data(), kvHeads * dim);
        attention.beginStep();
        const auto& part = attention.attend(*sequence, 0, 512, 8192, q.data());
        std::vector<float> total;
        double exact = 0.0;
        for (int head = 0; head < heads; ++head) {
            const auto wanted = exactly(*sequence, 0, q, head, range(512, 8192));
            for (int i = 0; i < dim; ++i)
                errors[byPriority] +=
                    std::pow(double(part.context[std::size_t(head * dim + i)]) / double(part.sum[std::size_t(head)]) -
                                 wanted[std::size_t(i)],
                             2.0);
            total.push_back(part.maximum[std::size_t(head)] + std::log(part.sum[std::size_t(head)]));
            exact += (1.0 - massOf(*sequence, 0, q, head, sequence->picks(0, head / 2)) /
                                massOf(*sequence, 0, q, head, range(512, 8192))) / heads;
        }
        attention.noteTail(*sequence, 0, part.tailLog, total);
        if (byPriority)
            QVERIFY2(std::abs(sequence->tail(0) - exact) < 0.01,
                     qPrintable(QString::number(sequence->tail(0) - exact)));
        QVERIFY2(exact > 0.5, qPrintable(QString::number(exact)));
    }
    QVERIFY2(errors[1] < 0.1 * errors[0], qPrintable(QString("%1 %2").arg(errors[0]).arg(errors[1])));
}

void TestSparseAttention::sumsOverPicksAreRightOnAverage()
{
    // The same rows at other places of the context, where other tokens are sampled.
    constexpr std::int64_t count = 6144;
    constexpr int places = 12;
    auto q = query(11);
    for (float& x : q)
        x *= 0.3f;
    const auto keys = randomRows(count, 5);
    double mean = 0.0, squares = 0.0;
    for (int place = 0; place < places; ++place) {
        const std::int64_t begin = 512 + 16 * place * 7, end = begin + count;
        double logSums[2][heads] = {};
        SparseAttention writer = attentionWith({});
        const auto written = *writer.createSequence(end);
        QVERIFY(writer.prepareAppend(*written, 0, end));
        writer.append(*written, 0, begin, count, keys.data(), kvHeads * dim, keys.data(), kvHeads * dim);
        for (const int topK : {6144, 300}) {
            SparseAttention attention = attentionWith({.topK = topK});
            const auto sequence = *attention.forkSequence(*written, end, end);
            attention.beginStep();
            const auto& part = attention.attend(*sequence, 0, begin, end, q.data());
            for (std::size_t head = 0; head < heads; ++head)
                logSums[topK == 300][head] = double(part.maximum[head]) + std::log(double(part.sum[head]));
        }
        for (int head = 0; head < heads; ++head) {
            const double error = std::exp(logSums[1][head] - logSums[0][head]) - 1.0;
            mean += error / (places * heads);
            squares += error * error / (places * heads);
        }
    }
    const double deviation = std::sqrt(squares / (places * heads));
    QVERIFY2(std::abs(mean) < 3.0 * deviation && std::sqrt(squares) < 0.1,
             qPrintable(QString("%1, %2 each").arg(mean).arg(std::sqrt(squares))));
}

void TestSparseAttention::stepsInARowPickMostlyTheSame()
{
    // A query that changes little, over attention so flat that chance decides nearly every pick.
    SparseAttention attention = attentionWith({.topK = 300});
    auto sequence = *attention.createSequence(9000);
    fill(attention, *sequence, 0, 9000, 1);
    const auto from = query(1), to = query(2);
    std::vector<std::int32_t> before;
    for (int step = 0; step < 5; ++step) {
        std::vector<float> q(from.size());
        for (std::size_t i = 0; i < q.size(); ++i)
            q[i] = 0.05f * (from[i] + 0.1f * float(step) * to[i]);
        attention.beginStep();
        attention.attend(*sequence, 0, 512, 8192 + 16 * step, q.data());
        const auto picks = sequence->picks(0, 0);
        std::vector<std::int32_t> both;
        std::ranges::set_intersection(picks, before, std::back_inserter(both));
        QVERIFY2(step == 0 || both.size() > 240, qPrintable(QString::number(both.size())));
        before = picks;
    }
}

void TestSparseAttention::scoresHoldTheMeanThatKeysLackInTheTier()
{
    // Merged with rows from elsewhere, whose keys are whole, a part must weigh what its own keys would.
    constexpr std::int64_t tokens = 2048;
    SparseAttention attention = attentionWith({.topK = 4096});
    auto sequence = *attention.createSequence(tokens);
    const auto keys = randomRows(tokens, 21);
    QVERIFY(attention.prepareAppend(*sequence, 0, tokens));
    attention.append(*sequence, 0, 0, tokens, keys.data(), kvHeads * dim, keys.data(), kvHeads * dim);
    auto q = query(5);
    for (float& x : q)
        x = 0.1f * x + 0.2f; // leans on the mean
    attention.beginStep();
    const auto& part = attention.attend(*sequence, 0, 0, tokens, q.data());
    for (std::size_t head = 0; head < heads; ++head) {
        double sum = 0.0;
        for (std::size_t t = 0; t < tokens; ++t) {
            double score = 0.0;
            for (std::size_t i = 0; i < dim; ++i)
                score += double(keys[(t * kvHeads + head / 2) * dim + i]) * double(q[head * dim + i]);
            sum += std::exp(score / 8.0);
        }
        const double got = double(part.maximum[head]) + std::log(double(part.sum[head]));
        QVERIFY2(std::abs(got - std::log(sum)) < 0.01, qPrintable(QString::number(got - std::log(sum))));
        QVERIFY(std::abs(attention.meanScore(0, int(head) / 2, &q[head * dim])) > 0.2f);
    }
}

void TestSparseAttention::sharedAndPerHeadListsDiffer()
{
    const auto q = query(2);
    std::vector<std::int32_t> shared;
    for (const bool perHead : {false, true}) {
        SparseAttention attention = attentionWith({.topK = 100, .perHead = perHead});
        auto sequence = *attention.createSequence(4096);
        fill(attention, *sequence, 0, 4096, 1);
        attention.beginStep();
        attention.attend(*sequence, 0, 0, 4096, q.data());
        if (perHead) {
            QVERIFY(sequence->picks(0, 0) != sequence->picks(0, 1));
            QVERIFY(sequence->picks(0, 0) != shared);
        } else {
            shared = sequence->picks(0, 0);
        }
        QCOMPARE(attention.hotCounters().bytesRead, std::int64_t(100 * 2 * 68));
    }
}

void TestSparseAttention::theSketchFindsThePlantedToken()
{
    SparseAttention attention = attentionWith({.topK = 16});
    auto sequence = *attention.createSequence(8192);
    fill(attention, *sequence, 0, 8192, 1);
    const auto q = query(3);
    // A key along the query, in directions the basis holds.
    std::vector<float> key(kvHeads * dim), value(kvHeads * dim, 1.0f);
    for (int head = 0; head < kvHeads; ++head) {
        for (int i = 0; i < 16; ++i)
            key[std::size_t(head * dim + i)] = 4.0f * q[std::size_t(2 * head * dim + i)];
    }
    QVERIFY(attention.prepareAppend(*sequence, 4321, 1));
    attention.append(*sequence, 0, 4321, 1, key.data(), kvHeads * dim, value.data(), kvHeads * dim);
    attention.beginStep();
    attention.attend(*sequence, 0, 512, 8192, q.data());
    for (int list = 0; list < kvHeads; ++list) {
        const auto& picks = sequence->picks(0, list);
        QVERIFY(std::find(picks.begin(), picks.end(), 4321) != picks.end());
    }
}

void TestSparseAttention::threadsBatchAndBufferChangeNothing()
{
    // One sequence alone, on one thread, with room for all; then among others, on four threads, with hardly any room.
    const auto run = [](const ParallelFor& parallel, std::int64_t hotBytes, int others) {
        SparseAttention attention = attentionWith({.topK = 300, .hotBufferBytes = hotBytes}, parallel);
        std::vector<std::unique_ptr<SparseSequence>> sequences;
        for (int i = 0; i <= others; ++i) {
            sequences.push_back(*attention.createSequence(6000));
            fill(attention, *sequences.back(), 0, 6000, i == others ? 1 : 100 + unsigned(i));
        }
        std::vector<float> seen;
        for (unsigned step = 0; step < 6; ++step) {
            attention.beginStep();
            for (auto& sequence : sequences) {
                const auto& part = attention.attend(*sequence, 0, 512, 5888, query(step).data());
                if (sequence == sequences.back()) {
                    seen.insert(seen.end(), part.context.begin(), part.context.end());
                    seen.insert(seen.end(), part.sum.begin(), part.sum.end());
                    for (const std::int32_t token : sequence->picks(0, 1))
                        seen.push_back(float(token));
                }
            }
        }
        return seen;
    };
    const auto alone = run(serialFor(), 10'000'000, 0);
    QVERIFY(run(threaded(2), 10'000'000, 0) == alone);
    QVERIFY(run(threaded(4), 50'000, 7) == alone);
}

void TestSparseAttention::askingForLeadsChangesNothing()
{
    // Ranges that end in a page's middle, with too few tokens for leads, and with many pages.
    for (const std::int64_t end : {std::int64_t(1040), std::int64_t(3600), std::int64_t(30000)}) {
        std::vector<float> contexts[2];
        for (const bool asks : {false, true}) {
            SparseAttention attention = attentionWith({.topK = 300}, serialFor(), cpu::bestPath(), 64);
            const auto sequence = *attention.createSequence(end);
            fill(attention, *sequence, 0, end, 1);
            attention.prepareLists(*sequence);
            attention.beginStep();
            const auto q = query(3);
            AttentionPart part(heads, dim);
            for (int list = 0; list < attention.lists(); ++list) {
                if (asks)
                    attention.askForLeads(*sequence, 0, list, 512, end);
                attention.attendList(*sequence, 0, list, 512, end, q.data(), part);
            }
            contexts[asks] = part.context;
        }
        QVERIFY(contexts[0] == contexts[1]);
    }
}

void TestSparseAttention::picksAreTheFewerOfBothNumbers()
{
    for (const auto& [topK, cpuTopK, picks] :
         {std::tuple{400, 150, 150}, std::tuple{400, 500, 400}, std::tuple{400, 0, 400}}) {
        const SparseSettings settings{.topK = topK, .cpuTopK = cpuTopK};
        SparseAttention attention =
            *SparseAttention::create(sampleBasis(32), heads, settings, cpu::bestPath(), serialFor());
        const auto sequence = *attention.createSequence(6000);
        fill(attention, *sequence, 0, 6000, 1);
        attention.beginStep();
        attention.attend(*sequence, 0, 0, 6000, query(2).data());
        for (int list = 0; list < attention.lists(); ++list)
            QCOMPARE(int(sequence->picks(0, list).size()), picks);
    }
}

void TestSparseAttention::allPathsPickAlike()
{
    for (const int rank : {32, 64}) {
        for (const double lookAt : {0.0, 2.0}) {
            const auto run = [&](cpu::Path path) {
                SparseAttention attention = attentionWith({.topK = 300, .lookAt = lookAt}, serialFor(), path, rank);
                auto sequence = *attention.createSequence(6000);
                fill(attention, *sequence, 0, 6000, 1);
                attention.beginStep();
                const auto part = attention.attend(*sequence, 1, 512, 5888, query(1).data());
                return std::tuple(part.context, part.tailLog, sequence->picks(1, 0));
            };
            const auto plain = run(cpu::Path::Plain);
            for (const auto path : {cpu::Path::Avx2, cpu::Path::Avx512}) {
                if (cpu::isSupported(path))
                    QVERIFY(run(path) == plain);
            }
        }
    }
}

void TestSparseAttention::lookingAtAFewTokensIsNearlyAsGood()
{
    constexpr std::int64_t tokens = 40000, end = 39936;
    SparseAttention writer = attentionWith({}, serialFor(), cpu::bestPath(), 64);
    const auto written = *writer.createSequence(tokens);
    fill(writer, *written, 0, tokens, 1);
    const auto attended = [&](double lookAt, int topK) {
        SparseAttention attention = attentionWith({.topK = topK, .lookAt = lookAt}, serialFor(), cpu::bestPath(), 64);
        const auto sequence = *attention.forkSequence(*written, tokens, tokens);
        std::vector<float> means;
        for (unsigned step = 0; step < 4; ++step) {
            auto q = query(step);
            for (float& x : q)
                x *= 0.3f;
            attention.beginStep();
            const auto& part = attention.attend(*sequence, 0, 512, end, q.data());
            for (std::size_t i = 0; i < part.context.size(); ++i)
                means.push_back(part.context[i] / part.sum[i / dim]);
        }
        return means;
    };
    const auto dense = attended(0.0, tokens), whole = attended(0.0, 500);
    const auto errorOf = [&](const std::vector<float>& means) {
        double error = 0.0;
        for (std::size_t i = 0; i < means.size(); ++i)
            error += std::pow(double(means[i]) - double(dense[i]), 2.0);
        return std::sqrt(error);
    };
    QVERIFY(attended(1000.0, 500) == whole);
    // A model's keys fall off further beyond their first coordinates, so this is the harder case.
    for (const auto& [lookAt, most] : {std::pair{2.0, 1.6}, {4.0, 1.3}}) {
        const double ratio = errorOf(attended(lookAt, 500)) / errorOf(whole);
        QVERIFY2(ratio < most, qPrintable(QString::number(ratio)));
    }
}

void TestSparseAttention::aSampleThatMisleadsChangesNothing()
{
    // All that the sample of every ninth block sees follows the query, nothing else does: too few reach its limit.
    constexpr std::int64_t tokens = 40000;
    auto q = query(3);
    for (std::size_t head = 0; head < heads; head += 2)
        std::copy_n(q.begin() + std::ptrdiff_t(head * dim), dim, q.begin() + std::ptrdiff_t((head + 1) * dim));
    std::vector<std::int32_t> picks[2];
    for (const double lookAt : {0.0, 2.0}) {
        SparseAttention attention = attentionWith({.topK = 500, .lookAt = lookAt}, serialFor(), cpu::bestPath(), 64);
        auto sequence = *attention.createSequence(tokens);
        auto keys = randomRows(tokens, 9);
        for (std::int64_t t = 0; t < tokens; ++t) {
            for (int i = 0; t / 16 % 9 == 0 && i < kvHeads * dim; ++i)
                keys[std::size_t(t * kvHeads * dim + i)] += 0.5f * q[std::size_t(i / dim * 2 * dim + i % dim)];
        }
        QVERIFY(attention.prepareAppend(*sequence, 0, tokens));
        attention.append(*sequence, 0, 0, tokens, keys.data(), kvHeads * dim, keys.data(), kvHeads * dim);
        attention.beginStep();
        attention.attend(*sequence, 0, 0, 39936, q.data());
        picks[lookAt > 0.0] = sequence->picks(0, 0);
    }
    QCOMPARE(picks[0].size(), std::size_t(500));
    QVERIFY(picks[0] == picks[1]);
}

void TestSparseAttention::aBasisWithoutDeviationsIsRefused()
{
    SketchBasis basis = sampleBasis(32);
    basis.deviations.clear();
    const auto refused = SparseAttention::create(basis, heads, {}, cpu::bestPath(), serialFor());
    QVERIFY(!refused);
    QVERIFY(refused.error().message.find("eval fit-basis") != std::string::npos);
    QVERIFY(!SparseAttention::create(sampleBasis(24), heads, {}, cpu::bestPath(), serialFor()));
}

void TestSparseAttention::forksShareRowsUntilOneWrites()
{
    SparseAttention attention = attentionWith({.topK = 100});
    auto source = *attention.createSequence(20000);
    fill(attention, *source, 0, 15000, 1);
    auto fork = *attention.forkSequence(*source, 14000, 20000);
    QCOMPARE(fork->tier().row(0, 5000, 0), source->tier().row(0, 5000, 0));
    const std::vector<std::uint8_t> before(source->tier().row(0, 14000, 0), source->tier().row(0, 14000, 0) + 68);
    fill(attention, *fork, 14000, 100, 50);
    QVERIFY(fork->tier().row(0, 14000, 0) != source->tier().row(0, 14000, 0));
    QVERIFY(std::equal(before.begin(), before.end(), source->tier().row(0, 14000, 0)));
    QVERIFY(std::equal(source->tier().row(1, 13999, 1), source->tier().row(1, 13999, 1) + 68,
                       fork->tier().row(1, 13999, 1)));
    QCOMPARE(fork->tier().row(0, 5000, 0), source->tier().row(0, 5000, 0));
    // What is left alone is written in place.
    const std::uint8_t* own = source->tier().row(0, 14500, 0);
    attention.destroySequence(std::move(fork));
    fill(attention, *source, 15000, 10, 3);
    QCOMPARE(source->tier().row(0, 14500, 0), own);
}

void TestSparseAttention::rewrittenRowsAreReadAnew()
{
    SparseAttention attention = attentionWith({.topK = 4096});
    auto sequence = *attention.createSequence(4096);
    fill(attention, *sequence, 0, 4096, 1);
    attention.beginStep();
    const auto q = query(8);
    attention.attend(*sequence, 0, 0, 4096, q.data());
    fill(attention, *sequence, 2000, 2096, 60);
    attention.beginStep();
    const auto& part = attention.attend(*sequence, 0, 0, 4096, q.data());
    const auto wanted = exactly(*sequence, 0, q, 0, range(0, 4096));
    for (int i = 0; i < dim; ++i)
        QVERIFY(std::abs(double(part.context[std::size_t(i)]) / double(part.sum[0]) - wanted[std::size_t(i)]) < 5e-4);
}

void TestSparseAttention::tailEstimateFollowsTheNumberOfPicks_data()
{
    QTest::addColumn<bool>("byPriority");
    QTest::newRow("largest") << false;
    QTest::newRow("priority") << true;
}

void TestSparseAttention::tailEstimateFollowsTheNumberOfPicks()
{
    QFETCH(bool, byPriority);
    const auto q = query(6);
    double before = 1.0;
    for (const int topK : {50, 400, 3000, 6000}) {
        SparseAttention attention =
            attentionWith({.topK = topK, .pickRule = byPriority ? PickRule::Priority : PickRule::Largest});
        auto sequence = *attention.createSequence(6000);
        fill(attention, *sequence, 0, 6000, 1);
        attention.beginStep();
        QVERIFY(sequence->tail(0) < 0.0);
        const auto& part = attention.attend(*sequence, 0, 0, 5984, q.data());
        std::vector<float> total;
        for (std::size_t head = 0; head < heads; ++head)
            total.push_back(part.maximum[head] + std::log(part.sum[head]));
        attention.noteTail(*sequence, 0, part.tailLog, total);
        double exact = 0;
        for (int head = 0; head < heads; ++head) {
            exact += (1.0 - massOf(*sequence, 0, q, head, sequence->picks(0, head / 2)) /
                                massOf(*sequence, 0, q, head, range(0, 5984))) / heads;
        }
        QVERIFY(sequence->tail(0) <= before);
        // A sketch of 32 of 64 directions knows the left-out share within some hundredths.
        QVERIFY2(std::abs(sequence->tail(0) - exact) < 0.08, qPrintable(QString::number(sequence->tail(0) - exact)));
        before = sequence->tail(0);
    }
    QVERIFY(before < 1e-6);
}

void TestSparseAttention::adaptiveBudgetGrowsOnlyWhereAsked()
{
    for (const bool adaptive : {false, true}) {
        SparseAttention attention = attentionWith({.topK = 100, .adaptive = adaptive, .adaptiveTail = 1e-6});
        auto sequence = *attention.createSequence(6000);
        fill(attention, *sequence, 0, 6000, 1);
        std::size_t picked = 0;
        for (int step = 0; step < 4; ++step) {
            attention.beginStep();
            const auto& part = attention.attend(*sequence, 0, 0, 5984, query(1).data());
            picked = sequence->picks(0, 0).size();
            attention.noteTail(*sequence, 0, part.tailLog, part.maximum);
        }
        QCOMPARE(picked, std::size_t(adaptive ? 400 : 100));
    }
}

void TestSparseAttention::memoryIsWithinThreePercentOfTheFormula()
{
    // 250,000 tokens of the demo model (2 layers of 2 heads) and of the 27B shape (16 of 4).
    for (const TierShape shape : {TierShape{2, 2, 256, 64}, TierShape{16, 4, 256, 64}}) {
        const double formula = 250000.0 * shape.numLayers * shape.numKvHeads * (272 + 32);
        QVERIFY(double(shape.bytes(250000)) >= formula);
        QVERIFY2(double(shape.bytes(250000)) <= 1.03 * formula,
                 qPrintable(QString::number(double(shape.bytes(250000)) / formula)));
    }
}

QTEST_GUILESS_MAIN(TestSparseAttention)
#include "tst_sparse_attention.moc"
