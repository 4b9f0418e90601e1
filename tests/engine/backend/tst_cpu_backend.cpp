#include "engine/evaluation/memory_plan.h"
#include "engine/model/quantized_linear.h"
#include "engine/sampling/sampler.h"
#include "kernels/cpu/cpu_features.h"
#include "tests/engine/golden_files.h"

#include <QTest>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

namespace
{

using Rows = std::vector<std::vector<float>>;

bool sameBits(const std::vector<float>& a, const std::vector<float>& b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double largestDifference(const std::vector<float>& a, const std::vector<float>& b)
{
    double largest = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const double difference = std::abs(double(a[i]) - double(b[i]));
        largest = std::isfinite(difference) ? std::max(largest, difference) : 1e9;
    }
    return largest;
}

} // namespace

/// What the Backend interface promises, on the CPU backend: rows depend on their own sequence alone.
class TestCpuBackend : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase();
    void prefillThenDecodeEqualsALongerPrefill();
    void slicesOnMultiplesOf64GiveTheSameBits();
    void batchedEqualsAloneBitForBit();
    void everyNumberOfThreadsGivesTheSameBits();
    void pathsAgree();
    void aVerifiedRowEqualsADecodedOneBitForBit();
    void theBestTokensAreThoseOfTheLogits();
    void fewRowsFindTheBestTokensOfAnyHead_data();
    void fewRowsFindTheBestTokensOfAnyHead();
    void aRejectedDraftLeavesNoTrace_data();
    void aRejectedDraftLeavesNoTrace();
    void forksGoTheirOwnWay();
    void aFrozenForkTakesNoMore();
    void theCheckpointsPagesAreLetGoOf();
    void aDenseCheckpointIsQuantizedWhileItLoads();
    void refusesWhatDoesNotFit();
    void draftedRowsStayWithinTheBudget();
    void refusesRowsThatWaitForCommit();
    void refusesPathsItDoesNotHave();
    void inputsOutOfOrderAndZeroPointsRunOnEveryPath();

private:
    std::unique_ptr<Backend> backend(const std::string& path = {}, int threads = 2, std::int64_t budget = 0)
    {
        BackendOptions options;
        options.cpuPath = path;
        options.threads = threads;
        options.memoryBudgetBytes = budget;
        auto made = makeCpuBackend(m_model.config, m_model.weights, options);
        if (!made)
            qFatal("%s", made.error().message.c_str());
        return *std::move(made);
    }
    std::vector<float> prefill(Backend& on, SlotId slot, std::size_t begin, std::size_t count) const
    {
        std::vector<float> logits(std::size_t(m_model.config.vocabSize));
        if (auto done = on.prefill(slot, std::span(m_ids).subspan(begin, count), logits); !done)
            qFatal("%s", done.error().message.c_str());
        return logits;
    }
    /// One step; logits of each row.
    Rows step(Backend& on, const std::vector<StepEntry>& entries) const
    {
        const std::size_t vocab = std::size_t(m_model.config.vocabSize);
        std::size_t rows = 0;
        for (const StepEntry& entry : entries)
            rows += entry.tokens.size();
        std::vector<float> logits(rows * vocab);
        if (auto done = on.step(entries, logits); !done)
            qFatal("%s", done.error().message.c_str());
        Rows split;
        for (std::size_t r = 0; r < rows; ++r)
            split.emplace_back(logits.begin() + std::ptrdiff_t(r * vocab),
                               logits.begin() + std::ptrdiff_t((r + 1) * vocab));
        return split;
    }
    std::span<const TokenId> ids(std::size_t begin, std::size_t count) const
    {
        return std::span(m_ids).subspan(begin, count);
    }

    LoadedModel m_model;
    std::vector<TokenId> m_ids;
};

void TestCpuBackend::initTestCase()
{
    m_model = demoModel();
    m_ids = tokenIds(readJson(goldenPath("logprobs_ids1.json")).array());
}

void TestCpuBackend::prefillThenDecodeEqualsALongerPrefill()
{
    const auto cpu = backend();
    for (std::size_t n : {1, 63, 64, 65, 300, 513}) {
        const SlotId whole = *cpu->createSequence(1024), stepped = *cpu->createSequence(1024);
        const std::vector<float> expected = prefill(*cpu, whole, 0, n + 1);
        prefill(*cpu, stepped, 0, n);
        const Rows found = step(*cpu, {{stepped, ids(n, 1)}});
        // Chunked and recurrent sums round differently, which int8 keys and values may carry on.
        const double difference = largestDifference(expected, found[0]);
        QVERIFY2(difference < 0.05, qPrintable(QString("n = %1: %2").arg(n).arg(difference)));
        cpu->destroySequence(whole);
        cpu->destroySequence(stepped);
    }
}

void TestCpuBackend::slicesOnMultiplesOf64GiveTheSameBits()
{
    const auto cpu = backend();
    const SlotId whole = *cpu->createSequence(1024), sliced = *cpu->createSequence(1024);
    const std::vector<float> expected = prefill(*cpu, whole, 0, 700);
    std::size_t done = 0;
    for (std::size_t slice : {64, 320, 128})
        prefill(*cpu, sliced, std::exchange(done, done + slice), slice);
    QVERIFY(sameBits(prefill(*cpu, sliced, done, 700 - done), expected));
}

void TestCpuBackend::batchedEqualsAloneBitForBit()
{
    const auto cpu = backend();
    std::vector<SlotId> together, alone;
    for (std::size_t i = 0; i < 5; ++i) {
        for (std::vector<SlotId>* target : {&together, &alone}) {
            target->push_back(*cpu->createSequence(1024));
            prefill(*cpu, target->back(), i * 50, 40 + i * 37);
        }
    }
    for (std::size_t t = 0; t < 4; ++t) {
        std::vector<StepEntry> batch;
        for (std::size_t i = 0; i < together.size(); ++i)
            batch.push_back({together[i], ids(400 + i * 10 + t, 1)});
        const Rows found = step(*cpu, batch);
        for (std::size_t i = 0; i < alone.size(); ++i)
            QVERIFY(sameBits(step(*cpu, {{alone[i], batch[i].tokens}})[0], found[i]));
    }
}

void TestCpuBackend::everyNumberOfThreadsGivesTheSameBits()
{
    std::vector<float> first, firstStep;
    for (int threads : {1, 2, 3}) {
        const auto cpu = backend({}, threads);
        const SlotId slot = *cpu->createSequence(1024);
        const std::vector<float> read = prefill(*cpu, slot, 0, 200), written = step(*cpu, {{slot, ids(200, 1)}})[0];
        if (first.empty()) {
            first = read;
            firstStep = written;
        }
        QVERIFY(sameBits(read, first) && sameBits(written, firstStep));
    }
}

void TestCpuBackend::pathsAgree()
{
    std::vector<float> plain;
    for (auto path : {kernels::cpu::Path::Plain, kernels::cpu::Path::Avx2, kernels::cpu::Path::Avx512}) {
        if (!kernels::cpu::isSupported(path))
            continue;
        const auto cpu = backend(std::string(kernels::cpu::pathName(path)));
        QCOMPARE(cpu->info().path, std::string(kernels::cpu::pathName(path)));
        const SlotId slot = *cpu->createSequence(256);
        prefill(*cpu, slot, 0, 130);
        const std::vector<float> logits = step(*cpu, {{slot, ids(130, 1)}})[0];
        if (plain.empty())
            plain = logits;
        QVERIFY2(largestDifference(logits, plain) < 0.05,
                 qPrintable(QString::number(largestDifference(logits, plain))));
    }
}

void TestCpuBackend::aVerifiedRowEqualsADecodedOneBitForBit()
{
    const auto cpu = backend();
    const SlotId verified = *cpu->createSequence(1024), decoded = *cpu->createSequence(1024);
    prefill(*cpu, verified, 0, 508);
    prefill(*cpu, decoded, 0, 508);
    const Rows found = step(*cpu, {{verified, ids(508, 25)}}); // crosses a page of 512 tokens
    for (std::size_t t = 0; t < found.size(); ++t)
        QVERIFY(sameBits(step(*cpu, {{decoded, ids(508 + t, 1)}})[0], found[t]));
}

void TestCpuBackend::theBestTokensAreThoseOfTheLogits()
{
    const auto cpu = backend({}, 3);
    const SlotId one = *cpu->createSequence(1024), two = *cpu->createSequence(1024);
    prefill(*cpu, one, 0, 100);
    const SlotId other = *cpu->forkSequence(one, 1024);
    prefill(*cpu, two, 100, 70);
    const SlotId single = *cpu->forkSequence(two, 1024);
    const Rows logits = step(*cpu, {{one, ids(100, 14)}, {two, ids(170, 1)}});
    for (const TokenId endId : {m_model.config.vocabSize, 1000, 37, 1}) {
        std::vector<TokenId> best(15, -7);
        const SlotId again = *cpu->forkSequence(other, 1024), alone = *cpu->forkSequence(single, 1024);
        const std::array entries{StepEntry{again, ids(100, 14)}, StepEntry{alone, ids(170, 1)}};
        QVERIFY(cpu->stepBest(entries, endId, best));
        for (std::size_t r = 0; r < best.size(); ++r)
            QCOMPARE(best[r], *Sampler::argmax(logits[r], endId));
        QVERIFY(cpu->commit(again, 14));
        std::vector<TokenId> tooFew(14);
        const std::array next{StepEntry{again, ids(114, 14)}, StepEntry{alone, ids(171, 1)}};
        QCOMPARE(cpu->stepBest(next, endId, tooFew).error().code, ErrorCode::InvalidArgument);
    }
}

void TestCpuBackend::fewRowsFindTheBestTokensOfAnyHead_data()
{
    QTest::addColumn<QString>("head");
    QTest::addColumn<int>("threads");
    for (const char* head : {"its own", "twins", "flat"}) {
        for (const int threads : {1, 3})
            QTest::addRow("%s, %d threads", head, threads) << head << threads;
    }
}

/// Steps of few rows look through a rough head first (CpuRoughHead): also where many tokens are equally good.
void TestCpuBackend::fewRowsFindTheBestTokensOfAnyHead()
{
    QFETCH(QString, head);
    QFETCH(int, threads);
    const LinearWeight& embedding = m_model.weights->embedding;
    QVERIFY(embedding.format == LinearWeight::Format::Bf16 && !m_model.weights->lmHead);
    const auto* own = static_cast<const std::uint16_t*>(embedding.dense);
    std::vector<std::uint16_t> values(own, own + embedding.parameters());
    if (head == "twins") // each token of the second half is one of the first
        std::copy_n(values.begin(), values.size() / 2, values.begin() + std::ptrdiff_t(values.size() / 2));
    for (std::size_t i = 0; head == "flat" && i < values.size(); ++i)
        values[i] = values[i % std::size_t(embedding.inFeatures)];
    ModelWeights weights = *m_model.weights;
    weights.lmHead = embedding;
    weights.lmHead->dense = values.data();
    BackendOptions options;
    options.threads = threads;
    auto made = makeCpuBackend(m_model.config, std::make_shared<const ModelWeights>(weights), options);
    QVERIFY(made);
    Backend& cpu = **made;
    const SlotId read = *cpu.createSequence(1024);
    prefill(cpu, read, 0, 100);
    for (const std::size_t rows : {1, 2, 4, 5}) {
        for (const TokenId endId : {m_model.config.vocabSize, m_model.config.vocabSize - 9, 8200, 37, 1}) {
            const SlotId one = *cpu.forkSequence(read, 1024), other = *cpu.forkSequence(read, 1024);
            for (std::size_t at = 100; at < 100 + 3 * rows; at += rows) {
                const Rows logits = step(cpu, {{one, ids(at, rows)}});
                const StepEntry entry{other, ids(at, rows)};
                std::vector<TokenId> best(rows, -7);
                QVERIFY(cpu.stepBest(std::span(&entry, 1), endId, best));
                for (std::size_t r = 0; r < rows; ++r)
                    QCOMPARE(best[r], *Sampler::argmax(logits[r], endId));
                QVERIFY(cpu.commit(one, int(rows)) && cpu.commit(other, int(rows)));
            }
            cpu.destroySequence(one);
            cpu.destroySequence(other);
        }
    }
}

void TestCpuBackend::aRejectedDraftLeavesNoTrace_data()
{
    QTest::addColumn<int>("rows");
    QTest::addColumn<int>("kept");
    for (const int rows : {8, 25}) {
        for (int kept = 1; kept <= rows; ++kept)
            QTest::addRow("%d of %d rows kept", kept, rows) << rows << kept;
    }
}

void TestCpuBackend::aRejectedDraftLeavesNoTrace()
{
    QFETCH(int, rows);
    QFETCH(int, kept);
    BackendOptions options;
    options.threads = 2;
    const auto cpu = *makeCpuBackend(m_model.config, m_model.weights, options); // with MTP
    QVERIFY(cpu->hasMtp());
    const SlotId source = *cpu->createSequence(1024);
    prefill(*cpu, source, 0, 508);
    const SlotId drafted = *cpu->forkSequence(source, 1024), other = *cpu->forkSequence(source, 1024),
                 plain = *cpu->forkSequence(source, 1024);
    std::vector<TokenId> draft(ids(508, std::size_t(kept)).begin(), ids(508, std::size_t(kept)).end());
    draft.resize(std::size_t(rows), 17); // the rejected ones
    step(*cpu, {{drafted, draft}});
    step(*cpu, {{other, ids(508, 1)}}); // others go on while the rows wait
    QVERIFY(cpu->commit(drafted, kept));
    QCOMPARE(cpu->length(drafted), std::int64_t(508 + kept));
    for (int t = 0; t < kept; ++t)
        step(*cpu, {{plain, ids(508 + std::size_t(t), 1)}});
    // Recurrent and convolution states and the final hidden row; keys and values show in what is computed from them.
    const auto stateOf = [&](SlotId slot) {
        const auto image = cpu->imageOf(slot, ImageRows::Left);
        std::vector<std::byte> state;
        for (const auto& part : image->state)
            state.insert(state.end(), part.begin(), part.end());
        return state;
    };
    QVERIFY(stateOf(drafted) == stateOf(plain));
    for (std::size_t t = 0; t < 3; ++t) {
        const std::span next = ids(508 + std::size_t(kept) + t, 1);
        QVERIFY(sameBits(step(*cpu, {{drafted, next}})[0], step(*cpu, {{plain, next}})[0]));
    }
    const std::array entries{DraftEntry{drafted, 17, 4}, DraftEntry{plain, 17, 4}};
    std::array<DraftChain, 2> chains;
    QVERIFY(cpu->draft(entries, 0.0f, chains));
    QVERIFY(chains[0].tokens.size() == 4 && chains[0].tokens == chains[1].tokens);
    QVERIFY(sameBits(chains[0].chances, chains[1].chances));
}

void TestCpuBackend::forksGoTheirOwnWay()
{
    const auto cpu = backend();
    const SlotId source = *cpu->createSequence(1024), cold = *cpu->createSequence(1024);
    prefill(*cpu, source, 0, 576);
    const SlotId fork = *cpu->forkSequence(source, 1024);
    QCOMPARE(cpu->length(fork), std::int64_t(576));
    // Both write into what was the shared page.
    const std::vector<float> ofFork = prefill(*cpu, fork, 576, 30), ofSource = prefill(*cpu, source, 700, 30);
    prefill(*cpu, cold, 0, 576);
    const SlotId coldFork = *cpu->forkSequence(cold, 1024);
    cpu->destroySequence(cold);
    QVERIFY(sameBits(prefill(*cpu, coldFork, 576, 30), ofFork));
    QVERIFY(!sameBits(ofSource, ofFork));
    QVERIFY(sameBits(step(*cpu, {{fork, ids(606, 1)}})[0], step(*cpu, {{coldFork, ids(606, 1)}})[0]));
}

void TestCpuBackend::aFrozenForkTakesNoMore()
{
    const auto cpu = backend();
    const SlotId source = *cpu->createSequence(256);
    prefill(*cpu, source, 0, 64);
    const SlotId frozen = *cpu->forkSequence(source, 64);
    std::vector<float> logits(std::size_t(m_model.config.vocabSize));
    QCOMPARE(cpu->prefill(frozen, ids(64, 1), logits).error().code, ErrorCode::ContextFull);
    QVERIFY(cpu->forkSequence(frozen, 256));
}

void TestCpuBackend::theCheckpointsPagesAreLetGoOf()
{
    // What the system counts as resident of the map of model.safetensors.
    const auto residentKiB = [] {
        std::ifstream maps("/proc/self/smaps");
        long sum = 0;
        bool isOurs = false;
        for (std::string line; std::getline(maps, line);) {
            if (line.find("-") < line.find(" ") && line.find(':') > line.find(' '))
                isOurs = line.ends_with("/model.safetensors");
            else if (isOurs && line.starts_with("Rss:"))
                sum += std::atol(line.c_str() + 4);
        }
        return sum;
    };
    const LoadedModel model = demoModel(); // hashed, so all of it was read
    const long read = residentKiB();
    QVERIFY(read > 30'000);
    const auto made = makeBackend(model.config, model.weights, {});
    QVERIFY(made);
    QVERIFY2(residentKiB() < read - 30'000, qPrintable(QString::number(residentKiB())));
    // Rows of the embedding come back when they are needed.
    const auto plain = makeCpuBackend(model.config, model.weights, {});
    QVERIFY(plain);
    std::vector<float> logits(std::size_t(model.config.vocabSize)), expected(logits.size());
    const std::vector<TokenId> ids{5, 900, 12'000};
    QVERIFY((*made)->prefill(*(*made)->createSequence(8), ids, logits));
    QVERIFY((*plain)->prefill(*(*plain)->createSequence(8), ids, expected));
    QVERIFY(logits == expected);
}

void TestCpuBackend::aDenseCheckpointIsQuantizedWhileItLoads()
{
    // A bf16 form of the demo model, and what its layers are after quantising, as a checkpoint of its own.
    const LoadedModel model = demoModel();
    ModelWeights dense = *model.weights, int4 = *model.weights;
    std::deque<std::vector<std::uint16_t>> values;
    std::deque<QuantizedLinear> quantized;
    std::int64_t parameters = 0;
    const auto convert = [&](LinearWeight& stored, LinearWeight& expected) {
        std::vector<float> widened(std::size_t(stored.parameters()));
        stored.dequantize(widened);
        std::vector<std::uint16_t>& own = values.emplace_back();
        for (const float w : widened)
            own.push_back(std::uint16_t(std::bit_cast<std::uint32_t>(w) >> 16));
        LinearWeight bf16;
        bf16.name = stored.name;
        bf16.outFeatures = stored.outFeatures;
        bf16.inFeatures = stored.inFeatures;
        bf16.dense = own.data();
        stored = bf16;
        auto made = quantizeInt4(stored, 2);
        if (!made)
            qFatal("%s", made.error().message.c_str());
        expected = quantized.emplace_back(*std::move(made)).weight;
        parameters += stored.parameters();
    };
    const auto convertLayer = [&](LayerWeights& from, LayerWeights& to) {
        if (from.attention) {
            convert(from.attention->q, to.attention->q);
            convert(from.attention->k, to.attention->k);
            convert(from.attention->v, to.attention->v);
            convert(from.attention->o, to.attention->o);
        } else {
            convert(from.gdn->qkv, to.gdn->qkv);
            convert(from.gdn->z, to.gdn->z);
            convert(from.gdn->out, to.gdn->out);
        }
        convert(from.mlp.gate, to.mlp.gate);
        convert(from.mlp.up, to.mlp.up);
        convert(from.mlp.down, to.mlp.down);
    };
    for (std::size_t n = 0; n < dense.layers.size(); ++n)
        convertLayer(dense.layers[n], int4.layers[n]);
    if (dense.mtp)
        convertLayer(dense.mtp->layer, int4.mtp->layer);

    const auto source = std::make_shared<const ModelWeights>(dense);
    BackendOptions options;
    options.threads = 2;
    options.quantize = true;
    std::vector<std::pair<std::int64_t, std::int64_t>> progress;
    options.onQuantized = [&](std::int64_t done, std::int64_t total) {
        progress.emplace_back(done, total);
        return true;
    };
    const auto made = makeCpuBackend(model.config, source, options);
    QVERIFY2(made, made ? "" : made.error().message.c_str());
    QVERIFY(progress.size() > 20);
    QCOMPARE(progress.back(), std::pair(parameters, parameters));
    QVERIFY(std::ranges::is_sorted(progress));

    const auto known = makeCpuBackend(model.config, std::make_shared<const ModelWeights>(int4), {.threads = 2});
    const auto plain = makeCpuBackend(model.config, source, {.threads = 2});
    QVERIFY(known && plain);
    std::vector<float> logits(std::size_t(model.config.vocabSize)), expected(logits.size()), exact(logits.size());
    const std::vector<TokenId> ids{5, 900, 12'000, 77, 4'000, 31};
    QVERIFY((*made)->prefill(*(*made)->createSequence(8), ids, logits));
    QVERIFY((*known)->prefill(*(*known)->createSequence(8), ids, expected));
    QVERIFY((*plain)->prefill(*(*plain)->createSequence(8), ids, exact));
    QVERIFY(sameBits(logits, expected));
    QVERIFY(!sameBits(logits, exact));
    QVERIFY((*made)->imageFormat() != (*plain)->imageFormat());
    QVERIFY((*made)->info().weightBytes < (*plain)->info().weightBytes * 2 / 3);
    QCOMPARE((*made)->info().weightBytes, (*known)->info().weightBytes);

    options.onQuantized = [&, asked = 0](std::int64_t, std::int64_t) mutable { return ++asked < 5; };
    const auto stopped = makeCpuBackend(model.config, source, options);
    QVERIFY(!stopped);
    QCOMPARE(stopped.error().code, ErrorCode::Cancelled);
}

void TestCpuBackend::refusesWhatDoesNotFit()
{
    const auto sizes = backend();
    const auto cpu = backend({}, 1, 2 * sizes->sequenceBytes(1000));
    const SlotId first = *cpu->createSequence(1000);
    QVERIFY(cpu->createSequence(1000));
    const auto refused = cpu->createSequence(1000);
    QCOMPARE(refused.error().code, ErrorCode::OutOfMemory);
    QVERIFY(refused.error().message.find("free") != std::string::npos);
    cpu->destroySequence(first);
    QVERIFY(cpu->createSequence(1000));
    QCOMPARE(cpu->createSequence(0).error().code, ErrorCode::InvalidArgument);
    const TokenId outside[] = {m_model.config.vocabSize};
    std::vector<float> logits(std::size_t(m_model.config.vocabSize));
    QCOMPARE(sizes->prefill(*sizes->createSequence(10), outside, logits).error().code, ErrorCode::InvalidArgument);
}

void TestCpuBackend::draftedRowsStayWithinTheBudget()
{
    const auto free = backend();
    const std::int64_t sequence = free->sequenceBytes(1024);
    const SlotId other = *free->createSequence(1024);
    prefill(*free, other, 0, 508);
    const std::int64_t drafts = free->stepBytes(other, 8);
    QVERIFY(drafts > free->sequenceBytes(0)); // the states behind them, and the rows
    QCOMPARE(free->stepBytes(other, 1), std::int64_t(0));
    MemoryPlanRequest planned{.config = m_model.config, .agents = 1, .contextTokens = 1024};
    const MemoryPlan plan = planMemory(planned); // which has them in it
    const std::int64_t expected = plan.device.state - plan.stateBytesPerSequence;
    QVERIFY2(std::abs(drafts - expected) < expected / 50, qPrintable(QString::number(drafts - expected)));

    const auto cpu = backend({}, 2, 2 * sequence + drafts);
    const std::int64_t without = cpu->stats().memoryUsedBytes;
    const SlotId first = *cpu->createSequence(1024), second = *cpu->createSequence(1024);
    prefill(*cpu, first, 0, 508);
    prefill(*cpu, second, 0, 508);
    QVERIFY(cpu->reserveStep(first, 8));
    QCOMPARE(cpu->stepBytes(first, 8), std::int64_t(0));
    QVERIFY(cpu->stats().memoryUsedBytes - without <= 2 * sequence + drafts);
    const auto refused = cpu->reserveStep(second, 8);
    QVERIFY(!refused && refused.error().code == ErrorCode::OutOfMemory);
    QVERIFY2(refused.error().message.find("8 drafted rows need") != std::string::npos, refused.error().message.c_str());
    QVERIFY(cpu->reserveStep(second, 1));
    // Rows that wait are not given up; afterwards their memory serves the other, whose results are the same.
    const Rows found = step(*cpu, {{first, ids(508, 8)}});
    QVERIFY(!cpu->giveUpDrafts());
    QVERIFY(cpu->commit(first, 3));
    QVERIFY(cpu->giveUpDrafts());
    QVERIFY(!cpu->giveUpDrafts());
    const Rows ofSecond = step(*cpu, {{second, ids(508, 8)}});
    for (std::size_t t = 0; t < found.size(); ++t)
        QVERIFY(sameBits(found[t], ofSecond[t]));
    QVERIFY(cpu->commit(second, 3));
    QVERIFY(sameBits(step(*cpu, {{first, ids(511, 1)}})[0], step(*cpu, {{second, ids(511, 1)}})[0]));
    // Memory of a sequence that is gone serves the next one's drafts, and counts until it is given up.
    cpu->destroySequence(second);
    QVERIFY(cpu->stepBytes(first, 8) < drafts);
    QVERIFY(cpu->giveUpDrafts());
    QCOMPARE(cpu->stepBytes(first, 8), drafts);
}

void TestCpuBackend::refusesRowsThatWaitForCommit()
{
    const auto cpu = backend();
    const SlotId slot = *cpu->createSequence(256);
    prefill(*cpu, slot, 0, 10);
    step(*cpu, {{slot, ids(10, 3)}});
    std::vector<float> logits(std::size_t(m_model.config.vocabSize));
    const StepEntry entry{slot, ids(13, 1)};
    QCOMPARE(cpu->step({&entry, 1}, logits).error().code, ErrorCode::InvalidArgument);
    QCOMPARE(cpu->commit(slot, 4).error().code, ErrorCode::InvalidArgument);
    QVERIFY(cpu->commit(slot, 2));
    QVERIFY(cpu->step({&entry, 1}, logits));
    QCOMPARE(cpu->length(slot), std::int64_t(13));
}

void TestCpuBackend::refusesPathsItDoesNotHave()
{
    BackendOptions options;
    options.cpuPath = "sse9";
    const auto made = makeCpuBackend(m_model.config, m_model.weights, options);
    QCOMPARE(made.error().code, ErrorCode::InvalidArgument);
    QVERIFY(made.error().message.find("sse9") != std::string::npos);
}

void TestCpuBackend::inputsOutOfOrderAndZeroPointsRunOnEveryPath()
{
    // The same model with the inputs of every int4 module dealt to groups in turn, and zero points of their own; the
    // reference backend reads the same tensors.
    auto weights = std::make_shared<ModelWeights>(*m_model.weights);
    auto change = [](LinearWeight& weight) {
        if (weight.format != LinearWeight::Format::Int4)
            return;
        for (int k = 0; k < weight.inFeatures; ++k)
            weight.groupOfInput.resize(std::size_t(weight.inFeatures), 0);
        for (int k = 0; k < weight.inFeatures; ++k)
            weight.groupOfInput[std::size_t(k)] = k % weight.numGroups();
        weight.zeros.resize(std::size_t(weight.numGroups()) * std::size_t(weight.outFeatures));
        for (std::size_t i = 0; i < weight.zeros.size(); ++i)
            weight.zeros[i] = std::uint8_t(7 + i % 3);
    };
    for (LayerWeights& layer : weights->layers) {
        for (LinearWeight* weight : {&layer.mlp.gate, &layer.mlp.up, &layer.mlp.down})
            change(*weight);
        if (layer.attention) {
            for (LinearWeight* weight :
                 {&layer.attention->q, &layer.attention->k, &layer.attention->v, &layer.attention->o})
                change(*weight);
        }
        if (layer.gdn) {
            for (LinearWeight* weight : {&layer.gdn->qkv, &layer.gdn->z, &layer.gdn->out})
                change(*weight);
        }
    }
    const auto reference = makeReferenceBackend(m_model.config, weights, {});
    QVERIFY(reference);
    const std::vector<float> expected = prefill(**reference, *(*reference)->createSequence(64), 0, 20);
    for (auto path : {kernels::cpu::Path::Plain, kernels::cpu::Path::Avx2, kernels::cpu::Path::Avx512}) {
        if (!kernels::cpu::isSupported(path))
            continue;
        BackendOptions options;
        options.cpuPath = kernels::cpu::pathName(path);
        const auto cpu = makeCpuBackend(m_model.config, weights, options);
        QVERIFY2(cpu, cpu ? "" : cpu.error().message.c_str());
        const std::vector<float> found = prefill(**cpu, *(*cpu)->createSequence(64), 0, 20);
        const auto [low, high] = std::minmax_element(expected.begin(), expected.end());
        QVERIFY2(largestDifference(found, expected) < 0.02 * double(*high - *low),
                 qPrintable(QString("%1: %2").arg(options.cpuPath.c_str()).arg(largestDifference(found, expected))));
    }
}

QTEST_GUILESS_MAIN(TestCpuBackend)
#include "tst_cpu_backend.moc"
