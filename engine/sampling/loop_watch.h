#pragma once

#include "engine/types.h"

#include <array>
#include <span>

namespace octavo::engine {

/// Sees that a greedy answer has run into a loop: it would repeat the same tokens up to its limit.
///
/// A loop is a tail that repeats one stretch of tokens exactly, at least four times and over at least 128 tokens, or
/// 256 where the stretch is shorter than 8 (rules and rows of zeros). What stands in the prompt as it is written, a
/// table of a file that is quoted, is never one.
/// Costs    1.4 microseconds a token, for 256 stretches; where the tail repeats, a look through the prompt: 0.1 ms for
///          one of 250,000 tokens, 32 ms for one of zeros, once in 64 tokens at most.
/// Thread   one owner.
class LoopWatch
{
public:
    static constexpr int longestPeriod = 256; ///< tokens of the longest stretch that is noticed

    /// To be called after each token of `answer`; whether it goes round in a loop.
    bool loops(std::span<const TokenId> answer, std::span<const TokenId> prompt);

private:
    /// Tokens at the answer's end that equal the one `period` before them.
    std::array<int, longestPeriod + 1> m_equal{};
    std::size_t m_lookAgainAt = 0; ///< length of the answer: until then its tail is a quote
};

} // namespace octavo::engine
