#include "engine/cli/commands.h"
#include "engine/cli/common.h"
#include "engine/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <ostream>

namespace octavo::cli {
namespace {

Result<void> runTokenize(const Arguments& arguments, Streams& streams)
{
    OCTAVO_TRY(const std::filesystem::path model, modelDir(arguments));
    OCTAVO_TRY(const engine::Tokenizer tokenizer, engine::Tokenizer::load(model / "tokenizer.json"));
    OCTAVO_TRY(const std::string text, readAll(streams.in));
    const auto mode = arguments.has("--plain") ? engine::SpecialTokens::Plain : engine::SpecialTokens::Parse;
    const std::vector<engine::TokenId> ids = tokenizer.encode(text, mode);
    if (arguments.has("--json")) {
        streams.out << nlohmann::ordered_json{{"ids", ids}}.dump() << '\n';
        return {};
    }
    for (std::size_t i = 0; i < ids.size(); ++i)
        streams.out << (i == 0 ? "" : " ") << ids[i];
    streams.out << '\n';
    return {};
}

} // namespace

Command tokenizeCommand()
{
    return {"tokenize",
            "Reads text from stdin and prints its token ids",
            "",
            {modelOption(), {"--plain", "", "treat the text of special tokens as text"}, jsonOption()},
            runTokenize};
}

} // namespace octavo::cli
