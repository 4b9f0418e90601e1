#include "ui/transcript/highlighter.h"

#include "ui/transcript/languages.h"

namespace octavo::ui {
namespace {

// States: 0 plain, 1 block comment, 2 raw string, 3 + n the n-th quote of the language.
constexpr HighlightState plainState = 0, commentState = 1, rawState = 2, firstQuoteState = 3;

bool isWordStart(QChar c)
{
    return c.isLetter() || c == u'_';
}

bool isWord(QChar c)
{
    return c.isLetterOrNumber() || c == u'_';
}

class LineHighlighter
{
public:
    LineHighlighter(const Language& language, QStringView line, std::vector<CodeToken>& tokens)
        : m_language(language)
        , m_line(line)
        , m_tokens(tokens)
    {
    }

    HighlightState run(HighlightState state)
    {
        if (state == commentState)
            state = finishComment(0);
        else if (state == rawState)
            state = finishRaw(0);
        else if (state >= firstQuoteState)
            state = finishQuote(0, 0, std::size_t(state - firstQuoteState));
        while (state == plainState && m_at < m_line.size())
            state = next();
        return state;
    }

private:
    bool at(QLatin1String mark) const { return mark.size() > 0 && m_line.mid(m_at).startsWith(mark); }

    void add(qsizetype start, qsizetype end, TokenKind kind)
    {
        if (end > start)
            m_tokens.push_back({int(start), int(end - start), kind});
    }

    HighlightState finishComment(qsizetype start)
    {
        const qsizetype end = m_line.indexOf(m_language.blockClose, m_at);
        m_at = end < 0 ? m_line.size() : end + m_language.blockClose.size();
        add(start, m_at, TokenKind::Comment);
        return end < 0 ? commentState : plainState;
    }

    HighlightState finishRaw(qsizetype start)
    {
        const qsizetype end = m_line.indexOf(QLatin1String(")\""), m_at);
        m_at = end < 0 ? m_line.size() : end + 2;
        add(start, m_at, TokenKind::String);
        return end < 0 ? rawState : plainState;
    }

    HighlightState finishQuote(qsizetype start, qsizetype from, std::size_t index)
    {
        if (index >= m_language.quotes.size())
            return plainState;
        const Quote& quote = m_language.quotes[index];
        m_at = from;
        bool closed = false;
        while (m_at < m_line.size()) {
            if (quote.escapes && m_line[m_at] == u'\\') {
                m_at += 2;
            } else if (at(quote.close)) {
                m_at += quote.close.size();
                closed = true;
                break;
            } else {
                ++m_at;
            }
        }
        m_at = qMin(m_at, m_line.size());
        TokenKind kind = TokenKind::String;
        if (m_language.keysAreTypes && m_line.mid(m_at).trimmed().startsWith(u':'))
            kind = TokenKind::Type;
        add(start, m_at, kind);
        return closed || !quote.multiline ? plainState : firstQuoteState + HighlightState(index);
    }

    HighlightState next()
    {
        const QChar c = m_line[m_at];
        if (c.isSpace()) {
            ++m_at;
            return plainState;
        }
        if (at(m_language.blockOpen)) {
            const qsizetype start = m_at;
            m_at += m_language.blockOpen.size();
            return finishComment(start);
        }
        if (at(m_language.lineComment) && (!m_language.wordBeforeHash || m_at == 0 || m_line[m_at - 1].isSpace())) {
            add(m_at, m_line.size(), TokenKind::Comment);
            m_at = m_line.size();
            return plainState;
        }
        if (m_language.preprocessor && c == u'#' && m_line.left(m_at).trimmed().isEmpty()) {
            const qsizetype start = m_at++;
            while (m_at < m_line.size() && (m_line[m_at] == u' ' || isWord(m_line[m_at]))) {
                if (m_line[m_at] == u' ' && m_at > start + 1 && isWord(m_line[m_at - 1]))
                    break;
                ++m_at;
            }
            add(start, m_at, TokenKind::Keyword);
            const qsizetype open = m_line.indexOf(u'<', m_at);
            if (m_line.mid(start, m_at - start).contains(u"include") && open >= 0) {
                add(open, m_line.size(), TokenKind::String);
                m_at = m_line.size();
            }
            return plainState;
        }
        if (m_language.rawStrings && at(QLatin1String("R\"("))) {
            const qsizetype start = m_at;
            m_at += 3;
            return finishRaw(start);
        }
        if (m_language.lifetimes && c == u'\'' && m_at + 1 < m_line.size() && isWordStart(m_line[m_at + 1]) &&
            (m_at + 2 >= m_line.size() || m_line[m_at + 2] != u'\'')) {
            const qsizetype start = m_at++;
            while (m_at < m_line.size() && isWord(m_line[m_at]))
                ++m_at;
            add(start, m_at, TokenKind::Type);
            return plainState;
        }
        for (std::size_t i = 0; i < m_language.quotes.size(); ++i) {
            if (at(m_language.quotes[i].open))
                return finishQuote(m_at, m_at + m_language.quotes[i].open.size(), i);
        }
        if (c.isDigit()) {
            const qsizetype start = m_at;
            while (m_at < m_line.size() && (isWord(m_line[m_at]) || m_line[m_at] == u'.' || m_line[m_at] == u'\''))
                ++m_at;
            add(start, m_at, TokenKind::Number);
            return plainState;
        }
        if (m_language.variables && c == u'$') {
            variable();
            return plainState;
        }
        if (m_language.attributes && c == u'@' && m_at + 1 < m_line.size() && isWordStart(m_line[m_at + 1])) {
            const qsizetype start = m_at++;
            while (m_at < m_line.size() && (isWord(m_line[m_at]) || m_line[m_at] == u'.'))
                ++m_at;
            add(start, m_at, TokenKind::Keyword);
            return plainState;
        }
        if (isWordStart(c))
            word();
        else
            ++m_at;
        return plainState;
    }

    void variable()
    {
        const qsizetype start = m_at++;
        if (m_at < m_line.size() && m_line[m_at] == u'{') {
            const qsizetype end = m_line.indexOf(u'}', m_at);
            m_at = end < 0 ? m_line.size() : end + 1;
        } else {
            while (m_at < m_line.size() && isWord(m_line[m_at]))
                ++m_at;
        }
        add(start, m_at, TokenKind::Number);
    }

    void word()
    {
        const qsizetype start = m_at;
        while (m_at < m_line.size() && isWord(m_line[m_at]))
            ++m_at;
        QString name = m_line.mid(start, m_at - start).toString();
        if (m_language.ignoreCase)
            name = name.toLower();
        qsizetype after = m_at;
        while (after < m_line.size() && m_line[after] == u' ')
            ++after;
        const bool call = after < m_line.size() && (m_line[after] == u'(' || m_line.mid(after).startsWith(u"!("));
        if (m_language.keywords.contains(name))
            add(start, m_at, TokenKind::Keyword);
        else if (m_language.types.contains(name))
            add(start, m_at, TokenKind::Type);
        else if (call)
            add(start, m_at, TokenKind::Function);
        else if (m_language.capitalsAreTypes && name[0].isUpper() && name != name.toUpper())
            add(start, m_at, TokenKind::Type);
    }

    const Language& m_language;
    QStringView m_line;
    std::vector<CodeToken>& m_tokens;
    qsizetype m_at = 0;
};

} // namespace

HighlightState highlightLine(const Language* language, QStringView line, HighlightState state,
                             std::vector<CodeToken>& tokens)
{
    return language ? LineHighlighter(*language, line, tokens).run(state) : plainState;
}

} // namespace octavo::ui
