#pragma once

/// A few threads that run one function together, with cheap barriers inside it.
///
/// The caller is thread 0. Workers spin for a moment after each run, since the next step follows soon, and then sleep:
/// an idle pool takes no time. A barrier costs one cache line's way to each other thread and back.
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

class ComputePool
{
public:
    explicit ComputePool(int threads);
    ~ComputePool();
    ComputePool(const ComputePool&) = delete;
    ComputePool& operator=(const ComputePool&) = delete;

    int threads() const { return m_threads; }

    /// Calls work(thread) on every thread and returns when all are done. What a thread throws ends the others at their
    /// next barrier and is thrown here, the first of several; the pool can be used again.
    template <typename Work>
    void run(Work&& work)
    {
        start([](void* context, int thread) { (*static_cast<std::remove_reference_t<Work>*>(context))(thread); },
              const_cast<void*>(static_cast<const void*>(&work)));
    }

    /// Inside run(), on every thread: returns when all threads have come here.
    void barrier(int thread);

private:
    using Function = void (*)(void*, int);
    struct alignas(64) Flag {
        std::atomic<std::uint32_t> value{0};
    };

    void start(Function function, void* context);
    bool work(int thread);
    void loop(int thread);

    const int m_threads;
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
