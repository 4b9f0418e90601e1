#pragma once

/// How much memory there is to spare, as the system would grant it: not the total that is built in.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace octavo::engine {

struct MemoryAvailability {
    std::int64_t limitBytes = 0; ///< what this process could ever get: RAM or the control group's limit
    std::int64_t freeBytes = 0;  ///< what it could get now without pushing others out
};

/// MemAvailable of /proc/meminfo, and the limits and use of this process's control groups (version 2 and 1) up to the
/// root; the smallest counts. A group's page cache counts as free. Gives nothing where /proc cannot be read. `root`
/// stands for "/", for tests.
std::optional<MemoryAvailability> availableMemory(const std::filesystem::path& root = "/");

/// What sequences may take by default: the free bytes less what the program itself should keep (an eighth, at least
/// 512 MiB, at most half of it).
std::int64_t defaultSequenceBudget(const MemoryAvailability& memory);

/// The resident set of this process; 0 where not known.
std::int64_t residentBytes();

} // namespace octavo::engine
