/// The memory of a CpuBackend: what sequences reserve, what they take and share, and the budget for all of it.

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cpu_image.h"
#include "engine/backend/cpu_text.h"
#include "engine/backend/sequence_refusal.h"
#include "engine/scheduler/memory_budget.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

namespace
{

/// So many rows wait for MTP's keys and values at most: drafts may never be wanted, and together they cost less.
constexpr std::int64_t mostUnfilled = 128;

} // namespace

std::int64_t CpuBackend::sequenceBytes(std::int64_t tokens) const
{
    return m_sparse.mostPages(0, tokens) * m_pages.shape().pageBytes() +
           m_recurrent.totalFloats() * std::int64_t(sizeof(float)) + m_sparse.sequenceBytes(tokens);
}

Result<SlotId> CpuBackend::addSequence(std::int64_t maxTokens, const CpuSequence* source)
{
    const std::int64_t held = source ? source->length : 0;
    const std::int64_t least = source ? held : 1;
    if (maxTokens < least || maxTokens > m_model.config.maxPositions)
        return sequenceRefusal(maxTokens, held, m_model.config.maxPositions);
    // Whole pages that the source holds are shared, not taken again; a page that has begun will be copied, and the
    // newest one for MTP's last row.
    std::int64_t bytes = sequenceBytes(maxTokens);
    if (source) {
        const int whole = source->kv.heldPages() - (held % cpu::pageTokens > 0 || (hasMtp() && held > 0) ? 1 : 0);
        bytes = pagesToTake(held, maxTokens, whole) * m_pages.shape().pageBytes() +
                m_recurrent.totalFloats() * std::int64_t(sizeof(float));
        if (maxTokens > held)
            bytes += m_sparse.sequenceBytes(maxTokens) - m_sparse.sharedBytes(*source);
    }
    const std::int64_t budget = this->budget();
    if (bytes > budget - m_reservedBytes)
        return Error{ErrorCode::OutOfMemory, "A sequence of " + std::to_string(maxTokens) + " tokens needs " +
                                                 mib(bytes) + ", but of " + mib(budget) + " for sequences only " +
                                                 mib(budget - m_reservedBytes) + " are free"};
    try {
        auto sequence = std::make_unique<CpuSequence>(m_pages, m_recurrent, maxTokens);
        if (sequence->recurrentPages->empty() && m_recurrent.totalFloats() > 0)
            return Error{ErrorCode::OutOfMemory, "A sequence of " + std::to_string(maxTokens) + " tokens needs " +
                                                     mib(bytes) + ", which could not be had"};
        if (source) {
            sequence->length = held;
            sequence->kv.shareFrom(source->kv, held);
            std::copy_n(source->recurrent(), m_recurrent.totalFloats(), sequence->recurrent());
            OCTAVO_CHECK(m_sparse.fork(*source, *sequence));
        }
        const SlotId slot{m_nextSlot};
        m_sequences.emplace(slot, std::move(sequence));
        ++m_nextSlot;
        countTier();
        countMemory();
        return slot;
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, "A sequence of " + std::to_string(maxTokens) + " tokens needs " +
                                                 mib(bytes) + ", which could not be had"};
    }
}

/// Of all sequences and images together.
std::int64_t CpuBackend::budget() const
{
    if (m_budget > 0)
        return m_budget;
    const auto memory = availableMemory();
    return memory ? m_reservedBytes + memory->freeBytes : std::numeric_limits<std::int64_t>::max();
}

std::int64_t CpuBackend::pagesToTake(std::int64_t length, std::int64_t maxTokens, std::int64_t held) const
{
    return maxTokens <= length ? 0 : std::max<std::int64_t>(0, m_sparse.mostPages(length, maxTokens) - held);
}

/// Pages in use count once, whoever shares them and whoever took them first; so do states. On top comes what sequences
/// may still take.
void CpuBackend::countMemory()
{
    const std::int64_t inUse = m_pages.pagesInUse();
    std::int64_t reserved = inUse, copies = m_spareStates ? std::int64_t(m_spareStates->bytes()) : 0;
    m_states.clear();
    for (const auto& [slot, sequence] : m_sequences) {
        reserved += pagesToTake(sequence->length, sequence->maxTokens, sequence->kv.heldPages());
        copies += std::int64_t(sequence->pending.bytes() + (sequence->verified ? sequence->verified->bytes() : 0));
        m_states.push_back(sequence->recurrentPages.get());
    }
    for (const auto& weak : m_images) {
        if (const auto image = weak.lock()) {
            copies += image->copiedBytes();
            m_states.push_back(image->recurrent.get());
        }
    }
    std::ranges::sort(m_states);
    const std::int64_t states = std::ranges::unique(m_states).begin() - m_states.begin();
    m_kvBytes = inUse * m_pages.shape().pageBytes();
    m_reservedBytes = reserved * m_pages.shape().pageBytes() +
                      states * m_recurrent.totalFloats() * std::int64_t(sizeof(float)) + m_tierBytes + copies;
}

void CpuBackend::countTier()
{
    m_tierBytes = 0;
    std::int64_t held = 0;
    for (const auto& [slot, sequence] : m_sequences) {
        m_tierBytes += m_sparse.reservedBytes(*sequence);
        held += sequence->sparse ? sequence->sparse->tier().ownedBytes() : 0;
    }
    for (const auto& weak : m_images) {
        const auto image = weak.lock();
        const std::int64_t own = image && image->tier ? image->tier->ownedBytes() : 0;
        m_tierBytes += own;
        held += own;
    }
    m_tierHeldBytes = held;
}

Result<void> CpuBackend::makeRoom(CpuSequence& sequence, std::int64_t tokens)
{
    // MTP's rows end before the newest position's.
    const std::int64_t behind = hasMtp() && sequence.length > 0 ? 1 + sequence.unfilled() : 0;
    const bool done = sequence.kv.prepare(sequence.length - behind, tokens + behind);
    countMemory();
    if (!done)
        return Error{ErrorCode::OutOfMemory, "No memory was left for the keys and values of " +
                                                 std::to_string(tokens) + " more tokens (" +
                                                 std::to_string(sequence.length) + " are held)"};
    return {};
}

Result<void> CpuBackend::prepareRows(CpuSequence& sequence, std::int64_t count)
{
    const bool had = bool(sequence.sparse);
    OCTAVO_CHECK(m_sparse.prepareRows(sequence, count, m_forward.parallel()));
    if (!had && sequence.sparse)
        countTier();
    return {};
}

Result<void> CpuBackend::reserveStep(SlotId slot, int rows)
{
    OCTAVO_TRY(CpuSequence * sequence, find(slot));
    return makeReady(*sequence, std::size_t(std::max(rows, 1)));
}

/// All that a step of `rows` rows takes; nothing the second time.
Result<void> CpuBackend::makeReady(CpuSequence& sequence, std::size_t rows)
{
    OCTAVO_CHECK(prepareRows(sequence, std::int64_t(rows)));
    OCTAVO_CHECK(makeRoom(sequence, std::int64_t(rows)));
    if (sequence.unfilled() >= mostUnfilled)
        OCTAVO_CHECK(fillMtp(sequence));
    return makeReadyForDrafts(sequence, int(rows));
}

CpuBackend::DraftNeeds CpuBackend::draftNeeds(const CpuSequence& sequence, int rows) const
{
    constexpr int rowsTogether = 4; // so that few steps ask for more
    DraftNeeds needs;
    if (rows < 2)
        return needs;
    const std::int64_t held = std::int64_t(sequence.pending.bytes());
    const std::int64_t pending = std::int64_t((rows + rowsTogether - 1) / rowsTogether * rowsTogether) *
                                 m_recurrent.layers * m_recurrent.pendingFloats() * std::int64_t(sizeof(float));
    needs.pendingBytes = pending > held ? pending : 0;
    needs.states = !sequence.verified;
    needs.newBytes = (needs.pendingBytes > 0 ? pending - held : 0) +
                     (needs.states && !m_spareStates ? std::int64_t(sequence.recurrentPages->bytes()) : 0);
    return needs;
}

std::int64_t CpuBackend::stepBytes(SlotId slot, int rows) const
{
    const auto it = m_sequences.find(slot);
    return it == m_sequences.end() ? 0 : draftNeeds(*it->second, rows).newBytes;
}

Result<void> CpuBackend::makeReadyForDrafts(CpuSequence& sequence, int rows)
{
    const DraftNeeds needs = draftNeeds(sequence, rows);
    if (needs.pendingBytes == 0 && !needs.states)
        return {};
    const auto refusal = [&](const std::string& why) {
        return Error{ErrorCode::OutOfMemory, "The states of " + std::to_string(rows) + " drafted rows need " +
                                                 mib(needs.newBytes) + ", " + why};
    };
    if (const std::int64_t budget = this->budget(); needs.newBytes > budget - m_reservedBytes)
        return refusal("but of " + mib(budget) + " for sequences only " + mib(budget - m_reservedBytes) + " are free");
    if (needs.pendingBytes > 0) {
        sequence.pending = {}; // nothing waits in it: its place is the larger one's
        sequence.pending = BigPages(std::size_t(needs.pendingBytes));
    }
    const std::size_t stateBytes = sequence.recurrentPages->bytes();
    if (needs.states)
        sequence.verified =
            m_spareStates ? std::exchange(m_spareStates, nullptr) : std::make_shared<BigPages>(stateBytes);
    const bool had = (needs.pendingBytes == 0 || !sequence.pending.empty()) &&
                     (stateBytes == 0 || !sequence.verified->empty());
    if (!had)
        sequence.verified = nullptr;
    countMemory();
    return had ? Result<void>() : refusal("which could not be had");
}

bool CpuBackend::giveUpDrafts()
{
    bool any = bool(std::exchange(m_spareStates, nullptr));
    for (const auto& [slot, sequence] : m_sequences) {
        if (sequence->pendingRows > 0 || (!sequence->verified && sequence->pending.empty()))
            continue;
        sequence->verified = nullptr;
        sequence->pending = {};
        any = true;
    }
    if (any)
        countMemory();
    return any;
}

} // namespace octavo::engine
