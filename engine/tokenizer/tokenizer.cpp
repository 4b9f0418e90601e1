#include "engine/tokenizer/tokenizer.h"

#include "engine/model/mapped_file.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/tokenizer_file.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <mutex>

namespace octavo::engine {

namespace {

/// Finds the added token that starts at a position, the longest one.
class AddedTokenFinder
{
public:
    explicit AddedTokenFinder(const std::vector<AddedToken>& added)
    {
        m_tokens = added;
        // By text, longest first among those that share a beginning.
        std::sort(m_tokens.begin(), m_tokens.end(), [](const AddedToken& a, const AddedToken& b) {
            return std::pair(std::uint8_t(a.text[0]), b.text.size()) <
                   std::pair(std::uint8_t(b.text[0]), a.text.size());
        });
        for (const AddedToken& token : m_tokens)
            ++m_end[std::uint8_t(token.text[0])];
        std::size_t begin = 0;
        for (std::size_t byte = 0; byte < 256; ++byte) {
            m_begin[byte] = begin;
            begin = m_end[byte] += begin;
        }
    }

    const AddedToken* at(std::string_view text) const
    {
        const auto byte = std::uint8_t(text[0]);
        for (std::size_t i = m_begin[byte]; i < m_end[byte]; ++i) {
            if (text.starts_with(m_tokens[i].text))
                return &m_tokens[i];
        }
        return nullptr;
    }

    const AddedToken* named(std::string_view text) const
    {
        const auto found = std::find_if(m_tokens.begin(), m_tokens.end(),
                                        [&](const AddedToken& token) { return token.text == text; });
        return found == m_tokens.end() ? nullptr : &*found;
    }

private:
    std::vector<AddedToken> m_tokens;
    std::array<std::size_t, 256> m_begin{}, m_end{};
};

} // namespace

struct Tokenizer::Impl {
    std::vector<std::string> tokens;
    std::vector<bool> added, special;
    AddedTokenFinder finder;
    Bpe bpe;
    SplitRule splitRule;
    bool normalizeNfc;
    std::uint64_t hash;

    // Callers borrow a cache for one text each, so that threads share nothing while they work.
    mutable std::mutex cachesMutex;
    mutable std::vector<std::unique_ptr<PieceCache>> caches;

    Impl(TokenizerFile&& file, std::vector<bool>&& isAdded, std::uint64_t fileHash)
        : added(std::move(isAdded))
        , special(file.tokens.size())
        , finder(file.added)
        , bpe(file, added)
        , splitRule(file.splitRule)
        , normalizeNfc(file.normalizeNfc)
        , hash(fileHash)
    {
        tokens = std::move(file.tokens);
        for (const AddedToken& token : file.added)
            special[std::size_t(token.id)] = token.special;
    }

    std::unique_ptr<PieceCache> borrowCache() const
    {
        {
            const std::lock_guard lock(cachesMutex);
            if (!caches.empty()) {
                auto cache = std::move(caches.back());
                caches.pop_back();
                return cache;
            }
        }
        return std::make_unique<PieceCache>();
    }

    void returnCache(std::unique_ptr<PieceCache> cache) const
    {
        const std::lock_guard lock(cachesMutex);
        caches.push_back(std::move(cache));
    }

    /// Calls `sink(ids)` with the ids gathered so far whenever they are many, and at the end. `sink` empties them.
    template <typename Sink>
    void encode(std::string_view text, SpecialTokens mode, std::vector<TokenId>& ids, const Sink& sink) const
    {
        auto cache = borrowCache();
        const auto encodePlain = [&](std::string_view plain) {
            while (!plain.empty()) {
                const std::size_t length = firstPiece(plain, splitRule);
                bpe.encode(plain.substr(0, length), *cache, ids);
                plain.remove_prefix(length);
                sink(ids);
            }
        };
        if (mode == SpecialTokens::Plain) {
            encodePlain(text);
        } else {
            const auto encodeBetween = [&](std::string_view between) {
                if (normalizeNfc && !isAscii(between))
                    encodePlain(toNfc(between));
                else
                    encodePlain(between);
            };
            std::size_t begin = 0;
            for (std::size_t pos = 0; pos < text.size();) {
                const AddedToken* token = finder.at(text.substr(pos));
                if (!token) {
                    ++pos;
                    continue;
                }
                encodeBetween(text.substr(begin, pos - begin));
                ids.push_back(token->id);
                begin = pos += token->text.size();
            }
            encodeBetween(text.substr(begin));
            sink(ids);
        }
        returnCache(std::move(cache));
    }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& tokenizerJson)
{
    std::error_code ignored;
    if (std::filesystem::status(tokenizerJson, ignored).type() == std::filesystem::file_type::not_found)
        return Error{ErrorCode::FileUnreadable,
                     tokenizerJson.string() + " is missing: download it into the model's folder"};
    OCTAVO_TRY(const std::string json, readTextFile(tokenizerJson, TokenizerFile::maxBytes));
    return parse(json, tokenizerJson.string());
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& name)
{
    OCTAVO_TRY(TokenizerFile file, TokenizerFile::parse(json, name));
    std::vector<bool> added(file.tokens.size());
    for (const AddedToken& token : file.added)
        added[std::size_t(token.id)] = true;
    return Tokenizer(std::make_unique<Impl>(std::move(file), std::move(added), XXH3_64bits(json.data(), json.size())));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens mode) const
{
    std::vector<TokenId> ids;
    ids.reserve(text.size() / 3 + 8);
    m_impl->encode(text, mode, ids, [](std::vector<TokenId>&) {});
    return ids;
}

std::size_t Tokenizer::count(std::string_view text, SpecialTokens mode) const
{
    std::size_t total = 0;
    std::vector<TokenId> ids;
    m_impl->encode(text, mode, ids, [&total](std::vector<TokenId>& some) {
        total += some.size();
        some.clear();
    });
    return total;
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const
{
    std::string text;
    for (const TokenId id : ids)
        text += bytes(id);
    return text;
}

std::string_view Tokenizer::bytes(TokenId id) const
{
    return id >= 0 && id < endId() ? std::string_view(m_impl->tokens[std::size_t(id)]) : std::string_view();
}

std::optional<TokenId> Tokenizer::addedToken(std::string_view text) const
{
    const AddedToken* token = m_impl->finder.named(text);
    return token ? std::optional(token->id) : std::nullopt;
}

bool Tokenizer::isAdded(TokenId id) const
{
    return id >= 0 && id < endId() && m_impl->added[std::size_t(id)];
}

bool Tokenizer::isSpecial(TokenId id) const
{
    return id >= 0 && id < endId() && m_impl->special[std::size_t(id)];
}

TokenId Tokenizer::endId() const
{
    return TokenId(m_impl->tokens.size());
}

std::uint64_t Tokenizer::hash() const
{
    return m_impl->hash;
}

} // namespace octavo::engine
