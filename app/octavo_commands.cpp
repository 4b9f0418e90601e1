#include "app/octavo_commands.h"

#include "app/octavo_ask.h"
#include "app/octavo_ingest.h"

#include <algorithm>

namespace octavo::app {

std::vector<cli::Command> octavoCommands()
{
    return {askCommand(), ingestCommand()};
}

bool isCommand(const std::vector<std::string>& words)
{
    if (words.empty())
        return false;
    if (words[0] == "help" || words[0] == "--help" || words[0] == "-h")
        return true;
    const auto all = octavoCommands();
    return std::any_of(all.begin(), all.end(), [&](const cli::Command& c) { return c.name == words[0]; });
}

} // namespace octavo::app
