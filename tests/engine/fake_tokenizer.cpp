#include "tests/engine/fake_tokenizer.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <string>

namespace octavo::test {
namespace {

std::string utf8(int codePoint)
{
    if (codePoint < 0x80)
        return std::string(1, char(codePoint));
    return {char(0xc0 | codePoint >> 6), char(0x80 | (codePoint & 0x3f))};
}

/// The byte alphabet of byte-level BPE: printable bytes stand for themselves, the others from U+0100 on.
nlohmann::json byteVocabulary()
{
    nlohmann::json vocabulary = nlohmann::json::object();
    int moved = 0;
    for (int byte = 0; byte < 256; ++byte) {
        const bool isPrintable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
        vocabulary[utf8(isPrintable ? byte : 256 + moved++)] = byte;
    }
    return vocabulary;
}

} // namespace

engine::Tokenizer fakeTokenizer()
{
    nlohmann::json added = nlohmann::json::array();
    engine::TokenId id = endOfText;
    for (const char* text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|repo_name|>", "<|file_sep|>"})
        added.push_back({{"id", id++}, {"content", text}, {"special", true}, {"normalized", false}});
    const char* const regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                              R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    const nlohmann::json file{
        {"added_tokens", added},
        {"normalizer", {{"type", "NFC"}}},
        {"pre_tokenizer",
         {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}},
        {"decoder", {{"type", "ByteLevel"}}},
        {"model", {{"type", "BPE"}, {"vocab", byteVocabulary()}, {"merges", nlohmann::json::array()}}},
    };
    auto tokenizer = engine::Tokenizer::parse(file.dump(), "fake tokenizer");
    if (!tokenizer)
        std::abort(); // a mistake in this file
    return *std::move(tokenizer);
}

} // namespace octavo::test
