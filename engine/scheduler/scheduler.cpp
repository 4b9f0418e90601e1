#include "engine/scheduler/scheduler.h"

#include "engine/tokenizer/tokenizer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>
#include <chrono>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace octavo::engine {
namespace {

constexpr std::chrono::milliseconds briefly{5};

} // namespace

Result<void> checkRequest(const GenerationRequest& request, TokenId endId, std::int64_t contextLimit)
{
    const auto tokens = std::int64_t(request.prompt.size());
    if (tokens == 0)
        return Error{ErrorCode::InvalidArgument, "the prompt is empty; it needs at least one token"};
    if (request.maxNewTokens < 0)
        return Error{ErrorCode::InvalidArgument, "the most tokens to write is " + std::to_string(request.maxNewTokens)
                                                     + ", must not be negative"};
    if (request.contextTokens < 0 || request.contextTokens > tokens)
        return Error{ErrorCode::InvalidArgument, "the shared context is " + std::to_string(request.contextTokens)
                                                     + " tokens of a prompt of " + std::to_string(tokens)};
    const auto bad = std::ranges::find_if(request.prompt, [&](TokenId id) { return id < 0 || id >= endId; });
    if (bad != request.prompt.end())
        return Error{ErrorCode::InvalidArgument,
                     "token " + std::to_string(bad - request.prompt.begin()) + " of the prompt is "
                         + std::to_string(*bad) + ", must be between 0 and " + std::to_string(endId - 1)};
    const std::int64_t needed = tokens + (request.maxNewTokens > 0 ? 1 : 0);
    if (needed > contextLimit)
        return Error{ErrorCode::ContextFull, "the context is full: used " + std::to_string(request.contextTokens)
                                                 + " tokens, limit " + std::to_string(contextLimit) + ", needed "
                                                 + std::to_string(needed) + "; shorten it by "
                                                 + std::to_string(needed - contextLimit) + " tokens or start anew"};
    return {};
}

Scheduler::Scheduler(Backend& backend, SchedulerOptions options)
    : m_backend(backend)
    , m_options(std::move(options))
    , m_cache(backend)
    , m_planner([&] {
        SlicePlanner::Limits limits = m_options.slices;
        limits.largestSlice = std::min(limits.largestSlice, backend.maxPrefillSlice());
        return limits;
    }())
    , m_weightBytes(backend.stats().memoryUsedBytes)
{
    assert(m_options.tokenizer && m_options.nowUs && m_options.contextLimit > 0);
    assert(m_options.checkpointInterval % checkpointStride == 0);
    const std::string format = backend.imageFormat();
    if (!m_options.savedContexts.empty() && !format.empty()) {
        const std::uint64_t key = XXH3_64bits_withSeed(format.data(), format.size(), m_options.modelHash);
        m_store = std::make_unique<ContextStore>(ContextStore::Options{
            m_options.savedContexts, m_options.savedContextsQuota, key, m_options.modelName});
    } else if (!m_options.savedContexts.empty()) {
        spdlog::info("contexts are not saved: {} cannot write its own yet", backend.info().device);
    }
}

Scheduler::~Scheduler()
{
    m_options.readAnswersWhenIdle = false;
    cancelAll();
    dropReopening();
    if (m_failure)
        m_cache.abandon();
}

void Scheduler::submit(GenerationRequest request, SharedTokens prompt, EventSink sink, std::int64_t submittedUs)
{
    auto task = std::make_unique<Task>(std::move(request), std::move(sink), std::move(prompt), submittedUs,
                                       *m_options.tokenizer);
    task->stats.promptTokens = task->promptTokens();
    // Reading without writing ends where others can resume; beyond it nothing would be kept.
    task->readTarget = task->request.maxNewTokens > 0 ? task->promptTokens() : roundDownToStride(task->promptTokens());
    if (m_failure) {
        fail(*task, *m_failure);
        return;
    }
    dropIdleWork(task->request.agent);
    AgentRecord& agent = record(task->request.agent);
    agent.metrics.state = SequenceState::Queued;
    m_tasks.push_back(std::move(task));
    m_admissionDue = true;
}

void Scheduler::cancel(RequestId id)
{
    for (const auto& task : m_tasks) {
        if (task->request.id != id || task->ended || task->isIdleWork())
            continue;
        keepUnfinished(*task);
        if (!task->ended) // the device has not failed with it
            finish(*task, FinishReason::Cancelled);
    }
    removeEnded();
}

void Scheduler::setPriority(RequestId id, int priority)
{
    for (const auto& task : m_tasks) {
        if (task->request.id == id && !task->isIdleWork())
            task->request.priority = priority;
    }
}

void Scheduler::releaseAgent(AgentId agent)
{
    dropIdleWork(agent);
    m_cache.releaseAgent(agent);
    if (std::ranges::none_of(m_tasks, [&](const auto& task) { return task->request.agent == agent; }))
        m_agents.erase(agent);
    m_admissionDue = true;
}

void Scheduler::cancelAll()
{
    for (const auto& task : m_tasks) {
        keepUnfinished(*task);
        if (!task->ended)
            finish(*task, FinishReason::Cancelled);
    }
    removeEnded();
}

void Scheduler::failAll(const Error& error)
{
    for (const auto& task : m_tasks) {
        if (task->ended)
            continue;
        try {
            fail(*task, error);
        } catch (const std::exception&) { // no room for its last text or for the message, but for its end
            if (!task->ended) {
                end(*task);
                send(*task, Failed{{error.code, {}}});
            }
        }
    }
    std::erase_if(m_tasks, [](const auto& task) { return task->ended; });
}

bool Scheduler::runRound()
{
    if (m_failure)
        return false;
    if (m_store && m_store->reclaim())
        m_admissionDue = true; // their memory is free
    m_partsToPrepare = 1;
    goOnReopening();
    admit();
    failUndelivered();
    std::vector<Task*> writers = pickWriters();
    if (writers.empty() || m_planner.sliceIsDue()) {
        if (Task* reader = pickReader()) {
            readSlice(*reader);
            failUndelivered();
            removeEnded();
            return true;
        }
    }
    if (writers.empty() && m_reopening && !m_reopening->opened)
        m_store->waitForOpening(briefly);
    if (writers.empty())
        return m_admissionDue || m_reopening;
    writeStep(std::move(writers));
    failUndelivered();
    removeEnded();
    return true;
}

// --- Bookkeeping -----------------------------------------------------------------------------------------------------

Scheduler::AgentRecord& Scheduler::record(AgentId agent)
{
    AgentRecord& record = m_agents[agent];
    record.metrics.agent = agent;
    record.metrics.contextLimit = m_options.contextLimit;
    return record;
}

void Scheduler::removeEnded()
{
    std::vector<std::unique_ptr<Task>> answered;
    for (auto& task : m_tasks) {
        if (task->ended && !task->isIdleWork() && !task->answer.tokens().empty())
            answered.push_back(std::move(task));
    }
    std::erase_if(m_tasks, [](const auto& task) { return !task || task->ended; });
    if (m_failure || !m_options.readAnswersWhenIdle || !m_options.reusePrefixes)
        return;
    for (const auto& task : answered)
        readAnswerWhenIdle(*task);
}

std::vector<PrefixRef> Scheduler::residentPrefixes() const
{
    std::vector<PrefixRef> prefixes = m_cache.contents();
    for (const auto& task : m_tasks)
        prefixes.push_back({task->prompt, roundDownToStride(task->readTarget)});
    return prefixes;
}

int Scheduler::numRequests() const
{
    return int(std::ranges::count_if(m_tasks, [](const auto& task) { return !task->isIdleWork(); }));
}

/// Of an answer that is being written or has just ended.
void Scheduler::noteTierBytes(const Task& task)
{
    if (task.slot == noSlot || task.state != Task::State::Writing || m_failure)
        return;
    if (const auto agent = m_agents.find(task.request.agent); agent != m_agents.end())
        agent->second.metrics.tierBytesRead = m_backend.tierBytesRead(task.slot);
}

void Scheduler::describe(DeviceMetrics& metrics)
{
    const std::int64_t now = m_options.nowUs();
    metrics.backend = m_backend.stats();
    metrics.failed = m_failure.has_value();
    metrics.failure = m_failure ? m_failure->message : std::string();
    metrics.decodeTokensPerSecond = m_decodeRate.perSecond(now);
    metrics.prefillTokensPerSecond = m_prefillRate.perSecond(now);
    metrics.recentWork = m_work.recent(now);
    metrics.agents.clear();
    for (const auto& task : m_tasks)
        noteTierBytes(*task);
    for (auto& [id, agent] : m_agents) {
        AgentMetrics& values = agent.metrics;
        values.decodeTokensPerSecond = values.state == SequenceState::Writing ? agent.decode.perSecond(now) : -1.0;
        values.prefillTokensPerSecond = values.state == SequenceState::Reading ? agent.prefill.perSecond(now) : -1.0;
        values.acceptedDraftsPerRound =
            agent.draftedRounds > 0.0 ? agent.acceptedInRounds / agent.draftedRounds : -1.0;
        metrics.agents.push_back(values);
    }
}

} // namespace octavo::engine
