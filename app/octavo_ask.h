#pragma once

#include "engine/cli/command.h"

namespace octavo::app {

/// `octavo ask`: reads a repository once and answers each question, several agents at once. Keeps no session.
/// Needs a QCoreApplication.
cli::Command askCommand();

} // namespace octavo::app
