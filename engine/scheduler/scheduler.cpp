#include "engine/scheduler/scheduler.h"

#include "engine/backend/guarded.h"
#include "engine/tokenizer/tokenizer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>
#include <chrono>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace octavo::engine {
namespace {

constexpr std::int64_t shortRead = 2048;         // a question after its context, not a context
constexpr std::int64_t passedOverUs = 2'000'000; // after this long any reader gets a slice
constexpr std::int64_t closestBeforeEnd = 64;    // parts of a context: the last checkpoint before its end
constexpr std::chrono::milliseconds briefly{5};

std::string mebibytes(std::int64_t bytes)
{
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

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

// --- Admission -------------------------------------------------------------------------------------------------------

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

Result<SlotId> Scheduler::reserve(const Task& task, const PrefixCache::Hit& hit, std::int64_t tokens)
{
    const std::int64_t shared =
        hit.length > 0 ? m_backend.sequenceBytes(hit.length) - m_backend.sequenceBytes(0) : 0;
    const std::int64_t needed = std::max<std::int64_t>(m_backend.sequenceBytes(tokens) - shared, 0);
    const std::int64_t limit = m_options.memoryBudgetBytes;
    for (;;) {
        const std::int64_t used = sequenceMemoryUsed();
        Error refusal{ErrorCode::OutOfMemory, {}};
        if (limit > 0 && used + needed > limit) {
            refusal.message = "a context of " + std::to_string(tokens) + " tokens does not fit: used "
                              + mebibytes(used) + ", limit " + mebibytes(limit) + ", needed " + mebibytes(needed)
                              + "; close other agents' contexts or ask about fewer files";
        } else {
            auto slot = guarded("room was made for a context", [&] {
                return hit.length > 0 ? m_backend.forkSequence(hit.slot, tokens) : m_backend.createSequence(tokens);
            });
            if (slot || !isOutOfMemory(slot.error()))
                return slot;
            refusal = slot.error();
        }
        // Idle work takes from nobody.
        if (task.isIdleWork() || !(giveUpOne(hit.slot) || (m_store && m_store->giveUpOne()))) {
            spdlog::debug("request {} does not fit now: {}", std::uint64_t(task.request.id), refusal.message);
            return refusal;
        }
    }
}

void Scheduler::planCheckpoints(Task& task, std::int64_t held)
{
    task.checkpoints.clear();
    if (!m_options.reusePrefixes)
        return;
    using Kind = PrefixCache::Kind;
    for (std::int64_t at = m_options.checkpointInterval; at < task.readTarget; at += m_options.checkpointInterval)
        task.checkpoints[at] = Kind::Passage;
    // Closer together towards a context's end, where its files change most: a later commit reads at most twice what
    // stands behind the first change.
    const std::int64_t context = task.request.contextTokens;
    for (std::int64_t back = std::min(m_options.checkpointInterval, context) / 2;
         back >= std::max(checkpointStride, context / closestBeforeEnd); back /= 2)
        task.checkpoints[roundDownToStride(context - back)] = Kind::Passage;
    task.checkpoints[roundDownToStride(task.readTarget)] = Kind::Turn;
    task.checkpoints[roundDownToStride(context)] = Kind::Context;
    task.checkpoints.erase(task.checkpoints.begin(), task.checkpoints.upper_bound(held));
}

/// The context's end, and of the checkpoints that reading it left those nearest to an end's 64th, 32nd ... half before
/// it: where a later commit may start again.
std::vector<PrefixCache::Hit> Scheduler::resumePoints(const Task& task, SlotId frozen) const
{
    const std::vector<PrefixCache::Hit> held = m_cache.beginnings(*task.prompt, task.done - 1);
    std::vector<PrefixCache::Hit> points{{frozen, task.done}};
    for (std::int64_t parts = closestBeforeEnd; parts >= 2; parts /= 2) {
        const std::int64_t wanted = task.done - task.done / parts;
        const auto after = std::ranges::upper_bound(held, wanted, {}, &PrefixCache::Hit::length);
        if (after != held.begin() && std::prev(after)->length < points.back().length)
            points.push_back(*std::prev(after));
    }
    return points;
}

void Scheduler::saveContext(const Task& task, SlotId frozen)
{
    if (!m_store || !m_store->wants(std::span(*task.prompt).first(std::size_t(task.done))))
        return;
    std::vector<ContextStore::Part> parts; // from the end back: what is nearest to it is worth most
    std::int64_t room = 0;                 // the states on the way take no more than the whole
    const auto imageOf = [&](const PrefixCache::Hit& point, ImageRows rows) {
        return guarded("a context was saved", [&] { return m_backend.imageOf(point.slot, rows); });
    };
    for (const PrefixCache::Hit& point : resumePoints(task, frozen)) {
        auto image = imageOf(point, parts.empty() ? ImageRows::Taken : ImageRows::Left);
        // Rows of a short context may lie otherwise than those of a long one: the longest of them brings its own.
        if (image && !parts.empty() &&
            std::ranges::none_of(parts, [&](const auto& part) { return part.image.layout == image->layout; }))
            image = imageOf(point, ImageRows::Taken);
        if (!image) {
            if (image.error().code == ErrorCode::DeviceFailure)
                return deviceFailed(image.error());
            if (parts.empty())
                spdlog::warn("a context of {} tokens cannot be saved: {}", task.done, image.error().message);
            break;
        }
        const std::int64_t state = SequenceImage::bytes(image->state);
        if (parts.empty())
            room = state + image->rowBytes;
        else if ((room -= state) < 0)
            break;
        parts.push_back({point.length, *std::move(image)});
    }
    if (parts.empty())
        return;
    std::ranges::reverse(parts);
    const std::int64_t whole = roundDownToStride(task.request.contextTokens);
    m_store->save(task.prompt, std::move(parts), task.request.contextLabel, task.done < whole ? whole : 0);
}

void Scheduler::flushSavedContexts()
{
    if (m_store)
        m_store->flush();
}

// --- Reading ---------------------------------------------------------------------------------------------------------

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

void Scheduler::leaveCheckpoint(Task& task, PrefixCache::Kind kind)
{
    m_admissionDue = true; // who waited for this looks again, also if there is no room to keep it
    if (m_cache.holds(*task.prompt, task.done))
        return;
    const std::int64_t limit = m_options.memoryBudgetBytes;
    const auto makeRoom = [&] { return !task.isIdleWork() && giveUpOne(); };
    while (limit > 0 && sequenceMemoryUsed() + m_backend.sequenceBytes(0) > limit) {
        if (!makeRoom())
            return;
    }
    const auto fork = [&] {
        return guarded("a checkpoint was kept", [&] { return m_backend.forkSequence(task.slot, task.done); });
    };
    auto frozen = fork();
    while (!frozen && isOutOfMemory(frozen.error()) && makeRoom())
        frozen = fork();
    if (frozen) {
        m_cache.insert(*frozen, task.prompt, task.done, kind, task.request.agent);
        if (kind == PrefixCache::Kind::Context)
            saveContext(task, *frozen);
    } else if (frozen.error().code == ErrorCode::DeviceFailure)
        deviceFailed(frozen.error());
    else
        spdlog::debug("no room to keep a checkpoint at {} tokens: {}", task.done, frozen.error().message);
}

void Scheduler::startWriting(Task& task, std::span<const float> logits)
{
    task.state = Task::State::Writing;
    record(task.request.agent).metrics.state = SequenceState::Writing;
    if (task.request.drafts)
        task.lookup = std::make_unique<PromptLookup>(*task.prompt);
    takeRows(task, 1, [&](int) { return task.sampler.sample(logits, m_options.tokenizer->endId()); });
}

// --- Memory and bookkeeping ------------------------------------------------------------------------------------------

std::int64_t Scheduler::sequenceMemoryUsed() const
{
    return std::max<std::int64_t>(m_backend.stats().memoryUsedBytes - m_weightBytes, 0);
}

/// Frees what can be done without: work that nobody waits for, else the frozen sequence other than `keep` that was used
/// longest ago. Those that run for someone are never taken from. False when there is nothing.
bool Scheduler::giveUpOne(SlotId keep)
{
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

Scheduler::AgentRecord& Scheduler::record(AgentId agent)
{
    AgentRecord& record = m_agents[agent];
    record.metrics.agent = agent;
    record.metrics.contextLimit = m_options.contextLimit;
    return record;
}

void Scheduler::readAnswerWhenIdle(const Task& task)
{
    const bool asksAgain = std::ranges::any_of(
        m_tasks, [&](const auto& other) { return other->request.agent == task.request.agent; });
    if (asksAgain)
        return;
    auto tokens = std::make_shared<std::vector<TokenId>>(*task.prompt);
    const std::vector<TokenId>& written = task.answer.tokens();
    tokens->insert(tokens->end(), written.begin(), written.end());
    const std::int64_t target = roundDownToStride(std::int64_t(tokens->size()));
    if (target <= roundDownToStride(task.promptTokens()))
        return;
    GenerationRequest request;
    request.agent = task.request.agent;
    request.contextTokens = task.request.contextTokens;
    request.maxNewTokens = 0;
    auto idle = std::make_unique<Task>(std::move(request), EventSink{}, std::move(tokens), m_options.nowUs(),
                                       *m_options.tokenizer);
    idle->readTarget = target;
    idle->idleFrom = roundDownToStride(task.promptTokens());
    m_tasks.push_back(std::move(idle));
    m_admissionDue = true;
}

void Scheduler::dropIdleWork(AgentId agent)
{
    for (const auto& task : m_tasks) {
        if (!task->isIdleWork() || task->request.agent != agent || task->ended)
            continue;
        const bool isNew = task->state == Task::State::Reading && task->done > task->stats.reusedTokens;
        if (isNew && task->done % checkpointStride == 0)
            leaveCheckpoint(*task, PrefixCache::Kind::Turn);
        end(*task);
    }
    removeEnded();
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
