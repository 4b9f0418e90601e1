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
    std::vector<std::string> options; ///< of its own, beside those that every bench takes
};

const std::array benches{
    Bench{"prefill", runBenchPrefill, {"--shape", "--agents", "--seconds", "--mtp"}},
    Bench{"decode",
          runBenchDecode,
          {"--shape", "--agents", "--rows", "--seconds", "--mtp", "--state", "--noise", "--compare", "--picks",
           "--pick-rule"}},
    Bench{"mixed", runBenchMixed, {"--agents", "--seconds"}},
    Bench{"speculation", runBenchSpeculation, {"--files", "--questions", "--show", "--max-tokens"}},
    Bench{"reopen", runBenchReopen, {"--changed"}},
    Bench{"cancel", runBenchCancel, {"--agents", "--rounds"}},
    Bench{"tier", runBenchTier, {"--text", "--steps", "--state", "--miss-rate"}},
};

/// What a bench does not look at is refused: its figure would be taken for one of that option.
Result<void> checkOptions(const Bench& bench, const Arguments& arguments)
{
    const auto names = [](const Bench& of, const std::string& name) {
        return std::ranges::find(of.options, name) != of.options.end();
    };
    for (const std::string& name : arguments.given()) {
        const bool anothers = std::ranges::any_of(benches, [&](const Bench& other) { return names(other, name); });
        if (anothers && !names(bench, name))
            return Error{ErrorCode::InvalidArgument, "bench " + std::string(bench.name) + " takes no " + name};
    }
    return {};
}

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
        if (bench != benches.end()) {
            OCTAVO_CHECK(checkOptions(*bench, arguments));
            return bench->run(arguments, streams);
        }
    }
    return Error{ErrorCode::InvalidArgument, "name one of " + benchNames()};
}

} // namespace

std::vector<engine::TokenId> uniqueTokens(std::int64_t count, engine::TokenId endId, std::uint64_t seed)
{
    std::vector<engine::TokenId> tokens;
    tokens.reserve(std::size_t(count));
    std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
    for (std::int64_t i = 0; i < count; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        tokens.push_back(engine::TokenId((state >> 33) % std::uint64_t(std::max(endId - 64, 1))));
    }
    return tokens;
}

std::string reproducingCommand(const Arguments& arguments)
{
    constexpr const char* harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    std::string command = "octavo-engine bench";
    for (const std::string& word : arguments.positional())
        command += " " + word;
    for (const std::string& name : arguments.given()) {
        if (name == "--json")
            continue;
        command += " " + name;
        std::string value = arguments.text(name);
        if (value.find_first_not_of(harmless) != std::string::npos) {
            for (std::size_t i = 0; (i = value.find('\'', i)) != std::string::npos; i += 4)
                value.replace(i, 1, "'\\''");
            value = "'" + value + "'";
        }
        command += value.empty() ? "" : " " + value;
    }
    return command;
}

Command benchCommand()
{
    return {"bench", "Measures speed on this machine", benchNames(),
            joined({modelOption(),
                    {"--shape", "NAME", "prefill, decode: random weights of qwen3.5-27b, -9b, -4b or -0.8b"},
                    {"--rows", "K", "decode: rows of each agent in a step, as when drafts are checked (default: 1)"},
                    {"--context", "N", "tokens of context"},
                    {"--agents", "N", "agents at once"},
                    {"--seconds", "N", "how long to measure"},
                    {"--changed", "N", "reopen: tokens at the context's end that the later commit changes"},
                    {"--rounds", "N", "cancel: how often (default: 20)"},
                    {"--files", "DIR", "speculation: source files to ask about"},
                    {"--questions", "N", "speculation: how many (default: 6)"},
                    {"--show", "", "speculation: print questions and answers on stderr"},
                    {"--max-tokens", "N", "speculation: the longest answer (default: 160)"},
                    {"--mtp", "on|off", "prefill, decode: keep what MTP drafts need (default: off)"},
                    {"--state", "FILE",
                     "decode, tier: keep the context that was read there, and take it from there next time"},
                    {"--noise", "", "decode on the CPU: fill contexts with random rows instead of reading them"},
                    {"--compare", "", "decode: sparse and dense steps in turns, and the median of the turns' ratios"},
                    {"--pick-rule", "priority|largest",
                     "decode: whether picks stand for what is not picked (default: priority)"},
                    {"--picks", "N",
                     "decode: rows that sparse attention picks (default: 1536, on a GPU 2048 and 3584 from 131,072 "
                     "tokens on)"},
                    {"--text", "PATH", "tier: a text or a folder of them"},
                    {"--steps", "N", "tier: how many to record (default: 256)"},
                    {"--miss-rate", "F", "tier: picks made so that a share F misses, instead of a text's"}},
                   joined(engineOptions(), {jsonOption()})),
            runBench};
}

} // namespace octavo::cli
