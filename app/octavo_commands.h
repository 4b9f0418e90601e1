#pragma once

#include "engine/cli/command.h"

namespace octavo::app {

/// The commands of `octavo` that need no window, in the order that help shows.
std::vector<cli::Command> octavoCommands();

/// Whether a command line asks for one of them (or for help); all else opens the window.
bool isCommand(const std::vector<std::string>& words);

/// Whether the words ask what octavo itself can do, wherever --help stands among the window's options.
bool asksForHelp(const std::vector<std::string>& words);

} // namespace octavo::app
