#include "engine/backend/cpu_backend.h"
#include "engine/evaluation/fit_basis.h"
#include "engine/evaluation/divergence.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/golden_files.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

/// Sparse decoding on the CPU backend, at contexts that are long for its settings: 1,300 tokens, 256 picks, 256 recent,
/// a sample of 64.
class TestCpuSparse : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase();
    void staysCloseToDense();
    void aShortContextIsDenseToTheBit();
    void severalRowsEqualSingleOnes();
    void threadsBatchAndSlicesChangeNothing();
    void aForkDecodesLikeItsSource();
    void forksAppendToASharedTierApart();
    void oldRowsLieInTheTierAlone();
    void switchedOffItReadsTheSameRowsDensely();
    void aSavedContextGoesOnWithTheSameBits_data();
    void aSavedContextGoesOnWithTheSameBits();
    void anImageCountsOnceNobodyElseHoldsItsRows();
    void anImageThatDoesNotFitIsRefused();
    void settingsThatCannotWorkAreRefused();
    void rejectedRowsLeaveNoTrace();
    void statisticsTellWhatWasDone();
    void withoutABasisOneIsFitted();
    void memoryIsReservedAndGivenBack();

private:
    std::unique_ptr<CpuBackend> backend(int topK, int threads = 2, SparseMode mode = SparseMode::On,
                                        std::int64_t budgetBytes = 0) const
    {
        BackendOptions options;
        options.threads = threads;
        options.memoryBudgetBytes = budgetBytes;
        options.sparse = mode;
        options.sparseSettings.topK = topK;
        options.sparseSettings.onlyTopK();
        options.sparseSettings.recent = 256;
        options.sparseSettings.hotBufferBytes = 2 << 20;
        options.sketchBasis = m_basis;
        auto made = CpuBackend::create(m_model.config, m_model.weights, options);
        if (!made)
            qFatal("%s", made.error().message.c_str());
        return std::unique_ptr<CpuBackend>(static_cast<CpuBackend*>(std::move(made)->release()));
    }
    static SlotId reading(Backend& backend, std::span<const TokenId> ids, std::size_t slice = 2048)
    {
        const SlotId slot = *backend.createSequence(4000);
        for (std::size_t begin = 0; begin < ids.size(); begin += slice) {
            if (!backend.prefill(slot, ids.subspan(begin, std::min(slice, ids.size() - begin)), {}))
                qFatal("prefill failed");
        }
        return slot;
    }
    std::vector<float> step(Backend& backend, SlotId slot, std::span<const TokenId> ids) const
    {
        std::vector<float> logits(ids.size() * std::size_t(m_model.config.vocabSize));
        const StepEntry entry{slot, ids};
        if (!backend.step({&entry, 1}, logits))
            qFatal("step failed");
        return logits;
    }
    std::span<const TokenId> text(std::size_t begin, std::size_t count) const
    {
        return std::span(m_ids).subspan(begin, count);
    }

    LoadedModel m_model;
    std::vector<TokenId> m_ids;
    QTemporaryDir m_dir;
    std::filesystem::path m_basis;
};

void TestCpuSparse::initTestCase()
{
    m_model = demoModel();
    const auto tokenizer = Tokenizer::load(OCTAVO_RESOURCES "/demo-model/tokenizer.json");
    QVERIFY(tokenizer);
    QFile file(QStringLiteral(OCTAVO_TEST_DATA "/goldens/prompts.json"));
    QVERIFY(file.open(QIODevice::ReadOnly));
    while (m_ids.size() < 3200) {
        file.seek(0);
        const auto more = tokenizer->encode(file.readAll().toStdString(), SpecialTokens::Plain);
        m_ids.insert(m_ids.end(), more.begin(), more.end());
    }
    m_basis = std::filesystem::path(m_dir.path().toStdString()) / "basis.safetensors";
    const auto fit = fitBasis(m_model.config, m_model.weights, text(0, 2000), 64);
    QVERIFY2(fit.has_value(), fit ? "" : fit.error().message.c_str());
    for (const double share : fit->explained)
        QVERIFY(share > 0.5);
    QVERIFY(fit->basis.save(m_basis));
}

void TestCpuSparse::staysCloseToDense()
{
    // Of 1,024 rows that may be picked, so short a context that int4 rows cost more than what is left out.
    const auto dense = backend(256, 2, SparseMode::Off);
    for (const int topK : {16, 400}) {
        const auto sparse = backend(topK);
        const auto found = evaluateDivergence(*sparse, *dense, text(0, 2100), 24);
        QVERIFY(found);
        QCOMPARE(sparse->stats().sparseSteps, std::int64_t(24));
        QVERIFY2(found->mean() < 0.01, qPrintable(QString::number(found->mean())));
    }
}

void TestCpuSparse::aShortContextIsDenseToTheBit()
{
    const auto automatic = backend(256, 2, SparseMode::Auto), dense = backend(256, 2, SparseMode::Off);
    const SlotId a = reading(*automatic, text(0, 1300)), b = reading(*dense, text(0, 1300));
    QVERIFY(step(*automatic, a, text(1300, 1)) == step(*dense, b, text(1300, 1)));
    QCOMPARE(automatic->stats().sparseSteps, std::int64_t(0));
    QCOMPARE(automatic->stats().denseSteps, std::int64_t(1));
    QCOMPARE(automatic->stats().hostTierBytes, dense->stats().hostTierBytes);
}

void TestCpuSparse::severalRowsEqualSingleOnes()
{
    // Across the position from which the next page may be picked.
    const std::size_t start = 1276;
    const auto one = backend(256), several = backend(256);
    const SlotId a = reading(*one, text(0, start)), b = reading(*several, text(0, start));
    std::vector<float> singly;
    for (std::size_t i = 0; i < 8; ++i) {
        const auto logits = step(*one, a, text(start + i, 1));
        singly.insert(singly.end(), logits.begin(), logits.end());
    }
    QVERIFY(step(*several, b, text(start, 8)) == singly);
    QVERIFY(several->commit(b, 8));
    QVERIFY(step(*several, b, text(start + 8, 1)) == step(*one, a, text(start + 8, 1)));
}

void TestCpuSparse::threadsBatchAndSlicesChangeNothing()
{
    const auto run = [this](int threads, int others, std::size_t slice) {
        const auto made = backend(256, threads);
        std::vector<SlotId> sequences;
        for (int i = 0; i < others; ++i)
            sequences.push_back(reading(*made, text(std::size_t(i) * 10, 1290)));
        sequences.push_back(reading(*made, text(0, 1900), slice));
        std::vector<float> seen;
        for (std::size_t i = 0; i < 3; ++i) {
            std::vector<StepEntry> entries;
            for (const SlotId slot : sequences)
                entries.push_back({slot, text(1900 + i, 1)});
            std::vector<float> logits(sequences.size() * std::size_t(m_model.config.vocabSize));
            if (!made->step(entries, logits))
                return std::vector<float>();
            seen.insert(seen.end(), logits.end() - m_model.config.vocabSize, logits.end());
            for (int layer = 0; layer < 2; ++layer) {
                for (const std::int32_t token : made->picks(sequences.back(), layer, 0))
                    seen.push_back(float(token));
            }
        }
        return seen;
    };
    const auto wanted = run(1, 0, 2048);
    QVERIFY(wanted.size() > 3u * 2 * 256);
    QVERIFY(run(2, 0, 2048) == wanted);
    QVERIFY(run(3, 2, 512) == wanted);
    QVERIFY(run(1, 7, 192) == wanted);
}

void TestCpuSparse::aForkDecodesLikeItsSource()
{
    const auto made = backend(256);
    const SlotId source = reading(*made, text(0, 1300));
    const auto frozen = made->forkSequence(source, 1300);
    QVERIFY(frozen);
    const auto wanted = step(*made, source, text(1300, 1));
    made->destroySequence(source);
    const auto fork = made->forkSequence(*frozen, 4000);
    QVERIFY(fork);
    QVERIFY(step(*made, *fork, text(1300, 1)) == wanted);
}

void TestCpuSparse::forksAppendToASharedTierApart()
{
    // Two forks of one frozen context go on with different text far enough to move rows of their own into the tier; so
    // does a sequence that never shared.
    const auto made = backend(256);
    const SlotId source = reading(*made, text(0, 1300));
    const auto frozen = made->forkSequence(source, 1300);
    QVERIFY(frozen);
    std::vector<SlotId> forks;
    for (int i = 0; i < 2; ++i)
        forks.push_back(*made->forkSequence(*frozen, 4000));
    QVERIFY(made->prefill(forks[0], text(1300, 700), {}));
    QVERIFY(made->prefill(forks[1], text(400, 700), {}));
    QVERIFY(made->prefill(source, text(1300, 700), {}));
    const auto wanted = step(*made, source, text(2000, 1));
    QVERIFY(step(*made, forks[0], text(2000, 1)) == wanted);
    const SlotId alone = reading(*made, text(0, 1300));
    QVERIFY(made->prefill(alone, text(400, 700), {}));
    QVERIFY(step(*made, forks[1], text(2000, 1)) == step(*made, alone, text(2000, 1)));
}

void TestCpuSparse::oldRowsLieInTheTierAlone()
{
    const auto made = backend(256), dense = backend(256, 2, SparseMode::Off);
    const SlotId slot = reading(*made, text(0, 3000));
    reading(*dense, text(0, 3000));
    step(*made, slot, text(3000, 1));
    const std::int64_t pageBytes = dense->stats().hostTierBytes / 6; // of 512 tokens
    const ModelConfig& config = m_model.config;
    const std::int64_t tier =
        TierShape{config.numFullAttentionLayers(), config.numKvHeads, config.headDim, 64}.bytes(4000);
    // The first page, and the one that the 256 recent tokens are in.
    QCOMPARE(made->stats().hostTierBytes, tier + 2 * pageBytes);
}

void TestCpuSparse::switchedOffItReadsTheSameRowsDensely()
{
    // Old rows are int4 either way, so what differs from int8 throughout is their rounding alone.
    const auto made = backend(256), dense = backend(256, 2, SparseMode::Off);
    made->setSparseMode(SparseMode::Off);
    const auto found = evaluateDivergence(*made, *dense, text(0, 2100), 24);
    QVERIFY(found);
    QCOMPARE(made->stats().sparseSteps, std::int64_t(0));
    QVERIFY(found->mean() > 0.0);
    QVERIFY2(found->mean() < 0.005, qPrintable(QString::number(found->mean())));
}

void TestCpuSparse::aSavedContextGoesOnWithTheSameBits_data()
{
    QTest::addColumn<int>("from"); // tokens of the sequence that goes on; the rows are those of 1900 where they lie alike
    QTest::newRow("from its end") << 1900;
    QTest::newRow("from before its end") << 1600;
    QTest::newRow("from before rows move to the tier") << 1024;
}

void TestCpuSparse::aSavedContextGoesOnWithTheSameBits()
{
    QFETCH(const int, from);
    const auto made = backend(256), other = backend(256);
    const SlotId early = reading(*made, text(0, from));
    const auto point = made->forkSequence(early, from);
    QVERIFY(point);
    const SlotId source = reading(*made, text(0, 1900));
    const auto frozen = made->forkSequence(source, 1900);
    QVERIFY(frozen);
    const auto image = made->imageOf(*frozen, ImageRows::Taken), withRows = made->imageOf(*point, ImageRows::Taken);
    const auto start = made->imageOf(*point, ImageRows::Left);
    QVERIFY(image && start && withRows);
    QVERIFY(start->rows.empty());
    QCOMPARE(start->rowBytes, SequenceImage::bytes(withRows->rows));
    QCOMPARE(image->rowBytes, SequenceImage::bytes(image->rows));
    QCOMPARE(start->layout == image->layout, from > 1024);
    const std::int64_t before = made->stats().hostTierBytes;
    QVERIFY(made->prefill(source, text(1900, 700), {})); // goes on in pages that the image shares
    const auto joined = [](const SequenceImage::Parts& parts) {
        std::vector<std::byte> bytes;
        for (const auto& part : parts)
            bytes.insert(bytes.end(), part.begin(), part.end());
        return bytes;
    };
    const auto state = joined(start->state), rows = joined(from > 1024 ? image->rows : withRows->rows);
    const auto own = std::span(rows).first(std::size_t(start->rowBytes));
    const auto restored = other->restoreSequence(from, state, own);
    QVERIFY2(restored, restored ? "" : restored.error().message.c_str());
    QVERIFY(other->stats().hostTierBytes > before / 8);
    const auto fork = other->forkSequence(*restored, 4000);
    QVERIFY(fork);
    if (from < 1900)
        QVERIFY(other->prefill(*fork, text(from, 1900 - from), {}));
    QVERIFY(other->prefill(*fork, text(1900, 700), {}));
    QVERIFY(step(*other, *fork, text(2600, 1)) == step(*made, source, text(2600, 1)));
    QCOMPARE(made->imageFormat(), other->imageFormat());
    for (const auto& cut : {other->restoreSequence(from, state, own.first(own.size() - 1)),
                            other->restoreSequence(from, std::span(state).first(state.size() - 1), own)}) {
        QVERIFY(!cut);
        QCOMPARE(cut.error().code, ErrorCode::FormatInvalid);
    }
}

void TestCpuSparse::anImageCountsOnceNobodyElseHoldsItsRows()
{
    const auto made = backend(256);
    const std::int64_t none = made->stats().memoryUsedBytes;
    const SlotId source = reading(*made, text(0, 1900));
    const SlotId frozen = *made->forkSequence(source, 1900);
    made->destroySequence(source);
    const std::int64_t alone = made->stats().memoryUsedBytes;
    auto image = made->imageOf(frozen, ImageRows::Taken);
    QVERIFY(image);
    // What the tier's last pages hold is copied, since others may append to them.
    const std::int64_t copied = made->stats().memoryUsedBytes - alone;
    QVERIFY(copied > 0 && copied < alone - none);
    {
        const auto states = made->imageOf(frozen, ImageRows::Left), again = made->imageOf(frozen, ImageRows::Left);
        QCOMPARE(made->stats().memoryUsedBytes, alone + copied);
    }
    made->destroySequence(frozen);
    QVERIFY(made->stats().memoryUsedBytes >= none + copied + image->rowBytes);
    QVERIFY(made->stats().hostTierBytes > 0);
    image = Error{};
    QCOMPARE(made->stats().memoryUsedBytes, none);
    QCOMPARE(made->stats().hostTierBytes, std::int64_t(0));
}

void TestCpuSparse::anImageThatDoesNotFitIsRefused()
{
    const auto measured = backend(256);
    const SlotId slot = reading(*measured, text(0, 1900));
    const std::int64_t used = measured->stats().memoryUsedBytes;
    QVERIFY(measured->imageOf(slot, ImageRows::Taken));
    QCOMPARE(measured->stats().memoryUsedBytes, used); // let go of
    const auto small = backend(256, 2, SparseMode::On, measured->sequenceBytes(4000) + (1 << 20));
    const SlotId filled = reading(*small, text(0, 1900));
    const auto refused = small->imageOf(filled, ImageRows::Taken);
    QVERIFY(!refused);
    QCOMPARE(refused.error().code, ErrorCode::OutOfMemory);
}

void TestCpuSparse::settingsThatCannotWorkAreRefused()
{
    const auto refused = [this](auto change) {
        BackendOptions options;
        change(options.sparseSettings);
        const auto made = CpuBackend::create(m_model.config, m_model.weights, options);
        return !made && made.error().code == ErrorCode::InvalidArgument && !made.error().message.empty();
    };
    QVERIFY(refused([](SparseSettings& settings) { settings.topK = 0; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.recent = 127; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.sinks = -1; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.threshold = -1; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.hotBufferBytes = 100; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.adaptiveTail = 1.5; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.priorityFloor = -0.1; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.priorityFloor = 1.1; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.longTopK = -1; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.cpuTopK = -1; }));
    QVERIFY(refused([](SparseSettings& settings) { settings.longRange = -1; }));
    QVERIFY(SparseSettings().check());
}

void TestCpuSparse::rejectedRowsLeaveNoTrace()
{
    const auto plain = backend(256), drafted = backend(256);
    const SlotId a = reading(*plain, text(0, 1276)), b = reading(*drafted, text(0, 1276));
    step(*drafted, b, text(1276, 6));
    QVERIFY(drafted->commit(b, 2));
    step(*plain, a, text(1276, 1));
    step(*plain, a, text(1277, 1));
    for (std::size_t i = 0; i < 8; ++i)
        QVERIFY(step(*drafted, b, text(1278 + i, 1)) == step(*plain, a, text(1278 + i, 1)));
}

void TestCpuSparse::statisticsTellWhatWasDone()
{
    const auto made = backend(256);
    const SlotId slot = reading(*made, text(0, 1300));
    for (std::size_t i = 0; i < 4; ++i)
        step(*made, slot, text(1300 + i, 1));
    const BackendStats stats = made->stats();
    QCOMPARE(stats.sparseSteps, std::int64_t(4));
    // Each head of each attention layer has a list.
    const std::int64_t lists = m_model.config.numFullAttentionLayers() * m_model.config.numKvHeads;
    QCOMPARE(stats.pickedRows, 4 * lists * 256);
    QCOMPARE(stats.hotHits + stats.hotMisses, stats.pickedRows);
    QCOMPARE(stats.tierBytesRead, stats.hotMisses * 272);
    QVERIFY(stats.hotHits > 0);
    QVERIFY(stats.tailMass > 0.0 && stats.tailMass < 1.0);
    QVERIFY(stats.pickOverlap > 0.05 && stats.pickOverlap <= 1.0);
    QVERIFY(stats.hostTierBytes > 0);
    QCOMPARE(stats.hotBufferBytes, std::int64_t(0)); // rows are read where the tier has them
}

void TestCpuSparse::withoutABasisOneIsFitted()
{
    BackendOptions options;
    options.sparse = SparseMode::On;
    options.sparseSettings.topK = 256;
    options.sparseSettings.recent = 256;
    options.sketchBasis = "/nonexistent/basis.safetensors";
    const auto made = CpuBackend::create(m_model.config, m_model.weights, options);
    QVERIFY(made);
    const SlotId slot = reading(**made, text(0, 1300));
    step(**made, slot, text(1300, 1));
    QCOMPARE((*made)->stats().sparseSteps, std::int64_t(1));
    QVERIFY((*made)->stats().tailMass < 0.9);
}

void TestCpuSparse::memoryIsReservedAndGivenBack()
{
    const auto made = backend(256);
    const std::int64_t before = made->stats().memoryUsedBytes, tier = made->stats().hostTierBytes;
    QVERIFY(made->sequenceBytes(100000) > 100000 * (2 * 2 * (272 + 32)));
    const SlotId slot = reading(*made, text(0, 1300));
    QCOMPARE(made->stats().memoryUsedBytes, before + made->sequenceBytes(4000));
    made->destroySequence(slot);
    QCOMPARE(made->stats().memoryUsedBytes, before);
    QCOMPARE(made->stats().hostTierBytes, tier);
}

QTEST_GUILESS_MAIN(TestCpuSparse)
#include "tst_cpu_sparse.moc"
