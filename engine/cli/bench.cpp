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
    Bench{"reopen", runBenchReopen},
    Bench{"cancel", runBenchCancel},
    Bench{"tier", runBenchTier},
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
                    {"--text", "PATH", "tier: a text or a folder of them"},
                    {"--steps", "N", "tier: how many to record (default: 256)"}},
                   joined(engineOptions(), {jsonOption()})),
            runBench};
}

} // namespace octavo::cli
