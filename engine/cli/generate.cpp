#include "engine/cli/commands.h"
#include "engine/cli/common.h"
#include "engine/counted.h"
#include "engine/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <future>
#include <mutex>
#include <ostream>

namespace octavo::cli {
namespace {

const char* finishName(engine::FinishReason reason)
{
    switch (reason) {
    case engine::FinishReason::Stop: return "stop";
    case engine::FinishReason::Length: return "length";
    case engine::FinishReason::ContextFull: return "context_full";
    case engine::FinishReason::Cancelled: return "cancelled";
    case engine::FinishReason::Repeats: return "repeats";
    }
    return "unknown";
}

Result<engine::SamplingParams> readSampling(const Arguments& arguments)
{
    engine::SamplingParams sampling;
    OCTAVO_TRY(const double temperature, arguments.number("--temperature", 0.0, 0.0, 100.0));
    OCTAVO_TRY(const std::int64_t topK, arguments.integer("--top-k", 0, 0, 1 << 24));
    OCTAVO_TRY(const double topP, arguments.number("--top-p", 1.0, 0.0, 1.0));
    OCTAVO_TRY(const double minP, arguments.number("--min-p", 0.0, 0.0, 1.0));
    OCTAVO_TRY(const std::int64_t seed, arguments.integer("--seed", 0));
    sampling.temperature = float(temperature);
    sampling.topK = int(topK);
    sampling.topP = float(topP);
    sampling.minP = float(minP);
    sampling.seed = std::uint64_t(seed);
    return sampling;
}

Result<std::vector<engine::TokenId>> readPrompt(const Arguments& arguments, const engine::Tokenizer& tokenizer,
                                                std::istream& in)
{
    if (arguments.has("--prompt"))
        return tokenizer.encode(arguments.text("--prompt"), engine::SpecialTokens::Parse);
    OCTAVO_TRY(std::vector<engine::TokenId> ids, readIds(arguments.text("--ids"), in));
    OCTAVO_CHECK(checkIds(ids, tokenizer.endId()));
    return ids;
}

Result<void> runGenerate(const Arguments& arguments, Streams& streams)
{
    if (arguments.has("--ids") == arguments.has("--prompt"))
        return Error{ErrorCode::InvalidArgument, "one of --ids and --prompt is needed"};
    engine::GenerationRequest request;
    OCTAVO_TRY(const std::int64_t maxTokens, arguments.integer("--max-tokens", 256, 0, 1 << 24));
    request.maxNewTokens = int(maxTokens);
    OCTAVO_TRY(request.contextTokens, arguments.integer("--context-tokens", 0));
    OCTAVO_TRY(request.sampling, readSampling(arguments));
    request.stopStrings = arguments.texts("--stop");
    const std::string draft = arguments.text("--draft", "on");
    if (draft != "on" && draft != "off")
        return Error{ErrorCode::InvalidArgument, "--draft is '" + draft + "', must be on or off"};
    request.drafts = draft == "on";

    OCTAVO_TRY(const auto engine, openEngine(arguments, streams));
    OCTAVO_TRY(request.prompt, readPrompt(arguments, engine->tokenizer(), streams.in));
    request.id = engine->nextRequestId();

    const bool json = arguments.has("--json");
    std::vector<engine::TokenId> ids;
    std::string text;
    std::promise<engine::Event> ended;
    auto end = ended.get_future();
    OCTAVO_CHECK(engine->submit(std::move(request), [&](engine::RequestId, engine::Event&& event) {
        if (const auto* appended = std::get_if<engine::TextAppended>(&event)) {
            ids.insert(ids.end(), appended->tokens.begin(), appended->tokens.end());
            text += appended->text;
            if (!json)
                streams.out << appended->text << std::flush;
        } else if (!std::holds_alternative<engine::PrefillProgress>(event)) {
            ended.set_value(std::move(event));
        }
    }));
    const engine::Event last = end.get();
    if (const auto* failed = std::get_if<engine::Failed>(&last))
        return failed->error;

    const auto& finished = std::get<engine::Finished>(last);
    const engine::GenerationStats& stats = finished.stats;
    const double rate = stats.decodeTokensPerSecond();
    if (json) {
        const nlohmann::ordered_json line{
            {"ids", ids},
            {"text", text},
            {"finish_reason", finishName(finished.reason)},
            {"prompt_tokens", stats.promptTokens},
            {"reused_tokens", stats.reusedTokens},
            {"new_tokens", stats.newTokens},
            {"ttft_ms", stats.ttftMs},
            {"prefill_ms", stats.prefillMs},
            {"decode_ms", stats.decodeMs},
            {"tokens_per_s", rate < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(rate)},
            {"accepted_drafts", stats.acceptedDrafts},
        };
        streams.out << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    } else {
        streams.out << '\n';
        streams.err << engine::counted(stats.promptTokens, "token") << " read in " << std::int64_t(stats.prefillMs)
                    << " ms, " << stats.newTokens << " written in " << std::int64_t(stats.decodeMs) << " ms ("
                    << finishName(finished.reason) << ")\n";
    }
    return {};
}

} // namespace

Command generateCommand()
{
    return {"generate",
            "Continues a prompt",
            "",
            joined({modelOption(),
                    {"--prompt", "TEXT", "the prompt; the text of special tokens counts as those tokens"},
                    {"--ids", "FILE", "the prompt as token ids (\"-\": from stdin)"},
                    {"--max-tokens", "N", "write at most this many tokens (default: 256)"},
                    {"--context-tokens", "N", "the first N tokens are a context to keep for later (default: 0)"},
                    {"--temperature", "T", "0 (default): always the likeliest token"},
                    {"--top-p", "P", "keep the likeliest tokens up to this probability (default: 1, all)"},
                    {"--top-k", "K", "keep the K likeliest tokens (default: 0, all)"},
                    {"--min-p", "P", "drop tokens below P times the likeliest (default: 0, none)"},
                    {"--seed", "S", "the same seed gives the same text (default: 0)"},
                    {"--stop", "TEXT", "end before this text; may be given several times", true},
                    {"--draft", "on|off", "guess tokens ahead and check them in one step (default: on)"}},
                   joined(engineOptions(), {jsonOption()})),
            runGenerate};
}

} // namespace octavo::cli
