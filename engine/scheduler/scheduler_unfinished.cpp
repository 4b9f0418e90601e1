/// Contexts whose reading is left on the way: kept in memory and on disk as far as they are read, so that it goes on
/// from there, after a restart too. After a crash, or where quitting leaves no time to write, it goes on from the last
/// part that was saved: up to twenty seconds or a third of what was read further back.

#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <exception>

namespace octavo::engine {
namespace {

constexpr std::int64_t worthSaving = 1024; // tokens; fewer are read again sooner than looked up

/// Read for its own sake, by nobody's question.
bool isContextReading(const Task& task)
{
    return !task.isIdleWork() && task.request.maxNewTokens == 0 && task.request.contextTokens > 0 &&
           task.state == Task::State::Reading && !task.ended;
}

} // namespace

/// Of a task that is about to end.
void Scheduler::keepUnfinished(Task& task)
{
    const bool isNew = task.done > task.stats.reusedTokens && task.done % checkpointStride == 0;
    if (m_failure || !m_options.reusePrefixes || !isContextReading(task) || !isNew)
        return;
    try {
        leaveCheckpoint(task, PrefixCache::Kind::Passage);
        if (!m_failure)
            savePart(task);
    } catch (const std::exception&) { // no memory for it: the last checkpoint is further back
    }
}

/// At a checkpoint on the way: seldom enough that all parts together are at most three times the whole.
void Scheduler::saveOnTheWay(Task& task)
{
    const std::int64_t last = task.savedUs > 0 ? task.savedUs : task.startedUs;
    if (!m_failure && m_backend.savesWhileReading() && isContextReading(task) &&
        m_options.nowUs() - last >= m_options.saveReadingEveryUs && 2 * task.done >= 3 * task.savedTokens)
        savePart(task);
}

void Scheduler::savePart(Task& task)
{
    if (!m_store || task.done < std::max(worthSaving, task.savedTokens + 1) || task.done <= task.stats.reusedTokens)
        return;
    const PrefixCache::Hit held = m_cache.longest(*task.prompt, task.done);
    if (held.length != task.done) // there was no room to keep it
        return;
    task.savedTokens = task.done;
    task.savedUs = m_options.nowUs();
    saveContext(task, held.slot);
}

} // namespace octavo::engine
