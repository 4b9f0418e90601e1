#pragma once

/// What a command is, and how a program of several is run: octavo-engine's own, listed in commands(), and octavo's.

#include "engine/cli/arguments.h"
#include "engine/result.h"

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace octavo::cli {

/// Where a command reads and writes. With --json only JSON objects, one a line, go to `out`; the rest goes to `err`.
struct Streams {
    std::istream& in;
    std::ostream& out;
    std::ostream& err;
};

/// One command: how it is called, and what it does. run() fails with InvalidArgument for wrong usage (exit status 2)
/// and with anything else for what did not work (exit status 1).
struct Command {
    std::string name;
    std::string summary;    ///< one line, no full stop
    std::string positional; ///< as shown in the usage line: "MODEL"; empty: takes none
    std::vector<OptionSpec> options;
    std::function<Result<void>(const Arguments&, Streams&)> run;
};

/// Those of octavo-engine, in the order that help shows.
std::vector<Command> commands();

/// The options and what each does, one a line.
void printOptions(std::span<const OptionSpec> options, std::ostream& out);

/// A whole program without main(): picks the command, parses, runs, prints what failed. Gives the exit status:
/// 0 done, 1 failed, 2 wrong usage. `words` is the command line without the program's name.
int runCommand(const std::string& program, std::span<const Command> commands, std::span<const std::string> words,
               Streams& streams);

/// runCommand() for octavo-engine.
int runEngineCommand(std::span<const std::string> words, Streams& streams);

} // namespace octavo::cli
