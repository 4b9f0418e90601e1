#include "tests/gpu/check_backend.h"

#include "tests/gpu/backend_driver.h"

#include "engine/backend/backend_factory.h"
#include "engine/sampling/sampler.h"

#include <nlohmann/json.hpp>

#include <fstream>

namespace octavo::gpu
{

namespace
{

bool same(const DraftChain& a, const DraftChain& b)
{
    return a.tokens == b.tokens && a.chances == b.chances;
}

/// One text, and what may be done with its beginning.
class MtpCheck
{
public:
    MtpCheck(Report& report, Driver& driver, std::vector<TokenId> ids)
        : m_report(report)
        , m_driver(driver)
        , m_ids(std::move(ids))
    {
    }

    std::span<const TokenId> ids(std::size_t begin, std::size_t count) const
    {
        return std::span(m_ids).subspan(begin, count);
    }
    void steps(SlotId slot, std::size_t begin, std::size_t end)
    {
        for (std::size_t t = begin; t < end; ++t)
            m_driver.step(slot, {m_ids[t]});
    }

    void firstDraftsAreTheGoldens(const std::vector<TokenId>& golden, Backend& cpu);
    void chainsDoNotDependOnHowTheSequenceCameAbout();
    void chainsInABatchEqualThoseAlone();
    void aChainEndsWhereItIsUnlikely();
    void aRejectedDraftLeavesNoTrace();
    void bestTokensAreThoseOfTheLogits();
    void fewerIdsToDraftFrom(Driver& few, int ids);
    int acceptedInRounds(Driver& drafting);

private:
    Report& m_report;
    Driver& m_driver;
    std::vector<TokenId> m_ids;
};

/// `golden`: of every position, what a float32 implementation expects two tokens on.
void MtpCheck::firstDraftsAreTheGoldens(const std::vector<TokenId>& golden, Backend& cpu)
{
    Driver cpuDriver(m_report, cpu);
    const SlotId slot = m_driver.create(1024), cpuSlot = cpuDriver.create(1024);
    m_driver.prefill(slot, ids(0, 64));
    cpuDriver.prefill(cpuSlot, ids(0, 64));
    int others = 0, chains = 0, sameChains = 0;
    double worst = 0.0;
    constexpr std::size_t end = 158; // of the goldens
    for (std::size_t t = 64; t < end; ++t) {
        const DraftChain chain = m_driver.draft(slot, m_ids[t], 3), wanted = cpuDriver.draft(cpuSlot, m_ids[t], 3);
        if (!m_report.expect(chain.tokens.size() == 3, "mtp: %zu drafts in place of 3", chain.tokens.size()))
            break;
        others += chain.tokens[0] != golden[t - 1];
        ++chains;
        sameChains += chain.tokens == wanted.tokens;
        if (chain.tokens[0] == wanted.tokens[0])
            worst = std::max(worst, double(std::abs(chain.chances[0] - wanted.chances[0])));
        m_driver.step(slot, {m_ids[t]});
        cpuDriver.step(cpuSlot, {m_ids[t]});
    }
    m_report.line("mtp: %d of %d first drafts differ from the goldens; %d chains of 3 equal the CPU's, chances up to "
                  "%.3f apart",
                  others, chains, sameChains, worst);
    // int4 rows and bf16 states tip near ties.
    m_report.expect(others * 12 < chains, "mtp: %d of %d first drafts differ from the goldens", others, chains);
    m_report.expect(sameChains * 10 >= chains * 8, "mtp: only %d of %d chains equal the CPU's", sameChains, chains);
    m_driver.destroy(slot);
}

void MtpCheck::chainsDoNotDependOnHowTheSequenceCameAbout()
{
    const SlotId source = m_driver.create(1024);
    m_driver.prefill(source, ids(0, 448));
    m_driver.prefill(source, ids(448, 64));
    const SlotId frozen = m_driver.fork(source, 512);
    const SlotId seldom = m_driver.fork(frozen, 1024), verified = m_driver.fork(frozen, 1024);
    for (std::size_t t = 512; t < 680; ++t) {
        m_driver.draft(source, m_ids[t], 2);
        m_driver.step(source, {m_ids[t]});
        m_driver.step(seldom, {m_ids[t]});
    }
    for (std::size_t t = 512; t < 680; t += 7) { // seven rows at once, all right
        m_driver.step(verified, {m_ids.begin() + std::ptrdiff_t(t), m_ids.begin() + std::ptrdiff_t(t + 7)});
        m_driver.commit(verified, 7);
    }
    const DraftChain expected = m_driver.draft(source, m_ids[680]);
    m_report.expect(expected.tokens.size() == 4, "mtp: %zu drafts in place of 4", expected.tokens.size());
    m_report.expect(same(m_driver.draft(seldom, m_ids[680]), expected), "mtp: drafts before changed later ones");
    m_report.expect(same(m_driver.draft(verified, m_ids[680]), expected), "mtp: drafts after verified rows differ");
    const SlotId late = m_driver.fork(seldom, 1024);
    m_report.expect(same(m_driver.draft(late, m_ids[680]), expected), "mtp: drafts of a fork differ");
    for (const SlotId slot : {source, late})
        m_driver.prefill(slot, ids(680, 20));
    m_report.expect(same(m_driver.draft(source, m_ids[700]), m_driver.draft(late, m_ids[700])),
                    "mtp: drafts after reading on differ");
    for (const SlotId slot : {source, frozen, seldom, verified, late})
        m_driver.destroy(slot);
}

void MtpCheck::chainsInABatchEqualThoseAlone()
{
    std::vector<DraftEntry> entries;
    std::vector<DraftChain> alone;
    std::vector<SlotId> forks;
    for (int i = 0; i < 5; ++i) {
        const SlotId slot = m_driver.create(1024);
        m_driver.prefill(slot, ids(std::size_t(i) * 40, std::size_t(64 + i * 37)));
        steps(slot, 400, 400 + 4 * std::size_t(i)); // rows that wait, of different number
        entries.push_back({slot, m_ids[500 + std::size_t(i)], 1 + i});
    }
    for (const DraftEntry& entry : entries) {
        forks.push_back(m_driver.fork(entry.slot, 1024));
        alone.push_back(m_driver.draft(forks.back(), entry.next, entry.most));
    }
    const std::vector<DraftChain> together = m_driver.draft(entries);
    for (std::size_t i = 0; i < entries.size(); ++i)
        m_report.expect(same(together[i], alone[i]) && together[i].tokens.size() == i + 1,
                        "mtp: chain %zu of a batch differs from the one alone", i);
    // More rows wait than one pass takes.
    std::vector<DraftEntry> waiting;
    for (const SlotId slot : forks) {
        steps(slot, 520, 545);
        waiting.push_back({slot, m_ids[545], 2});
    }
    const SlotId one = m_driver.fork(forks[4], 1024);
    const std::vector<DraftChain> all = m_driver.draft(waiting);
    m_report.expect(same(all[4], m_driver.draft(one, m_ids[545], 2)), "mtp: drafts over many waiting rows differ");
    for (std::size_t i = 0; i < entries.size(); ++i) {
        m_driver.destroy(entries[i].slot);
        m_driver.destroy(forks[i]);
    }
    m_driver.destroy(one);
}

void MtpCheck::aChainEndsWhereItIsUnlikely()
{
    const SlotId slot = m_driver.create(1024), full = m_driver.create(303);
    m_driver.prefill(slot, ids(0, 300));
    m_driver.prefill(full, ids(0, 300));
    const DraftChain whole = m_driver.draft(slot, m_ids[300], 6);
    float product = 1.0f;
    for (const float chance : whole.chances) {
        m_report.expect(chance > 0.0f && chance <= 1.0f, "mtp: a chance of %g", double(chance));
        product *= chance;
    }
    const DraftChain cut = m_driver.draft(slot, m_ids[300], 6, std::min(1.0f, product * 1.01f));
    m_report.expect(whole.tokens.size() == 6 && cut.tokens.size() < 6 &&
                        std::equal(cut.tokens.begin(), cut.tokens.end(), whole.tokens.begin()),
                    "mtp: a chain of %zu tokens was cut to %zu", whole.tokens.size(), cut.tokens.size());
    m_report.expect(m_driver.draft(full, m_ids[300], 6).tokens.size() == 2, "mtp: drafts beyond the sequence's end");
    m_driver.destroy(slot);
    m_driver.destroy(full);
}

/// Six rows of which the first `kept` are right: what follows equals plain decoding, drafts too.
void MtpCheck::aRejectedDraftLeavesNoTrace()
{
    const SlotId source = m_driver.create(1024);
    m_driver.prefill(source, ids(0, 508));
    for (std::size_t kept = 1; kept <= 6; ++kept) {
        const SlotId drafted = m_driver.fork(source, 1024), plain = m_driver.fork(source, 1024);
        m_driver.draft(drafted, m_ids[508], 5);
        std::vector<TokenId> rows(m_ids.begin() + 508, m_ids.begin() + 508 + std::ptrdiff_t(kept));
        rows.resize(6, 17);
        const std::vector<float> all = m_driver.step(drafted, rows);
        m_driver.commit(drafted, int(kept));
        bool equal = true;
        for (std::size_t t = 0; t < kept; ++t) {
            const std::vector<float> one = m_driver.step(plain, {m_ids[508 + t]});
            equal &= std::equal(one.begin(), one.end(), all.begin() + std::ptrdiff_t(t * m_driver.vocab()));
        }
        m_report.expect(equal, "mtp: verified rows differ from single ones, %zu kept", kept);
        m_report.expect(same(m_driver.draft(drafted, m_ids[508 + kept]), m_driver.draft(plain, m_ids[508 + kept])),
                        "mtp: drafts after %zu of 6 rows differ", kept);
        for (std::size_t t = 508 + kept; t < 516; ++t) // over the page's end
            equal &= m_driver.step(drafted, {m_ids[t]}) == m_driver.step(plain, {m_ids[t]});
        m_report.expect(equal, "mtp: decoding after %zu of 6 rows differs", kept);
        m_report.expect(same(m_driver.draft(drafted, m_ids[516]), m_driver.draft(plain, m_ids[516])),
                        "mtp: drafts on the next page differ after %zu of 6 rows", kept);
        m_driver.destroy(drafted);
        m_driver.destroy(plain);
    }
    m_driver.destroy(source);
}

void MtpCheck::bestTokensAreThoseOfTheLogits()
{
    const SlotId first = m_driver.create(1024), second = m_driver.create(1024);
    m_driver.prefill(first, ids(0, 200));
    m_driver.prefill(second, ids(100, 300));
    const SlotId a = m_driver.fork(first, 1024), b = m_driver.fork(second, 1024);
    const auto endId = TokenId(m_driver.vocab() - 40);
    const std::vector<TokenId> one{m_ids[200]}, four(m_ids.begin() + 400, m_ids.begin() + 404);
    const std::vector<float> logits = m_driver.step({StepEntry{first, one}, StepEntry{second, four}});
    for (int round = 0; round < 2; ++round) { // plain, then recorded
        const SlotId c = m_driver.fork(a, 1024), d = m_driver.fork(b, 1024);
        const std::vector<TokenId> best = m_driver.stepBest({StepEntry{c, one}, StepEntry{d, four}}, endId);
        for (std::size_t row = 0; row < best.size(); ++row) {
            const auto wanted =
                Sampler::argmax(std::span(logits).subspan(row * m_driver.vocab(), m_driver.vocab()), endId);
            m_report.expect(wanted && best[row] == *wanted, "best token of row %zu is %d", row, best[row]);
        }
        m_driver.destroy(c);
        m_driver.destroy(d);
    }
    for (const SlotId slot : {first, second, a, b})
        m_driver.destroy(slot);
}

/// `few` drafts among the first `most` ids: what it drafts is what all ids give where that is one of them.
void MtpCheck::fewerIdsToDraftFrom(Driver& few, int most)
{
    const SlotId slot = m_driver.create(1024), fewSlot = few.create(1024);
    m_driver.prefill(slot, ids(0, 64));
    few.prefill(fewSlot, ids(0, 64));
    int equal = 0, others = 0;
    for (std::size_t t = 64; t < 158; ++t) {
        const DraftChain all = m_driver.draft(slot, m_ids[t], 4), chain = few.draft(fewSlot, m_ids[t], 4);
        std::size_t same = 0; // of the chain, up to where all ids would go elsewhere
        while (same < chain.tokens.size() && same < all.tokens.size() && all.tokens[same] < most)
            ++same;
        bool holds = chain.tokens.size() == 4 && all.tokens.size() == 4;
        for (std::size_t i = 0; holds && i < chain.tokens.size(); ++i) {
            holds &= chain.tokens[i] < most;
            if (i < same) // the same logits, fewer of them in the sum
                holds &= chain.tokens[i] == all.tokens[i] && chain.chances[i] >= all.chances[i] * 0.9999f;
        }
        m_report.expect(holds, "mtp: at %zu a chain among %d ids is not that of all ids as far as it may be", t, most);
        equal += int(same);
        others += int(chain.tokens.size() - same);
        m_driver.step(slot, {m_ids[t]});
        few.step(fewSlot, {m_ids[t]});
    }
    m_report.expect(equal > 0 && others > 0, "mtp: of the drafts among %d ids %d are those of all ids, %d are not",
                    most, equal, others);
    m_driver.destroy(slot);
    few.destroy(fewSlot);
}

/// Rounds of five drafts and their verify write what single steps write. Returns how many drafts were right.
int MtpCheck::acceptedInRounds(Driver& drafting)
{
    constexpr std::size_t length = 96;
    const auto endId = TokenId(m_driver.vocab());
    const SlotId plain = m_driver.create(1024), slot = drafting.create(1024);
    m_driver.prefill(plain, ids(0, 200));
    drafting.prefill(slot, ids(0, 200));
    std::vector<TokenId> want{m_ids[200]}, got{m_ids[200]};
    for (std::size_t i = 0; i < length; ++i)
        want.push_back(m_driver.stepBest({StepEntry{plain, std::span(&want.back(), 1)}}, endId)[0]);
    int accepted = 0;
    while (got.size() < length) {
        const DraftChain chain = drafting.draft(slot, got.back(), 5);
        std::vector<TokenId> rows{got.back()};
        rows.insert(rows.end(), chain.tokens.begin(), chain.tokens.end());
        const std::vector<TokenId> best = drafting.stepBest({StepEntry{slot, rows}}, endId);
        std::size_t kept = 1;
        while (kept < rows.size() && rows[kept] == best[kept - 1])
            ++kept;
        drafting.commit(slot, int(kept));
        got.insert(got.end(), best.begin(), best.begin() + std::ptrdiff_t(kept));
        accepted += int(kept) - 1;
    }
    want.resize(length), got.resize(length);
    m_report.expect(want == got, "mtp: rounds of drafts write something else than single steps");
    m_driver.destroy(plain);
    drafting.destroy(slot);
    return accepted;
}

} // namespace

void checkMtp(Report& report, const ModelConfig& config, const std::shared_ptr<const ModelWeights>& weights,
              const std::filesystem::path& golden)
{
    std::ifstream file(golden);
    const nlohmann::json values = nlohmann::json::parse(file, nullptr, false);
    if (!report.expect(values.is_object() && weights->mtp, "mtp: no goldens, or no MTP layer"))
        return;
    BackendOptions options;
    options.device = "cuda:0";
    auto int4 = makeBackend(config, weights, options);
    options.quantizeDrafts = false;
    auto backend = makeBackend(config, weights, options);
    options.device = "cpu";
    auto cpu = makeBackend(config, weights, options);
    options.device = "cuda:0";
    options.draftVocabulary = 4096;
    auto narrow = makeBackend(config, weights, options);
    options.mtp = false;
    auto without = makeBackend(config, weights, options);
    if (!report.expect(int4 && backend && cpu && narrow && without, "mtp: %s",
                       backend ? "no CPU" : backend.error().message.c_str()))
        return;
    report.expect((*backend)->hasMtp() && !(*without)->hasMtp() &&
                      (*without)->sequenceBytes(4096) < (*backend)->sequenceBytes(4096),
                  "mtp: a backend without it has its memory");
    Driver driver(report, **backend);
    MtpCheck check(report, driver, values["ids"].get<std::vector<TokenId>>());
    const std::int64_t before = (*backend)->stats().memoryUsedBytes;
    check.firstDraftsAreTheGoldens(values["drafts"][0]["argmax"].get<std::vector<TokenId>>(), **cpu);
    check.chainsDoNotDependOnHowTheSequenceCameAbout();
    check.chainsInABatchEqualThoseAlone();
    check.aChainEndsWhereItIsUnlikely();
    check.aRejectedDraftLeavesNoTrace();
    check.bestTokensAreThoseOfTheLogits();
    Driver narrowDriver(report, **narrow);
    check.fewerIdsToDraftFrom(narrowDriver, options.draftVocabulary);
    Driver int4Driver(report, **int4);
    const int accepted = check.acceptedInRounds(driver), fewer = check.acceptedInRounds(narrowDriver);
    const int ofInt4 = check.acceptedInRounds(int4Driver);
    report.line(
        "mtp: %d drafts right in an answer of 96 tokens, %d of those among the first %d ids, %d by an int4 head",
        accepted, fewer, options.draftVocabulary, ofInt4);
    report.expect(10 * ofInt4 >= 9 * accepted, "mtp: an int4 head has %d drafts right where the model's own has %d",
                  ofInt4, accepted);
    report.expect((*backend)->stats().memoryUsedBytes == before, "mtp: memory is left over");
}

} // namespace octavo::gpu
