#pragma once

/// Inside ComputePool::run(): one thread leads and hands out tasks, the others help until it has finished.
///
/// For stretches whose steps depend on each other in ways that fixed shares do not fit, such as selecting the rows of
/// one sequence after another. Which thread runs a task is left to chance, so tasks must not depend on it.
/// Thread   lead() and finish() on one thread, help() on all others, once each per stretch.

#include "engine/memory/sparse_attention.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace octavo::engine
{

class TaskTeam
{
public:
    explicit TaskTeam(int threads);

    /// Runs tasks on the whole team; for the leader alone.
    ParallelFor lead();
    /// Sends the helpers home.
    void finish();
    /// Works on what the leader hands out; returns after finish().
    void help(int thread);

private:
    struct alignas(64) Seen {
        std::uint32_t round = 0;
    };
    void work();

    const int m_helpers;
    std::unique_ptr<Seen[]> m_seen; // by thread
    alignas(64) std::atomic<std::uint32_t> m_round{0};
    alignas(64) std::atomic<std::int64_t> m_next{0};
    alignas(64) std::atomic<int> m_done{0};
    std::int64_t m_count = 0; // negative: go home
    const std::function<void(std::int64_t)>* m_body = nullptr;
};

} // namespace octavo::engine
