#include "app/octavo_commands.h"

#include <QCoreApplication>

#include <iostream>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

int main(int argc, char** argv)
{
    spdlog::set_default_logger(spdlog::stderr_logger_mt("octavo"));
    spdlog::set_level(spdlog::level::warn);
    QCoreApplication::setApplicationName(QStringLiteral("octavo"));
    const std::vector<std::string> words(argv + 1, argv + argc);
    octavo::cli::Streams streams{std::cin, std::cout, std::cerr};
    if (octavo::app::isCommand(words)) {
        const QCoreApplication application(argc, argv);
        return octavo::cli::runCommand("octavo", octavo::app::octavoCommands(), words, streams);
    }
    std::cerr << "octavo: this build has no window; try octavo --help\n";
    return 1;
}
