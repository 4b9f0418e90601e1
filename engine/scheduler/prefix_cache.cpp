#include "engine/scheduler/prefix_cache.h"

#include <algorithm>
#include <cassert>

namespace octavo::engine {

std::int64_t commonPrefix(std::span<const TokenId> a, std::span<const TokenId> b)
{
    const std::size_t length = std::min(a.size(), b.size());
    if (a.data() == b.data())
        return std::int64_t(length);
    const auto differs = std::mismatch(a.begin(), a.begin() + std::ptrdiff_t(length), b.begin());
    return differs.first - a.begin();
}

PrefixCache::~PrefixCache()
{
    for (const Entry& entry : m_entries)
        m_backend.destroySequence(entry.slot);
}

PrefixCache::Hit PrefixCache::longest(std::span<const TokenId> prompt, std::int64_t limit)
{
    Entry* best = nullptr;
    const std::vector<TokenId>* compared = nullptr; // entries of one read share their ids: compare them once
    std::int64_t common = 0;
    for (Entry& entry : m_entries) {
        if (entry.length > limit || (best && entry.length <= best->length))
            continue;
        if (entry.tokens.get() != compared) {
            compared = entry.tokens.get();
            common = commonPrefix(prompt, *compared);
        }
        if (common >= entry.length)
            best = &entry;
    }
    if (!best)
        return {};
    best->lastUse = ++m_uses;
    return {best->slot, best->length};
}

bool PrefixCache::holds(std::span<const TokenId> prompt, std::int64_t length) const
{
    return std::ranges::any_of(m_entries, [&](const Entry& entry) {
        return entry.length == length && commonPrefix(prompt, *entry.tokens) >= length;
    });
}

std::vector<PrefixCache::Hit> PrefixCache::beginnings(std::span<const TokenId> prompt, std::int64_t limit) const
{
    std::vector<Hit> found;
    for (const Entry& entry : m_entries) {
        if (entry.length <= limit && commonPrefix(prompt, *entry.tokens) >= entry.length)
            found.push_back({entry.slot, entry.length});
    }
    std::ranges::sort(found, {}, &Hit::length);
    return found;
}

void PrefixCache::insert(SlotId slot, SharedTokens tokens, std::int64_t length, Kind kind, AgentId agent)
{
    assert(length > 0 && length % checkpointStride == 0 && "checkpoints stand on multiples of 64");
    assert(std::int64_t(tokens->size()) >= length);
    m_entries.push_back({slot, std::move(tokens), length, kind, agent, ++m_uses});
    if (kind != Kind::Turn)
        return;
    constexpr int turnsKept = 2;
    int turns = 0;
    for (std::size_t i = m_entries.size(); i-- > 0;) {
        if (m_entries[i].kind == Kind::Turn && m_entries[i].agent == agent && ++turns > turnsKept)
            free(m_entries.begin() + std::ptrdiff_t(i));
    }
}

bool PrefixCache::evictOne(SlotId keep)
{
    auto oldest = m_entries.end();
    for (auto entry = m_entries.begin(); entry != m_entries.end(); ++entry) {
        if (entry->slot != keep && (oldest == m_entries.end() || entry->lastUse < oldest->lastUse))
            oldest = entry;
    }
    if (oldest == m_entries.end())
        return false;
    free(oldest);
    return true;
}

void PrefixCache::releaseAgent(AgentId agent)
{
    for (std::size_t i = m_entries.size(); i-- > 0;) {
        if (m_entries[i].kind == Kind::Turn && m_entries[i].agent == agent)
            free(m_entries.begin() + std::ptrdiff_t(i));
    }
}

std::vector<PrefixRef> PrefixCache::contents() const
{
    std::vector<PrefixRef> contents;
    contents.reserve(m_entries.size());
    for (const Entry& entry : m_entries)
        contents.push_back({entry.tokens, entry.length});
    return contents;
}

void PrefixCache::free(std::vector<Entry>::iterator entry)
{
    m_backend.destroySequence(entry->slot);
    m_entries.erase(entry);
}

} // namespace octavo::engine
