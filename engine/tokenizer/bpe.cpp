#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <queue>

namespace octavo::engine {

namespace {

constexpr std::size_t shortPieceBytes = 48; // scanning beats the heap up to about here

std::uint64_t pairOf(TokenId left, TokenId right)
{
    return (std::uint64_t(std::uint32_t(left)) << 32) | std::uint32_t(right);
}

std::uint64_t mix(std::uint64_t x)
{
    x *= 0x9E3779B97F4A7C15u;
    return x ^ (x >> 29);
}

} // namespace

PieceCache::Entry& PieceCache::entryFor(std::string_view piece)
{
    std::uint64_t hash = piece.size();
    std::size_t i = 0;
    for (; i + 8 <= piece.size(); i += 8) {
        std::uint64_t word;
        std::memcpy(&word, piece.data() + i, 8);
        hash = mix(hash ^ word);
    }
    std::uint64_t tail = 0;
    std::memcpy(&tail, piece.data() + i, piece.size() - i);
    hash = mix(mix(hash ^ tail));
    return m_entries[hash % numEntries];
}

Bpe::Bpe(const TokenizerFile& file, const std::vector<bool>& forbidden)
    : m_byteTokens(file.byteTokens)
    , m_rules(std::bit_ceil(2 * file.merges.size() + 2))
    , m_mask(m_rules.size() - 1)
    , m_ignoreMerges(file.ignoreMerges)
{
    for (std::size_t rank = 0; rank < file.merges.size(); ++rank) {
        const Merge& merge = file.merges[rank];
        if (forbidden[std::size_t(merge.result)])
            continue;
        const std::uint64_t pair = pairOf(merge.left, merge.right);
        std::uint64_t slot = mix(pair) & m_mask;
        while (m_rules[slot].pair != emptyPair && m_rules[slot].pair != pair)
            slot = (slot + 1) & m_mask;
        m_rules[slot] = {pair, std::uint32_t(rank), merge.result};
    }
    if (m_ignoreMerges) {
        for (std::size_t id = 0; id < file.tokens.size(); ++id) {
            if (!file.tokens[id].empty() && !forbidden[id])
                m_whole.emplace(file.tokens[id], TokenId(id));
        }
    }
}

const Bpe::Rule* Bpe::find(TokenId left, TokenId right) const
{
    const std::uint64_t pair = pairOf(left, right);
    for (std::uint64_t slot = mix(pair) & m_mask;; slot = (slot + 1) & m_mask) {
        const Rule& rule = m_rules[slot];
        if (rule.pair == pair)
            return &rule;
        if (rule.pair == emptyPair)
            return nullptr;
    }
}

bool Bpe::wholePiece(std::string_view piece, std::vector<TokenId>& ids) const
{
    if (!m_ignoreMerges)
        return false;
    const auto found = m_whole.find(std::string(piece));
    if (found == m_whole.end())
        return false;
    ids.push_back(found->second);
    return true;
}

void Bpe::encode(std::string_view piece, PieceCache& cache, std::vector<TokenId>& ids) const
{
    if (piece.size() == 1) {
        ids.push_back(m_byteTokens[std::uint8_t(piece[0])]);
        return;
    }
    if (piece.size() > PieceCache::maxPieceBytes) {
        if (wholePiece(piece, ids))
            return;
        return piece.size() <= shortPieceBytes ? encodeByDefinition(piece, ids) : encodeLong(piece, ids);
    }
    PieceCache::Entry& entry = cache.entryFor(piece);
    if (entry.numBytes == piece.size() && std::memcmp(entry.bytes.data(), piece.data(), piece.size()) == 0) {
        ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.numIds);
        return;
    }
    const std::size_t before = ids.size();
    if (!wholePiece(piece, ids))
        encodeByDefinition(piece, ids);
    const std::size_t numIds = ids.size() - before;
    if (numIds <= PieceCache::maxIds) {
        entry.numBytes = std::uint8_t(piece.size());
        entry.numIds = std::uint8_t(numIds);
        std::memcpy(entry.bytes.data(), piece.data(), piece.size());
        std::copy(ids.begin() + std::ptrdiff_t(before), ids.end(), entry.ids.begin());
    }
}

void Bpe::encodeByDefinition(std::string_view piece, std::vector<TokenId>& ids) const
{
    constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    struct Symbol {
        TokenId id;
        TokenId merged; // with the next one
        std::uint32_t rank;
    };
    std::vector<Symbol> longSymbols;
    std::array<Symbol, shortPieceBytes> shortSymbols;
    Symbol* symbols = shortSymbols.data();
    if (piece.size() > shortPieceBytes) {
        longSymbols.resize(piece.size());
        symbols = longSymbols.data();
    }
    std::size_t size = piece.size();
    for (std::size_t i = 0; i < size; ++i)
        symbols[i].id = m_byteTokens[std::uint8_t(piece[i])];
    const auto rank = [&](std::size_t i) {
        const Rule* rule = i + 1 < size ? find(symbols[i].id, symbols[i + 1].id) : nullptr;
        symbols[i].rank = rule ? rule->rank : none;
        symbols[i].merged = rule ? rule->result : -1;
    };
    for (std::size_t i = 0; i < size; ++i)
        rank(i);
    while (size > 1) {
        std::size_t best = 0;
        for (std::size_t i = 1; i < size; ++i) {
            if (symbols[i].rank < symbols[best].rank)
                best = i;
        }
        if (symbols[best].rank == none)
            break;
        symbols[best].id = symbols[best].merged;
        std::copy(symbols + best + 2, symbols + size, symbols + best + 1);
        --size;
        rank(best);
        if (best > 0)
            rank(best - 1);
    }
    for (std::size_t i = 0; i < size; ++i)
        ids.push_back(symbols[i].id);
}

void Bpe::encodeLong(std::string_view piece, std::vector<TokenId>& ids) const
{
    // Positions are 32 bits wide; no piece of a real text comes near.
    constexpr std::size_t maxPiece = std::size_t{1} << 30;
    if (piece.size() > maxPiece) {
        encodeLong(piece.substr(0, maxPiece), ids);
        return encodeLong(piece.substr(maxPiece), ids);
    }
    struct Symbol {
        TokenId id; // -1: merged into the one before
        std::int32_t previous, next;
    };
    const auto size = std::int32_t(piece.size());
    std::vector<Symbol> symbols(piece.size());
    for (std::int32_t i = 0; i < size; ++i)
        symbols[std::size_t(i)] = {m_byteTokens[std::uint8_t(piece[std::size_t(i)])], i - 1, i + 1};

    const auto ruleAt = [&](std::int32_t left) -> const Rule* {
        if (left < 0 || symbols[std::size_t(left)].id < 0 || symbols[std::size_t(left)].next >= size)
            return nullptr;
        return find(symbols[std::size_t(left)].id, symbols[std::size_t(symbols[std::size_t(left)].next)].id);
    };
    // Rank, then position, in one number: the smallest is merged first. A rank names its pair, so a candidate whose
    // pair is no longer there is known by it.
    const auto candidate = [](const Rule& rule, std::int32_t left) {
        return (std::uint64_t(rule.rank) << 32) | std::uint32_t(left);
    };
    std::vector<std::uint64_t> first;
    first.reserve(piece.size());
    for (std::int32_t i = 0; i + 1 < size; ++i) {
        if (const Rule* rule = ruleAt(i))
            first.push_back(candidate(*rule, i));
    }
    std::priority_queue queue(std::greater<std::uint64_t>{}, std::move(first));
    while (!queue.empty()) {
        const std::uint64_t top = queue.top();
        queue.pop();
        const auto position = std::int32_t(std::uint32_t(top));
        const Rule* rule = ruleAt(position);
        if (!rule || rule->rank != top >> 32)
            continue;
        Symbol& left = symbols[std::size_t(position)];
        Symbol& right = symbols[std::size_t(left.next)];
        right.id = -1;
        left.id = rule->result;
        left.next = right.next;
        if (left.next < size)
            symbols[std::size_t(left.next)].previous = position;
        for (const std::int32_t at : {left.previous, position}) {
            if (const Rule* next = ruleAt(at))
                queue.push(candidate(*next, at));
        }
    }
    for (std::int32_t i = 0; i < size; i = symbols[std::size_t(i)].next)
        ids.push_back(symbols[std::size_t(i)].id);
}

} // namespace octavo::engine
