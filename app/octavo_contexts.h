#pragma once

#include "engine/cli/command.h"

namespace octavo::app {

/// `octavo contexts list|remove|verify`: the contexts saved on disk.
cli::Command contextsCommand();

} // namespace octavo::app
