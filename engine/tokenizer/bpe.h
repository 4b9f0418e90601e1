#pragma once

/// Byte-pair encoding: repeatedly merges the neighbouring pair of lowest rank, leftmost first.
///
/// Cost     short pieces are answered from a cache of the caller's; long ones take O(n log n) with a heap.
/// Thread   immutable once built; each thread brings its own cache.

#include "engine/tokenizer/tokenizer_file.h"
#include "engine/types.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace octavo::engine {

/// Pieces seen before, in 64-byte entries that newer pieces overwrite; 1 MiB.
class PieceCache
{
public:
    static constexpr std::size_t maxPieceBytes = 26;
    static constexpr std::size_t maxIds = 9;

    struct Entry {
        std::uint8_t numBytes = 0, numIds = 0;
        std::array<char, maxPieceBytes> bytes{};
        std::array<TokenId, maxIds> ids{};
    };
    static_assert(sizeof(Entry) == 64);

    PieceCache() : m_entries(numEntries) {}

    /// The one place where `piece` may be.
    Entry& entryFor(std::string_view piece);

private:
    static constexpr std::size_t numEntries = 16384;
    std::vector<Entry> m_entries;
};

class Bpe
{
public:
    /// Merges that make one of `forbidden` (the added tokens) are left out, so that text can never spell one.
    Bpe(const TokenizerFile& file, const std::vector<bool>& forbidden);

    /// Appends the ids of one piece. `piece` may be of any length.
    void encode(std::string_view piece, PieceCache& cache, std::vector<TokenId>& ids) const;

    /// The same without a cache, as the definition has it: quadratic, the yardstick of the tests.
    void encodeByDefinition(std::string_view piece, std::vector<TokenId>& ids) const;

private:
    struct Rule {
        std::uint64_t pair = emptyPair;
        std::uint32_t rank = 0;
        TokenId result = -1;
    };
    static constexpr std::uint64_t emptyPair = ~std::uint64_t{0};

    const Rule* find(TokenId left, TokenId right) const;
    bool wholePiece(std::string_view piece, std::vector<TokenId>& ids) const;
    void encodeLong(std::string_view piece, std::vector<TokenId>& ids) const;

    std::vector<TokenId> m_byteTokens;
    std::vector<Rule> m_rules; // open addressing, a power of two, at most half full
    std::uint64_t m_mask = 0;
    bool m_ignoreMerges = false;
    std::unordered_map<std::string, TokenId> m_whole; // filled for ignore_merges only
};

} // namespace octavo::engine
