#pragma once

/// Frozen sequences that new requests may start from, found by the token ids they hold.
///
/// An entry stands at a multiple of 64 tokens and holds what a prefill of exactly those tokens leaves behind: nothing
/// that was decoded, so a request that starts from it gives the same answer, bit for bit, as one that reads all.
/// Thread   belongs to the worker that owns the backend.
/// Memory   a copy of the recurrent state per entry; KV rows and token ids are shared with what they were forked from.

#include "engine/backend/backend.h"
#include "engine/types.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace octavo::engine {

/// Token ids that several owners hold at once.
using SharedTokens = std::shared_ptr<const std::vector<TokenId>>;

/// Sequences resume at multiples of this only.
inline constexpr std::int64_t checkpointStride = 64;

constexpr std::int64_t roundDownToStride(std::int64_t tokens)
{
    return tokens - tokens % checkpointStride;
}

/// How many tokens two prompts have in common from the start.
std::int64_t commonPrefix(std::span<const TokenId> a, std::span<const TokenId> b);

/// The first `length` of `tokens`, resident on a device.
struct PrefixRef {
    SharedTokens tokens;
    std::int64_t length = 0;
};

class PrefixCache
{
public:
    enum class Kind {
        Passage, ///< on the way of a long read
        Context, ///< the end of a context that agents share
        Turn,    ///< the end of one agent's question or answer
    };

    struct Hit {
        SlotId slot = noSlot;
        std::int64_t length = 0; ///< 0: nothing fits
    };

    explicit PrefixCache(Backend& backend) : m_backend(backend) {}
    ~PrefixCache();
    PrefixCache(const PrefixCache&) = delete;
    PrefixCache& operator=(const PrefixCache&) = delete;

    /// The longest entry that `prompt` begins with and that is no longer than `limit`. Counts as a use.
    Hit longest(std::span<const TokenId> prompt, std::int64_t limit);

    bool holds(std::span<const TokenId> prompt, std::int64_t length) const;

    /// All entries up to `limit` that `prompt` begins with, ascending. No use of them.
    std::vector<Hit> beginnings(std::span<const TokenId> prompt, std::int64_t limit) const;

    /// Takes over a frozen slot. An agent keeps its two newest turns; older ones are freed here.
    void insert(SlotId slot, SharedTokens tokens, std::int64_t length, Kind kind, AgentId agent);

    /// Frees the least recently used entry other than `keep`; false when there is none.
    bool evictOne(SlotId keep = noSlot);

    /// Frees the turns of an agent.
    void releaseAgent(AgentId agent);

    /// Forgets all without telling the backend, which has failed.
    void abandon() { m_entries.clear(); }

    std::vector<PrefixRef> contents() const;
    std::size_t size() const { return m_entries.size(); }

private:
    struct Entry {
        SlotId slot = noSlot;
        SharedTokens tokens;
        std::int64_t length = 0;
        Kind kind = Kind::Passage;
        AgentId agent{};
        std::uint64_t lastUse = 0;
    };

    void free(std::vector<Entry>::iterator entry);

    Backend& m_backend;
    std::vector<Entry> m_entries;
    std::uint64_t m_uses = 0;
};

} // namespace octavo::engine
