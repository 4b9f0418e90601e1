#include "engine/resources.h"

#include <cstdlib>
#include <string>
#include <vector>

namespace octavo::engine {
namespace fs = std::filesystem;

Result<fs::path> resourcesDir()
{
    const fs::path mark = "demo-model/config.json"; // what tells our folder from another of that name
    std::error_code ignored;
    if (const char* named = std::getenv("OCTAVO_RESOURCES"); named && *named) {
        if (fs::exists(fs::path(named) / mark, ignored))
            return fs::path(named);
        return Error{ErrorCode::NotFound, std::string(named) + " (named by OCTAVO_RESOURCES) has no "
                                              + mark.string() + "; unset it or name Octavo's resources folder"};
    }
    std::vector<fs::path> candidates;
    const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
    if (!executable.empty()) {
        const fs::path folder = executable.parent_path();
        candidates = {folder / "../share/octavo", folder / "../resources", folder / "../../resources",
                      folder / "../../../resources"};
    }
#ifdef OCTAVO_SOURCE_RESOURCES
    candidates.emplace_back(OCTAVO_SOURCE_RESOURCES);
#endif
    std::string looked;
    for (const fs::path& candidate : candidates) {
        if (fs::exists(candidate / mark, ignored))
            return candidate.lexically_normal();
        looked += (looked.empty() ? "" : ", ") + candidate.lexically_normal().string();
    }
    return Error{ErrorCode::NotFound,
                 "Octavo's resources folder was not found (looked at " + looked + "); set OCTAVO_RESOURCES"};
}

Result<fs::path> demoModelDir()
{
    OCTAVO_TRY(const fs::path folder, resourcesDir());
    return folder / "demo-model";
}

} // namespace octavo::engine
