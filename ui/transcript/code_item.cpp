#include "ui/shown_text.h"
#include "ui/transcript/highlighter.h"
#include "ui/transcript/item.h"

#include <QCoreApplication>
#include <QFontMetricsF>
#include <QTextLine>

#include <algorithm>
#include <cmath>
#include <map>

namespace octavo::ui {
namespace {

constexpr int sidePadding = 10, linesPadding = 8, markGap = 5, barHeight = 4;

/// Fenced code in a quiet block: language and Copy above, whether the quote was found in the context below.
/// Lines are not wrapped; a block wider than the pane scrolls sideways. Only lines in view have a layout.
class CodeItem final : public Item
{
public:
    CodeItem(const TranscriptFonts& fonts, agents::MessageId id, const markdown::Block& block)
        : Item(fonts, id)
        , m_name(block.language)
        , m_language(languageNamed(block.language))
    {
        m_actions.push_back({ItemAction::Kind::CopyCode, TranscriptWords::tr("Copy"), {}, {}, {}});
        CodeItem::update(block);
    }

    bool update(const markdown::Block& block) override
    {
        if (block.kind != markdown::BlockKind::Code)
            return false;
        m_indent = blockIndent(m_fonts, block);
        m_quoteDepth = block.quoteDepth;
        m_sourceStart = block.sourceStart;
        m_sourceEnd = block.sourceEnd;
        // Lines before the last one can't have changed: a fence only grows.
        const std::size_t keep = m_lineStarts.empty() ? 0 : m_lineStarts.size() - 1;
        truncate(qMin(keep, std::size_t(block.lines.size())));
        for (std::size_t i = m_lineStarts.size(); i < std::size_t(block.lines.size()); ++i) {
            if (i > 0)
                m_text += u'\n';
            m_lineStarts.push_back(int(m_text.size()));
            const QString& line = block.lines[qsizetype(i)];
            m_text += line;
            m_widest = qMax(m_widest, columns(line));
        }
        invalidate();
        return true;
    }

    void setCitations(const QList<agents::Citation>& citations) override
    {
        QList<agents::Citation> mine;
        for (const agents::Citation& citation : citations) {
            if (citation.kind == agents::CitationKind::Quote && citation.textStart < m_sourceEnd &&
                citation.textStart + citation.textLength > m_sourceStart)
                mine += citation;
        }
        if (mine.isEmpty() && m_citations.isEmpty())
            return;
        m_citations = mine;
        m_actions.resize(1);
        for (const agents::Citation& citation : m_citations) {
            if (citation.state != agents::CitationState::Unverified)
                m_actions.push_back({ItemAction::Kind::OpenCitation, place(citation), citation, {}, {}});
        }
        invalidate();
    }

    void paint(QPainter& painter, const ItemPaint& paint) override
    {
        const Colors& c = colors();
        paintQuoteBars(painter, m_quoteDepth, int(m_box.bottom()));
        painter.setPen(c.line);
        painter.setBrush(c.codeBlock);
        painter.drawRoundedRect(m_box.adjusted(0.5, 0.5, -0.5, -0.5), metrics::radius, metrics::radius);
        painter.fillRect(QRectF(m_box.left() + 1, m_headerHeight, m_box.width() - 2, 1), c.line);
        painter.setFont(m_fonts.small);
        painter.setPen(c.muted);
        painter.drawText(QRectF(m_box.left() + sidePadding, 0, m_box.width() / 2, m_headerHeight),
                         Qt::AlignLeft | Qt::AlignVCenter, m_name.isEmpty() ? TranscriptWords::tr("text") : m_name);
        paintAction(painter, m_actions[0], m_fonts.small, Tone::Muted, paint.hoveredAction == 0,
                    paint.focusedAction == 0);
        paintLines(painter, paint);
        if (m_contentWidth > m_viewWidth) {
            const qreal track = m_box.width() - 2 * sidePadding;
            const qreal length = qMax(24.0, track * m_viewWidth / m_contentWidth);
            const qreal x = (track - length) * m_scroll / (m_contentWidth - m_viewWidth);
            painter.setPen(Qt::NoPen);
            painter.setBrush(mixed(c.codeBlock, c.muted, 0.45));
            painter.drawRoundedRect(
                QRectF(m_box.left() + sidePadding + x, m_box.bottom() - barHeight - 3, length, barHeight), 2, 2);
        }
        paintMarks(painter, paint);
    }

    int positionAt(const QPointF& point) const override
    {
        if (m_lineStarts.empty())
            return 0;
        const int line = qBound(0, int((point.y() - m_linesTop) / m_fonts.codePitch), int(m_lineStarts.size()) - 1);
        const QTextLayout* layout = lineLayout(line);
        const qreal x = point.x() - m_box.left() - sidePadding + m_scroll;
        return m_lineStarts[std::size_t(line)] + layout->lineAt(0).xToCursor(x);
    }

    QRectF lineRect(int position) const override
    {
        if (m_lineStarts.empty())
            return m_box;
        const auto after = std::upper_bound(m_lineStarts.begin(), m_lineStarts.end(), position);
        const auto line = std::distance(m_lineStarts.begin(), after) - 1;
        return QRectF(m_box.left(), m_linesTop + double(qMax<std::ptrdiff_t>(line, 0)) * m_fonts.codePitch,
                      m_box.width(), m_fonts.codePitch);
    }

    bool scrollSideways(int delta) override
    {
        const qreal to = qBound(0.0, m_scroll + delta, qMax(0.0, m_contentWidth - m_viewWidth));
        return std::exchange(m_scroll, to) != to;
    }

protected:
    int doLayout(int width) override
    {
        const QFontMetricsF small(m_fonts.small);
        m_headerHeight = int(m_fonts.smallPitch) + 9;
        m_linesTop = m_headerHeight + 1 + linesPadding;
        m_contentWidth = m_widest * m_fonts.codeAdvance + 2;
        m_viewWidth = width - m_indent - 2 * sidePadding;
        const bool bar = m_contentWidth > m_viewWidth;
        m_scroll = qBound(0.0, m_scroll, qMax(0.0, m_contentWidth - m_viewWidth));
        const qreal lines = double(qMax<std::size_t>(m_lineStarts.size(), 1)) * m_fonts.codePitch;
        m_box = QRectF(m_indent, 0, width - m_indent, m_linesTop + lines + linesPadding + (bar ? barHeight : 0));
        const qreal copy = std::ceil(small.horizontalAdvance(m_actions[0].label));
        m_actions[0].rect = QRectF(m_box.right() - sidePadding - copy, 0, copy, m_headerHeight);
        return layoutMarks(width);
    }

    int guessHeight(int) const override
    {
        return int(double(m_lineStarts.size()) * m_fonts.codePitch + m_fonts.smallPitch + 9 + 2 * linesPadding);
    }

private:
    struct Mark {
        QString words;
        Tone tone = Tone::Muted;
        QRectF wordsRect;
        int action = -1;
    };

    static int columns(const QString& line)
    {
        int n = 0;
        for (const QChar c : line)
            n += c == u'\t' ? 4 - n % 4 : c.unicode() >= 0x1100 ? 2 : 1; // wide scripts: an upper bound is enough
        return n;
    }

    static QString place(const agents::Citation& citation)
    {
        return citation.line > 0 ? citation.displayPath + u':' + QString::number(citation.line) : citation.displayPath;
    }

    void truncate(std::size_t lines)
    {
        if (lines >= m_lineStarts.size())
            return;
        m_text.truncate(lines == 0 ? 0 : m_lineStarts[lines] - 1);
        m_lineStarts.resize(lines);
        m_states.resize(qMin(m_states.size(), lines + 1));
        m_layouts.erase(m_layouts.lower_bound(int(lines)), m_layouts.end());
    }

    QStringView lineText(int line) const
    {
        const auto i = std::size_t(line);
        const int end = i + 1 < m_lineStarts.size() ? m_lineStarts[i + 1] - 1 : int(m_text.size());
        return QStringView(m_text).mid(m_lineStarts[i], end - m_lineStarts[i]);
    }

    /// The layout of a line, made when first seen; a few screens' worth are kept.
    const QTextLayout* lineLayout(int line) const
    {
        if (const auto found = m_layouts.find(line); found != m_layouts.end())
            return found->second.get();
        if (m_layouts.size() > 300)
            m_layouts.clear();
        std::vector<CodeToken> tokens;
        if (m_states.empty())
            m_states.push_back(0);
        while (int(m_states.size()) <= line) {
            tokens.clear();
            m_states.push_back(highlightLine(m_language, lineText(int(m_states.size()) - 1), m_states.back(), tokens));
        }
        tokens.clear();
        highlightLine(m_language, lineText(line), m_states[std::size_t(line)], tokens);
        auto layout = std::make_unique<QTextLayout>(shownText(lineText(line).toString()), m_fonts.code);
        QList<QTextLayout::FormatRange> formats;
        const Colors& c = colors();
        for (const CodeToken& token : tokens) {
            QTextLayout::FormatRange range;
            range.start = token.start;
            range.length = token.length;
            switch (token.kind) {
            case TokenKind::Keyword:
                range.format.setForeground(c.keyword);
                break;
            case TokenKind::Type:
                range.format.setForeground(c.type);
                break;
            case TokenKind::Function:
                range.format.setForeground(c.function);
                break;
            case TokenKind::String:
                range.format.setForeground(c.string);
                break;
            case TokenKind::Number:
                range.format.setForeground(c.number);
                break;
            case TokenKind::Comment:
                range.format.setForeground(c.comment);
                break;
            }
            formats += range;
        }
        layout->setFormats(formats);
        QTextOption option;
        option.setWrapMode(QTextOption::NoWrap);
        option.setTextDirection(Qt::LeftToRight); // code stands as its file has it
        option.setTabStopDistance(4 * m_fonts.codeAdvance);
        layout->setTextOption(option);
        layoutLines(*layout, 1e6, m_fonts.codePitch);
        return m_layouts.emplace(line, std::move(layout)).first->second.get();
    }

    void paintLines(QPainter& painter, const ItemPaint& paint)
    {
        const int count = int(m_lineStarts.size());
        const int first = qBound(0, int((paint.clip.top() - m_linesTop) / m_fonts.codePitch), count);
        const int last = qBound(0, int((paint.clip.bottom() - m_linesTop) / m_fonts.codePitch) + 1, count);
        painter.save();
        painter.setClipRect(m_box.adjusted(2, 0, -2, 0), Qt::IntersectClip);
        painter.setPen(colors().text);
        for (int line = first; line < last; ++line) {
            const QTextLayout* layout = lineLayout(line);
            const QPointF origin(m_box.left() + sidePadding - m_scroll, m_linesTop + line * m_fonts.codePitch);
            layout->draw(&painter, origin,
                         highlightFormats(paint, m_lineStarts[std::size_t(line)], int(layout->text().size())));
        }
        painter.restore();
    }

    int layoutMarks(int width)
    {
        const QFontMetricsF small(m_fonts.small), code(m_fonts.code);
        m_marks.clear();
        qreal y = m_box.bottom();
        int action = 1;
        for (const agents::Citation& citation : m_citations) {
            Mark mark;
            switch (citation.state) {
            case agents::CitationState::Verified:
                mark.words = QStringLiteral("\u2713 ") + TranscriptWords::tr("verified");
                mark.tone = Tone::Good;
                break;
            case agents::CitationState::Elsewhere:
                mark.words = QStringLiteral("\u2192 ") + TranscriptWords::tr("in another file than the answer says:");
                mark.tone = Tone::Warning;
                break;
            case agents::CitationState::Unverified:
                mark.words = TranscriptWords::tr("unverified: this code is not in the context");
                mark.tone = Tone::Warning;
                break;
            }
            y += markGap;
            const qreal words = std::ceil(small.horizontalAdvance(mark.words));
            mark.wordsRect = QRectF(m_indent, y, qMin<qreal>(words, width - m_indent), m_fonts.smallPitch);
            if (citation.state != agents::CitationState::Unverified) {
                mark.action = action++;
                ItemAction& link = m_actions[std::size_t(mark.action)];
                link.label = place(citation);
                qreal x = m_indent + words + 6;
                if (x + code.horizontalAdvance(link.label) > width) { // a long path gets a line of its own
                    x = m_indent;
                    y += m_fonts.smallPitch;
                }
                const qreal room = width - x;
                link.label = code.elidedText(link.label, Qt::ElideMiddle, room);
                link.rect = QRectF(x, y, qMin(room, std::ceil(code.horizontalAdvance(link.label))), m_fonts.smallPitch);
            }
            y += m_fonts.smallPitch;
            m_marks.push_back(mark);
        }
        return int(std::ceil(y));
    }

    void paintMarks(QPainter& painter, const ItemPaint& paint)
    {
        for (const Mark& mark : m_marks) {
            painter.setFont(m_fonts.small);
            painter.setPen(Theme::instance()->color(mark.tone));
            painter.drawText(mark.wordsRect, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextSingleLine, mark.words);
            if (mark.action >= 0) {
                QFont underlined = m_fonts.code;
                underlined.setUnderline(true);
                paintAction(painter, m_actions[std::size_t(mark.action)], underlined, Tone::Muted,
                            paint.hoveredAction == mark.action, paint.focusedAction == mark.action);
                if (paint.hoveredAction != mark.action) { // a link looks like one without the pointer on it, too
                    const QRectF r = m_actions[std::size_t(mark.action)].rect;
                    painter.fillRect(QRectF(r.left(), r.bottom() - 2, r.width(), 1),
                                     mixed(colors().panel, colors().muted, 0.6));
                }
            }
        }
    }

    QString m_name;
    const Language* m_language;
    int m_indent = 0, m_quoteDepth = 0;
    int m_sourceStart = 0, m_sourceEnd = 0;
    std::vector<int> m_lineStarts;
    int m_widest = 0;
    mutable std::vector<HighlightState> m_states; // at the start of each line, as far as known
    mutable std::map<int, std::unique_ptr<QTextLayout>> m_layouts;
    QList<agents::Citation> m_citations;
    std::vector<Mark> m_marks;
    QRectF m_box;
    int m_headerHeight = 0, m_linesTop = 0;
    qreal m_contentWidth = 0, m_viewWidth = 0, m_scroll = 0;
};

} // namespace

std::unique_ptr<Item> makeCodeItem(const TranscriptFonts& fonts, agents::MessageId message,
                                   const markdown::Block& block)
{
    return std::make_unique<CodeItem>(fonts, message, block);
}

} // namespace octavo::ui
