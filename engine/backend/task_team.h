#pragma once

/// Inside ComputePool::run(): one thread leads and hands out tasks, the others help until it has finished.
///
/// For stretches whose steps depend on each other in ways that fixed shares do not fit, such as selecting the rows of
/// one sequence after another. Which thread runs a task is left to chance, so tasks must not depend on it.
/// Thread   lead() and finish() on one thread, help() on all others, once each per stretch.

#include "engine/memory/sparse_attention.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

namespace octavo::engine
{

class TaskTeam
{
public:
    explicit TaskTeam(int threads);

    /// Runs tasks on the team, `threads` of which are in this stretch; for the leader alone. What a task throws is
    /// thrown there when all threads have let go of it, the first of several.
    ParallelFor lead(int threads);
    /// Sends the helpers home. For a leader that throws, too: see Homecoming.
    void finish();
    /// Works on what the leader hands out; returns after finish().
    void help(int thread);

    /// Calls finish() at the end of the leader's block, however it ends.
    struct Homecoming {
        TaskTeam& team;
        ~Homecoming() { team.finish(); }
    };

private:
    struct alignas(64) Seen {
        std::uint32_t round = 0;
    };
    void work();

    const int m_threads;
    int m_helpers = 0; // in this stretch
    std::unique_ptr<Seen[]> m_seen; // by thread
    alignas(64) std::atomic<std::uint32_t> m_round{0};
    alignas(64) std::atomic<std::int64_t> m_next{0};
    alignas(64) std::atomic<int> m_done{0};
    std::int64_t m_count = 0; // negative: go home
    const std::function<void(std::int64_t)>* m_body = nullptr;
    std::atomic<bool> m_claimed{false}; // a task threw, and whose exception it is
    std::exception_ptr m_failure;
};

} // namespace octavo::engine
