#pragma once

/// Drafts copied from what was read and written before: where the last tokens stood earlier, what followed them there
/// is a good guess now. Answers that quote code are full of such places.
///
/// An index over all runs of three tokens (hash chains, as in LZ77) grows with each token; among the places that share
/// the last three tokens, the one that agrees furthest back is continued.
/// Thread   one owner.  Memory  8 to 16 bytes per token.

#include "engine/types.h"

#include <cstdint>
#include <span>
#include <vector>

namespace octavo::engine {

struct Draft {
    std::vector<TokenId> tokens; ///< what may come next; empty: no idea
    int matched = 0;             ///< how many tokens back the place agrees; the more, the surer
};

class PromptLookup
{
public:
    explicit PromptLookup(std::span<const TokenId> tokens);

    void append(TokenId id);

    /// Up to `most` tokens that may follow.
    Draft propose(int most) const;

private:
    static constexpr int runLength = 3;
    static constexpr int mostCandidates = 32;
    static constexpr int longestCompared = 32;

    std::size_t bucketOf(std::size_t end) const;
    void index(std::size_t end);
    void grow();

    std::vector<TokenId> m_tokens;
    std::vector<std::int32_t> m_head;     // bucket -> newest run's end, -1: none; size is a power of two
    std::vector<std::int32_t> m_previous; // run's end -> the one before it in the same bucket
};

} // namespace octavo::engine
