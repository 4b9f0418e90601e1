#include "engine/backend/task_team.h"

#include <thread>
#include <utility>

namespace octavo::engine
{

namespace
{

template <typename Condition>
void spinUntil(Condition condition)
{
    for (int spins = 0; !condition(); ++spins) {
        if (spins > 2000)
            std::this_thread::yield(); // more threads than processors
#if defined(__x86_64__)
        else
            __builtin_ia32_pause();
#endif
    }
}

} // namespace

TaskTeam::TaskTeam(int threads)
    : m_threads(threads)
    , m_seen(std::make_unique<Seen[]>(std::size_t(threads)))
{
}

void TaskTeam::work()
{
    try {
        for (std::int64_t task = m_next.fetch_add(1); task < m_count; task = m_next.fetch_add(1))
            (*m_body)(task);
    } catch (...) {
        if (!m_claimed.exchange(true))
            m_failure = std::current_exception();
        m_next.store(m_count, std::memory_order_relaxed); // nobody begins another
    }
}

ParallelFor TaskTeam::lead(int threads)
{
    m_helpers = threads - 1;
    return [this](std::int64_t count, const std::function<void(std::int64_t)>& body) {
        if (m_helpers == 0 || count < 2) {
            for (std::int64_t task = 0; task < count; ++task)
                body(task);
            return;
        }
        m_body = &body;
        m_count = count;
        m_next.store(0, std::memory_order_relaxed);
        m_done.store(0, std::memory_order_relaxed);
        m_round.fetch_add(1, std::memory_order_release);
        work();
        spinUntil([this] { return m_done.load(std::memory_order_acquire) == m_helpers; });
        if (m_claimed.exchange(false))
            std::rethrow_exception(std::exchange(m_failure, nullptr));
    };
}

void TaskTeam::finish()
{
    m_count = -1;
    m_done.store(0, std::memory_order_relaxed);
    m_round.fetch_add(1, std::memory_order_release);
    // Only when all have seen it may the next stretch begin.
    spinUntil([this] { return m_done.load(std::memory_order_acquire) == m_helpers; });
    // Threads that sat this stretch out begin the next one where all do.
    for (int thread = m_helpers + 1; thread < m_threads; ++thread)
        m_seen[std::size_t(thread)].round = m_round.load(std::memory_order_relaxed);
}

void TaskTeam::help(int thread)
{
    for (std::uint32_t& seen = m_seen[std::size_t(thread)].round;;) {
        spinUntil([&] { return m_round.load(std::memory_order_acquire) != seen; });
        ++seen;
        const bool home = m_count < 0;
        if (!home)
            work();
        m_done.fetch_add(1, std::memory_order_acq_rel);
        if (home)
            return;
    }
}

} // namespace octavo::engine
