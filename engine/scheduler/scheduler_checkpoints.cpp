/// What the Scheduler keeps of its reading for others: checkpoints on the way, contexts on disk, and, while nobody
/// asks, the newest answers.

#include "engine/scheduler/scheduler.h"

#include "engine/backend/guarded.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace octavo::engine {
namespace {

constexpr std::int64_t closestBeforeEnd = 64; // parts of a context: the last checkpoint before its end

} // namespace

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

} // namespace octavo::engine
