#include "ui/transcript/item.h"

#include <QCoreApplication>
#include <QFontMetricsF>
#include <QTextLine>

#include <algorithm>
#include <cmath>

namespace octavo::ui {
namespace {

/// A paragraph, heading or piece of a list: wrapped text with inline styles, and marks behind cited paths and quotes.
class TextItem final : public Item
{
public:
    TextItem(const TranscriptFonts& fonts, agents::MessageId id, const markdown::Block& block)
        : Item(fonts, id)
    {
        TextItem::update(block);
    }

    bool update(const markdown::Block& block) override
    {
        if (block.kind != markdown::BlockKind::Paragraph && block.kind != markdown::BlockKind::Heading)
            return false;
        m_block = block;
        rebuild();
        return true;
    }

    void setCitations(const QList<agents::Citation>& citations) override
    {
        QList<agents::Citation> mine;
        for (const agents::Citation& citation : citations) {
            if (citation.textStart < m_block.sourceEnd &&
                citation.textStart + citation.textLength > m_block.sourceStart)
                mine += citation;
        }
        if (mine.isEmpty() && m_citations.isEmpty())
            return;
        m_citations = mine;
        rebuild();
    }

    QString copyText(TextRange range) const override
    {
        QString result;
        if (range.start == 0 && !m_block.marker.isEmpty())
            result = QString(2 * qMax(m_block.listDepth - 1, 0), u' ') +
                     (m_block.marker == u"\u2022" ? QStringLiteral("-") : m_block.marker) + u' ';
        int at = range.start;
        const int end = range.start + range.length;
        for (const TextRange& mark : m_marks) {
            if (mark.start + mark.length <= at)
                continue;
            if (mark.start >= end)
                break;
            result += m_text.mid(at, qMax(0, mark.start - at));
            at = mark.start + mark.length;
        }
        return result + m_text.mid(at, qMax(0, end - at));
    }

    void paint(QPainter& painter, const ItemPaint& paint) override
    {
        paintQuoteBars(painter, m_block.quoteDepth, m_contentHeight);
        const QPointF origin(m_indent, 0);
        painter.setPen(m_block.quoteDepth > 0 ? colors().muted : colors().text);
        if (!m_block.marker.isEmpty() && m_layout.lineCount() > 0) {
            painter.setFont(m_fonts.body);
            const QTextLine first = m_layout.lineAt(0);
            painter.drawText(QRectF(0, first.y(), m_indent - 6, first.height()), Qt::AlignRight | Qt::AlignVCenter,
                             m_block.marker);
        }
        for (const markdown::Span& span : m_spans) {
            if (span.style & markdown::CodeSpan)
                paintChip(painter, origin, span);
        }
        const QColor pen = m_block.quoteDepth > 0 ? colors().muted : colors().text;
        painter.setPen(pen);
        m_layout.draw(&painter, origin, highlightFormats(paint), paint.clip);
        for (const int index : {paint.hoveredAction, paint.focusedAction}) {
            if (index < 0 || index >= int(m_actions.size()))
                continue;
            painter.setPen(index == paint.focusedAction ? colors().accent : colors().muted);
            painter.setBrush(Qt::NoBrush);
            const ItemAction& action = m_actions[std::size_t(index)];
            painter.drawRoundedRect(action.rect.adjusted(-1.5, 0.5, 1.5, -0.5), 4, 4);
            for (const QRectF& rect : action.further)
                painter.drawRoundedRect(rect.adjusted(-1.5, 0.5, 1.5, -0.5), 4, 4);
        }
    }

    int positionAt(const QPointF& point) const override
    {
        for (int i = 0; i < m_layout.lineCount(); ++i) {
            const QTextLine line = m_layout.lineAt(i);
            const qreal bottom = i + 1 < m_layout.lineCount() ? m_layout.lineAt(i + 1).y() : m_contentHeight;
            if (point.y() < bottom || i + 1 == m_layout.lineCount())
                return line.xToCursor(point.x() - m_indent);
        }
        return 0;
    }

    QRectF lineRect(int position) const override
    {
        const QTextLine line = m_layout.lineForTextPosition(qBound(0, position, int(m_text.size())));
        if (!line.isValid())
            return QRectF(0, 0, 1, m_fonts.bodyPitch);
        return QRectF(m_indent + line.cursorToX(position), line.y(), line.naturalTextWidth(), line.height());
    }

    QRectF endRect() const override
    {
        if (m_layout.lineCount() == 0)
            return {};
        const QTextLine line = m_layout.lineAt(m_layout.lineCount() - 1);
        return QRectF(m_indent + line.naturalTextWidth() + line.x() + 3, line.y(), 7, line.height());
    }

protected:
    int doLayout(int width) override
    {
        m_indent = blockIndent(m_fonts, m_block);
        const bool heading = m_block.kind == markdown::BlockKind::Heading;
        const QFont& base = heading ? m_fonts.heading[qBound(0, m_block.level - 1, 2)] : m_fonts.body;
        QList<QTextLayout::FormatRange> formats;
        for (const markdown::Span& span : m_spans) {
            if (span.style == markdown::Plain)
                continue;
            QTextLayout::FormatRange range;
            range.start = span.start;
            range.length = span.length;
            QFont f = span.style & markdown::CodeSpan ? m_fonts.inlineCode : base;
            if (span.style & markdown::Bold)
                f.setWeight(QFont::DemiBold);
            if (span.style & markdown::Italic)
                f.setItalic(true);
            if (span.style & markdown::Struck)
                f.setStrikeOut(true);
            if (span.style & markdown::Link) {
                f.setUnderline(true);
                range.format.setForeground(colors().accentText);
            }
            range.format.setFont(f);
            formats += range;
        }
        for (std::size_t i = 0; i < m_marks.size(); ++i) {
            if (m_markTones[i] == Tone::Normal) // padding takes the style it stands in
                continue;
            QTextLayout::FormatRange range;
            range.start = m_marks[i].start;
            range.length = m_marks[i].length;
            range.format.setFont(m_fonts.small);
            range.format.setForeground(Theme::instance()->color(m_markTones[i]));
            formats += range;
        }
        m_layout.setText(m_text);
        m_layout.setFont(base);
        m_layout.setFormats(formats);
        QTextOption option;
        option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
        m_layout.setTextOption(option);
        const qreal pitch = heading ? std::round(QFontMetricsF(base).height() * 1.25) : m_fonts.bodyPitch;
        m_contentHeight = int(std::ceil(layoutLines(m_layout, width - m_indent, pitch)));
        for (std::size_t i = 0; i < m_actions.size(); ++i)
            placeAction(m_actions[i], m_actionRanges[i]);
        return m_contentHeight;
    }

private:
    /// Text and spans of the block, with a mark put in behind each cited path and quote.
    void rebuild()
    {
        invalidate();
        markdown::InlineText inlined = markdown::parseInline(m_block.text, !m_block.closed);
        m_text = inlined.text;
        m_spans = std::move(inlined.spans);
        m_marks.clear();
        m_markTones.clear();
        m_actions.clear();
        m_actionRanges.clear();
        std::vector<std::pair<int, const agents::Citation*>> behind; // index of span, citation
        for (const agents::Citation& citation : m_citations) {
            int last = -1;
            for (std::size_t i = 0; i < m_spans.size(); ++i) {
                const int source = sourceOf(m_spans[i].textStart);
                if (citation.textStart < source + m_spans[i].length &&
                    citation.textStart + citation.textLength > source)
                    last = int(i);
            }
            if (last >= 0)
                behind.emplace_back(last, &citation);
        }
        std::stable_sort(behind.begin(), behind.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        int shift = 0;
        std::size_t next = 0;
        for (std::size_t i = 0; i < m_spans.size(); ++i) {
            m_spans[i].start += shift;
            if (m_spans[i].style & markdown::CodeSpan) { // room inside the box, on both sides
                padSpan(m_spans[i]);
                shift += 2;
            }
            if ((m_spans[i].style & markdown::Link) && !m_spans[i].target.isEmpty()) {
                m_actions.push_back({ItemAction::Kind::OpenLink, m_spans[i].target, {}, m_spans[i].target, {},
                                     m_text.mid(m_spans[i].start, m_spans[i].length)});
                m_actionRanges.push_back({m_spans[i].start, m_spans[i].length});
            }
            if (next < behind.size() && behind[next].first == int(i)) {
                const agents::Citation& citation = *behind[next].second;
                const int at = m_spans[i].start + m_spans[i].length;
                const QString mark = markFor(citation);
                m_text.insert(at, mark);
                m_marks.push_back({at, int(mark.size())});
                m_markTones.push_back(citation.state == agents::CitationState::Verified    ? Tone::Good
                                      : citation.state == agents::CitationState::Elsewhere ? Tone::Warning
                                                                                           : Tone::Muted);
                if (citation.state != agents::CitationState::Unverified) {
                    const QString label = TranscriptWords::tr("Open %1").arg(citation.displayPath);
                    m_actions.push_back({ItemAction::Kind::OpenCitation, label, citation, {}, {}});
                    m_actionRanges.push_back({m_spans[i].start, m_spans[i].length});
                }
                shift += int(mark.size());
                while (next < behind.size() && behind[next].first == int(i)) // one mark is enough
                    ++next;
            }
        }
    }

    void padSpan(markdown::Span& span)
    {
        static const QString thin(QChar(0x202F)); // a thin space that does not break
        m_text.insert(span.start + span.length, thin);
        m_text.insert(span.start, thin);
        m_marks.push_back({span.start, 1});
        m_marks.push_back({span.start + span.length + 1, 1});
        m_markTones.insert(m_markTones.end(), 2, Tone::Normal);
        span.length += 2;
    }

    QString markFor(const agents::Citation& citation) const
    {
        const QString space(QChar::Nbsp);
        switch (citation.state) {
        case agents::CitationState::Verified:
            return space + u'\u2713';
        case agents::CitationState::Elsewhere:
            return space + u'\u2192' + space + citation.displayPath;
        case agents::CitationState::Unverified:
            break;
        }
        return space + TranscriptWords::tr("unverified");
    }

    int sourceOf(int textPosition) const
    {
        const auto after = std::upper_bound(m_block.points.begin(), m_block.points.end(), textPosition,
                                            [](int p, const markdown::SourcePoint& point) { return p < point.text; });
        if (after == m_block.points.begin())
            return m_block.sourceStart;
        const markdown::SourcePoint& point = *std::prev(after);
        return point.source + textPosition - point.text;
    }

    /// One rectangle for each line that `range` stands on.
    void placeAction(ItemAction& action, TextRange range) const
    {
        action.rect = {};
        action.further.clear();
        const int end = range.start + range.length;
        for (int i = 0; i < m_layout.lineCount(); ++i) {
            const QTextLine line = m_layout.lineAt(i);
            const int from = qMax(range.start, line.textStart());
            const int to = qMin(end, line.textStart() + line.textLength());
            if (from >= to)
                continue;
            const qreal x1 = line.cursorToX(from), x2 = line.cursorToX(to);
            const QRectF rect(m_indent + x1, line.y(), x2 - x1, line.height());
            if (action.rect.isNull())
                action.rect = rect;
            else
                action.further.push_back(rect);
        }
    }

    /// The quiet box behind inline code, one piece per line it stands on.
    void paintChip(QPainter& painter, const QPointF& origin, const markdown::Span& span)
    {
        painter.setPen(colors().line);
        painter.setBrush(colors().codeBlock);
        const int end = span.start + span.length;
        for (int i = 0; i < m_layout.lineCount(); ++i) {
            const QTextLine line = m_layout.lineAt(i);
            const int from = qMax(span.start, line.textStart());
            const int to = qMin(end, line.textStart() + line.textLength());
            if (from >= to)
                continue;
            const qreal x1 = line.cursorToX(from), x2 = line.cursorToX(to);
            const QRectF box(origin.x() + x1 - 0.5, origin.y() + line.y() + 0.5, x2 - x1 + 1, line.height() - 1);
            painter.drawRoundedRect(box, 4, 4);
        }
    }

    markdown::Block m_block;
    QList<agents::Citation> m_citations;
    std::vector<markdown::Span> m_spans;
    std::vector<TextRange> m_marks, m_actionRanges;
    std::vector<Tone> m_markTones;
    QTextLayout m_layout;
    int m_indent = 0, m_contentHeight = 0;
};

} // namespace

std::unique_ptr<Item> makeTextItem(const TranscriptFonts& fonts, agents::MessageId message,
                                   const markdown::Block& block)
{
    return std::make_unique<TextItem>(fonts, message, block);
}

} // namespace octavo::ui
