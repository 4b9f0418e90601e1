/// Who may start, and the memory for it: what the Scheduler reserves, refuses and gives up.

#include "engine/scheduler/scheduler.h"

#include "engine/backend/guarded.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace octavo::engine {
namespace {

std::string mebibytes(std::int64_t bytes)
{
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

} // namespace

void Scheduler::admit()
{
    if (!std::exchange(m_admissionDue, false))
        return;
    std::vector<Task*> queued;
    for (const auto& task : m_tasks) {
        if (task->state == Task::State::Queued && !task->ended)
            queued.push_back(task.get());
    }
    std::ranges::stable_sort(queued, [](const Task* a, const Task* b) {
        return std::pair(a->isIdleWork(), a->request.priority) < std::pair(b->isIdleWork(), b->request.priority);
    });
    auto running =
        std::ranges::count_if(m_tasks, [&](const auto& task) { return isRunning(*task) && !task->isIdleWork(); });
    for (Task* task : queued) {
        if (running >= m_options.maxSequences || m_failure)
            break;
        if (!task->ended && !agentIsBusy(*task) && admitTask(*task))
            ++running;
    }
    removeEnded();
}

bool Scheduler::agentIsBusy(const Task& task) const
{
    for (const auto& other : m_tasks) {
        if (other.get() == &task)
            return false; // only those that came before count
        if (other->request.agent == task.request.agent && !other->ended && !other->isIdleWork())
            return true;
    }
    return false;
}

bool Scheduler::someoneRuns(const Task* except) const
{
    return std::ranges::any_of(m_tasks, [&](const auto& task) { return task.get() != except && isRunning(*task); });
}

/// True when the task runs now.
bool Scheduler::admitTask(Task& task)
{
    if (task.isIdleWork() && someoneRuns(&task))
        return false;
    // The last token is read in any case: its logits begin the answer.
    const std::int64_t reusable = task.request.maxNewTokens > 0 ? task.promptTokens() - 1 : task.readTarget;
    const PrefixCache::Hit hit = m_options.reusePrefixes ? m_cache.longest(*task.prompt, reusable) : PrefixCache::Hit{};
    if (task.isIdleWork() && hit.length < task.idleFrom) {
        end(task);
        return false;
    }
    task.waitingFor = m_options.reusePrefixes ? readerWorthWaitingFor(task, hit.length) : nullptr;
    if (task.waitingFor)
        return false;
    if (waitsForSaved(task, hit, reusable))
        return false;

    task.startedUs = m_options.nowUs();
    task.stats.queuedMs = double(task.startedUs - task.submittedUs) / 1e3;
    if (hit.length >= task.readTarget) { // read already, and nothing to write
        task.stats.reusedTokens = task.done = hit.length;
        finish(task, FinishReason::Length);
        return false;
    }
    const std::int64_t tokens =
        std::min(m_options.contextLimit, task.promptTokens() + std::int64_t(task.request.maxNewTokens));
    if (!task.isIdleWork()) // before anything is prepared: a device prepares nothing that has no room
        makeRoomInBudget(bytesNeeded(hit, tokens), hit.slot);
    if (!isPrepared(tokens - hit.length)) {
        m_admissionDue = true; // goes on in the next round
        return false;
    }
    auto slot = reserve(task, hit, tokens);
    if (!slot) {
        if (slot.error().code == ErrorCode::DeviceFailure)
            deviceFailed(slot.error());
        else if (!isOutOfMemory(slot.error()) ||
                 !(someoneRuns(&task) || m_reopening || (m_store && m_store->holdsImages())))
            fail(task, slot.error());
        return false; // what runs or is saved will end and free its memory
    }
    task.slot = *slot;
    task.done = hit.length;
    task.stats.reusedTokens = hit.length;
    task.state = Task::State::Reading;
    task.lastTurnUs = task.startedUs;
    planCheckpoints(task, hit.length);
    if (!task.isIdleWork()) {
        AgentMetrics& metrics = record(task.request.agent).metrics;
        metrics.state = SequenceState::Reading;
        metrics.contextTokens = metrics.readDone = hit.length;
        metrics.readTotal = task.readTarget;
        metrics.worstGapMs = metrics.ttftMs = -1.0;
        send(task, PrefillProgress{hit.length, task.promptTokens(), hit.length});
    }
    return true;
}

const Task* Scheduler::readerWorthWaitingFor(const Task& task, std::int64_t held)
{
    Task* best = nullptr;
    std::int64_t most = held + worthWaiting - 1;
    for (const auto& reader : m_tasks) {
        if (reader.get() == &task || reader->ended || reader->state != Task::State::Reading)
            continue;
        const std::int64_t limit = std::min(task.promptTokens() - 1, reader->readTarget);
        const std::int64_t shared = roundDownToStride(std::min(commonPrefix(*task.prompt, *reader->prompt), limit));
        if (shared > reader->done && shared > most) {
            best = reader.get();
            most = shared;
        }
    }
    if (best)
        best->checkpoints.try_emplace(most, PrefixCache::Kind::Passage);
    return best;
}

/// The memory of a long context can take a second to come (page-locked RAM). Beside writers it is made ready a part a
/// round. True when it is, or failed to: reserve() then says why.
bool Scheduler::isPrepared(std::int64_t newTokens)
{
    const bool someoneWrites = std::ranges::any_of(
        m_tasks, [](const auto& task) { return task->state == Task::State::Writing && !task->ended; });
    if (!someoneWrites)
        return true;
    const auto done = guarded("room was prepared for a context",
                              [&]() -> Result<bool> { return m_backend.prepareSequence(newTokens, m_partsToPrepare); });
    if (done && !*done)
        m_partsToPrepare = 0; // that was this round's
    return !done || *done;
}

/// Of a sequence of `tokens` that begins with what was found.
std::int64_t Scheduler::bytesNeeded(const PrefixCache::Hit& hit, std::int64_t tokens) const
{
    const std::int64_t shared =
        hit.length > 0 ? m_backend.sequenceBytes(hit.length) - m_backend.sequenceBytes(0) : 0;
    return std::max<std::int64_t>(m_backend.sequenceBytes(tokens) - shared, 0);
}

/// At the cost of what is idle, but for `keep`. False: there is none.
bool Scheduler::makeRoomInBudget(std::int64_t bytes, SlotId keep)
{
    while (!fitsBudget(bytes)) {
        if (!(giveUpOne(keep) || (m_store && m_store->giveUpOne())))
            return false;
    }
    return true;
}

bool Scheduler::fitsBudget(std::int64_t bytes) const
{
    const std::int64_t limit = m_options.memoryBudgetBytes;
    return limit <= 0 || sequenceMemoryUsed() + bytes <= limit;
}

Result<SlotId> Scheduler::reserve(const Task& task, const PrefixCache::Hit& hit, std::int64_t tokens)
{
    const std::int64_t needed = bytesNeeded(hit, tokens);
    const auto refuse = [&](Error refusal) {
        spdlog::debug("request {} does not fit now: {}", std::uint64_t(task.request.id), refusal.message);
        return refusal;
    };
    // Idle work takes from nobody. Asked again after admitTask(): what was prepared since then is used as well.
    if (!(task.isIdleWork() ? fitsBudget(needed) : makeRoomInBudget(needed, hit.slot)))
        return refuse({ErrorCode::OutOfMemory, "a context of " + std::to_string(tokens) +
                                                   " tokens does not fit: used " + mebibytes(sequenceMemoryUsed()) +
                                                   ", limit " + mebibytes(m_options.memoryBudgetBytes) + ", needed " +
                                                   mebibytes(needed) +
                                                   "; close other agents' contexts or ask about fewer files"});
    for (;;) {
        auto slot = guarded("room was made for a context", [&] {
            return hit.length > 0 ? m_backend.forkSequence(hit.slot, tokens) : m_backend.createSequence(tokens);
        });
        if (slot || !isOutOfMemory(slot.error()))
            return slot;
        if (task.isIdleWork() || !(giveUpOne(hit.slot) || (m_store && m_store->giveUpOne())))
            return refuse(slot.error());
    }
}

std::int64_t Scheduler::sequenceMemoryUsed() const
{
    return std::max<std::int64_t>(m_backend.stats().memoryUsedBytes - m_weightBytes, 0);
}

/// Frees what can be done without: what drafts take, else work that nobody waits for, else the frozen sequence other
/// than `keep` that was used longest ago. Those that run for someone are never taken from. False when there is nothing.
bool Scheduler::giveUpOne(SlotId keep)
{
    if (m_backend.giveUpDrafts())
        return true;
    for (const auto& task : m_tasks) {
        const bool isWaitedFor = std::ranges::any_of(
            m_tasks, [&](const auto& other) { return other->waitingFor == task.get() && !other->ended; });
        if (task->isIdleWork() && isRunning(*task) && !isWaitedFor) {
            end(*task);
            return true;
        }
    }
    return m_cache.evictOne(keep);
}

} // namespace octavo::engine
