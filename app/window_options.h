#pragma once

/// `octavo [--model DIR] [--device D] [--budget N] [REPO...]`: what the window is opened with.

#include "agents/workbench.h"
#include "engine/cli/command.h"

#include <QStringList>

namespace octavo::app {

struct WindowOptions {
    agents::WorkbenchOptions workbench;
    QStringList repositories; ///< absolute paths that exist
    qint64 tokenBudget = -1;  ///< of each repository named; 0: all that fits; negative: what is read soon
};

/// Fails with InvalidArgument (unknown option, a value out of range) or NotFound (a repository that does not exist;
/// no demo model where none was named). Sessions are kept in the user's data folder, and so are
/// the contexts that were read, unless --saved-contexts names another place.
Result<WindowOptions> readWindowOptions(const std::vector<std::string>& words);

/// Whether the environment names a display, or a Qt platform that needs none.
bool hasDisplay();

} // namespace octavo::app
