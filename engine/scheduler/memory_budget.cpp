#include "engine/scheduler/memory_budget.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace octavo::engine {
namespace fs = std::filesystem;
namespace {

std::optional<std::int64_t> readNumber(const fs::path& file)
{
    std::ifstream in(file);
    std::int64_t value = 0;
    if (in >> value) // "max", no limit in version 2, is no number
        return value;
    return std::nullopt;
}

std::int64_t readField(const fs::path& file, const std::string& key)
{
    std::ifstream in(file);
    std::string name;
    std::int64_t value = 0;
    for (std::string line; std::getline(in, line);) {
        std::istringstream fields(line);
        if (fields >> name >> value && name == key)
            return value;
    }
    return 0;
}

struct GroupFiles {
    fs::path mount;
    const char *limit, *usage, *inactiveCache;
};

/// Goes from the process's own group up to the mount: each level may hold a limit of its own.
void applyGroup(MemoryAvailability& memory, const GroupFiles& files, const std::string& group)
{
    fs::path folder = files.mount;
    std::vector<fs::path> levels{folder};
    for (const fs::path& part : fs::path(group).relative_path()) {
        folder /= part;
        levels.push_back(folder);
    }
    for (const fs::path& level : levels) {
        const auto limit = readNumber(level / files.limit);
        const auto usage = readNumber(level / files.usage);
        if (!limit || !usage || *limit >= memory.limitBytes)
            continue;
        const std::int64_t cache = readField(level / "memory.stat", files.inactiveCache);
        memory.limitBytes = *limit;
        memory.freeBytes = std::min(memory.freeBytes, std::max<std::int64_t>(0, *limit - *usage + cache));
    }
}

} // namespace

std::optional<MemoryAvailability> availableMemory(const fs::path& root)
{
    const fs::path meminfo = root / "proc/meminfo";
    MemoryAvailability memory;
    memory.limitBytes = 1024 * readField(meminfo, "MemTotal:");
    memory.freeBytes = 1024 * readField(meminfo, "MemAvailable:");
    if (memory.limitBytes == 0)
        return std::nullopt;

    const GroupFiles version2{root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
    const GroupFiles version1{root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                              "total_inactive_file"};
    std::ifstream groups(root / "proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) { // "0::/path" or "7:cpu,memory:/path"
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos)
            continue;
        const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
        if (controllers == ",,")
            applyGroup(memory, version2, line.substr(second + 1));
        else if (controllers.find(",memory,") != std::string::npos)
            applyGroup(memory, version1, line.substr(second + 1));
    }
    return memory;
}

std::int64_t defaultSequenceBudget(const MemoryAvailability& memory)
{
    const std::int64_t keep = std::max<std::int64_t>(memory.freeBytes / 8, std::int64_t{512} << 20);
    return memory.freeBytes - std::min(keep, memory.freeBytes / 2);
}

std::int64_t residentBytes()
{
    std::ifstream in("/proc/self/statm");
    std::int64_t pages = 0, resident = 0;
    if (in >> pages >> resident)
        return resident * sysconf(_SC_PAGESIZE);
    return 0;
}

} // namespace octavo::engine
