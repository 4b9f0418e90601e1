/// How the Scheduler opens what is saved: beside those who write and read, and only as long as somebody waits for it.

#include "engine/backend/guarded.h"
#include "engine/scheduler/scheduler.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace octavo::engine {

/// Whether so much more of the prompt is saved than held that the task waits for it to be opened.
bool Scheduler::waitsForSaved(Task& task, const PrefixCache::Hit& held, std::int64_t limit)
{
    if (!m_store || !m_options.reusePrefixes || task.readsAfresh || task.isIdleWork())
        return false;
    auto saved = m_store->longest(*task.prompt, limit);
    if (!saved || saved->length < held.length + worthWaiting)
        return false;
    if (!m_reopening && m_store->beginOpening(*saved, task.prompt))
        m_reopening = Reopening{&task, *std::move(saved), std::nullopt, {}};
    return m_reopening.has_value();
}

/// One part of it.
void Scheduler::goOnReopening()
{
    if (!m_reopening)
        return;
    Reopening& reopening = *m_reopening;
    if (!reopening.opened) {
        auto opened = m_store->takeOpened();
        if (!opened)
            return;
        if (!*opened)
            return endReopening(opened->error());
        reopening.opened = **std::move(opened);
    }
    if (reopening.restore.slot == noSlot) {
        const std::int64_t length = reopening.saved.length; // room first, as for what is admitted
        makeRoomInBudget(m_backend.sequenceBytes(length), m_cache.longest(*reopening.task->prompt, length).slot);
        if (!isPrepared(length))
            return;
        if (const auto begun = beginRestoring(); !begun)
            endReopening(begun.error());
        return;
    }
    const auto copied = guarded("a saved context was opened", [&] {
        return m_backend.continueRestore(reopening.restore, m_options.restoreSlice);
    });
    if (!copied)
        return endReopening(copied.error());
    if (!reopening.restore.isWhole())
        return;
    using Kind = PrefixCache::Kind;
    const ContextStore::Hit& saved = reopening.saved;
    m_cache.insert(reopening.restore.slot, reopening.opened->tokens, saved.length,
                   saved.isWhole ? Kind::Context : Kind::Passage, reopening.task->request.agent);
    reopening.restore.slot = noSlot; // the cache's from here on
    dropReopening();
}

/// Room first, at the cost of what is idle; what the task could begin with otherwise stays.
Result<void> Scheduler::beginRestoring()
{
    Reopening& reopening = *m_reopening;
    const std::int64_t length = reopening.saved.length, budget = m_options.memoryBudgetBytes;
    const SlotId held = m_cache.longest(*reopening.task->prompt, length).slot;
    const auto begin = [&]() -> Result<void> {
        if (budget > 0 && sequenceMemoryUsed() + m_backend.sequenceBytes(length) > budget)
            return Error{ErrorCode::OutOfMemory, reopening.saved.file.string() + ": there is no room to open it"};
        reopening.restore = {length, reopening.opened->image.state, reopening.opened->image.rows};
        return guarded("a saved context was opened", [&] { return m_backend.beginRestore(reopening.restore); });
    };
    auto begun = begin();
    while (!begun && isOutOfMemory(begun.error()) && (giveUpOne(held) || m_store->giveUpOne()))
        begun = begin();
    return begun;
}

/// It could not be opened: who waits reads its prompt.
void Scheduler::endReopening(const Error& error)
{
    m_reopening->task->readsAfresh = true;
    spdlog::warn("a saved context of {} tokens cannot be used: {}", m_reopening->saved.length, error.message);
    if (error.code == ErrorCode::DeviceFailure)
        deviceFailed(error);
    else
        dropReopening();
}

void Scheduler::dropReopening()
{
    if (!m_reopening)
        return;
    if (m_reopening->restore.slot != noSlot && !m_failure)
        m_backend.destroySequence(m_reopening->restore.slot);
    m_store->dropOpening();
    m_reopening.reset();
    m_admissionDue = true;
}

} // namespace octavo::engine
