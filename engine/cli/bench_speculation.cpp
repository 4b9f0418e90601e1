#include "engine/cli/bench.h"
#include "engine/cli/common.h"
#include "engine/cli/source_prompts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <future>
#include <ostream>

namespace octavo::cli
{
namespace
{

using engine::DraftSources;

struct Mode {
    const char* name;
    bool drafts;
    DraftSources sources;
};
constexpr std::array modes{Mode{"none", false, DraftSources::All}, Mode{"lookup", true, DraftSources::Lookup},
                           Mode{"mtp", true, DraftSources::Mtp}, Mode{"both", true, DraftSources::All}};

struct Cell {
    const char* name;
    const char* before; ///< the question around a function's name
    const char* after;
    float temperature;
    bool quotes; ///< only answers that hold a block of code count
};
/// Greedy answers that copy code; and text that the model makes up, drawn, so that it does not fall into repeating
/// itself.
constexpr std::array cells{Cell{"quotes", "Show me `", "`.", 0.0f, true},
                           Cell{"prose", "Explain in detail what ", " does.", 1.0f, false}};

struct Sum {
    std::int64_t tokens = 0, accepted = 0;
    double decodeMs = 0.0;
    double tokensPerSecond() const { return decodeMs > 0.0 ? 1e3 * double(tokens) / decodeMs : 0.0; }
};

struct Answer {
    std::vector<engine::TokenId> ids;
    engine::Event last;
};

Result<Answer> answerTo(engine::Engine& engine, engine::GenerationRequest request)
{
    Answer answer;
    std::promise<void> ended;
    request.id = engine.nextRequestId();
    OCTAVO_CHECK(engine.submit(std::move(request), [&](engine::RequestId, engine::Event&& event) {
        if (const auto* text = std::get_if<engine::TextAppended>(&event)) {
            answer.ids.insert(answer.ids.end(), text->tokens.begin(), text->tokens.end());
        } else if (!std::holds_alternative<engine::PrefillProgress>(event)) {
            answer.last = std::move(event);
            ended.set_value();
        }
    }));
    ended.get_future().wait();
    if (const auto* failed = std::get_if<engine::Failed>(&answer.last))
        return failed->error;
    return answer;
}

} // namespace

Result<void> runBenchSpeculation(const Arguments& arguments, Streams& streams)
{
    if (!arguments.has("--files"))
        return Error{ErrorCode::InvalidArgument, "--files is needed: a folder of source files to ask about"};
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 4096, 256, longestContext));
    OCTAVO_TRY(const std::int64_t questions, arguments.integer("--questions", 6, 1, 1000));
    OCTAVO_TRY(const std::int64_t maxTokens, arguments.integer("--max-tokens", 160, 16, 1 << 20));
    OCTAVO_TRY(const auto engine, openEngine(arguments, streams));
    OCTAVO_TRY(const SourcePrompts prompts,
               SourcePrompts::read(arguments.text("--files"), engine->tokenizer(), context));
    if (prompts.functions().empty())
        return Error{ErrorCode::NotFound,
                     arguments.text("--files") + " has no whole source file with a function to ask about in " +
                         std::to_string(context) + " tokens; name another folder of C, C++, Python, Rust or Go files"};

    for (const Cell& cell : cells) {
        std::array<Sum, modes.size()> sums;
        std::int64_t different = 0, counted = 0;
        for (std::int64_t question = 0; question < questions; ++question) {
            const auto& functions = prompts.functions();
            const std::string& name = functions[std::size_t(question) * functions.size() / std::size_t(questions)];
            engine::GenerationRequest request;
            request.prompt = prompts.ask(cell.before + name + cell.after);
            request.contextTokens = std::int64_t(prompts.context().size());
            request.maxNewTokens = int(maxTokens);
            request.sampling.temperature = cell.temperature;
            request.sampling.seed = std::uint64_t(question);
            std::vector<engine::TokenId> plain;
            std::array<Sum, modes.size()> ofAnswer;
            for (std::size_t turn = 0; turn < modes.size(); ++turn) {
                // Each mode comes first in its turn; each has an agent of its own, which learns from its own drafts.
                const std::size_t mode = (turn + std::size_t(question)) % modes.size();
                request.agent = engine::AgentId(std::uint32_t(mode));
                request.drafts = modes[mode].drafts;
                request.draftSources = modes[mode].sources;
                OCTAVO_TRY(const Answer answer, answerTo(*engine, request));
                const auto& stats = std::get<engine::Finished>(answer.last).stats;
                ofAnswer[mode] = {stats.newTokens, stats.acceptedDrafts, stats.decodeMs};
                if (turn == 0) {
                    plain = answer.ids;
                    if (arguments.has("--show"))
                        streams.err << cell.before << name << cell.after << '\n'
                                    << engine->tokenizer().decode(plain) << "\n\n";
                }
                different += answer.ids != plain;
            }
            if (cell.quotes && engine->tokenizer().decode(plain).find("```") == std::string::npos)
                continue;
            ++counted;
            for (std::size_t mode = 0; mode < modes.size(); ++mode) {
                sums[mode].tokens += ofAnswer[mode].tokens;
                sums[mode].accepted += ofAnswer[mode].accepted;
                sums[mode].decodeMs += ofAnswer[mode].decodeMs;
            }
        }
        for (std::size_t mode = 0; mode < modes.size(); ++mode) {
            const Sum& sum = sums[mode];
            const double ratio =
                sums[0].tokensPerSecond() > 0.0 ? sum.tokensPerSecond() / sums[0].tokensPerSecond() : 0.0;
            const double perStep =
                sum.tokens > sum.accepted ? double(sum.tokens) / double(sum.tokens - sum.accepted) : 0.0;
            if (arguments.has("--json")) {
                const nlohmann::ordered_json line{{"bench", "speculation"},
                                                  {"device", engine->metrics().devices.front().device},
                                                  {"model", engine->model().name},
                                                  {"context", context},
                                                  {"answers", cell.name},
                                                  {"mode", modes[mode].name},
                                                  {"questions", questions},
                                                  {"answers_counted", counted},
                                                  {"tokens", sum.tokens},
                                                  {"tokens_per_s", sum.tokensPerSecond()},
                                                  {"ratio", ratio},
                                                  {"tokens_per_step", perStep},
                                                  {"answers_that_differ", different}};
                streams.out << line.dump() << '\n';
            } else {
                streams.out << cell.name << ", drafts " << modes[mode].name << ": " << sum.tokensPerSecond()
                            << " tokens/s, " << ratio << " of none, " << perStep << " tokens per step (" << sum.tokens
                            << " tokens of " << counted << " answers, " << different << " answers differ)\n";
            }
        }
    }
    return {};
}

} // namespace octavo::cli
