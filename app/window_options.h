#pragma once

/// `octavo [--model DIR] [--device D] [--budget N] [--trust] [REPO...]`: what the window is opened with.

#include "agents/workbench.h"
#include "engine/cli/command.h"
#include "ui/settings/startup_settings.h"

#include <QStringList>

#include <filesystem>
#include <ostream>

namespace octavo::app {

struct WindowOptions {
    agents::WorkbenchOptions workbench;
    QStringList repositories; ///< absolute paths that exist
    qint64 tokenBudget = -1;  ///< of each repository named; 0: all that fits; negative: what is read soon
    bool trusted = false;     ///< repositories named are read though they belong to another user
    ui::GivenOptions given;
};

/// Fails with InvalidArgument (unknown option, a value out of range, a word that is neither a command nor a path) or
/// NotFound (a repository that does not exist; no demo model where none was named). Sessions are kept in the user's
/// data folder, and so are the contexts that were read, unless --saved-contexts names another place.
Result<WindowOptions> readWindowOptions(const std::vector<std::string>& words);

/// Where the window keeps contexts that were read, where --saved-contexts names no other place.
std::filesystem::path defaultSavedContexts();

/// What `octavo --help` says of the window, before the commands.
void printWindowHelp(std::ostream& out);

/// Whether the environment names a display, or a Qt platform that needs none.
bool hasDisplay();

} // namespace octavo::app
