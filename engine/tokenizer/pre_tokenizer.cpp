#include "engine/tokenizer/pre_tokenizer.h"

#include "engine/tokenizer/utf8.h"

#include <utf8proc.h>

#include <array>

namespace octavo::engine {

namespace {

constexpr std::string_view qwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen35Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Class : std::uint8_t { Letter, Mark, Number, Newline, Space, Other };

// \s as Unicode's White_Space has it; Newline (CR, LF) is apart since the rules name it.
Class classOfWide(char32_t c)
{
    if (c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
        c == 0x202F || c == 0x205F || c == 0x3000)
        return Class::Space;
    switch (utf8proc_category(utf8proc_int32_t(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return Class::Letter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return Class::Mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return Class::Number;
    default: return Class::Other;
    }
}

constexpr std::array<Class, 128> asciiClasses = [] {
    std::array<Class, 128> classes{};
    for (int c = 0; c < 128; ++c) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        classes[std::size_t(c)] = letter                              ? Class::Letter
                                  : c >= '0' && c <= '9'              ? Class::Number
                                  : c == '\r' || c == '\n'            ? Class::Newline
                                  : c == ' ' || (c >= 9 && c <= 13)   ? Class::Space
                                                                      : Class::Other;
    }
    return classes;
}();

struct Step {
    Class kind;
    std::size_t length;
};

class Scanner
{
public:
    Scanner(std::string_view text, SplitRule rule) : m_text(text), m_marksAreLetters(rule == SplitRule::Qwen35) {}

    bool atEnd(std::size_t pos) const { return pos >= m_text.size(); }

    Step at(std::size_t pos) const
    {
        const auto byte = std::uint8_t(m_text[pos]);
        if (byte < 128)
            return {asciiClasses[byte], 1};
        const Utf8Step step = decodeUtf8(m_text.substr(pos));
        if (step.kind != Utf8Step::Kind::Character)
            return {Class::Other, 1};
        return {classOfWide(step.codePoint), std::size_t(step.length)};
    }

    bool isWord(Class kind) const { return kind == Class::Letter || (m_marksAreLetters && kind == Class::Mark); }
    bool isPunctuation(Class kind) const { return kind == Class::Other || (!m_marksAreLetters && kind == Class::Mark); }

    template <typename Predicate>
    std::size_t skipWhile(std::size_t pos, Predicate predicate) const
    {
        while (!atEnd(pos)) {
            const Step step = at(pos);
            if (!predicate(step.kind))
                break;
            pos += step.length;
        }
        return pos;
    }

    std::size_t skipWord(std::size_t pos) const
    {
        return skipWhile(pos, [this](Class kind) { return isWord(kind); });
    }

    std::size_t skipPunctuation(std::size_t pos) const
    {
        pos = skipWhile(pos, [this](Class kind) { return isPunctuation(kind); });
        return skipWhile(pos, [](Class kind) { return kind == Class::Newline; });
    }

    // (?i:'s|'t|'re|'ve|'m|'ll|'d) behind the apostrophe: length of what follows it, 0 for none. Without regard to
    // case, s also stands for U+017F (long s).
    std::size_t contraction(std::size_t pos) const
    {
        const std::string_view rest = m_text.substr(pos);
        const auto lower = [&](std::size_t i) { return i < rest.size() ? char(rest[i] | 0x20) : '\0'; };
        switch (lower(0)) {
        case 's':
        case 't':
        case 'm':
        case 'd': return 1;
        case 'r':
        case 'v': return lower(1) == 'e' ? 2 : 0;
        case 'l': return lower(1) == 'l' ? 2 : 0;
        default: return rest.starts_with("\xC5\xBF") ? 2 : 0;
        }
    }

    std::size_t whitespace() const
    {
        std::size_t pos = 0, afterNewline = 0, lastStart = 0;
        while (!atEnd(pos)) {
            const Step step = at(pos);
            if (step.kind != Class::Space && step.kind != Class::Newline)
                break;
            lastStart = pos;
            pos += step.length;
            if (step.kind == Class::Newline)
                afterNewline = pos;
        }
        if (afterNewline > 0) // \s*[\r\n]+
            return afterNewline;
        if (atEnd(pos) || lastStart == 0) // \s+(?!\S) at the end, or \s+ for a single one
            return pos;
        return lastStart; // \s+(?!\S) leaves the last one to the word that follows
    }

private:
    std::string_view m_text;
    bool m_marksAreLetters;
};

} // namespace

std::optional<SplitRule> splitRuleOf(std::string_view regex)
{
    if (regex == qwen35Regex)
        return SplitRule::Qwen35;
    if (regex == qwen2Regex)
        return SplitRule::Qwen2;
    return std::nullopt;
}

std::string_view regexOf(SplitRule rule)
{
    return rule == SplitRule::Qwen35 ? qwen35Regex : qwen2Regex;
}

std::size_t firstPiece(std::string_view text, SplitRule rule)
{
    const Scanner scan(text, rule);
    const Step first = scan.at(0);

    if (text[0] == '\'') {
        if (const std::size_t length = scan.contraction(1))
            return 1 + length;
    }
    if (scan.isWord(first.kind))
        return scan.skipWord(first.length);
    if (first.kind == Class::Number)
        return first.length;
    // [^\r\n\p{L}\p{N}]? takes any one other character that a word follows.
    if (first.kind != Class::Newline && !scan.atEnd(first.length) && scan.isWord(scan.at(first.length).kind))
        return scan.skipWord(first.length);
    if (scan.isPunctuation(first.kind))
        return scan.skipPunctuation(first.length);
    if (text[0] == ' ' && !scan.atEnd(1) && scan.isPunctuation(scan.at(1).kind))
        return scan.skipPunctuation(1);
    return scan.whitespace();
}

} // namespace octavo::engine
