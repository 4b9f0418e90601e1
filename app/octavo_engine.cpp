#include "engine/cli/command.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv)
{
    spdlog::set_default_logger(spdlog::stderr_logger_mt("octavo-engine"));
    spdlog::set_level(spdlog::level::warn);
    const std::vector<std::string> words(argv + 1, argv + argc);
    octavo::cli::Streams streams{std::cin, std::cout, std::cerr};
    return octavo::cli::runEngineCommand(words, streams);
}
