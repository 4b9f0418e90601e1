#include "app/octavo_commands.h"

#include "app/octavo_ask.h"
#include "app/octavo_contexts.h"
#include "app/octavo_ingest.h"

#include <algorithm>

namespace octavo::app {

std::vector<cli::Command> octavoCommands()
{
    return {askCommand(), ingestCommand(), contextsCommand()};
}

bool isCommand(const std::vector<std::string>& words)
{
    if (words.empty())
        return false;
    const auto all = octavoCommands();
    if (asksForHelp(words) || words[0] == "--version")
        return true;
    return std::ranges::any_of(all, [&](const cli::Command& c) { return c.name == words[0]; });
}

bool asksForHelp(const std::vector<std::string>& words)
{
    if (words.empty())
        return false;
    const auto all = octavoCommands();
    if (std::ranges::any_of(all, [&](const cli::Command& c) { return c.name == words[0]; }))
        return false; // the command's own
    const auto end = std::ranges::find(words, "--");
    return words[0] == "help"
           || std::any_of(words.begin(), end, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

} // namespace octavo::app
