#pragma once

/// A tokenizer.json for tests: the 256 bytes, some merges, some added tokens.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace octavo::test {

inline std::string utf8(char32_t c)
{
    if (c < 0x80)
        return std::string(1, char(c));
    return {char(0xC0 | (c >> 6)), char(0x80 | (c & 0x3F))};
}

/// The byte alphabet, in which a byte's id is its value.
inline std::vector<std::string> byteAlphabet()
{
    std::vector<std::string> letters;
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        letters.push_back(utf8(printable ? char32_t(byte) : next++));
    }
    return letters;
}

/// Tokens 0..255 are the bytes, the merges' results follow in order, then `added`.
inline nlohmann::json tinyTokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {},
                                    const std::vector<std::string>& added = {})
{
    const char* regex = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    nlohmann::json vocab = nlohmann::json::object(), mergeList = nlohmann::json::array();
    int id = 0;
    for (const std::string& letter : byteAlphabet())
        vocab[letter] = id++;
    for (const auto& [left, right] : merges) {
        if (!vocab.contains(left + right))
            vocab[left + right] = id++;
        mergeList.push_back(left + " " + right);
    }
    nlohmann::json addedList = nlohmann::json::array();
    for (const std::string& text : added)
        addedList.push_back({{"id", id++}, {"content", text}, {"special", text.starts_with("<|")}});
    nlohmann::json split = {
        {"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
    nlohmann::json byteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    return {{"added_tokens", addedList},
            {"normalizer", {{"type", "NFC"}}},
            {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", nlohmann::json::array({split, byteLevel})}}},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", mergeList}}}};
}

} // namespace octavo::test
