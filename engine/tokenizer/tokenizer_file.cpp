#include "engine/tokenizer/tokenizer_file.h"

#include "engine/tokenizer/utf8.h"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <unordered_map>

namespace octavo::engine {

namespace {

using Json = nlohmann::json;

constexpr int maxNesting = 32;
constexpr std::int64_t maxTokenId = (std::int64_t{1} << 21) - 1;
constexpr std::size_t maxTokenBytes = 4096;

Error invalid(const std::string& name, const std::string& what)
{
    return Error{ErrorCode::FormatInvalid, name + ": " + what};
}

// Text from the file in a message: short, on one line.
std::string quote(std::string_view text)
{
    std::string out = "\"";
    for (const char c : text.substr(0, 60))
        out += std::uint8_t(c) < 0x20 ? ' ' : c;
    return out + (text.size() > 60 ? "...\"" : "\"");
}

bool nestingIsBounded(std::string_view json)
{
    int depth = 0;
    bool inString = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (inString) {
            if (c == '\\')
                ++i;
            else if (c == '"')
                inString = false;
        } else if (c == '"') {
            inString = true;
        } else if (c == '[' || c == '{') {
            if (++depth > maxNesting)
                return false;
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return true;
}

// The GPT-2 alphabet: printable Latin-1 bytes stand for themselves, the other 68 for U+0100 on, in order.
std::unordered_map<char32_t, std::uint8_t> byteAlphabet()
{
    std::unordered_map<char32_t, std::uint8_t> bytes;
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        bytes.emplace(printable ? char32_t(byte) : next++, std::uint8_t(byte));
    }
    return bytes;
}

std::optional<std::string> bytesOf(std::string_view token)
{
    static const auto alphabet = byteAlphabet();
    std::string bytes;
    while (!token.empty()) {
        const Utf8Step step = decodeUtf8(token);
        const auto found = alphabet.find(step.codePoint);
        if (step.kind != Utf8Step::Kind::Character || found == alphabet.end())
            return std::nullopt;
        bytes += char(found->second);
        token.remove_prefix(std::size_t(step.length));
    }
    return bytes;
}

const Json* find(const Json& object, const char* key)
{
    if (!object.is_object())
        return nullptr;
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string typeOf(const Json& object)
{
    const Json* type = find(object, "type");
    return type && type->is_string() ? type->get<std::string>() : std::string("(none)");
}

bool isTrue(const Json& object, const char* key)
{
    const Json* value = find(object, key);
    return value && value->is_boolean() && value->get<bool>();
}

class Reader
{
public:
    Reader(const Json& root, const std::string& name) : m_root(root), m_name(name) {}

    Result<TokenizerFile> read()
    {
        if (!m_root.is_object())
            return invalid(m_name, "holds no JSON object; is it a tokenizer.json?");
        OCTAVO_CHECK(readNormalizer());
        OCTAVO_CHECK(readPreTokenizer());
        OCTAVO_CHECK(readVocabulary());
        OCTAVO_CHECK(readAddedTokens());
        OCTAVO_CHECK(readMerges());
        return std::move(m_file);
    }

private:
    Result<void> readNormalizer()
    {
        const Json* normalizer = find(m_root, "normalizer");
        if (!normalizer)
            return {};
        if (typeOf(*normalizer) != "NFC")
            return invalid(m_name, "normalizer " + quote(typeOf(*normalizer)) + " is not known; wanted NFC or none");
        m_file.normalizeNfc = true;
        return {};
    }

    Result<void> readPreTokenizer()
    {
        const Json* sequence = find(m_root, "pre_tokenizer");
        const Json* parts = sequence ? find(*sequence, "pretokenizers") : nullptr;
        if (!parts || !parts->is_array() || parts->size() != 2 || typeOf((*parts)[0]) != "Split" ||
            typeOf((*parts)[1]) != "ByteLevel")
            return invalid(m_name, "pre_tokenizer must be a Sequence of Split and ByteLevel");
        const Json& split = (*parts)[0];
        const Json* pattern = find(split, "pattern");
        const Json* regex = pattern ? find(*pattern, "Regex") : nullptr;
        const Json* behavior = find(split, "behavior");
        if (!regex || !regex->is_string())
            return invalid(m_name, "pre_tokenizer has no pattern.Regex");
        if (!behavior || *behavior != "Isolated" || isTrue(split, "invert"))
            return invalid(m_name, "pre_tokenizer must keep every piece (behavior Isolated, not inverted)");
        if (isTrue((*parts)[1], "add_prefix_space") || isTrue((*parts)[1], "use_regex"))
            return invalid(m_name, "ByteLevel with add_prefix_space or use_regex is not known; wanted both off");
        const auto rule = splitRuleOf(regex->get_ref<const std::string&>());
        if (!rule)
            return invalid(m_name, "pre-tokenizer regex " + quote(regex->get_ref<const std::string&>()) +
                                       " is not known; wanted that of Qwen2, Qwen3 or Qwen3.5");
        m_file.splitRule = *rule;
        return {};
    }

    Result<TokenId> readId(const Json& value, std::string_view token) const
    {
        if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > maxTokenId) ||
            value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > maxTokenId)
            return invalid(m_name, "the id of token " + quote(token) + " must be an integer from 0 to " +
                                       std::to_string(maxTokenId));
        return TokenId(value.get<std::int64_t>());
    }

    Result<void> readVocabulary()
    {
        const Json* model = find(m_root, "model");
        if (!model || typeOf(*model) != "BPE")
            return invalid(m_name, "model type is " + quote(model ? typeOf(*model) : "(none)") + ", wanted BPE");
        for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
            const Json* value = find(*model, key);
            if (value && *value != "" && *value != 0)
                return invalid(m_name,
                               std::string("model.") + key + " is set; only byte-level BPE without it is known");
        }
        if (isTrue(*model, "byte_fallback"))
            return invalid(m_name, "model.byte_fallback is on; only byte-level BPE without it is known");
        m_file.ignoreMerges = isTrue(*model, "ignore_merges");

        const Json* vocab = find(*model, "vocab");
        if (!vocab || !vocab->is_object() || vocab->empty())
            return invalid(m_name, "model.vocab must be an object of tokens and ids");
        TokenId largest = 0;
        for (const auto& [token, value] : vocab->items()) {
            OCTAVO_TRY(const TokenId id, readId(value, token));
            largest = std::max(largest, id);
        }
        m_file.tokens.resize(std::size_t(largest) + 1);
        m_ids.reserve(vocab->size());
        m_file.byteTokens.assign(256, -1);
        for (const auto& [token, value] : vocab->items()) {
            const auto id = TokenId(value.get<std::int64_t>());
            auto bytes = bytesOf(token);
            if (!bytes || bytes->empty() || bytes->size() > maxTokenBytes)
                return invalid(m_name, "token " + quote(token) + " must be 1 to " + std::to_string(maxTokenBytes) +
                                           " characters of the byte alphabet");
            std::string& slot = m_file.tokens[std::size_t(id)];
            if (!slot.empty())
                return invalid(m_name,
                               "id " + std::to_string(id) + " is given to two tokens, one of them " + quote(token));
            slot = *std::move(bytes);
            m_ids.emplace(slot, id);
            if (slot.size() == 1)
                m_file.byteTokens[std::uint8_t(slot[0])] = id;
        }
        for (int byte = 0; byte < 256; ++byte) {
            if (m_file.byteTokens[std::size_t(byte)] < 0)
                return invalid(m_name, "model.vocab has no token for byte " + std::to_string(byte));
        }
        return {};
    }

    Result<void> readAddedTokens()
    {
        const Json* added = find(m_root, "added_tokens");
        if (!added)
            return {};
        if (!added->is_array())
            return invalid(m_name, "added_tokens must be an array");
        std::unordered_map<std::string_view, TokenId> seen;
        m_file.added.reserve(added->size());
        for (const Json& entry : *added) {
            const Json* content = find(entry, "content");
            const Json* idValue = find(entry, "id");
            if (!content || !content->is_string() || !idValue)
                return invalid(m_name, "an added token has no content or no id");
            const auto& text = content->get_ref<const std::string&>();
            OCTAVO_TRY(const TokenId id, readId(*idValue, text));
            if (text.empty() || text.size() > maxTokenBytes)
                return invalid(m_name, "added token " + std::to_string(id) + " must be 1 to " +
                                           std::to_string(maxTokenBytes) + " bytes long");
            for (const char* key : {"single_word", "lstrip", "rstrip"}) {
                if (isTrue(entry, key))
                    return invalid(m_name, "added token " + quote(text) + " has " + key + ", which is not known");
            }
            if (!seen.emplace(text, id).second)
                return invalid(m_name, "added token " + quote(text) + " is listed twice");
            if (std::size_t(id) >= m_file.tokens.size())
                m_file.tokens.resize(std::size_t(id) + 1);
            std::string& slot = m_file.tokens[std::size_t(id)];
            if (!slot.empty() && slot != text)
                return invalid(m_name,
                               "id " + std::to_string(id) + " is given to two tokens, one of them " + quote(text));
            // Plain text must stay encodable without added tokens.
            if (slot == text && text.size() == 1)
                return invalid(m_name, "added token " + quote(text) + " takes the place of a single byte");
            slot = text;
            m_file.added.push_back({id, text, isTrue(entry, "special")});
        }
        return {};
    }

    Result<void> readMerges()
    {
        const Json* merges = find(m_root["model"], "merges");
        if (!merges || !merges->is_array())
            return invalid(m_name, "model.merges must be an array");
        m_file.merges.reserve(merges->size());
        for (const Json& entry : *merges) {
            std::string_view left, right;
            if (entry.is_string()) {
                const std::string_view text = entry.get_ref<const std::string&>();
                const std::size_t space = text.find(' ');
                if (space != std::string_view::npos) {
                    left = text.substr(0, space);
                    right = text.substr(space + 1);
                }
            } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
                left = entry[0].get_ref<const std::string&>();
                right = entry[1].get_ref<const std::string&>();
            }
            const auto leftBytes = bytesOf(left), rightBytes = bytesOf(right);
            const std::string where = "merge " + std::to_string(m_file.merges.size()) + " ";
            if (!leftBytes || !rightBytes || leftBytes->empty() || rightBytes->empty())
                return invalid(m_name, where + "must name two tokens, as \"a b\" or [\"a\", \"b\"]");
            const auto leftId = m_ids.find(*leftBytes), rightId = m_ids.find(*rightBytes);
            if (leftId == m_ids.end() || rightId == m_ids.end())
                return invalid(m_name, where + "names " + quote(leftId == m_ids.end() ? left : right) +
                                           ", which model.vocab does not have");
            const auto result = m_ids.find(*leftBytes + *rightBytes);
            if (result == m_ids.end())
                return invalid(m_name, where + "makes " + quote(std::string(left) + std::string(right)) +
                                           ", which model.vocab does not have");
            m_file.merges.push_back({leftId->second, rightId->second, result->second});
        }
        return {};
    }

    const Json& m_root;
    const std::string& m_name;
    TokenizerFile m_file;
    std::unordered_map<std::string, TokenId> m_ids;
};

} // namespace

Result<TokenizerFile> TokenizerFile::parse(std::string_view json, const std::string& name)
{
    if (json.size() > maxBytes)
        return invalid(name, "is " + std::to_string(json.size()) + " bytes long; no tokenizer needs more than 128 MiB");
    if (!nestingIsBounded(json))
        return invalid(name, "is nested more than " + std::to_string(maxNesting) + " levels deep");
    const Json root = Json::parse(json, nullptr, false);
    if (root.is_discarded())
        return invalid(name, "this is not valid JSON; it may be cut short, download it again");
    return Reader(root, name).read();
}

} // namespace octavo::engine
