#pragma once

/// One maker per command; add a line here and in commands.cpp for a new one.

#include "engine/cli/command.h"

namespace octavo::cli {

Command benchCommand();
Command devicesCommand();
Command doctorCommand();
Command evalCommand();
Command generateCommand();
Command tokenizeCommand();

} // namespace octavo::cli
