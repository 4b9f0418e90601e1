#include "engine/memory/sparse_settings.h"

#include <cmath>
#include <string>

namespace octavo::engine {

namespace {

Result<void> inRange(const char* name, std::int64_t found, std::int64_t least, std::int64_t most)
{
    if (found >= least && found <= most)
        return {};
    return Error{ErrorCode::InvalidArgument, "sparse attention's " + std::string(name) + " is " +
                                                 std::to_string(found) + ", expected " + std::to_string(least) +
                                                 " to " + std::to_string(most)};
}

} // namespace

Result<void> SparseSettings::check() const
{
    constexpr std::int64_t mostTokens = std::int64_t{1} << 20;
    OCTAVO_CHECK(inRange("number of picks", topK, 1, mostTokens));
    OCTAVO_CHECK(inRange("number of picks from long ranges", longTopK, 0, mostTokens));
    OCTAVO_CHECK(inRange("number of picks on a CPU", cpuTopK, 0, mostTokens));
    OCTAVO_CHECK(inRange("least long range", longRange, 0, mostTokens));
    OCTAVO_CHECK(inRange("number of sinks", sinks, 0, 512));
    // Fewer, and rows of a rejected draft could reach the tier.
    OCTAVO_CHECK(inRange("number of recent tokens", recent, 128, mostTokens));
    OCTAVO_CHECK(inRange("threshold", threshold, 0, std::int64_t{1} << 40));
    OCTAVO_CHECK(inRange("hot buffer in bytes", hotBufferBytes, 1024, std::int64_t{1} << 42));
    if (lookAt != 0.0 && !(lookAt >= 1.0 && lookAt <= 1e6))
        return Error{ErrorCode::InvalidArgument, "sparse attention's multiple of picks that are looked at is " +
                                                     std::to_string(lookAt) + ", expected 0 or at least 1"};
    if (!std::isfinite(priorityFloor) || priorityFloor < 0.0 || priorityFloor > 1.0)
        return Error{ErrorCode::InvalidArgument,
                     "the share of sparse attention's picks that goes to all tokens alike is " +
                         std::to_string(priorityFloor) + ", expected 0 to 1"};
    if (!std::isfinite(adaptiveTail) || adaptiveTail <= 0.0 || adaptiveTail >= 1.0)
        return Error{ErrorCode::InvalidArgument, "the share above which sparse attention picks more is " +
                                                     std::to_string(adaptiveTail) + ", expected between 0 and 1"};
    return {};
}

} // namespace octavo::engine
