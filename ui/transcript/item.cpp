#include "ui/transcript/item.h"

#include "ui/controls.h"
#include "ui/problem_text.h"
#include "ui/shown_text.h"

#include <QCoreApplication>
#include <QFontMetricsF>
#include <QTextLine>

#include <algorithm>
#include <cmath>

namespace octavo::ui {

TranscriptFonts TranscriptFonts::fromTheme()
{
    TranscriptFonts f;
    const Theme* theme = Theme::instance();
    f.body = theme->font(TextRole::Body);
    f.strong = theme->font(TextRole::BodyStrong);
    f.italic = f.body;
    f.italic.setItalic(true);
    f.code = theme->font(TextRole::Code);
    f.inlineCode = theme->font(TextRole::Code);
    f.small = theme->font(TextRole::Small);
    const qreal sizes[] = {17, 15, 13.5};
    for (int i = 0; i < 3; ++i) {
        f.heading[i] = f.strong;
        f.heading[i].setPointSizeF(sizes[i] * 0.75 * theme->textScale());
    }
    f.bodyPitch = std::round(19.5 * theme->textScale());
    f.codePitch = std::round(17.25 * theme->textScale());
    f.smallPitch = std::round(17 * theme->textScale());
    // A desktop that scales text by its dots per inch scales the pitch with it.
    const QFontMetricsF body(f.body), code(f.code);
    f.bodyPitch = qMax(f.bodyPitch, std::ceil(body.ascent() + body.descent()) + 2);
    f.codePitch = qMax(f.codePitch, std::ceil(code.ascent() + code.descent()) + 1);
    f.codeAdvance = code.horizontalAdvance(QLatin1Char('0'));
    return f;
}

void Item::layout(int width)
{
    if (m_width == width)
        return;
    m_height = doLayout(width);
    m_width = width;
}

int Item::height(int width) const
{
    return m_width == width ? m_height : guessHeight(width);
}

int Item::guessHeight(int width) const
{
    const qreal perLine = qMax(10.0, width / (m_fonts.codeAdvance * 0.95));
    return int((1 + std::floor(double(m_text.size()) / perLine)) * m_fonts.bodyPitch);
}

bool ItemAction::contains(const QPointF& point) const
{
    const auto holds = [&](const QRectF& r) { return r.adjusted(-2, -2, 2, 2).contains(point); };
    return holds(rect) || std::any_of(further.begin(), further.end(), holds);
}

int Item::actionAt(const QPointF& point) const
{
    for (std::size_t i = 0; i < m_actions.size(); ++i) {
        if (m_actions[i].contains(point))
            return int(i);
    }
    return -1;
}

qreal layoutLines(QTextLayout& layout, qreal width, qreal pitch, qreal left, qreal top)
{
    layout.beginLayout();
    qreal y = top;
    for (;;) {
        QTextLine line = layout.createLine();
        if (!line.isValid())
            break;
        line.setLineWidth(qMax(width, 1.0));
        const qreal lineHeight = qMax(pitch, std::ceil(line.height()));
        line.setPosition(QPointF(left, y + std::floor((lineHeight - line.height()) / 2)));
        y += lineHeight;
    }
    layout.endLayout();
    return y - top;
}

QList<QTextLayout::FormatRange> highlightFormats(const ItemPaint& paint, int offset, int length)
{
    QList<QTextLayout::FormatRange> formats;
    const auto add = [&](TextRange range, const QColor& background) {
        const int start = qMax(range.start - offset, 0);
        const int end = qMin(range.start + range.length - offset, length);
        if (end <= start)
            return;
        QTextLayout::FormatRange format;
        format.start = start;
        format.length = end - start;
        format.format.setBackground(background);
        formats += format;
    };
    if (paint.found) {
        for (std::size_t i = 0; i < paint.found->size(); ++i)
            add((*paint.found)[i], mixed(colors().panel, colors().warning, int(i) == paint.currentFound ? 0.6 : 0.25));
    }
    if (paint.selection.length > 0)
        add(paint.selection, colors().selection);
    return formats;
}

void paintAction(QPainter& painter, const ItemAction& action, const QFont& font, Tone tone, bool hovered, bool focused)
{
    QFont f = font;
    f.setUnderline(hovered);
    painter.setFont(f);
    painter.setPen(hovered && tone == Tone::Muted ? colors().text : Theme::instance()->color(tone));
    painter.drawText(action.rect, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine, action.label);
    if (focused) {
        painter.setPen(colors().accent);
        painter.drawRoundedRect(action.rect.adjusted(-3.5, -0.5, 3.5, 0.5), 3, 3);
    }
}

int blockIndent(const TranscriptFonts& fonts, const markdown::Block& block)
{
    return block.quoteDepth * 14 + int(std::round(block.listDepth * fonts.bodyPitch * 0.8));
}

void paintQuoteBars(QPainter& painter, int depth, int height)
{
    for (int i = 0; i < depth; ++i)
        painter.fillRect(QRectF(i * 14, 0, 2, height), colors().line);
}

namespace {

/// What the user asked, in a bubble on the right. Plain text, never Markdown.
class QuestionItem final : public Item
{
public:
    QuestionItem(const TranscriptFonts& fonts, const agents::Message& message)
        : Item(fonts, message.id)
    {
        m_text = message.text;
    }

    void paint(QPainter& painter, const ItemPaint& paint) override
    {
        painter.setPen(Qt::NoPen);
        painter.setBrush(colors().question);
        painter.drawRoundedRect(m_bubble, metrics::cardRadius, metrics::cardRadius);
        // The corner towards the answer is nearly sharp.
        const qreal corner = metrics::cardRadius + 2;
        painter.drawRoundedRect(QRectF(m_bubble.right() - corner, m_bubble.bottom() - corner, corner, corner), 2, 2);
        painter.setPen(colors().text);
        m_layout.draw(&painter, m_bubble.topLeft() + QPointF(hPad, vPad), highlightFormats(paint), paint.clip);
    }

    int positionAt(const QPointF& point) const override
    {
        const QPointF inside = point - m_bubble.topLeft() - QPointF(hPad, vPad);
        for (int i = 0; i < m_layout.lineCount(); ++i) {
            const QTextLine line = m_layout.lineAt(i);
            if (inside.y() < line.y() + line.height() || i + 1 == m_layout.lineCount())
                return line.xToCursor(inside.x());
        }
        return 0;
    }

    QRectF lineRect(int position) const override
    {
        const QTextLine line = m_layout.lineForTextPosition(position);
        return line.isValid() ? line.rect().translated(m_bubble.topLeft() + QPointF(hPad, vPad)) : m_bubble;
    }

protected:
    int doLayout(int width) override
    {
        QString shown = shownText(m_text);
        shown.replace(u'\n', QChar::LineSeparator);
        m_layout.setText(shown);
        m_layout.setFont(m_fonts.body);
        m_layout.setFormats(codeFormats(shown));
        QTextOption option;
        option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
        m_layout.setTextOption(option);
        const qreal widest = width * 0.86 - 2 * hPad;
        const qreal height = layoutLines(m_layout, widest, m_fonts.bodyPitch);
        qreal used = 0;
        for (int i = 0; i < m_layout.lineCount(); ++i)
            used = qMax(used, m_layout.lineAt(i).naturalTextWidth());
        used = std::ceil(used);
        m_bubble = QRectF(width - used - 2 * hPad, 0, used + 2 * hPad, height + 2 * vPad);
        return int(std::ceil(m_bubble.height()));
    }

private:
    /// What stands between two backticks of a line looks like code; the marks step back, and are still there.
    QList<QTextLayout::FormatRange> codeFormats(const QString& shown) const
    {
        QList<QTextLayout::FormatRange> formats;
        const auto add = [&](qsizetype start, qsizetype length, const QFont& font, const QColor& color) {
            QTextLayout::FormatRange range;
            range.start = int(start);
            range.length = int(length);
            range.format.setFont(font);
            range.format.setForeground(color);
            formats += range;
        };
        const QColor marks = mixed(colors().question, colors().muted, 0.55);
        for (qsizetype open = shown.indexOf(u'`'); open >= 0;) {
            const qsizetype close = shown.indexOf(u'`', open + 1);
            const qsizetype line = shown.indexOf(QChar::LineSeparator, open);
            if (close < 0)
                break;
            if (close == open + 1 || (line >= 0 && line < close)) {
                open = close;
                continue;
            }
            add(open, 1, m_fonts.inlineCode, marks);
            add(open + 1, close - open - 1, m_fonts.inlineCode, colors().text);
            add(close, 1, m_fonts.inlineCode, marks);
            open = shown.indexOf(u'`', close + 1);
        }
        return formats;
    }

    static constexpr int hPad = 10, vPad = 5;
    QTextLayout m_layout;
    QRectF m_bubble;
};

class RuleItem final : public Item
{
public:
    using Item::Item;
    void paint(QPainter& painter, const ItemPaint&) override
    {
        painter.fillRect(QRectF(0, 6, m_lineWidth, 1), colors().line);
    }
    int positionAt(const QPointF&) const override { return 0; }
    QRectF lineRect(int) const override { return QRectF(0, 0, m_lineWidth, 12); }

protected:
    int doLayout(int width) override
    {
        m_lineWidth = width;
        return 12;
    }

private:
    int m_lineWidth = 0;
};

/// How an answer ended and what it cost, with what can be done next.
class SummaryItem final : public Item
{
public:
    SummaryItem(const TranscriptFonts& fonts, const agents::Message& message, bool last)
        : Item(fonts, message.id)
    {
        switch (message.state) {
        case agents::MessageState::Pending:
        case agents::MessageState::Complete:
            break;
        case agents::MessageState::Stopped:
            m_words = TranscriptWords::tr("Stopped.");
            break;
        case agents::MessageState::ContextFull:
            m_words = TranscriptWords::tr("Ended: the context is full.");
            break;
        case agents::MessageState::LengthLimit:
            m_words =
                last ? TranscriptWords::tr("Ended at the limit for an answer's length. Continue goes on from here; the "
                                           "limit is in Settings, under Answers.")
                     : TranscriptWords::tr("Ended at the limit for an answer's length.");
            break;
        case agents::MessageState::Repeated:
            m_words = TranscriptWords::tr("Ended: the answer began to repeat itself.");
            break;
        case agents::MessageState::Interrupted:
            m_words = message.text.isEmpty()
                          ? TranscriptWords::tr("Interrupted when Octavo closed, before the answer began.")
                          : TranscriptWords::tr("Interrupted when Octavo closed; the text so far is here.");
            break;
        case agents::MessageState::Failed:
            m_words = message.problem.isEmpty() ? TranscriptWords::tr("Failed.") : problemText(message.problem);
            break;
        }
        m_tone = message.state == agents::MessageState::Complete ? Tone::Muted
                 : message.state == agents::MessageState::Failed ? Tone::Bad
                                                                 : Tone::Warning;
        const agents::AnswerFigures& f = message.figures;
        if (f.newTokens > 0)
            m_parts += TranscriptWords::tr("%Ln tokens", nullptr, int(f.newTokens));
        if (f.tokensPerSecond >= 0)
            m_parts += TranscriptWords::tr("%1 tok/s").arg(rateText(f.tokensPerSecond));
        if (f.ttftMs >= 0)
            m_parts += TranscriptWords::tr("first after %1 s").arg(rateText(f.ttftMs / 1000, 2));
        if (f.promptTokens > 0)
            m_parts += TranscriptWords::tr("%1 of %2 reused")
                           .arg(shortCountText(f.reusedTokens), shortCountText(f.promptTokens));
        if (f.acceptedDrafts > 0)
            m_parts += TranscriptWords::tr("%1 drafted").arg(countText(f.acceptedDrafts));
        if (!message.text.isEmpty())
            m_actions.push_back({ItemAction::Kind::CopyAnswer, TranscriptWords::tr("Copy"), {}, {}, {}});
        if (last && agents::endedEarly(message.state))
            m_actions.push_back({ItemAction::Kind::Continue, TranscriptWords::tr("Continue"), {}, {}, {}});
        if (last)
            m_actions.push_back({ItemAction::Kind::Regenerate, TranscriptWords::tr("Regenerate"), {}, {}, {}});
        m_text = m_parts.join(between);
        if (!m_words.isEmpty())
            m_text.prepend(m_parts.isEmpty() ? m_words : m_words + u' ');
    }

    QString copyText(TextRange) const override { return {}; }

    void paint(QPainter& painter, const ItemPaint& paint) override
    {
        painter.setPen(Theme::instance()->color(m_tone));
        m_layout.draw(&painter, QPointF());
        for (std::size_t i = 0; i < m_actions.size(); ++i) {
            const bool hovered = paint.hoveredAction == int(i), focused = paint.focusedAction == int(i);
            if (!hasIcon(m_actions[i]))
                paintAction(painter, m_actions[i], m_fonts.small, Tone::Muted, hovered, focused);
            else
                paintIcon(painter, m_actions[i], hovered, focused);
        }
    }

    int positionAt(const QPointF&) const override { return 0; }
    QRectF lineRect(int) const override { return QRectF(0, 0, 1, m_fonts.smallPitch); }

protected:
    int doLayout(int width) override
    {
        const QFontMetricsF fm(m_fonts.small);
        m_layout.setText(linesOf(fm, width));
        m_layout.setFont(m_fonts.small);
        m_layout.setFormats({});
        if (!m_words.isEmpty() && !m_parts.isEmpty()) {
            QTextLayout::FormatRange muted;
            muted.start = int(m_words.size());
            muted.length = int(m_layout.text().size()) - muted.start;
            muted.format.setForeground(colors().muted);
            m_layout.setFormats({muted});
        }
        QTextOption option;
        option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
        m_layout.setTextOption(option);
        qreal height = m_text.isEmpty() ? 0 : layoutLines(m_layout, width, m_fonts.smallPitch);
        const qreal lastLine =
            m_layout.lineCount() > 0 ? m_layout.lineAt(m_layout.lineCount() - 1).naturalTextWidth() : 0;
        // Words where one line holds them too, else icons at the right.
        m_iconic = m_layout.lineCount() > 1 || lastLine + gap + actionsWidth(fm, false) > width;
        const qreal needed = actionsWidth(fm, m_iconic);
        if (!m_actions.empty() && (height == 0 || lastLine + gap + needed > width))
            height += m_fonts.smallPitch;
        qreal x = m_iconic ? width - needed : lastLine > 0 ? lastLine + gap : 0;
        for (ItemAction& action : m_actions) {
            const qreal w = widthOf(action, fm, m_iconic);
            action.rect = QRectF(x, height - m_fonts.smallPitch, w, m_fonts.smallPitch);
            x += w + gap;
        }
        return int(std::ceil(height));
    }

private:
    static constexpr qreal gap = 14;
    static inline const QString between = QStringLiteral(" \u00b7 ");

    /// Words and figures, broken between two figures where they need several lines.
    QString linesOf(const QFontMetricsF& fm, qreal width) const
    {
        QString lines = m_words, line;
        for (const QString& part : m_parts) {
            if (!line.isEmpty() && fm.horizontalAdvance(line + between + part) > width) {
                lines += (lines.isEmpty() ? QString() : QString(QChar::LineSeparator)) + line;
                line.clear();
            }
            line += (line.isEmpty() ? QString() : between) + part;
        }
        if (!line.isEmpty())
            lines += (lines.isEmpty() ? QString() : QString(QChar::LineSeparator)) + line;
        return lines;
    }

    static QString iconOf(const ItemAction& action)
    {
        return action.kind == ItemAction::Kind::CopyAnswer   ? QStringLiteral("copy")
               : action.kind == ItemAction::Kind::Regenerate ? QStringLiteral("regenerate")
                                                             : QString();
    }

    bool hasIcon(const ItemAction& action) const { return m_iconic && !iconOf(action).isEmpty(); }

    qreal widthOf(const ItemAction& action, const QFontMetricsF& fm, bool iconic) const
    {
        return iconic && !iconOf(action).isEmpty() ? m_fonts.smallPitch : std::ceil(fm.horizontalAdvance(action.label));
    }

    qreal actionsWidth(const QFontMetricsF& fm, bool iconic) const
    {
        qreal sum = 0;
        for (const ItemAction& action : m_actions)
            sum += (sum > 0 ? gap : 0) + widthOf(action, fm, iconic);
        return sum;
    }

    static void paintIcon(QPainter& painter, const ItemAction& action, bool hovered, bool focused)
    {
        const int side = int(action.rect.height()) - 3;
        QRect box(0, 0, side, side);
        box.moveCenter(action.rect.center().toPoint());
        icon(iconOf(action), hovered || focused ? Tone::Normal : Tone::Muted).paint(&painter, box);
        if (focused) {
            painter.setBrush(Qt::NoBrush);
            painter.setPen(colors().accent);
            painter.drawRoundedRect(QRectF(box).adjusted(-2.5, -2.5, 2.5, 2.5), 3, 3);
        }
    }

    QString m_words;
    QStringList m_parts; ///< figures
    Tone m_tone = Tone::Muted;
    QTextLayout m_layout;
    bool m_iconic = false;
};

} // namespace

std::unique_ptr<Item> makeQuestionItem(const TranscriptFonts& fonts, const agents::Message& message)
{
    return std::make_unique<QuestionItem>(fonts, message);
}

std::unique_ptr<Item> makeSummaryItem(const TranscriptFonts& fonts, const agents::Message& message, bool last)
{
    return std::make_unique<SummaryItem>(fonts, message, last);
}

std::unique_ptr<Item> makeBlockItem(const TranscriptFonts& fonts, agents::MessageId message,
                                    const markdown::Block& block)
{
    switch (block.kind) {
    case markdown::BlockKind::Paragraph:
    case markdown::BlockKind::Heading:
        return makeTextItem(fonts, message, block);
    case markdown::BlockKind::Code:
        return makeCodeItem(fonts, message, block);
    case markdown::BlockKind::Table:
        return makeTableItem(fonts, message, block);
    case markdown::BlockKind::Rule:
        return std::make_unique<RuleItem>(fonts, message);
    }
    return nullptr;
}

} // namespace octavo::ui
