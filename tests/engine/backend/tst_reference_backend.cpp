#include "tests/engine/golden_files.h"

#include <QTest>

#include <numeric>
#include <random>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

namespace
{

std::vector<TokenId> randomIds(std::size_t count, int vocab, unsigned seed)
{
    std::mt19937 random(seed);
    std::vector<TokenId> ids(count);
    for (TokenId& id : ids)
        id = TokenId(random() % unsigned(vocab));
    return ids;
}

} // namespace

/// The reference backend on the tiny checkpoint: what the Backend contract promises, bit for bit.
class TestReferenceBackend : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_model = tinyModel();
        m_vocab = std::size_t(m_model.config.vocabSize);
    }

    void slicesAndSingleStepsGiveTheSameLogits();
    void prefillGivesNoneOneOrAllRowsOfLogits();
    void aBatchGivesEachSequenceWhatItGetsAlone();
    void forksContinueOnTheirOwn();
    void commitForgetsRejectedRows_data();
    void commitForgetsRejectedRows();
    void refusesWhatTheContractForbids();
    void refusesSequencesBeyondTheBudget();

private:
    /// Logits of every row of `ids`, read in slices of `slice` into a new sequence; `slot` gets it.
    std::vector<float> read(Backend& backend, std::span<const TokenId> ids, std::size_t slice, SlotId& slot)
    {
        slot = *backend.createSequence(256);
        std::vector<float> logits(ids.size() * m_vocab);
        for (std::size_t i = 0; i < ids.size(); i += slice) {
            const std::size_t rows = std::min(slice, ids.size() - i);
            const auto done =
                backend.prefill(slot, ids.subspan(i, rows), std::span(logits).subspan(i * m_vocab, rows * m_vocab));
            if (!done)
                qFatal("%s", done.error().message.c_str());
        }
        return logits;
    }

    std::vector<float> step(Backend& backend, SlotId slot, std::span<const TokenId> ids)
    {
        std::vector<float> logits(ids.size() * m_vocab);
        const StepEntry entry{slot, ids};
        const auto done = backend.step({&entry, 1}, logits);
        if (!done)
            qFatal("%s", done.error().message.c_str());
        return logits;
    }

    LoadedModel m_model;
    std::size_t m_vocab = 0;
};

void TestReferenceBackend::slicesAndSingleStepsGiveTheSameLogits()
{
    const auto backend = referenceBackend(m_model);
    const std::vector<TokenId> ids = randomIds(100, m_model.config.vocabSize, 1);
    SlotId slot = noSlot;
    const std::vector<float> whole = read(*backend, ids, 100, slot);
    for (std::size_t slice : {1, 3, 64})
        QVERIFY2(read(*backend, ids, slice, slot) == whole, qPrintable(QString::number(slice)));

    read(*backend, std::span(ids).first(60), 60, slot);
    for (std::size_t i = 60; i < ids.size(); ++i) {
        const std::vector<float> row = step(*backend, slot, std::span(ids).subspan(i, 1));
        QVERIFY(std::equal(row.begin(), row.end(), whole.begin() + std::ptrdiff_t(i * m_vocab)));
    }
    QCOMPARE(backend->length(slot), 100);
}

void TestReferenceBackend::prefillGivesNoneOneOrAllRowsOfLogits()
{
    const auto backend = referenceBackend(m_model);
    const std::vector<TokenId> ids = randomIds(20, m_model.config.vocabSize, 2);
    SlotId slot = noSlot;
    const std::vector<float> whole = read(*backend, ids, 20, slot);
    const SlotId other = *backend->createSequence(20);
    QVERIFY(backend->prefill(other, std::span(ids).first(10), {}));
    std::vector<float> last(m_vocab);
    QVERIFY(backend->prefill(other, std::span(ids).subspan(10), last));
    QVERIFY(std::equal(last.begin(), last.end(), whole.end() - std::ptrdiff_t(m_vocab)));
}

void TestReferenceBackend::aBatchGivesEachSequenceWhatItGetsAlone()
{
    const auto backend = referenceBackend(m_model);
    std::vector<std::vector<TokenId>> ids;
    std::vector<SlotId> sequences(3);
    std::vector<std::vector<float>> alone;
    for (unsigned i = 0; i < 3; ++i) {
        ids.push_back(randomIds(10 + 7 * i, m_model.config.vocabSize, 10 + i));
        read(*backend, ids[i], 64, sequences[i]);
        alone.push_back(step(*backend, *backend->forkSequence(sequences[i], 100), std::span(ids[i]).first(1 + i)));
    }
    std::vector<StepEntry> entries;
    for (std::size_t i = 0; i < 3; ++i)
        entries.push_back({sequences[i], std::span(ids[i]).first(1 + i)});
    std::vector<float> together(6 * m_vocab);
    QVERIFY(backend->step(entries, together));
    auto at = together.begin();
    for (const std::vector<float>& logits : alone) {
        QVERIFY(std::equal(logits.begin(), logits.end(), at));
        at += std::ptrdiff_t(logits.size());
    }
}

void TestReferenceBackend::forksContinueOnTheirOwn()
{
    const auto backend = referenceBackend(m_model);
    const std::vector<TokenId> ids = randomIds(40, m_model.config.vocabSize, 3);
    SlotId source = noSlot;
    read(*backend, std::span(ids).first(30), 30, source);
    const SlotId frozen = *backend->forkSequence(source, 30);
    step(*backend, source, std::span(ids).first(1)); // the source goes another way, and ends
    backend->destroySequence(source);

    const SlotId fork = *backend->forkSequence(frozen, 64);
    QCOMPARE(backend->length(fork), 30);
    SlotId straight = noSlot;
    const std::vector<float> expected = read(*backend, ids, 40, straight);
    for (std::size_t i = 30; i < 40; ++i) {
        const std::vector<float> row = step(*backend, fork, std::span(ids).subspan(i, 1));
        QVERIFY(std::equal(row.begin(), row.end(), expected.begin() + std::ptrdiff_t(i * m_vocab)));
    }
    const auto full = backend->prefill(frozen, std::span(ids).first(1), {});
    QVERIFY(!full);
    QCOMPARE(full.error().code, ErrorCode::ContextFull);
}

void TestReferenceBackend::commitForgetsRejectedRows_data()
{
    QTest::addColumn<int>("prefix");
    QTest::addColumn<int>("kept");
    for (int prefix : {0, 1, 2, 50}) {
        for (int kept : {1, 2, 5, 8})
            QTest::addRow("prefix=%d kept=%d", prefix, kept) << prefix << kept;
    }
}

void TestReferenceBackend::commitForgetsRejectedRows()
{
    QFETCH(int, prefix);
    QFETCH(int, kept);
    const auto backend = referenceBackend(m_model);
    const std::vector<TokenId> ids = randomIds(70, m_model.config.vocabSize, 4);
    SlotId plain = noSlot, slot = noSlot;
    const std::vector<float> expected = read(*backend, ids, 70, plain);
    read(*backend, std::span(ids).first(std::size_t(prefix)), 64, slot);

    std::vector<TokenId> drafted(ids.begin() + prefix, ids.begin() + prefix + 8);
    for (std::size_t i = std::size_t(kept); i < drafted.size(); ++i)
        drafted[i] = TokenId((drafted[i] + 1) % m_model.config.vocabSize);
    step(*backend, slot, drafted);
    QVERIFY(!backend->prefill(slot, std::span(ids).first(1), {})); // nothing before the commit
    QVERIFY(backend->commit(slot, kept));
    QCOMPARE(backend->length(slot), prefix + kept);
    for (std::size_t i = std::size_t(prefix + kept); i < std::size_t(prefix) + 12; ++i) {
        const std::vector<float> row = step(*backend, slot, std::span(ids).subspan(i, 1));
        QVERIFY(std::equal(row.begin(), row.end(), expected.begin() + std::ptrdiff_t(i * m_vocab)));
    }
}

void TestReferenceBackend::refusesWhatTheContractForbids()
{
    const auto backend = referenceBackend(m_model);
    const std::vector<TokenId> ids = randomIds(300, m_model.config.vocabSize, 5);
    const std::vector<TokenId> beyond = {TokenId(m_model.config.vocabSize)};
    std::vector<float> logits(2 * m_vocab);
    const SlotId slot = *backend->createSequence(8);

    QCOMPARE(backend->createSequence(0).error().code, ErrorCode::InvalidArgument);
    QCOMPARE(backend->createSequence(m_model.config.maxPositions + 1).error().code, ErrorCode::InvalidArgument);
    const std::int64_t most = m_model.config.maxPositions;
    QCOMPARE(backend->createSequence(most + 1).error().message, "A sequence of " + std::to_string(most + 1) +
                                                                    " tokens was asked for, the model allows " +
                                                                    std::to_string(most));
    QCOMPARE(backend->createSequence(0).error().message,
             std::string("A sequence of 0 tokens was asked for, at least 1 is needed"));
    QCOMPARE(backend->prefill(SlotId{99}, std::span(ids).first(1), {}).error().code, ErrorCode::NotFound);
    QCOMPARE(backend->prefill(slot, {}, {}).error().code, ErrorCode::InvalidArgument);
    QCOMPARE(backend->prefill(slot, ids, {}).error().code, ErrorCode::InvalidArgument);
    QCOMPARE(backend->prefill(slot, beyond, {}).error().code, ErrorCode::InvalidArgument);
    QCOMPARE(backend->prefill(slot, std::span(ids).first(9), {}).error().code, ErrorCode::ContextFull);
    const std::vector<StepEntry> twice = {{slot, std::span(ids).first(1)}, {slot, std::span(ids).first(1)}};
    QCOMPARE(backend->step(twice, logits).error().code, ErrorCode::InvalidArgument);
    QCOMPARE(backend->commit(slot, 2).error().code, ErrorCode::InvalidArgument);
    QCOMPARE(backend->length(slot), 0); // refused calls change nothing
}

void TestReferenceBackend::refusesSequencesBeyondTheBudget()
{
    BackendOptions options;
    options.memoryBudgetBytes = referenceBackend(m_model)->sequenceBytes(100) * 2;
    const auto backend = referenceBackend(m_model, options);
    const SlotId first = *backend->createSequence(100);
    QVERIFY(backend->createSequence(100));
    const auto third = backend->createSequence(100);
    QVERIFY(!third);
    QCOMPARE(third.error().code, ErrorCode::OutOfMemory);
    backend->destroySequence(first);
    QVERIFY(backend->createSequence(100));
    QCOMPARE(backend->stats().memoryUsedBytes, backend->info().weightBytes + options.memoryBudgetBytes);
}

QTEST_GUILESS_MAIN(TestReferenceBackend)
#include "tst_reference_backend.moc"
