#include "tests/engine/fake_backend.h"

#include "engine/sampling/sampler.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

namespace octavo::test {
using namespace octavo::engine;
namespace {

std::uint64_t mix(std::uint64_t a, std::uint64_t b)
{
    std::uint64_t x = a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2));
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

std::uint64_t nextState(std::uint64_t state, TokenId id, bool wasRead, bool isAligned)
{
    return mix(state, std::uint64_t(std::uint32_t(id)) * 4 + (wasRead ? 2 : 0) + (isAligned ? 1 : 0));
}

TokenId favourite(std::uint64_t state)
{
    return TokenId(' ' + 1 + mix(state, 7) % 94); // printable
}

} // namespace

FakeBackend::FakeBackend(std::shared_ptr<FakeDevice> device)
    : m_device(std::move(device))
{
    m_config.vocabSize = m_device->vocabSize;
    m_config.maxPositions = 1 << 20;
}

FakeBackend::~FakeBackend()
{
    m_device->liveSlots -= int(m_sequences.size());
}

BackendStats FakeBackend::stats() const
{
    BackendStats stats;
    stats.memoryUsedBytes = m_used->load();
    stats.memoryTotalBytes = m_device->memoryBytes;
    stats.prefillTokens = m_device->tokensRead.load();
    return stats;
}

std::int64_t FakeBackend::tierBytesRead(SlotId slot) const
{
    const auto found = m_sequences.find(slot);
    return found == m_sequences.end() || m_device->tierBytesPerRow < 0
               ? -1
               : found->second.steppedRows * m_device->tierBytesPerRow;
}

std::int64_t FakeBackend::sequenceBytes(std::int64_t tokens) const
{
    return m_device->stateBytes + tokens * m_device->bytesPerToken;
}

Result<SlotId> FakeBackend::add(Sequence sequence)
{
    OCTAVO_CHECK(maybeFail("create"));
    if (m_device->memoryBytes > 0 && *m_used + sequence.ownBytes > m_device->memoryBytes)
        return Error{ErrorCode::OutOfMemory, "fake memory is full"};
    *m_used += sequence.ownBytes;
    ++m_device->liveSlots;
    const SlotId slot{m_nextSlot++};
    m_sequences.emplace(slot, std::move(sequence));
    return slot;
}

bool FakeBackend::prepareSequence(std::int64_t newTokens, int parts)
{
    const std::int64_t limit = m_device->memoryBytes;
    if (newTokens < 1000 || (limit > 0 && *m_used + sequenceBytes(newTokens) > limit))
        return true; // nothing to prepare, or nothing that would be used
    for (; parts > 0 && m_prepared < m_device->prepareCalls; --parts, ++m_prepared)
        spend(m_device->prepareUs);
    return m_prepared >= m_device->prepareCalls;
}

/// What was not prepared takes its time now.
void FakeBackend::takePrepared(std::int64_t tokens)
{
    if (tokens < 1000)
        return;
    spend((m_device->prepareCalls - m_prepared) * m_device->prepareUs);
    m_prepared = 0;
}

Result<SlotId> FakeBackend::createSequence(std::int64_t maxTokens)
{
    takePrepared(maxTokens);
    return add({{}, {}, maxTokens, sequenceBytes(maxTokens), 0, 0});
}

Result<SlotId> FakeBackend::forkSequence(SlotId source, std::int64_t maxTokens)
{
    Sequence* from = find(source);
    if (!from)
        return Error{ErrorCode::InvalidArgument, "no such sequence"};
    Sequence fork = *from;
    fork.maxTokens = maxTokens;
    fork.ownBytes = m_device->stateBytes + (maxTokens - std::int64_t(from->tokens.size())) * m_device->bytesPerToken;
    return add(std::move(fork));
}

void FakeBackend::destroySequence(SlotId slot)
{
    const Sequence* sequence = find(slot);
    if (!sequence)
        return;
    *m_used -= sequence->ownBytes + sequence->draftBytes;
    --m_device->liveSlots;
    m_sequences.erase(slot);
}

std::int64_t FakeBackend::length(SlotId slot) const
{
    const auto found = m_sequences.find(slot);
    return found == m_sequences.end() ? 0 : std::int64_t(found->second.tokens.size());
}

Result<void> FakeBackend::prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits)
{
    if (m_device->onCall)
        m_device->onCall("prefill");
    OCTAVO_CHECK(maybeFail("prefill"));
    Sequence* sequence = find(slot);
    const bool fits = sequence && !tokens.empty() && int(tokens.size()) <= m_device->maxSlice
                      && std::int64_t(sequence->tokens.size() + tokens.size()) <= sequence->maxTokens
                      && sequence->uncommittedRows == 0;
    if (!fits) {
        ++m_device->misuses;
        return Error{ErrorCode::InvalidArgument, "prefill() was misused"};
    }
    const bool isAligned = sequence->tokens.size() % 64 == 0;
    for (const TokenId id : tokens)
        append(*sequence, id, true, isAligned);
    m_device->tokensRead += std::int64_t(tokens.size());
    spend(std::int64_t(tokens.size()) * m_device->readUsPerToken);
    if (!logits.empty())
        fillLogits(*sequence, logits);
    return {};
}

Result<void> FakeBackend::reserveStep(SlotId slot, int rows)
{
    if (m_device->onReserve)
        OCTAVO_CHECK(m_device->onReserve(slot, rows));
    const std::int64_t more = stepBytes(slot, rows);
    if (m_device->memoryBytes > 0 && more > 0 && *m_used + more > m_device->memoryBytes)
        return Error{ErrorCode::OutOfMemory, "no memory for drafted rows"};
    if (Sequence* sequence = find(slot); sequence && more > 0) {
        sequence->draftBytes = more;
        *m_used += more;
    }
    return {};
}

std::int64_t FakeBackend::stepBytes(SlotId slot, int rows) const
{
    const auto found = m_sequences.find(slot);
    return found != m_sequences.end() && rows > 1 && found->second.draftBytes == 0 ? m_device->draftBytes : 0;
}

bool FakeBackend::giveUpDrafts()
{
    bool any = false;
    for (auto& [slot, sequence] : m_sequences) {
        if (sequence.uncommittedRows > 0 || sequence.draftBytes == 0)
            continue;
        *m_used -= std::exchange(sequence.draftBytes, 0);
        any = true;
    }
    return any;
}

Result<void> FakeBackend::step(std::span<const StepEntry> entries, std::span<float> logits)
{
    if (m_device->onCall)
        m_device->onCall("step");
    OCTAVO_CHECK(maybeFail("step"));
    const auto vocab = std::size_t(m_device->vocabSize);
    std::size_t row = 0;
    for (const StepEntry& entry : entries) {
        Sequence* sequence = find(entry.slot);
        const bool fits = sequence && !entry.tokens.empty() && sequence->uncommittedRows == 0
                          && std::int64_t(sequence->tokens.size() + entry.tokens.size()) <= sequence->maxTokens;
        if (!fits || row + entry.tokens.size() > std::size_t(m_device->maxRows)) {
            ++m_device->misuses;
            return Error{ErrorCode::InvalidArgument, "step() was misused"};
        }
        for (const TokenId id : entry.tokens) {
            append(*sequence, id, false, true);
            fillLogits(*sequence, logits.subspan(row * vocab, vocab));
            ++row;
        }
        sequence->uncommittedRows = entry.tokens.size() > 1 ? int(entry.tokens.size()) : 0;
        sequence->steppedRows += std::int64_t(entry.tokens.size());
    }
    ++m_device->steps;
    m_device->widestStep = std::max(m_device->widestStep.load(), int(entries.size()));
    spend(m_device->stepUs + std::int64_t(row) * m_device->rowUs);
    return {};
}

Result<void> FakeBackend::stepBest(std::span<const StepEntry> entries, TokenId endId, std::span<TokenId> best)
{
    const auto vocab = std::size_t(m_device->vocabSize);
    std::vector<float> logits(best.size() * vocab);
    OCTAVO_CHECK(step(entries, logits));
    for (std::size_t row = 0; row < best.size(); ++row)
        best[row] = Sampler::argmax(std::span(logits).subspan(row * vocab, vocab), endId).value_or(-1);
    ++m_device->bestSteps;
    return {};
}

Result<void> FakeBackend::commit(SlotId slot, int keptRows)
{
    OCTAVO_CHECK(maybeFail("commit"));
    Sequence* sequence = find(slot);
    if (!sequence || keptRows < 1 || keptRows > sequence->uncommittedRows) {
        ++m_device->misuses;
        return Error{ErrorCode::InvalidArgument, "commit() was misused"};
    }
    spend(keptRows < sequence->uncommittedRows ? m_device->rejectUs : 0);
    const std::size_t length = sequence->tokens.size() - std::size_t(sequence->uncommittedRows - keptRows);
    sequence->tokens.resize(length);
    sequence->states.resize(length);
    sequence->uncommittedRows = 0;
    ++m_device->commits;
    return {};
}

Result<void> FakeBackend::draft(std::span<const DraftEntry> entries, float leastChance, std::span<DraftChain> chains)
{
    if (m_device->onCall)
        m_device->onCall("draft");
    OCTAVO_CHECK(maybeFail("draft"));
    int deepest = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Sequence* sequence = find(entries[i].slot);
        if (!sequence || sequence->uncommittedRows > 0 || entries[i].most < 1 || chains.size() != entries.size()
            || std::int64_t(sequence->tokens.size()) >= sequence->maxTokens) {
            ++m_device->misuses;
            return Error{ErrorCode::InvalidArgument, "draft() was misused"};
        }
        std::vector<TokenId> history = sequence->tokens;
        history.push_back(entries[i].next);
        chains[i] = {};
        float product = 1.0f;
        int passes = 0;
        for (const TokenId id : m_device->mtp(history, entries[i].most)) {
            ++passes;
            if ((product *= m_device->mtpChance) < leastChance)
                break;
            chains[i].tokens.push_back(id);
            chains[i].chances.push_back(m_device->mtpChance);
        }
        deepest = std::max(deepest, passes);
    }
    m_device->passes += deepest;
    spend(deepest * m_device->passUs);
    return {};
}

Result<SequenceImage> FakeBackend::imageOf(SlotId slot, ImageRows rows)
{
    OCTAVO_CHECK(maybeFail("imageOf"));
    const Sequence* sequence = find(slot);
    if (!sequence)
        return Error{ErrorCode::InvalidArgument, "no such sequence"};
    struct Copy {
        std::uint64_t state;
        std::vector<TokenId> rows;
    };
    *m_used += m_device->imageBytes;
    const std::shared_ptr<Copy> copy(new Copy{sequence->states.back(), sequence->tokens},
                                     [used = m_used, bytes = m_device->imageBytes](Copy* held) {
                                         delete held;
                                         *used -= bytes;
                                     });
    SequenceImage image;
    image.layout = layoutOf(std::int64_t(copy->rows.size()));
    for (TokenId& row : copy->rows)
        row ^= image.layout;
    image.state = {std::as_bytes(std::span(&copy->state, 1))};
    image.rowBytes = std::int64_t(copy->rows.size() * sizeof(TokenId));
    if (rows == ImageRows::Taken)
        image.rows = {std::as_bytes(std::span(copy->rows))};
    image.storage = copy;
    return image;
}

Result<void> FakeBackend::beginRestore(SequenceRestore& restore)
{
    OCTAVO_CHECK(maybeFail("beginRestore"));
    takePrepared(restore.length);
    const auto count = std::size_t(restore.length);
    if (restore.state.size() != sizeof(std::uint64_t) || restore.rows.size() != count * sizeof(TokenId))
        return Error{ErrorCode::FormatInvalid, "a fake image of another size"};
    Sequence sequence;
    sequence.states.resize(count); // only the last one leads on
    sequence.tokens.resize(count);
    std::memcpy(&sequence.states.back(), restore.state.data(), restore.state.size());
    sequence.maxTokens = restore.length;
    sequence.ownBytes = sequenceBytes(restore.length);
    OCTAVO_TRY(restore.slot, add(std::move(sequence)));
    return {};
}

Result<void> FakeBackend::continueRestore(SequenceRestore& restore, std::int64_t atMost)
{
    if (m_device->onCall)
        m_device->onCall("restore");
    OCTAVO_CHECK(maybeFail("continueRestore"));
    Sequence* sequence = find(restore.slot);
    if (!sequence)
        return Error{ErrorCode::InvalidArgument, "no such sequence"};
    const std::int64_t count = std::min(std::int64_t(restore.rows.size()) - restore.copied, atMost);
    std::memcpy(reinterpret_cast<std::byte*>(sequence->tokens.data()) + restore.copied,
                restore.rows.data() + restore.copied, std::size_t(count));
    restore.copied += count;
    if (restore.isWhole()) {
        for (TokenId& row : sequence->tokens)
            row ^= layoutOf(restore.length);
    }
    return {};
}

FakeBackend::Sequence* FakeBackend::find(SlotId slot)
{
    const auto found = m_sequences.find(slot);
    if (found == m_sequences.end()) {
        ++m_device->misuses;
        return nullptr;
    }
    return &found->second;
}

Result<void> FakeBackend::maybeFail(const char* call)
{
    int left = m_device->failAt.load();
    if (left <= 0 || (m_device->failAt = left - 1) > 0)
        return {};
    if (m_device->throws)
        throw std::bad_alloc();
    return Error{m_device->fault, std::string("injected fault in ") + call};
}

void FakeBackend::append(Sequence& sequence, TokenId id, bool wasRead, bool isAligned)
{
    const std::uint64_t state = sequence.states.empty() ? 0 : sequence.states.back();
    sequence.tokens.push_back(id);
    sequence.states.push_back(nextState(state, id, wasRead, isAligned));
}

void FakeBackend::fillLogits(const Sequence& sequence, std::span<float> logits) const
{
    const std::uint64_t state = sequence.states.back();
    for (std::size_t i = 0; i < logits.size(); ++i)
        logits[i] = float(mix(state, 1000 + i) % 4096) / 1024.0f; // 0 .. 4
    TokenId top = favourite(state);
    if (m_device->script) {
        if (const auto scripted = m_device->script(sequence.tokens))
            top = *scripted;
    }
    logits[std::size_t(top)] = 6.0f;
}

void FakeBackend::spend(std::int64_t us)
{
    m_device->nowUs += us;
    if (m_device->sleeps && us > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(us));
}

std::vector<TokenId> fakeAnswer(std::span<const TokenId> prompt, int count)
{
    std::uint64_t state = 0;
    for (const TokenId id : prompt)
        state = nextState(state, id, true, true);
    std::vector<TokenId> answer;
    for (int i = 0; i < count; ++i) {
        answer.push_back(favourite(state));
        state = nextState(state, answer.back(), false, true);
    }
    return answer;
}

} // namespace octavo::test
