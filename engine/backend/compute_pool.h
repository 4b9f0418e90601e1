#pragma once

/// A few threads that run one function together, with cheap barriers inside it.
///
/// The caller is thread 0. Workers spin for a moment after each run, since the next step follows soon, and then sleep:
/// an idle pool takes no time. A barrier costs one cache line's way to each other thread and back.
/// Where other programs want the processors, whoever has come to a barrier waits for a thread that the system has set
/// aside, again and again. When most of the time goes that way, runs take fewer threads for a while, in the end only
/// the caller, who then waits for nobody.
/// Thread   run() belongs to one thread at a time.
/// Errors   exceptions cross from any thread to the caller of run(); none ends the program.

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace octavo::engine
{

/// How many threads the next run should take, from what the last ones lost by waiting.
class Crowding
{
public:
    explicit Crowding(int threads) : m_threads(threads), m_advised(threads) {}

    int advised() const { return m_advised; }
    /// A run that ended at `nowNs` after `tookNs`, of which its caller stood `lostNs` in long waits.
    void record(std::int64_t nowNs, std::int64_t tookNs, std::int64_t lostNs);

private:
    const int m_threads;
    int m_advised;
    std::int64_t m_tookNs = 0, m_lostNs = 0; ///< since the last decision
    std::int64_t m_restNs = 0;               ///< how long fewer threads are kept this time; 0: all run
    std::int64_t m_restUntilNs = 0;
};

class ComputePool
{
public:
    explicit ComputePool(int threads);
    ~ComputePool();
    ComputePool(const ComputePool&) = delete;
    ComputePool& operator=(const ComputePool&) = delete;

    /// The most that ever run together.
    int threads() const { return m_threads; }
    /// Inside run(): those that do.
    int active() const { return m_active; }

    /// Calls work(thread) on threads 0 .. active() - 1 and returns when all are done. What a thread throws ends the
    /// others at their next barrier and is thrown here, the first of several; the pool can be used again.
    template <typename Work>
    void run(Work&& work)
    {
        start([](void* context, int thread) { (*static_cast<std::remove_reference_t<Work>*>(context))(thread); },
              const_cast<void*>(static_cast<const void*>(&work)));
    }

    /// Inside run(), on every thread of it: returns when all have come here.
    void barrier(int thread);

private:
    using Function = void (*)(void*, int);
    struct alignas(64) Flag {
        std::atomic<std::uint32_t> value{0};
    };
    static constexpr int mostThreads = 255; ///< an epoch's low byte says how many take part

    void start(Function function, void* context);
    bool work(int thread);
    void loop(int thread);
    void await(int thread, int other, std::uint32_t barriers);

    const int m_threads;
    int m_active;
    Crowding m_crowding;
    std::int64_t m_lostNs = 0; ///< by thread 0 in the run at hand
    std::uint32_t m_barriers = 0; ///< what all flags of the threads of a run hold at its start
    std::unique_ptr<Flag[]> m_arrived; ///< barriers that each thread has reached
    alignas(64) std::atomic<std::uint32_t> m_epoch{0};
    std::atomic<int> m_sleepers{0};
    std::atomic<bool> m_stopping{false};
    std::atomic<bool> m_failed{false}, m_claimed{false}; ///< a thread threw; whose exception is kept
    std::atomic<int> m_gone{0};                          ///< threads that have left a failed run
    std::exception_ptr m_failure;
    Function m_function = nullptr;
    void* m_context = nullptr;
    std::vector<std::jthread> m_workers; // last: joined before the rest goes
};

} // namespace octavo::engine
