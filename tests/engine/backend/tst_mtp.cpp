#include "engine/backend/reference_model.h"
#include "tests/engine/backend/golden_checks.h"
#include "tests/engine/golden_files.h"

#include <QJsonObject>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

/// The MTP layer: in float32 against reference values of another implementation, then on the CPU backend.
class TestMtp : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase();
    void everyDraftStepMatchesTheGoldens();
    void chainsOfTheCpuBackendMatchTheReference();
    void draftsDoNotDependOnHowTheSequenceCameAbout();
    void chainsInABatchEqualThoseAlone();
    void chainsDoNotDependOnTheNumberOfThreads();
    void aChainEndsWhereItIsUnlikely();
    void aRejectedDraftLeavesNoTrace_data();
    void aRejectedDraftLeavesNoTrace();
    void aBackendWithoutMtpSaysSo();

private:
    std::unique_ptr<Backend> backend(bool mtp = true, int threads = 2) const
    {
        BackendOptions options;
        options.threads = threads;
        options.mtp = mtp;
        auto made = makeCpuBackend(m_model.config, m_model.weights, options);
        if (!made)
            qFatal("%s", made.error().message.c_str());
        return *std::move(made);
    }
    std::span<const TokenId> ids(std::size_t begin, std::size_t count) const
    {
        return std::span(m_ids).subspan(begin, count);
    }
    static void read(Backend& on, SlotId slot, std::span<const TokenId> tokens)
    {
        if (const auto done = on.prefill(slot, tokens, {}); !done)
            qFatal("%s", done.error().message.c_str());
    }
    void step(Backend& on, SlotId slot, std::span<const TokenId> tokens) const
    {
        std::vector<float> logits(tokens.size() * std::size_t(m_model.config.vocabSize));
        const StepEntry entry{slot, tokens};
        if (const auto done = on.step({&entry, 1}, logits); !done)
            qFatal("%s", done.error().message.c_str());
    }
    static DraftChain draft(Backend& on, SlotId slot, TokenId next, int most = 4, float leastChance = 0.0f)
    {
        DraftChain chain;
        const DraftEntry entry{slot, next, most};
        if (const auto done = on.draft({&entry, 1}, leastChance, {&chain, 1}); !done)
            qFatal("%s", done.error().message.c_str());
        return chain;
    }
    static bool same(const DraftChain& a, const DraftChain& b)
    {
        return a.tokens == b.tokens && a.chances == b.chances;
    }
    std::vector<float> referenceLogits(const std::vector<float>& hidden) const
    {
        const std::size_t rows = hidden.size() / std::size_t(m_model.config.hiddenSize);
        std::vector<float> logits(rows * std::size_t(m_model.config.vocabSize));
        m_reference->logits(hidden.data(), rows, logits.data());
        return logits;
    }
    std::span<const float> row(const std::vector<float>& logits, std::size_t t) const
    {
        const auto vocab = std::size_t(m_model.config.vocabSize);
        return std::span(logits).subspan(t * vocab, vocab);
    }

    LoadedModel m_model;
    std::vector<TokenId> m_ids;
    QJsonArray m_drafts;
    std::unique_ptr<reference::Model> m_reference;
    // MTP over the first m_referenceRows tokens: all of them with OCTAVO_ALL_GOLDENS=1, which takes minutes.
    std::size_t m_referenceRows = 160;
    reference::LayerState m_firstState;
    std::vector<float> m_firstHidden, m_firstLogits;
};

void TestMtp::initTestCase()
{
    m_model = demoModel();
    QVERIFY(m_model.weights->mtp);
    const QJsonObject golden = readJson(goldenPath("mtp.json")).object();
    m_ids = tokenIds(golden["ids"].toArray());
    m_drafts = golden["drafts"].toArray();
    QVERIFY(m_ids.size() > 700);
    if (allGoldens()) // the last row predicts what the file does not hold
        m_referenceRows = m_ids.size() - 1;
    m_reference = std::make_unique<reference::Model>(m_model.config, m_model.weights);
    reference::SequenceState state = m_reference->emptyState(m_referenceRows);
    const std::vector<float> hidden = m_reference->forward(state, ids(0, m_referenceRows));
    m_firstHidden = m_reference->mtp(m_firstState, ids(1, m_referenceRows - 1), hidden.data());
    m_firstLogits = referenceLogits(m_firstHidden);
}

void TestMtp::everyDraftStepMatchesTheGoldens()
{
    // Step d + 1 runs over all rows, fed with the rows of the step before and tokens shifted by d + 1.
    std::vector<float> hidden = m_firstHidden;
    for (qsizetype d = 0; d < m_drafts.size(); ++d) {
        const std::size_t rows = m_referenceRows - std::size_t(d) - 1;
        if (d > 0) {
            reference::LayerState state;
            hidden = m_reference->mtp(state, ids(std::size_t(d) + 1, rows), hidden.data());
        }
        const std::vector<float> logits = d > 0 ? referenceLogits(hidden) : m_firstLogits;
        const std::vector<TokenId> expected = tokenIds(m_drafts[d].toObject()["argmax"].toArray());
        QVERIFY(expected.size() >= rows);
        for (std::size_t t = 0; t < rows; ++t) {
            const auto found = row(logits, t);
            const float largest = *std::ranges::max_element(found), wanted = found[std::size_t(expected[t])];
            QVERIFY2(wanted >= largest - 1e-3f,
                     qPrintable(QString("step %1, row %2: %3 less").arg(d + 1).arg(t).arg(largest - wanted)));
        }
    }
}

void TestMtp::chainsOfTheCpuBackendMatchTheReference()
{
    const auto cpu = backend();
    const std::vector<TokenId> golden = tokenIds(m_drafts[0].toObject()["argmax"].toArray());
    const SlotId slot = *cpu->createSequence(std::int64_t(m_ids.size()));
    const std::size_t kvDim = std::size_t(m_model.config.numKvHeads) * std::size_t(m_model.config.headDim);
    const std::size_t hiddenSize = std::size_t(m_model.config.hiddenSize);
    // int8 keys and values move a logit by a few hundredths: what is nearer than this is a tie.
    constexpr float tie = 0.3f;
    int chains = 0, ties = 0;
    double farthest = 0.0, apart = 0.0; // of the chances, for which most logits come from a head of int4
    read(*cpu, slot, ids(0, 64));
    for (std::size_t t = 64; t + 2 < m_referenceRows; ++t) { // t tokens are in the sequence
        const DraftChain chain = draft(*cpu, slot, m_ids[t], 3);
        QCOMPARE(chain.tokens.size(), std::size_t(3));
        const auto logits = row(m_firstLogits, t - 1);
        const float largest = *std::ranges::max_element(logits);
        QVERIFY2(largest - logits[std::size_t(chain.tokens[0])] < tie, qPrintable(QString("position %1").arg(t)));
        ties += chain.tokens[0] != golden[t - 1];
        double sum = 0.0;
        for (const float logit : logits)
            sum += std::exp(double(logit - largest));
        const double wrong =
            std::abs(double(chain.chances[0]) - std::exp(double(logits[std::size_t(chain.tokens[0])] - largest)) / sum);
        farthest = std::max(farthest, wrong);
        apart += wrong / double(m_referenceRows - 66);
        if (t % 16 == 0) { // the reference goes the same way
            reference::LayerState state;
            state.keys.assign(m_firstState.keys.begin(), m_firstState.keys.begin() + std::ptrdiff_t(t * kvDim));
            state.values.assign(m_firstState.values.begin(), m_firstState.values.begin() + std::ptrdiff_t(t * kvDim));
            std::vector<float> hidden(m_firstHidden.begin() + std::ptrdiff_t((t - 1) * hiddenSize),
                                      m_firstHidden.begin() + std::ptrdiff_t(t * hiddenSize));
            for (std::size_t d = 1; d < 3; ++d) {
                hidden = m_reference->mtp(state, std::span(chain.tokens).subspan(d - 1, 1), hidden.data());
                const std::vector<float> next = referenceLogits(hidden);
                QVERIFY2(*std::ranges::max_element(next) - next[std::size_t(chain.tokens[d])] < tie,
                         qPrintable(QString("position %1, draft %2").arg(t).arg(d + 1)));
            }
            ++chains;
        }
        step(*cpu, slot, ids(t, 1));
    }
    qInfo("%d of %d first drafts differ from the goldens, all of them ties; %d chains checked; chances are %.4f off, "
          "%.3f at most",
          ties, int(m_referenceRows) - 66, chains, apart, farthest);
    QVERIFY(ties * 25 < int(m_referenceRows));
    QVERIFY(apart < 0.02);
    QVERIFY(farthest < 0.15);
}

void TestMtp::draftsDoNotDependOnHowTheSequenceCameAbout()
{
    const auto cpu = backend();
    const SlotId source = *cpu->createSequence(1024);
    read(*cpu, source, ids(0, 512));
    const SlotId frozen = *cpu->forkSequence(source, 512);
    // Drafting at every token, never before, from a fork, and from a saved and restored fork.
    const SlotId often = source, seldom = *cpu->forkSequence(frozen, 1024);
    const auto image = cpu->imageOf(frozen, ImageRows::Taken);
    QVERIFY(image);
    const auto joined = [](const SequenceImage::Parts& parts) {
        std::vector<std::byte> bytes;
        for (const auto& part : parts)
            bytes.insert(bytes.end(), part.begin(), part.end());
        return bytes;
    };
    const auto restored = cpu->restoreSequence(512, joined(image->state), joined(image->rows));
    QVERIFY(restored);
    const SlotId reopened = *cpu->forkSequence(*restored, 1024);
    for (std::size_t t = 512; t < 680; ++t) {
        (void)draft(*cpu, often, m_ids[t], 2);
        for (const SlotId slot : {often, seldom, reopened})
            step(*cpu, slot, ids(t, 1));
    }
    const DraftChain expected = draft(*cpu, often, m_ids[680]);
    QCOMPARE(expected.tokens.size(), std::size_t(4));
    QVERIFY(same(draft(*cpu, seldom, m_ids[680]), expected));
    QVERIFY(same(draft(*cpu, reopened, m_ids[680]), expected));
    const SlotId late = *cpu->forkSequence(seldom, 1024);
    QVERIFY(same(draft(*cpu, late, m_ids[680]), expected));
    // Reading goes on where decoding left off.
    for (const SlotId slot : {often, late})
        read(*cpu, slot, ids(680, 20));
    QVERIFY(same(draft(*cpu, often, m_ids[700]), draft(*cpu, late, m_ids[700])));
}

void TestMtp::chainsInABatchEqualThoseAlone()
{
    const auto cpu = backend();
    std::vector<DraftEntry> entries;
    std::vector<DraftChain> alone;
    for (int i = 0; i < 5; ++i) {
        const SlotId slot = *cpu->createSequence(1024);
        read(*cpu, slot, ids(std::size_t(i) * 40, std::size_t(64 + i * 37)));
        for (int t = 0; t < 3 * i; ++t) // rows that wait, of different number
            step(*cpu, slot, ids(400 + std::size_t(t), 1));
        entries.push_back({slot, m_ids[500 + std::size_t(i)], 1 + i});
    }
    std::vector<DraftEntry> forks;
    for (const DraftEntry& entry : entries) {
        const SlotId fork = *cpu->forkSequence(entry.slot, 1024);
        alone.push_back(draft(*cpu, fork, entry.next, entry.most));
    }
    std::vector<DraftChain> together(entries.size());
    QVERIFY(cpu->draft(entries, 0.0f, together));
    for (std::size_t i = 0; i < entries.size(); ++i) {
        QCOMPARE(together[i].tokens.size(), std::size_t(entries[i].most));
        QVERIFY(same(together[i], alone[i]));
    }
}

void TestMtp::chainsDoNotDependOnTheNumberOfThreads()
{
    const auto one = backend(true, 1), three = backend(true, 3);
    const SlotId ofOne = *one->createSequence(512), ofThree = *three->createSequence(512);
    read(*one, ofOne, ids(0, 320));
    read(*three, ofThree, ids(0, 320));
    for (std::size_t t = 320; t < 400; ++t) {
        const DraftChain expected = draft(*one, ofOne, m_ids[t], 3);
        QCOMPARE(expected.tokens.size(), std::size_t(3));
        QVERIFY2(same(draft(*three, ofThree, m_ids[t], 3), expected), qPrintable(QString("position %1").arg(t)));
        step(*one, ofOne, ids(t, 1));
        step(*three, ofThree, ids(t, 1));
    }
}

void TestMtp::aChainEndsWhereItIsUnlikely()
{
    const auto cpu = backend();
    const SlotId slot = *cpu->createSequence(1024);
    read(*cpu, slot, ids(0, 300));
    const DraftChain whole = draft(*cpu, slot, m_ids[300], 6);
    QCOMPARE(whole.tokens.size(), std::size_t(6));
    float product = 1.0f;
    for (const float chance : whole.chances) {
        QVERIFY(chance > 0.0f && chance <= 1.0f);
        product *= chance;
    }
    const DraftChain cut = draft(*cpu, slot, m_ids[300], 6, std::nextafter(product, 1.0f) * 1.01f);
    QVERIFY(cut.tokens.size() < 6);
    QVERIFY(std::equal(cut.tokens.begin(), cut.tokens.end(), whole.tokens.begin()));
    // No draft beyond the sequence's end: `next` takes a position too.
    const SlotId full = *cpu->createSequence(303);
    read(*cpu, full, ids(0, 300));
    QCOMPARE(draft(*cpu, full, m_ids[300], 6).tokens.size(), std::size_t(2));
}

void TestMtp::aRejectedDraftLeavesNoTrace_data()
{
    QTest::addColumn<int>("kept");
    for (int kept = 1; kept <= 6; ++kept)
        QTest::addRow("%d of 6 rows kept", kept) << kept;
}

void TestMtp::aRejectedDraftLeavesNoTrace()
{
    QFETCH(int, kept);
    const auto cpu = backend();
    const SlotId source = *cpu->createSequence(1024);
    read(*cpu, source, ids(0, 508));
    const SlotId drafted = *cpu->forkSequence(source, 1024), plain = *cpu->forkSequence(source, 1024);
    // What MTP drafts is put where it is right; from `kept` on come tokens that are wrong.
    (void)draft(*cpu, drafted, m_ids[508], 5);
    std::vector<TokenId> rows(ids(508, std::size_t(kept)).begin(), ids(508, std::size_t(kept)).end());
    rows.resize(6, 17);
    step(*cpu, drafted, rows);
    QVERIFY(cpu->commit(drafted, kept));
    for (int t = 0; t < kept; ++t)
        step(*cpu, plain, ids(508 + std::size_t(t), 1));
    QVERIFY(
        same(draft(*cpu, drafted, m_ids[508 + std::size_t(kept)]), draft(*cpu, plain, m_ids[508 + std::size_t(kept)])));
    // On to the next page, so that the first one holds nothing but rows that count.
    for (std::size_t t = 508 + std::size_t(kept); t < 516; ++t) {
        for (const SlotId slot : {drafted, plain})
            step(*cpu, slot, ids(t, 1));
    }
    const auto a = cpu->imageOf(drafted, ImageRows::Taken), b = cpu->imageOf(plain, ImageRows::Taken);
    QVERIFY(a && b);
    QVERIFY(!a->state.empty() && !a->rows.empty() && !b->state.empty() && !b->rows.empty());
    // Recurrent and convolution states with the last hidden row; KV of 512 tokens.
    for (const auto& [one, other] : {std::pair(a->state[0], b->state[0]), std::pair(a->rows[0], b->rows[0])})
        QVERIFY(std::ranges::equal(one, other));
    QVERIFY(same(draft(*cpu, drafted, m_ids[516]), draft(*cpu, plain, m_ids[516])));
}

void TestMtp::aBackendWithoutMtpSaysSo()
{
    const auto with = backend(), without = backend(false);
    QVERIFY(with->hasMtp());
    QVERIFY(!without->hasMtp());
    QVERIFY(without->sequenceBytes(4096) < with->sequenceBytes(4096));
    QVERIFY(without->imageFormat() != with->imageFormat());
    const SlotId slot = *without->createSequence(64);
    read(*without, slot, ids(0, 10));
    DraftChain chain;
    const DraftEntry entry{slot, m_ids[10], 1};
    QCOMPARE(without->draft({&entry, 1}, 0.0f, {&chain, 1}).error().code, ErrorCode::Unsupported);
}

QTEST_GUILESS_MAIN(TestMtp)
#include "tst_mtp.moc"
