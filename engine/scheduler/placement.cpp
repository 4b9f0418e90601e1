#include "engine/scheduler/placement.h"

#include <tuple>

namespace octavo::engine {

std::optional<std::size_t> placeRequest(std::span<const PlacementCandidate> candidates)
{
    // A few hundred tokens in common (a system prompt) are no reason to crowd one device.
    constexpr std::int64_t worthFollowing = 512;
    auto merit = [](const PlacementCandidate& candidate) {
        const std::int64_t resident = candidate.residentTokens >= worthFollowing ? candidate.residentTokens : 0;
        const bool fits = candidate.freeBytes >= candidate.neededBytes;
        return std::tuple(resident, fits, -candidate.requests, candidate.freeBytes);
    };
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (!candidates[i].failed && (!best || merit(candidates[i]) > merit(candidates[*best])))
            best = i;
    }
    return best;
}

} // namespace octavo::engine
