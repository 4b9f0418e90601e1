#pragma once

/// Splits text into the pieces inside which BPE may merge.
///
/// tokenizer.json gives the rule as a regex. The two regexes of the model family are known here and run as one
/// hand-written pass: a backtracking engine needs stack and time limits, which a long run of one character meets (5 MB
/// of spaces, a minified script), and is several times slower. Tests hold the pass equal to PCRE2 running the regex.

#include <optional>
#include <string_view>

namespace octavo::engine {

enum class SplitRule {
    Qwen2,  ///< Qwen2 to Qwen3: combining marks are punctuation
    Qwen35, ///< Qwen3.5 on: combining marks belong to words
};

/// The rule a regex stands for; nothing for a regex that is not known.
std::optional<SplitRule> splitRuleOf(std::string_view regex);

/// The regex of a rule, as tokenizer.json has it.
std::string_view regexOf(SplitRule rule);

/// Length in bytes of the first piece of `text`, which must not be empty. Every byte belongs to exactly one piece, and
/// over a whole text the work is linear. Bytes that are not UTF-8 count as punctuation, one by one.
std::size_t firstPiece(std::string_view text, SplitRule rule);

} // namespace octavo::engine
