#pragma once

/// tokenizer.json as checked values: what Tokenizer is built from.

#include "engine/result.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/types.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::engine {

struct AddedToken {
    TokenId id = -1;
    std::string text;
    bool special = false;
};

struct Merge {
    TokenId left = -1, right = -1, result = -1;
};

struct TokenizerFile {
    static constexpr std::size_t maxBytes = std::size_t{128} << 20; ///< no tokenizer needs more

    std::vector<std::string> tokens; ///< bytes by id; empty: no such token
    std::vector<AddedToken> added;
    std::vector<Merge> merges;       ///< by rank
    std::vector<TokenId> byteTokens; ///< (256)
    SplitRule splitRule = SplitRule::Qwen35;
    bool normalizeNfc = false;
    bool ignoreMerges = false;

    /// Checks everything before it allocates by it: size, nesting, types, ids (unique, below 2^21), the byte alphabet,
    /// merges of tokens that exist. Fails with FormatInvalid; `name` stands for the file in messages.
    static Result<TokenizerFile> parse(std::string_view json, const std::string& name);
};

} // namespace octavo::engine
