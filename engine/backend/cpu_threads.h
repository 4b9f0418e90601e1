#pragma once

#include <algorithm>
#include <thread>

namespace octavo::engine {

/// Compute threads that the CPU backend starts at most: more than the machine runs at once only wait for each other.
inline int mostCpuThreads()
{
    return std::max(8, 2 * int(std::max(1u, std::thread::hardware_concurrency())));
}

} // namespace octavo::engine
