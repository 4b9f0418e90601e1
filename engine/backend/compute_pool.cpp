#include "engine/backend/compute_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace octavo::engine
{

namespace
{

constexpr int spinsWithoutClock = 512, spinsBeforeYield = 20'000;
constexpr std::chrono::microseconds spinBetweenRuns{300};
/// Threads of one run are never all done at once; what they wait longer than this is lost to others.
constexpr std::int64_t usualWaitNs = 100'000;

/// Thrown out of a barrier that another thread will not reach.
struct GivenUp {};

inline void pauseBriefly()
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

std::int64_t nowNs()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

} // namespace

void Crowding::record(std::int64_t now, std::int64_t tookNs, std::int64_t lostNs)
{
    constexpr std::int64_t decideAfterNs = 20'000'000, shortestRestNs = 100'000'000, longestRestNs = 1'600'000'000;
    if (m_advised < m_threads && now >= m_restUntilNs) { // try again
        m_advised = m_threads;
        m_tookNs = m_lostNs = 0;
        return;
    }
    m_tookNs += tookNs;
    m_lostNs += lostNs;
    if (m_tookNs < decideAfterNs)
        return;
    if (2 * m_lostNs > m_tookNs && m_advised > 1) {
        if (m_advised == m_threads) // another try that failed: the next one comes later
            m_restNs = std::clamp(2 * m_restNs, shortestRestNs, longestRestNs);
        m_advised /= 2;
        m_restUntilNs = now + m_restNs;
    } else if (m_advised == m_threads && 8 * m_lostNs < m_tookNs) {
        m_restNs = 0;
    }
    m_tookNs = m_lostNs = 0;
}

ComputePool::ComputePool(int threads)
    : m_threads(std::clamp(threads, 1, mostThreads))
    , m_active(m_threads)
    , m_crowding(m_threads)
    , m_arrived(std::make_unique<Flag[]>(std::size_t(m_threads)))
{
    try {
        for (int thread = 1; thread < m_threads; ++thread)
            m_workers.emplace_back([this, thread] { loop(thread); });
    } catch (...) { // those that did start must end, or the members' joins never do
        m_stopping = true;
        m_epoch.fetch_add(mostThreads + 1);
        m_epoch.notify_all();
        throw;
    }
}

ComputePool::~ComputePool()
{
    m_stopping = true;
    m_epoch.fetch_add(mostThreads + 1);
    m_epoch.notify_all();
}

void ComputePool::start(Function function, void* context)
{
    const std::int64_t begin = nowNs();
    m_function = function;
    m_context = context;
    m_active = m_crowding.advised();
    m_lostNs = 0;
    if (m_active > 1) {
        // Threads that sat out the last runs have missed their barriers.
        for (int thread = 0; thread < m_active; ++thread)
            m_arrived[std::size_t(thread)].value.store(m_barriers, std::memory_order_relaxed);
        const std::uint32_t epoch = m_epoch.load(std::memory_order_relaxed);
        m_epoch.store((epoch / (mostThreads + 1) + 1) * (mostThreads + 1) + std::uint32_t(m_active));
        if (m_sleepers.load() > 0)
            m_epoch.notify_all();
    }
    if (work(0)) {
        m_barriers = m_arrived[0].value.load(std::memory_order_relaxed);
        if (m_threads > 1) {
            const std::int64_t now = nowNs();
            m_crowding.record(now, now - begin, m_lostNs);
        }
        return;
    }
    while (m_gone.load(std::memory_order_acquire) != m_active) // then nobody looks at the barriers any more
        std::this_thread::yield();
    // A thread that was left out of this run may still stand in the last barrier of the one before: counts only grow.
    for (int thread = 0; thread < m_active; ++thread) {
        const std::uint32_t reached = m_arrived[std::size_t(thread)].value.load(std::memory_order_relaxed);
        if (std::int32_t(reached - m_barriers) > 0)
            m_barriers = reached;
    }
    for (int thread = 0; thread < m_threads; ++thread)
        m_arrived[std::size_t(thread)].value.store(m_barriers, std::memory_order_relaxed);
    m_gone.store(0, std::memory_order_relaxed);
    m_failed.store(false, std::memory_order_relaxed);
    m_claimed.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(m_failure, nullptr));
}

/// False when a thread threw. Nobody passes a barrier that this thread has not reached, the last one included, so all
/// come out of such a run with false.
bool ComputePool::work(int thread)
{
    try {
        m_function(m_context, thread);
        barrier(thread);
        return true;
    } catch (const GivenUp&) {
    } catch (...) {
        if (!m_claimed.exchange(true))
            m_failure = std::current_exception();
        m_failed.store(true, std::memory_order_release);
    }
    m_gone.fetch_add(1, std::memory_order_acq_rel);
    return false;
}

void ComputePool::barrier(int thread)
{
    const int active = m_active; // before others may go on to the next run
    if (active == 1)
        return;
    const std::uint32_t mine = m_arrived[std::size_t(thread)].value.load(std::memory_order_relaxed) + 1;
    m_arrived[std::size_t(thread)].value.store(mine, std::memory_order_release);
    for (int other = 0; other < active; ++other)
        await(thread, other, mine);
}

void ComputePool::await(int thread, int other, std::uint32_t barriers)
{
    // Counters may wrap: only their difference counts.
    auto missing = [&] {
        return std::int32_t(m_arrived[std::size_t(other)].value.load(std::memory_order_acquire) - barriers) < 0;
    };
    for (int spins = 0; spins < spinsWithoutClock; ++spins) {
        if (!missing())
            return;
        pauseBriefly();
    }
    const std::int64_t start = nowNs();
    for (int spins = spinsWithoutClock; missing(); ++spins) {
        pauseBriefly();
        // Looked at again: a failure of the next run is not one of this.
        if (m_failed.load(std::memory_order_acquire) && missing())
            throw GivenUp{};
        if (spins > spinsBeforeYield)
            std::this_thread::yield();
    }
    if (thread == 0)
        m_lostNs += std::max<std::int64_t>(nowNs() - start - usualWaitNs, 0);
}

void ComputePool::loop(int thread)
{
    std::uint32_t seen = 0;
    while (true) {
        const auto start = std::chrono::steady_clock::now();
        int spins = 0;
        std::uint32_t epoch;
        while ((epoch = m_epoch.load(std::memory_order_acquire)) == seen) {
            pauseBriefly();
            if (++spins % 64 == 0 && std::chrono::steady_clock::now() - start > spinBetweenRuns) {
                m_sleepers.fetch_add(1);
                m_epoch.wait(seen);
                m_sleepers.fetch_sub(1);
            }
        }
        seen = epoch;
        if (m_stopping)
            return;
        // A run does not end before its threads have all been in it; others may see it late, or not at all.
        if (thread >= int(epoch % (mostThreads + 1)))
            continue;
        work(thread);
    }
}

} // namespace octavo::engine
