#pragma once

#include "engine/tokenizer/tokenizer.h"

namespace octavo::test {

/// One token per byte (id = byte), then the special tokens below. Loaded from text, so it costs nothing to speak of.
engine::Tokenizer fakeTokenizer();

inline constexpr engine::TokenId endOfText = 256, imStart = 257, imEnd = 258, repoName = 259, fileSep = 260;

} // namespace octavo::test
