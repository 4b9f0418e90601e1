#pragma once

/// Byte-level BPE as tokenizer.json describes it: added tokens cut out leftmost-longest, NFC, the pre-tokenizer's
/// split, the GPT-2 byte alphabet, merges by rank.
///
/// Thread   immutable after load(); encode() and decode() may run on any number of threads at once.
/// Memory   a few MB for a 16K vocabulary, some 60 MB for 248K.

#include "engine/result.h"
#include "engine/types.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::engine {

enum class SpecialTokens {
    Parse, ///< the text of an added token becomes that token (scaffold written by Octavo)
    Plain, ///< text never yields an added token's id (files, questions, old answers)
};

class Tokenizer
{
public:
    /// Fails with FileUnreadable or FormatInvalid (also for an unknown regex or model type).
    static Result<Tokenizer> load(const std::filesystem::path& tokenizerJson);
    static Result<Tokenizer> parse(std::string_view json, const std::string& name);

    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    /// Any bytes are accepted, also invalid UTF-8. SpecialTokens::Plain leaves text as it is, so that decode(encode(x))
    /// gives x back byte for byte and quotes can be looked up in the file they come from; only Parse brings it into
    /// NFC, which is what the reference does throughout. Linear in the length of `text`.
    std::vector<TokenId> encode(std::string_view text, SpecialTokens mode) const;

    /// encode(text, mode).size(), without keeping the ids.
    std::size_t count(std::string_view text, SpecialTokens mode) const;

    /// The bytes of `ids`, added tokens as their text. Ids out of range yield nothing.
    std::string decode(std::span<const TokenId> ids) const;

    /// The bytes of one token; may be part of a UTF-8 character. Empty when out of range.
    std::string_view bytes(TokenId id) const;

    /// The id of an added token by its text ("<|im_end|>"), if there is one.
    std::optional<TokenId> addedToken(std::string_view text) const;
    bool isAdded(TokenId id) const;   ///< any added token
    bool isSpecial(TokenId id) const; ///< an added token marked special: hidden from shown text

    /// One past the largest valid id. Logits above it must be masked: a model's vocabulary may be padded.
    TokenId endId() const;

    /// XXH3 of tokenizer.json, part of cache keys.
    std::uint64_t hash() const;

private:
    struct Impl;
    explicit Tokenizer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

} // namespace octavo::engine
