/// The reading half of the Scheduler: whose prompt gets the next slice, and how far it goes.

#include "engine/scheduler/scheduler.h"

#include "engine/backend/guarded.h"
#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <tuple>

namespace octavo::engine {
namespace {

constexpr std::int64_t shortRead = 2048;         // a question after its context, not a context
constexpr std::int64_t passedOverUs = 2'000'000; // after this long any reader gets a slice

} // namespace

Task* Scheduler::pickReader()
{
    const std::int64_t now = m_options.nowUs();
    Task* best = nullptr;
    auto key = [&](const Task& task) {
        int priority = task.request.priority;
        bool idleWork = task.isIdleWork();
        for (const auto& other : m_tasks) { // who is waited for is as urgent as who waits
            if (other->waitingFor == &task && !other->ended) {
                priority = idleWork ? other->request.priority : std::min(priority, other->request.priority);
                idleWork = false;
            }
        }
        const bool passedOver = !idleWork && now - task.lastTurnUs > passedOverUs;
        return std::tuple(!passedOver, idleWork, task.leftToRead() > shortRead, priority, task.lastTurnUs);
    };
    for (const auto& task : m_tasks) {
        if (task->state == Task::State::Reading && !task->ended && (!best || key(*task) < key(*best)))
            best = task.get();
    }
    if (best && std::get<1>(key(*best)) && someoneRuns(best))
        return nullptr;
    return best;
}

void Scheduler::readSlice(Task& task)
{
    const bool besideWriters = std::ranges::any_of(
        m_tasks, [](const auto& other) { return other->state == Task::State::Writing && !other->ended; });
    const bool isShort = task.leftToRead() <= shortRead;
    std::int64_t stop = task.readTarget;
    if (!task.checkpoints.empty())
        stop = std::min(stop, task.checkpoints.begin()->first);
    const int tokens = m_planner.sliceFor(stop - task.done, besideWriters);
    const bool isLast = task.done + tokens == task.readTarget && task.request.maxNewTokens > 0;
    const auto vocab = std::size_t(m_backend.config().vocabSize);
    if (isLast && m_logits.size() < vocab)
        m_logits.resize(vocab);
    const std::span<float> logits(m_logits.data(), isLast ? vocab : 0);

    const std::int64_t start = m_options.nowUs();
    const auto slice = std::span(*task.prompt).subspan(std::size_t(task.done), std::size_t(tokens));
    const auto read = guarded("the prompt was read", [&] { return m_backend.prefill(task.slot, slice, logits); });
    const std::int64_t now = m_options.nowUs();
    if (!read) {
        if (read.error().code == ErrorCode::DeviceFailure)
            deviceFailed(read.error());
        else
            fail(task, read.error());
        return;
    }
    m_planner.recordSlice(tokens, now - start, besideWriters, isShort);
    m_work.add({WorkSpan::Kind::Prefill, agentBit(task.request.agent), start, std::int32_t(now - start), tokens});
    m_prefillRate.add(now, tokens);
    task.done += tokens;
    task.lastTurnUs = now;
    task.stats.prefillMs += double(now - start) / 1e3;

    if (!task.isIdleWork()) {
        AgentRecord& agent = record(task.request.agent);
        agent.prefill.add(now, tokens);
        agent.metrics.readDone = agent.metrics.contextTokens = task.done;
        send(task, PrefillProgress{task.done, task.promptTokens(), task.stats.reusedTokens});
    }
    if (const auto checkpoint = task.checkpoints.find(task.done); checkpoint != task.checkpoints.end()) {
        const PrefixCache::Kind kind = checkpoint->second;
        task.checkpoints.erase(checkpoint);
        leaveCheckpoint(task, kind);
        if (kind == PrefixCache::Kind::Passage)
            saveOnTheWay(task);
    }
    if (m_failure || task.done < task.readTarget)
        return;
    if (task.request.maxNewTokens > 0)
        startWriting(task, logits);
    else
        finish(task, FinishReason::Length);
}

void Scheduler::startWriting(Task& task, std::span<const float> logits)
{
    task.state = Task::State::Writing;
    record(task.request.agent).metrics.state = SequenceState::Writing;
    if (task.request.drafts)
        task.lookup = std::make_unique<PromptLookup>(*task.prompt);
    takeRows(task, 1, [&](int) { return task.sampler.sample(logits, m_options.tokenizer->endId()); });
}

} // namespace octavo::engine
