#include "engine/cli/commands.h"

namespace octavo::cli {

std::vector<Command> commands()
{
    return {
        devicesCommand(),
        tokenizeCommand(),
        generateCommand(),
    };
}

} // namespace octavo::cli
