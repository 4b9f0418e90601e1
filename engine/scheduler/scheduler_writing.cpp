/// The writing half of the Scheduler: batched steps, drafts, tokens to text, and how requests end.

#include "engine/scheduler/scheduler.h"

#include "engine/backend/guarded.h"
#include "engine/tokenizer/tokenizer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace octavo::engine {
namespace {

Error undeliveredError()
{
    return {ErrorCode::OutOfMemory,
            "part of the answer could not be passed on, most likely for want of memory; ask again"};
}

} // namespace

std::vector<Task*> Scheduler::pickWriters()
{
    std::vector<Task*> writers;
    for (const auto& task : m_tasks) {
        if (task->state == Task::State::Writing && !task->ended)
            writers.push_back(task.get());
    }
    const auto most = std::size_t(m_backend.maxStepRows());
    if (writers.size() > most) { // take turns
        std::ranges::stable_sort(writers, {}, &Task::lastTurnUs);
        writers.resize(most);
    }
    return writers;
}

/// Its drafts are not checked, so neither right nor wrong; none are made for a while.
void Scheduler::dropDrafts(Task& task)
{
    constexpr std::int64_t restUs = 500'000;
    task.draft.tokens.clear();
    task.chain = {};
    task.usesMtp = false;
    task.passes = 0;
    task.draftsFromUs = m_options.nowUs() + restUs;
}

/// Finds room for the row of each writer by itself: for that, drafts and frozen sequences are given up, and one that
/// finds none ends alone. Drafts get what is left.
void Scheduler::makeReady(std::vector<Task*>& writers)
{
    const auto reserved = [&](const Task& task, int rows) {
        return guarded("an answer was written", [&] { return m_backend.reserveStep(task.slot, rows); });
    };
    std::erase_if(writers, [&](Task* task) {
        while (!m_failure) {
            const auto ready = reserved(*task, 1);
            if (ready)
                return false;
            if (ready.error().code == ErrorCode::DeviceFailure) {
                deviceFailed(ready.error());
            } else if (!isOutOfMemory(ready.error()) || !(giveUpOne() || (m_store && m_store->giveUpOne()))) {
                fail(*task, ready.error());
                return true;
            }
        }
        return true;
    });
    const std::int64_t limit = m_options.memoryBudgetBytes;
    for (Task* task : writers) {
        const int rows = 1 + int(task->draft.tokens.size());
        if (m_failure || rows == 1)
            continue;
        const std::int64_t more = limit > 0 ? m_backend.stepBytes(task->slot, rows) : 0;
        if (more > 0 && sequenceMemoryUsed() + more > limit) {
            dropDrafts(*task);
            continue;
        }
        const auto ready = reserved(*task, rows);
        if (ready)
            continue;
        if (ready.error().code == ErrorCode::DeviceFailure)
            deviceFailed(ready.error());
        else if (isOutOfMemory(ready.error()))
            dropDrafts(*task);
        else
            fail(*task, ready.error());
    }
    std::erase_if(writers, [](const Task* task) { return task->ended; });
}

void Scheduler::writeStep(std::vector<Task*> writers)
{
    const std::int64_t begin = m_options.nowUs();
    planDrafts(writers);
    if (!m_failure)
        makeReady(writers);
    if (m_failure || writers.empty())
        return;
    std::vector<StepEntry> entries;
    std::vector<std::vector<TokenId>> rowsOf;
    rowsOf.reserve(writers.size());
    int rows = 0;
    std::uint32_t agents = 0;
    for (Task* task : writers) {
        std::vector<TokenId>& tokens = rowsOf.emplace_back();
        tokens.reserve(task->draft.tokens.size() + 1);
        tokens.push_back(task->next);
        tokens.insert(tokens.end(), task->draft.tokens.begin(), task->draft.tokens.end());
        entries.push_back({task->slot, tokens});
        rows += int(tokens.size());
        agents |= agentBit(task->request.agent);
    }
    // Where all are greedy, a device that can pick their tokens keeps its logits.
    const bool best = m_backend.picksBest() &&
                      std::ranges::all_of(writers, [](const Task* task) { return task->request.sampling.greedy(); });
    const auto vocab = std::size_t(m_backend.config().vocabSize);
    if (best)
        m_best.resize(std::size_t(rows));
    else if (m_logits.size() < std::size_t(rows) * vocab)
        m_logits.resize(std::size_t(rows) * vocab);

    const std::int64_t start = m_options.nowUs();
    const auto stepped = guarded("answers were written", [&] {
        return best ? m_backend.stepBest(entries, m_options.tokenizer->endId(), m_best)
                    : m_backend.step(entries, std::span(m_logits).first(std::size_t(rows) * vocab));
    });
    const std::int64_t now = m_options.nowUs();
    if (!stepped) {
        if (stepped.error().code == ErrorCode::DeviceFailure) {
            deviceFailed(stepped.error());
        } else {
            for (Task* task : writers)
                fail(*task, stepped.error());
        }
        return;
    }
    m_planner.recordStep(now - begin);
    const bool verifies = rows > int(writers.size());
    m_work.add({verifies ? WorkSpan::Kind::Verify : WorkSpan::Kind::Decode, agents, begin, std::int32_t(now - begin),
                rows});
    std::size_t row = 0;
    m_commitUs = 0;
    for (std::size_t i = 0; i < writers.size(); ++i) {
        Task& task = *writers[i];
        task.lastTurnUs = now;
        const std::size_t count = rowsOf[i].size();
        takeRows(task, int(count), [&](int inTask) -> std::optional<TokenId> {
            const std::size_t at = row + std::size_t(inTask);
            if (!best)
                return task.sampler.sample(std::span(m_logits).subspan(at * vocab, vocab),
                                           m_options.tokenizer->endId());
            return m_best[at] < 0 ? std::nullopt : std::optional(m_best[at]);
        });
        row += count;
        if (m_failure)
            return;
    }
    m_stepCost.record(rows, now - start + m_commitUs);
}

/// Row i holds what may follow the token before and i drafts. Drawing from it and comparing with the next draft is the
/// rejection rule for a draft that is certain of itself: a draft is kept with its probability, and what is drawn
/// instead has the distribution without it. The draws are those of a run without drafts, so the answer is too.
void Scheduler::takeRows(Task& task, int rows, const std::function<std::optional<TokenId>(int row)>& draw)
{
    const std::vector<TokenId> draft = std::move(task.draft.tokens);
    int kept = 0;
    bool goesOn = true;
    for (; kept < rows && goesOn; ++kept) {
        if (kept > 0) // the row before drew this one's draft
            ++task.stats.acceptedDrafts;
        const auto id = draw(kept);
        if (!id) {
            fail(task, {ErrorCode::DeviceFailure, "the model gave no finite score for any token at position "
                                                      + std::to_string(task.positions())
                                                      + "; the checkpoint is damaged or the device miscounts"});
            return;
        }
        const bool wasDrafted = kept + 1 < rows && draft[std::size_t(kept)] == *id;
        goesOn = takeToken(task, *id) && wasDrafted;
    }
    const int accepted = kept - 1;
    recordDrafts(task, rows, accepted, kept < rows && !task.ended);
    if (task.ended)
        return;
    if (rows > 1) {
        const std::int64_t start = m_options.nowUs();
        const auto committed = guarded("drafts were checked", [&] { return m_backend.commit(task.slot, kept); });
        m_commitUs += m_options.nowUs() - start;
        if (!committed) {
            if (committed.error().code == ErrorCode::DeviceFailure)
                deviceFailed(committed.error());
            else
                fail(task, committed.error());
            return;
        }
    }
    sendText(task, task.answer.takeText());
}

bool Scheduler::takeToken(Task& task, TokenId id)
{
    const std::int64_t now = m_options.nowUs();
    AgentRecord& agent = record(task.request.agent);
    if (task.firstTokenUs == 0) {
        task.firstTokenUs = now;
        task.stats.ttftMs = double(now - task.submittedUs) / 1e3;
        agent.metrics.ttftMs = task.stats.ttftMs;
        agent.metrics.worstGapMs = 0.0;
    } else {
        task.stats.worstGapMs = std::max(task.stats.worstGapMs, double(now - task.lastTokenUs) / 1e3);
        agent.metrics.worstGapMs = task.stats.worstGapMs;
    }
    task.lastTokenUs = now;
    if (std::ranges::find(m_options.stopIds, id) != m_options.stopIds.end()) {
        finish(task, FinishReason::Stop);
        return false;
    }
    ++task.stats.newTokens;
    ++agent.metrics.totalDecodeTokens;
    agent.decode.add(now, 1);
    m_decodeRate.add(now, 1);
    const bool stopped = task.answer.append(id);
    agent.metrics.contextTokens = task.positions();
    if (stopped)
        finish(task, FinishReason::Stop);
    else if (task.stats.newTokens >= task.request.maxNewTokens)
        finish(task, FinishReason::Length);
    else if (task.positions() >= m_options.contextLimit)
        finish(task, FinishReason::ContextFull);
    else if (task.request.endsLoops && task.request.sampling.greedy()
             && task.loopWatch.loops(task.answer.tokens(), *task.prompt))
        finish(task, FinishReason::Repeats);
    else {
        task.next = id;
        if (task.lookup)
            task.lookup->append(id);
        return true;
    }
    return false;
}

// --- Ends ------------------------------------------------------------------------------------------------------------

/// What a sink throws is its own request's affair: what else runs goes on.
void Scheduler::send(Task& task, Event&& event) const
{
    if (!task.sink)
        return;
    try {
        task.sink(task.request.id, std::move(event));
    } catch (const std::exception& thrown) {
        task.undelivered = true;
        spdlog::warn("request {}: what it had to be told was not taken: {}", std::uint64_t(task.request.id),
                     thrown.what());
    }
}

void Scheduler::sendText(Task& task, Answer::Piece&& piece) const
{
    if (!piece.isEmpty() && !task.undelivered) // no text behind a hole
        send(task, TextAppended{std::move(piece.text), std::move(piece.tokens)});
}

/// Ends the requests that were not told something on their way.
void Scheduler::failUndelivered()
{
    for (const auto& task : m_tasks) {
        if (task->undelivered && !task->ended)
            fail(*task, undeliveredError());
    }
}

void Scheduler::finish(Task& task, FinishReason reason)
{
    sendText(task, task.answer.finish());
    if (task.undelivered) {
        fail(task, undeliveredError());
        return;
    }
    if (task.firstTokenUs > 0)
        task.stats.decodeMs = double(m_options.nowUs() - task.firstTokenUs) / 1e3;
    end(task);
    send(task, Finished{reason, task.stats});
}

void Scheduler::fail(Task& task, Error error)
{
    sendText(task, task.answer.finish());
    end(task);
    send(task, Failed{std::move(error)});
}

/// Frees what a task holds. Its last event is the caller's to send.
void Scheduler::end(Task& task)
{
    noteTierBytes(task);
    task.ended = true;
    if (task.slot != noSlot && !m_failure)
        m_backend.destroySequence(task.slot);
    task.slot = noSlot;
    m_admissionDue = true;
    if (m_reopening && m_reopening->task == &task)
        dropReopening();
    for (const auto& other : m_tasks) {
        if (other->waitingFor == &task)
            other->waitingFor = nullptr;
    }
    const bool agentGoesOn = std::ranges::any_of(m_tasks, [&](const auto& other) {
        return other->request.agent == task.request.agent && !other->ended && !other->isIdleWork();
    });
    if (const auto agent = m_agents.find(task.request.agent); agent != m_agents.end() && !task.isIdleWork())
        agent->second.metrics.state = agentGoesOn ? SequenceState::Queued : SequenceState::Idle;
}

void Scheduler::deviceFailed(const Error& error)
{
    m_failure = Error{ErrorCode::DeviceFailure, m_backend.info().device + " stopped working: " + error.message};
    m_cache.abandon();
    for (const auto& task : m_tasks) {
        if (!task->ended)
            fail(*task, *m_failure);
    }
}

} // namespace octavo::engine
