#include "engine/backend/compute_pool.h"

#include <chrono>
#include <utility>

namespace octavo::engine
{

namespace
{

constexpr int spinsBeforeYield = 20000;
constexpr std::chrono::microseconds spinBetweenRuns{300};

/// Thrown out of a barrier that another thread will not reach.
struct GivenUp {};

inline void pauseBriefly()
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

} // namespace

ComputePool::ComputePool(int threads)
    : m_threads(threads < 1 ? 1 : threads)
    , m_arrived(std::make_unique<Flag[]>(std::size_t(m_threads)))
{
    try {
        for (int thread = 1; thread < m_threads; ++thread)
            m_workers.emplace_back([this, thread] { loop(thread); });
    } catch (...) { // those that did start must end, or the members' joins never do
        m_stopping = true;
        m_epoch.fetch_add(1);
        m_epoch.notify_all();
        throw;
    }
}

ComputePool::~ComputePool()
{
    m_stopping = true;
    m_epoch.fetch_add(1);
    m_epoch.notify_all();
}

void ComputePool::start(Function function, void* context)
{
    m_function = function;
    m_context = context;
    if (m_threads > 1) {
        m_epoch.fetch_add(1);
        if (m_sleepers.load() > 0)
            m_epoch.notify_all();
    }
    if (work(0))
        return;
    while (m_gone.load(std::memory_order_acquire) != m_threads) // then nobody looks at the barriers any more
        std::this_thread::yield();
    for (int thread = 0; thread < m_threads; ++thread)
        m_arrived[std::size_t(thread)].value.store(0, std::memory_order_relaxed);
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
    if (m_threads == 1)
        return;
    const std::uint32_t mine = m_arrived[std::size_t(thread)].value.load(std::memory_order_relaxed) + 1;
    m_arrived[std::size_t(thread)].value.store(mine, std::memory_order_release);
    for (int other = 0; other < m_threads; ++other) {
        int spins = 0;
        // Counters may wrap: only their difference counts.
        const auto isMissing = [&] {
            return std::int32_t(m_arrived[std::size_t(other)].value.load(std::memory_order_acquire) - mine) < 0;
        };
        while (isMissing()) {
            pauseBriefly();
            // Looked at again: a failure of the next run is not one of this.
            if (m_failed.load(std::memory_order_acquire) && isMissing())
                throw GivenUp{};
            if (++spins > spinsBeforeYield)
                std::this_thread::yield();
        }
    }
}

void ComputePool::loop(int thread)
{
    std::uint32_t seen = 0;
    while (true) {
        const auto start = std::chrono::steady_clock::now();
        int spins = 0;
        while (m_epoch.load(std::memory_order_acquire) == seen) {
            pauseBriefly();
            if (++spins % 64 == 0 && std::chrono::steady_clock::now() - start > spinBetweenRuns) {
                m_sleepers.fetch_add(1);
                m_epoch.wait(seen);
                m_sleepers.fetch_sub(1);
            }
        }
        ++seen;
        if (m_stopping)
            return;
        work(thread);
    }
}

} // namespace octavo::engine
