#pragma once

#include "engine/types.h"

#include <string>
#include <string_view>

namespace octavo::engine {

class Tokenizer;

/// Turns a stream of tokens into valid UTF-8, holding back the bytes of an unfinished character.
///
/// A byte that can never become part of a character is replaced by U+FFFD, once per maximal bad run as the Unicode
/// standard recommends. Thread: one owner.
class Detokenizer
{
public:
    explicit Detokenizer(const Tokenizer& tokenizer) : m_tokenizer(&tokenizer) {}

    /// The text that `id` completes; may be empty. Special tokens add nothing.
    std::string append(TokenId id);

    /// The same for raw bytes.
    std::string appendBytes(std::string_view bytes);

    /// What is still held back, with bad bytes replaced; the stream is then empty again.
    std::string finish();

private:
    const Tokenizer* m_tokenizer;
    std::string m_pending;
};

} // namespace octavo::engine
