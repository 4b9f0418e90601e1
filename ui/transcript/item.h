#pragma once

/// What a transcript is made of: a column of items, each a block of an answer, a question or a line of figures.
///
/// An item knows its text at once and lays itself out only when it comes into view; until then its height is a guess.
/// Positions in an item are UTF-16 offsets into text(). Rectangles are relative to the item's top left corner.

#include "agents/values.h"
#include "ui/theme.h"
#include "ui/transcript/markdown.h"

#include <QCoreApplication>
#include <QFont>
#include <QPainter>
#include <QRectF>
#include <QString>
#include <QTextLayout>

#include <memory>
#include <vector>

namespace octavo::ui {

/// Where translators find the words of a transcript's items.
struct TranscriptWords {
    Q_DECLARE_TR_FUNCTIONS(octavo::ui::TranscriptWords)
};

/// Fonts and line heights of one theme and text scale; shared by all items of a view.
struct TranscriptFonts {
    QFont body, strong, italic, code, inlineCode, small, heading[3];
    qreal bodyPitch = 0, codePitch = 0, smallPitch = 0; ///< from line to line
    qreal codeAdvance = 0;                              ///< of one column of code

    static TranscriptFonts fromTheme();
};

/// Something in an item that can be clicked, or reached with Tab.
struct ItemAction {
    enum class Kind { CopyCode, OpenCitation, OpenLink, CopyAnswer, Regenerate, Continue };
    Kind kind = Kind::CopyCode;
    QString label;             ///< for screen readers
    agents::Citation citation; ///< OpenCitation
    QString target;            ///< OpenLink
    QRectF rect;
    QString shown;               ///< OpenLink: the words that lead there
    std::vector<QRectF> further; ///< of the lines after the first, where it wraps

    bool contains(const QPointF& point) const;
};

struct TextRange {
    int start = 0, length = 0;
};

/// What surrounds an item while it paints.
struct ItemPaint {
    QRectF clip; ///< only this part needs painting
    TextRange selection;
    const std::vector<TextRange>* found = nullptr;
    int currentFound = -1; ///< index into `found`
    int hoveredAction = -1, focusedAction = -1;
};

class Item
{
public:
    Item(const TranscriptFonts& fonts, agents::MessageId message)
        : m_fonts(fonts)
        , m_message(message)
    {
    }
    virtual ~Item() = default;
    Item(const Item&) = delete;
    Item& operator=(const Item&) = delete;

    agents::MessageId message() const { return m_message; }
    const QString& text() const { return m_text; }
    /// What copying `range` gives: like text(), without marks that are ours and not the answer's.
    virtual QString copyText(TextRange range) const { return m_text.mid(range.start, range.length); }

    int topMargin() const { return m_topMargin; }
    void setTopMargin(int margin) { m_topMargin = margin; }

    /// Laid out for `width`; does nothing when it is already.
    void layout(int width);
    bool isLaidOut(int width) const { return m_width == width; }
    void invalidate() { m_width = -1; }
    /// Exact once laid out, a guess for `width` before.
    int height(int width) const;

    virtual void paint(QPainter& painter, const ItemPaint& paint) = 0;
    virtual int positionAt(const QPointF& point) const = 0;
    /// Of the line that holds `position`: where it begins to the right edge.
    virtual QRectF lineRect(int position) const = 0;
    /// Where a caret after the last character stands; a null rectangle where that makes no sense.
    virtual QRectF endRect() const { return {}; }

    const std::vector<ItemAction>& actions() const { return m_actions; }
    int actionAt(const QPointF& point) const;

    /// Scrolls what is wider than the item. Gives whether anything moved.
    virtual bool scrollSideways(int) { return false; }

    /// The block behind it changed. Gives false when it can't show that block (another kind): make another item.
    virtual bool update(const markdown::Block&) { return false; }
    virtual void setCitations(const QList<agents::Citation>&) {}

protected:
    virtual int doLayout(int width) = 0;
    virtual int guessHeight(int width) const;

    const TranscriptFonts& m_fonts;
    QString m_text;
    std::vector<ItemAction> m_actions;

private:
    agents::MessageId m_message;
    int m_topMargin = 0;
    int m_width = -1, m_height = 0;
};

/// Lays `layout` out in lines of `width` that are `pitch` apart; gives the height.
qreal layoutLines(QTextLayout& layout, qreal width, qreal pitch, qreal left = 0, qreal top = 0);

/// Selection and found text as formats to draw with.
QList<QTextLayout::FormatRange> highlightFormats(const ItemPaint& paint, int offset = 0, int length = INT_MAX);

/// The end of a word-wrapped action label: small text in a tone, underlined when hovered, framed when focused.
void paintAction(QPainter& painter, const ItemAction& action, const QFont& font, Tone tone, bool hovered, bool focused);

std::unique_ptr<Item> makeQuestionItem(const TranscriptFonts& fonts, const agents::Message& message);
std::unique_ptr<Item> makeBlockItem(const TranscriptFonts& fonts, agents::MessageId message,
                                    const markdown::Block& block);
/// The line under an answer: how it ended, figures, Copy, and for the `last` of a conversation Regenerate; Continue
/// where it ended early.
std::unique_ptr<Item> makeSummaryItem(const TranscriptFonts& fonts, const agents::Message& message, bool last);

std::unique_ptr<Item> makeTextItem(const TranscriptFonts& fonts, agents::MessageId message,
                                   const markdown::Block& block);
std::unique_ptr<Item> makeCodeItem(const TranscriptFonts& fonts, agents::MessageId message,
                                   const markdown::Block& block);
std::unique_ptr<Item> makeTableItem(const TranscriptFonts& fonts, agents::MessageId message,
                                    const markdown::Block& block);

/// How far a block stands in, for its quotes and lists.
int blockIndent(const TranscriptFonts& fonts, const markdown::Block& block);
void paintQuoteBars(QPainter& painter, int depth, int height);

} // namespace octavo::ui
