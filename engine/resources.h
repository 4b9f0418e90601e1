#pragma once

/// Where the program's own files are: the demo model, sketch bases.

#include "engine/result.h"

#include <filesystem>

namespace octavo::engine {

/// The resources folder: $OCTAVO_RESOURCES where set, else beside the executable (../share/octavo, or resources/ in a
/// folder above it), else the folder it was built from. Fails with NotFound, naming what was looked at.
Result<std::filesystem::path> resourcesDir();

/// The bundled demo model, the default wherever a model may be named.
Result<std::filesystem::path> demoModelDir();

} // namespace octavo::engine
