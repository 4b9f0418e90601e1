#pragma once

/// Markdown as answers use it, parsed while it arrives: paragraphs, headings, lists, tables, block quotes, fenced code.
///
/// The result is a flat list of blocks. A block, once closed, is never touched again; appending text costs what the new
/// text and the open block's last line cost, however long the answer is. Everything is content: HTML, images and
/// control characters come out as text.
/// No widgets, no threads: values only.

#include <QString>
#include <QStringList>

#include <vector>

namespace octavo::ui::markdown {

enum class BlockKind { Paragraph, Heading, Code, Table, Rule };

/// Where a stretch of a block's text stands in the source; both in UTF-16 units.
struct SourcePoint {
    int text = 0;
    int source = 0;
};

struct Block {
    BlockKind kind = BlockKind::Paragraph;
    int quoteDepth = 0;
    int listDepth = 0;               ///< 0: not in a list
    QString marker;                  ///< "•", "2.": set on the first block of a list item
    int level = 0;                   ///< of a heading, 1..6
    QString text;                    ///< Paragraph, Heading: inline Markdown, lines joined by '\n'
    std::vector<SourcePoint> points; ///< for each line of `text`
    QString language;                ///< Code: first word of the fence's info string
    QStringList lines;               ///< Code: exactly as written
    QList<Qt::Alignment> columns;    ///< Table
    QList<QStringList> rows;         ///< Table: inline Markdown per cell; row 0 is the header
    int sourceStart = 0, sourceEnd = 0;
    bool closed = false; ///< nothing will be added any more
};

enum SpanStyle : unsigned { Plain = 0, Bold = 1, Italic = 2, CodeSpan = 4, Link = 8, Struck = 16 };

/// A stretch of one style in shown text.
struct Span {
    int start = 0, length = 0;
    unsigned style = Plain;
    QString target;    ///< of a link
    int textStart = 0; ///< where it begins in the inline Markdown
};

struct InlineText {
    QString text;            ///< as shown
    std::vector<Span> spans; ///< in order, without gaps; empty only for an empty text
};

/// Inline Markdown to shown text. With `open`, a code span or emphasis that has not been closed yet counts as closed at
/// the end, so that text does not change its look while it arrives.
InlineText parseInline(QStringView text, bool open = false);

class Document
{
public:
    void append(QStringView text);
    /// No more text will come: the last line is complete, the last block closed.
    void finish();
    void clear();

    const std::vector<Block>& blocks() const { return m_blocks; }
    const QString& source() const { return m_source; }

    /// Index of the first block that changed since the last call; blocks().size() when none did.
    int takeFirstChanged();

private:
    struct ListLevel {
        int markerColumn = 0, contentColumn = 0;
    };
    struct State {
        bool open = false;      ///< the last block takes more lines
        bool blank = false;     ///< the line before was empty
        bool fenced = false;    ///< inside fenced code
        bool tableSure = false; ///< the open table has its delimiter row
        QChar fenceChar;
        int fenceLength = 0, fenceColumn = 0;
        int quoteDepth = 0;
        std::vector<ListLevel> lists;
    };

    void feedLine(QStringView line, int source, bool complete);
    bool feedFenced(QStringView line, int source, bool complete);
    void feedTable(QStringView line, int source, bool complete);
    bool opensFence(QStringView line, int source, int column, const QString& marker);
    void beginTextBlock(BlockKind kind, QStringView text, int source, const QString& marker);
    Block& push(BlockKind kind, int source, const QString& marker);
    void closeLast();
    void undoTentative();
    void touch(int index) { m_firstChanged = qMin(m_firstChanged, index); }

    QString m_source;
    std::vector<Block> m_blocks;
    State m_state;
    int m_lineStart = 0; ///< where the line that is not complete yet begins
    int m_firstChanged = 0;

    // What the incomplete last line did, so that it can be taken back when more of it is there.
    bool m_tentative = false;
    State m_stateBefore;
    int m_blocksBefore = 0, m_textBefore = 0, m_linesBefore = 0, m_rowsBefore = 0, m_pointsBefore = 0, m_endBefore = 0;
};

} // namespace octavo::ui::markdown
