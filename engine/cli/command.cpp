#include "engine/cli/command.h"

#include "engine/cli/commands.h"

#include <algorithm>
#include <exception>
#include <new>
#include <ostream>

namespace octavo::cli {
namespace {

constexpr int exitDone = 0, exitFailed = 1, exitUsage = 2;
const OptionSpec helpOption{"--help", "", "shows this page"};

void printOverview(const std::string& program, std::span<const Command> all, std::ostream& out)
{
    out << "usage: " << program << " COMMAND [options]\n\n";
    std::size_t width = 0;
    for (const Command& command : all)
        width = std::max(width, command.name.size());
    for (const Command& command : all)
        out << "  " << command.name << std::string(width - command.name.size() + 2, ' ') << command.summary << '\n';
    out << "\n'" << program << " COMMAND --help' shows a command's options, '" << program
        << " --version' says which version this is.\n";
}

void printHelp(const std::string& program, const Command& command, std::ostream& out)
{
    out << "usage: " << program << ' ' << command.name;
    if (!command.positional.empty())
        out << ' ' << command.positional;
    out << " [options]\n\n" << command.summary << ".\n\n";

    std::vector<OptionSpec> options = command.options;
    options.push_back(helpOption);
    printOptions(options, out);
}

/// `done` unless what was written did not arrive, as on a full disk.
int flushed(const std::string& prefix, int done, Streams& streams)
{
    streams.out.flush();
    if (streams.out)
        return done;
    streams.err << prefix << ": the output could not be written\n";
    return exitFailed;
}

/// One line, whatever names and paths of others stand in it.
std::string oneLine(std::string text)
{
    for (char& c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            c = '?';
    }
    return text;
}

} // namespace

void printOptions(std::span<const OptionSpec> options, std::ostream& out)
{
    const auto left = [](const OptionSpec& option) {
        return option.valueName.empty() ? option.name : option.name + ' ' + option.valueName;
    };
    std::size_t width = 0;
    for (const OptionSpec& option : options)
        width = std::max(width, left(option).size());
    for (const OptionSpec& option : options) {
        const std::string name = left(option);
        out << "  " << name << std::string(width - name.size() + 2, ' ') << option.help << '\n';
    }
}

int runCommand(const std::string& program, std::span<const Command> all, std::span<const std::string> words,
               Streams& streams)
{
    if (words.empty()) {
        printOverview(program, all, streams.err);
        return exitUsage;
    }
    if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
        printOverview(program, all, streams.out);
        return flushed(program, exitDone, streams);
    }
    if (words[0] == "--version") {
        streams.out << program << ' ' << OCTAVO_VERSION << '\n';
        return flushed(program, exitDone, streams);
    }
    const auto command = std::ranges::find(all, words[0], &Command::name);
    if (command == all.end()) {
        streams.err << program << ": there is no command '" << words[0] << "'; try " << program << " --help\n";
        return exitUsage;
    }
    std::vector<OptionSpec> options = command->options;
    options.push_back(helpOption);
    options.push_back({"-h", "", ""});
    const std::string name = program + ' ' + command->name, prefix = name + ": ";

    auto arguments = Arguments::parse(options, words.subspan(1));
    if (!arguments) {
        streams.err << prefix << arguments.error().message << "; try " << name << " --help\n";
        return exitUsage;
    }
    if (arguments->has("--help") || arguments->has("-h")) {
        printHelp(program, *command, streams.out);
        return flushed(name, exitDone, streams);
    }
    if (command->positional.empty() && !arguments->positional().empty()) {
        streams.err << prefix << "takes no argument '" << arguments->positional().front() << "'\n";
        return exitUsage;
    }
    const auto guardedRun = [&]() -> Result<void> {
        try {
            return command->run(*arguments, streams);
        } catch (const std::bad_alloc&) {
            return Error{ErrorCode::OutOfMemory, "memory ran out; close other programs or ask for less"};
        } catch (const std::exception& thrown) {
            return Error{ErrorCode::Unsupported, std::string("ended by an error inside: ") + thrown.what()};
        }
    };
    if (const auto done = guardedRun(); !done) {
        streams.out.flush();
        streams.err << prefix << oneLine(done.error().message) << '\n';
        return done.error().code == ErrorCode::InvalidArgument ? exitUsage : exitFailed;
    }
    return flushed(name, exitDone, streams);
}

int runEngineCommand(std::span<const std::string> words, Streams& streams)
{
    return runCommand("octavo-engine", commands(), words, streams);
}

} // namespace octavo::cli
