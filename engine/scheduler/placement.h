#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace octavo::engine {

/// What speaks for one device when a request is placed.
struct PlacementCandidate {
    bool failed = false;
    std::int64_t residentTokens = 0; ///< of the prompt, held or being read there
    std::int64_t freeBytes = 0;
    std::int64_t neededBytes = 0;    ///< for what is not resident; beyond freeBytes it would have to wait
    int requests = 0;                ///< queued or running
};

/// The index of the device that should take a request: most of its context resident, then room for it, then the fewest
/// requests, then the most free memory; the first among equals. Nothing when all have failed.
std::optional<std::size_t> placeRequest(std::span<const PlacementCandidate> candidates);

} // namespace octavo::engine
