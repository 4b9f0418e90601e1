#include "ui/shown_text.h"
#include "ui/transcript/markdown.h"

#include <algorithm>

namespace octavo::ui::markdown {
namespace {

/// A piece of the source: text that is shown, or a run of emphasis marks that may turn out to be text.
struct Piece {
    QString shown;
    int source = 0;
    unsigned style = Plain;
    QString target;
    QChar mark; ///< null for text
    int marks = 0;
    bool canOpen = false, canClose = false;
};

bool isPunctuation(QChar c)
{
    return c.isPunct() || c.isSymbol();
}

class InlineParser
{
public:
    InlineParser(QStringView text, bool open)
        : m_text(text)
        , m_open(open)
    {
    }

    InlineText run()
    {
        scan(0, m_text.size(), Plain, {});
        matchEmphasis();
        return join();
    }

private:
    void addText(QStringView shown, qsizetype source, unsigned style, const QString& target)
    {
        if (!shown.isEmpty())
            m_pieces.push_back({shown.toString(), int(source), style, target, {}, 0, false, false});
    }

    /// Shown characters: line breaks become spaces, what would fake the layout a visible mark.
    void addPlain(qsizetype from, qsizetype to, unsigned style, const QString& target)
    {
        QString shown = m_text.mid(from, to - from).toString();
        for (QChar& c : shown) {
            if (c == u'\n' || c == u'\t')
                c = u' ';
            else if (fakesLayout(c))
                c = QChar::ReplacementCharacter;
        }
        addText(shown, from, style, target);
    }

    void scan(qsizetype from, qsizetype to, unsigned style, const QString& target)
    {
        qsizetype plain = from;
        qsizetype i = from;
        const auto flush = [&](qsizetype end) { addPlain(plain, end, style, target); };
        while (i < to) {
            const QChar c = m_text[i];
            if (c == u'\\' && i + 1 < to && isPunctuation(m_text[i + 1])) {
                flush(i);
                plain = i + 1;
                i += 2;
            } else if (c == u'`') {
                const qsizetype after = codeSpan(i, to, style, target, plain);
                if (after > i) {
                    plain = i = after;
                } else {
                    while (i < to && m_text[i] == u'`')
                        ++i;
                }
            } else if (c == u'*' || c == u'_' || (c == u'~' && i + 1 < to && m_text[i + 1] == u'~')) {
                flush(i);
                plain = i = marks(i, from, to, style, target);
            } else if (target.isEmpty() && (c == u'[' || (c == u'!' && i + 1 < to && m_text[i + 1] == u'['))) {
                const qsizetype after = link(i, to, style, plain);
                if (after > i)
                    plain = i = after;
                else
                    ++i;
            } else if (target.isEmpty() && c == u'h' && (i == from || !m_text[i - 1].isLetterOrNumber()) &&
                       (m_text.mid(i, to - i).startsWith(u"https://") ||
                        m_text.mid(i, to - i).startsWith(u"http://"))) {
                flush(i);
                qsizetype end = i;
                while (end < to && !m_text[end].isSpace() && !QStringView(u"<>\"'`|*").contains(m_text[end]))
                    ++end;
                while (end > i && QStringView(u".,;:!?)").contains(m_text[end - 1]))
                    --end;
                addPlain(i, end, style | Link, m_text.mid(i, end - i).toString());
                plain = i = end;
            } else {
                ++i;
            }
        }
        flush(to);
    }

    /// Adds the code span that opens at `at`; gives where it ends, or `at` when nothing closes it.
    qsizetype codeSpan(qsizetype at, qsizetype to, unsigned style, const QString& target, qsizetype plain)
    {
        qsizetype ticks = 0;
        while (at + ticks < to && m_text[at + ticks] == u'`')
            ++ticks;
        qsizetype end = at + ticks;
        while (end < to) {
            if (m_text[end] != u'`') {
                ++end;
                continue;
            }
            qsizetype run = 0;
            while (end + run < to && m_text[end + run] == u'`')
                ++run;
            if (run == ticks)
                break;
            end += run;
        }
        const bool closed = end < to;
        if (!closed && (!m_open || at + ticks >= to))
            return at;
        addPlain(plain, at, style, target);
        qsizetype from = at + ticks, until = closed ? end : to;
        if (until - from > 2 && m_text[from] == u' ' && m_text[until - 1] == u' ') {
            ++from;
            --until;
        }
        addPlain(from, until, style | CodeSpan, target);
        return closed ? end + ticks : to;
    }

    qsizetype marks(qsizetype at, qsizetype from, qsizetype to, unsigned style, const QString& target)
    {
        qsizetype end = at;
        while (end < to && m_text[end] == m_text[at])
            ++end;
        const QChar before = at > from ? m_text[at - 1] : QChar(u' ');
        const QChar after = end < to ? m_text[end] : QChar(u' ');
        const bool left = !after.isSpace() && (!isPunctuation(after) || before.isSpace() || isPunctuation(before));
        const bool right = !before.isSpace() && (!isPunctuation(before) || after.isSpace() || isPunctuation(after));
        Piece piece{
            m_text.mid(at, end - at).toString(), int(at), style, target, m_text[at], int(end - at), left, right};
        if (m_text[at] == u'_') { // never inside a word: snake_case stays as it is
            piece.canOpen = left && (!right || isPunctuation(before));
            piece.canClose = right && (!left || isPunctuation(after));
        }
        m_pieces.push_back(std::move(piece));
        return end;
    }

    /// [text](target), and images as links to what they show. Targets are kept as text; nothing is ever loaded.
    qsizetype link(qsizetype at, qsizetype to, unsigned style, qsizetype plain)
    {
        const qsizetype open = m_text[at] == u'!' ? at + 1 : at;
        int depth = 0;
        qsizetype close = open;
        for (; close < to; ++close) {
            if (m_text[close] == u'\\')
                ++close;
            else if (m_text[close] == u'[')
                ++depth;
            else if (m_text[close] == u']' && --depth == 0)
                break;
        }
        if (close + 1 >= to || m_text[close + 1] != u'(')
            return at;
        int parens = 0;
        qsizetype end = close + 1;
        for (; end < to; ++end) {
            if (m_text[end] == u'(')
                ++parens;
            else if (m_text[end] == u')' && --parens == 0)
                break;
            else if (m_text[end] == u'\n')
                return at;
        }
        if (end >= to)
            return at;
        QStringView target = m_text.mid(close + 2, end - close - 2).trimmed();
        if (const qsizetype space = target.indexOf(u' '); space > 0)
            target = target.left(space);
        if (target.startsWith(u'<') && target.endsWith(u'>'))
            target = target.mid(1, target.size() - 2);
        addPlain(plain, at, style, {});
        if (close == open + 1)
            addPlain(close + 2, end, style | Link, target.toString());
        else
            scan(open + 1, close, style | Link, target.isEmpty() ? QStringLiteral("#") : target.toString());
        return end + 1;
    }

    void matchEmphasis()
    {
        std::vector<std::size_t> openers;
        for (std::size_t i = 0; i < m_pieces.size(); ++i) {
            if (m_pieces[i].mark.isNull())
                continue;
            if (m_pieces[i].canClose) {
                while (m_pieces[i].marks > 0) {
                    const auto match = std::find_if(openers.rbegin(), openers.rend(), [&](std::size_t o) {
                        return m_pieces[o].mark == m_pieces[i].mark && m_pieces[o].marks > 0 &&
                               (m_pieces[i].mark != u'~' || (m_pieces[o].marks >= 2 && m_pieces[i].marks >= 2));
                    });
                    if (match == openers.rend())
                        break;
                    const std::size_t opener = *match;
                    openers.erase(match.base(), openers.end());
                    apply(opener, i);
                    if (m_pieces[opener].marks == 0)
                        openers.pop_back();
                }
            }
            if (m_pieces[i].marks > 0 && m_pieces[i].canOpen)
                openers.push_back(i);
        }
        if (!m_open)
            return;
        for (auto o = openers.rbegin(); o != openers.rend(); ++o) {
            if (*o + 1 < m_pieces.size() && (m_pieces[*o].marks >= 2 || m_pieces[*o].mark != u'~')) {
                m_pieces.push_back(
                    {{}, int(m_text.size()), Plain, {}, m_pieces[*o].mark, m_pieces[*o].marks, false, true});
                apply(*o, m_pieces.size() - 1);
                m_pieces.pop_back();
            }
        }
    }

    void apply(std::size_t opener, std::size_t closer)
    {
        const bool twice = m_pieces[opener].marks >= 2 && m_pieces[closer].marks >= 2;
        const unsigned style = m_pieces[opener].mark == u'~' ? Struck : twice ? Bold : Italic;
        for (std::size_t i = opener + 1; i < closer; ++i)
            m_pieces[i].style |= style;
        for (const std::size_t end : {opener, closer}) {
            m_pieces[end].marks -= twice ? 2 : 1;
            m_pieces[end].shown.truncate(m_pieces[end].marks);
        }
    }

    InlineText join() const
    {
        InlineText result;
        for (const Piece& piece : m_pieces) {
            if (piece.shown.isEmpty())
                continue;
            const int start = int(result.text.size());
            result.text += piece.shown;
            result.spans.push_back({start, int(piece.shown.size()), piece.style, piece.target, piece.source});
        }
        return result;
    }

    QStringView m_text;
    bool m_open;
    std::vector<Piece> m_pieces;
};

} // namespace

InlineText parseInline(QStringView text, bool open)
{
    return InlineParser(text, open).run();
}

} // namespace octavo::ui::markdown
