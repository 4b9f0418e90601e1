#include "engine/speculation/prompt_lookup.h"

#include <algorithm>
#include <bit>

namespace octavo::engine {

PromptLookup::PromptLookup(std::span<const TokenId> tokens)
{
    m_tokens.reserve(tokens.size() + 1024);
    m_previous.reserve(tokens.size() + 1024);
    m_head.assign(std::bit_ceil(std::max<std::size_t>(2 * tokens.size(), 1024)), -1);
    for (const TokenId id : tokens)
        append(id);
}

void PromptLookup::append(TokenId id)
{
    m_tokens.push_back(id);
    m_previous.push_back(-1);
    if (m_tokens.size() > m_head.size())
        grow();
    // The run that ends here goes into the index with the next token: nothing has followed it yet.
    if (m_tokens.size() > std::size_t(runLength))
        index(m_tokens.size() - 1);
}

Draft PromptLookup::propose(int most) const
{
    const std::size_t end = m_tokens.size();
    if (most <= 0 || end <= std::size_t(runLength))
        return {};
    std::size_t best = 0;
    int bestMatch = runLength - 1;
    std::int32_t candidate = m_head[bucketOf(end)];
    for (int tried = 0; candidate >= 0 && tried < mostCandidates;
         ++tried, candidate = m_previous[std::size_t(candidate)]) {
        const auto at = std::size_t(candidate);
        int match = 0;
        while (match < longestCompared && std::size_t(match) < at &&
               m_tokens[at - 1 - std::size_t(match)] == m_tokens[end - 1 - std::size_t(match)])
            ++match;
        if (match > bestMatch) {
            best = at;
            bestMatch = match;
        }
    }
    if (best == 0)
        return {};
    Draft draft;
    draft.matched = bestMatch;
    // Past the end of what is known the copy goes on with itself, which continues a repetition.
    for (int i = 0; i < most; ++i) {
        const std::size_t from = best + std::size_t(i);
        draft.tokens.push_back(from < end ? m_tokens[from] : draft.tokens[from - end]);
    }
    return draft;
}

std::size_t PromptLookup::bucketOf(std::size_t end) const
{
    std::uint64_t hash = 0;
    for (int i = 1; i <= runLength; ++i)
        hash = (hash ^ std::uint32_t(m_tokens[end - std::size_t(i)])) * 0x9e3779b97f4a7c15ULL;
    return std::size_t(hash >> 32) & (m_head.size() - 1);
}

void PromptLookup::index(std::size_t end)
{
    std::int32_t& head = m_head[bucketOf(end)];
    m_previous[end] = head;
    head = std::int32_t(end);
}

void PromptLookup::grow()
{
    m_head.assign(2 * m_head.size(), -1);
    for (std::size_t end = runLength; end + 1 < m_tokens.size(); ++end)
        index(end);
}

} // namespace octavo::engine
