#include "engine/cli/commands.h"

namespace octavo::cli {

std::vector<Command> commands()
{
    return {
        doctorCommand(),
        devicesCommand(),
        tokenizeCommand(),
        generateCommand(),
        benchCommand(),
        evalCommand(),
    };
}

} // namespace octavo::cli
