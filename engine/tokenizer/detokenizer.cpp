#include "engine/tokenizer/detokenizer.h"

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"

namespace octavo::engine {

namespace {
constexpr std::string_view replacementCharacter = "\xEF\xBF\xBD";
}

std::string Detokenizer::append(TokenId id)
{
    return m_tokenizer->isSpecial(id) ? std::string() : appendBytes(m_tokenizer->bytes(id));
}

std::string Detokenizer::appendBytes(std::string_view bytes)
{
    m_pending += bytes;
    std::string text;
    std::string_view rest = m_pending;
    while (!rest.empty()) {
        const Utf8Step step = decodeUtf8(rest);
        if (step.kind == Utf8Step::Kind::Cut)
            break;
        text +=
            step.kind == Utf8Step::Kind::Character ? rest.substr(0, std::size_t(step.length)) : replacementCharacter;
        rest.remove_prefix(std::size_t(step.length));
    }
    m_pending.erase(0, m_pending.size() - rest.size());
    return text;
}

std::string Detokenizer::finish()
{
    const bool cut = !m_pending.empty();
    m_pending.clear();
    return std::string(cut ? replacementCharacter : std::string_view());
}

} // namespace octavo::engine
