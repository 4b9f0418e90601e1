#include "app/octavo_commands.h"
#include "app/quit_signals.h"
#include "app/window_options.h"
#include "ui/run_window.h"

#include <QApplication>

#include <iostream>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace {

/// The exit status that packaging/run goes on to the terminal for (EX_UNAVAILABLE of sysexits.h).
constexpr int noDisplay = 69;

int openWindow(int argc, char** argv, const std::vector<std::string>& words)
{
    const auto options = octavo::app::readWindowOptions(words);
    if (!options) {
        std::cerr << "octavo: " << options.error().message << "; try octavo --help\n";
        return options.error().code == octavo::ErrorCode::InvalidArgument ? 2 : 1;
    }
    if (!octavo::app::hasDisplay()) {
        std::cerr << "octavo: there is no display to open a window on; octavo ask answers on the terminal\n";
        return noDisplay;
    }
    // A display that is named but does not answer makes Qt abort, unless it has a platform to fall back on.
    const bool chosen = !qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM");
    if (!chosen)
        qputenv("QT_QPA_PLATFORM",
                qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY") ? "xcb;offscreen" : "wayland;xcb;offscreen");
    const QApplication application(argc, argv);
    if (!chosen && QGuiApplication::platformName() == QStringLiteral("offscreen")) {
        std::cerr << "octavo: the display that DISPLAY or WAYLAND_DISPLAY names does not answer; octavo ask answers on "
                     "the terminal\n";
        return noDisplay;
    }
    const octavo::app::QuitSignals quit; // as closing the window does
    QObject::connect(&quit, &octavo::app::QuitSignals::asked, &application, &QApplication::quit);
    octavo::ui::WindowStart start;
    start.repositories = options->repositories;
    start.tokenBudget = options->tokenBudget;
    start.trusted = options->trusted;
    start.given = options->given;
    return octavo::ui::runWindow(options->workbench, start);
}

} // namespace

int main(int argc, char** argv)
{
    spdlog::set_default_logger(spdlog::stderr_logger_mt("octavo"));
    spdlog::set_level(spdlog::level::warn);
    QCoreApplication::setApplicationName(QStringLiteral("octavo"));
    QCoreApplication::setApplicationVersion(QStringLiteral(OCTAVO_VERSION));
    std::vector<std::string> words(argv + 1, argv + argc);
    if (octavo::app::asksForHelp(words))
        words = {"--help"};
    if (!octavo::app::isCommand(words))
        return openWindow(argc, argv, words);
    if (octavo::app::asksForHelp(words))
        octavo::app::printWindowHelp(std::cout);
    octavo::cli::Streams streams{std::cin, std::cout, std::cerr};
    const QCoreApplication application(argc, argv);
    return octavo::cli::runCommand("octavo", octavo::app::octavoCommands(), words, streams);
}
