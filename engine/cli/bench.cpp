#include "engine/cli/bench.h"

#include "engine/cli/commands.h"
#include "engine/cli/common.h"

#include <algorithm>
#include <array>

namespace octavo::cli {
namespace {

struct Bench {
    const char* name;
    Result<void> (*run)(const Arguments&, Streams&);
};

constexpr std::array benches{
    Bench{"prefill", runBenchPrefill},
    Bench{"decode", runBenchDecode},
    Bench{"mixed", runBenchMixed},
    Bench{"speculation", runBenchSpeculation},
};

std::string benchNames()
{
    std::string names;
    for (const Bench& bench : benches)
        names += (names.empty() ? "" : "|") + std::string(bench.name);
    return names;
}

Result<void> runBench(const Arguments& arguments, Streams& streams)
{
    const std::vector<std::string>& words = arguments.positional();
    if (words.size() == 1) {
        const auto bench = std::ranges::find_if(benches, [&](const Bench& known) { return words[0] == known.name; });
        if (bench != benches.end())
            return bench->run(arguments, streams);
    }
    return Error{ErrorCode::InvalidArgument, "name one of " + benchNames()};
}

} // namespace

Command benchCommand()
{
    return {"bench", "Measures speed on this machine", benchNames(),
            joined({modelOption(),
                    {"--context", "N", "tokens of context"},
                    {"--agents", "N", "agents at once"},
                    {"--seconds", "N", "how long to measure"},
                    {"--files", "DIR", "speculation: source files to ask about"},
                    {"--questions", "N", "speculation: how many (default: 6)"},
                    {"--max-tokens", "N", "speculation: the longest answer (default: 160)"},
                    {"--mtp", "on|off", "prefill, decode: keep what MTP drafts need (default: off)"}},
                   joined(engineOptions(), {jsonOption()})),
            runBench};
}

} // namespace octavo::cli
