/// tokenizer.json from outside: any bytes are refused with a sentence or give a tokenizer that round-trips any text.

#include "engine/tokenizer/tokenizer.h"

#include <cstdlib>

using namespace octavo::engine;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    // Plain text: what stands before the first NUL. File: what follows, or all of it.
    const std::size_t cut = input.find('\0');
    const std::string_view json = cut == std::string_view::npos ? input : input.substr(cut + 1);
    const std::string_view text = input.substr(0, cut);

    const auto tokenizer = Tokenizer::parse(json, "fuzz");
    if (!tokenizer) {
        if (tokenizer.error().message.empty())
            std::abort();
        return 0;
    }
    const auto ids = tokenizer->encode(text, SpecialTokens::Plain);
    for (const TokenId id : ids) {
        if (tokenizer->isAdded(id))
            std::abort();
    }
    if (tokenizer->decode(ids) != text || tokenizer->count(text, SpecialTokens::Plain) != ids.size())
        std::abort();
    tokenizer->encode(text, SpecialTokens::Parse);
    return 0;
}
