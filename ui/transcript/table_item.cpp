#include "ui/transcript/item.h"

#include <QTextLine>

#include <cmath>

namespace octavo::ui {
namespace {

constexpr int cellPadding = 8, rowPadding = 4, narrowest = 36;

/// A table with wrapped cells. While rows arrive, only the new row is laid out, unless it widens a column.
class TableItem final : public Item
{
public:
    TableItem(const TranscriptFonts& fonts, agents::MessageId id, const markdown::Block& block)
        : Item(fonts, id)
    {
        TableItem::update(block);
    }

    bool update(const markdown::Block& block) override
    {
        if (block.kind != markdown::BlockKind::Table)
            return false;
        m_indent = blockIndent(m_fonts, block);
        if (block.columns != m_columns)
            m_rows.clear();
        m_columns = block.columns;
        // Only the last row can have changed.
        if (!m_rows.empty())
            m_rows.pop_back();
        if (m_rows.size() > std::size_t(block.rows.size()))
            m_rows.clear();
        m_text.truncate(m_rows.empty() ? 0 : m_rows.back().textEnd);
        for (std::size_t r = m_rows.size(); r < std::size_t(block.rows.size()); ++r)
            addRow(block.rows[qsizetype(r)], r == 0);
        invalidate();
        return true;
    }

    void paint(QPainter& painter, const ItemPaint& paint) override
    {
        const Colors& c = colors();
        const QRectF box(m_indent + 0.5, 0.5, m_tableWidth - 1, m_tableHeight - 1);
        painter.setPen(c.line);
        painter.setBrush(Qt::NoBrush);
        if (!m_rows.empty()) {
            painter.save();
            painter.setClipRect(QRectF(box.left(), box.top(), box.width(), m_rows[0].height));
            painter.setBrush(c.raised);
            painter.setPen(Qt::NoPen);
            painter.drawRoundedRect(box, metrics::radius, metrics::radius);
            painter.restore();
        }
        painter.drawRoundedRect(box, metrics::radius, metrics::radius);
        for (std::size_t r = 0; r < m_rows.size(); ++r) {
            const Row& row = m_rows[r];
            if (row.top + row.height < paint.clip.top())
                continue;
            if (row.top > paint.clip.bottom())
                break;
            if (r > 0)
                painter.fillRect(QRectF(box.left() + 0.5, row.top, box.width() - 1, 1), c.line);
            painter.setPen(c.text);
            for (const Cell& cell : row.cells)
                cell.layout->draw(&painter, QPointF(m_indent, row.top),
                                  highlightFormats(paint, cell.textStart, int(cell.layout->text().size())));
        }
    }

    int positionAt(const QPointF& point) const override
    {
        for (const Row& row : m_rows) {
            if (point.y() >= row.top + row.height && &row != &m_rows.back())
                continue;
            for (std::size_t i = 0; i < row.cells.size(); ++i) {
                if (point.x() - m_indent >= m_lefts[i] + m_widths[i] && i + 1 < row.cells.size())
                    continue;
                const QTextLayout& layout = *row.cells[i].layout;
                for (int l = 0; l < layout.lineCount(); ++l) {
                    const QTextLine line = layout.lineAt(l);
                    if (point.y() - row.top < line.y() + line.height() || l + 1 == layout.lineCount())
                        return row.cells[i].textStart + line.xToCursor(point.x() - m_indent);
                }
                return row.cells[i].textStart;
            }
        }
        return 0;
    }

    QRectF lineRect(int position) const override
    {
        for (const Row& row : m_rows) {
            if (position <= row.textEnd)
                return QRectF(m_indent, row.top, m_tableWidth, row.height);
        }
        return QRectF(m_indent, 0, m_tableWidth, m_tableHeight);
    }

protected:
    int doLayout(int width) override
    {
        const int available = width - m_indent;
        const std::vector<qreal> widths = columnWidths(available);
        const bool moved = widths != m_widths;
        m_widths = widths;
        m_lefts.assign(m_widths.size(), 0);
        m_tableWidth = 0;
        for (std::size_t i = 0; i < m_widths.size(); ++i) {
            m_lefts[i] = m_tableWidth;
            m_tableWidth += int(m_widths[i]);
        }
        qreal top = 0;
        for (Row& row : m_rows) {
            if (moved || !row.laidOut)
                layoutRow(row);
            row.top = top;
            top += row.height;
        }
        m_tableHeight = int(std::ceil(top)) + 1;
        return m_tableHeight;
    }

    int guessHeight(int) const override
    {
        return int(double(m_rows.size()) * (m_fonts.bodyPitch + 2 * rowPadding + 1));
    }

private:
    struct Cell {
        std::unique_ptr<QTextLayout> layout;
        int textStart = 0;
        qreal natural = 0; ///< width of its text on one line
    };
    struct Row {
        std::vector<Cell> cells;
        qreal top = 0, height = 0;
        int textEnd = 0;
        bool laidOut = false;
    };

    void addRow(const QStringList& cells, bool header)
    {
        Row row;
        if (!m_rows.empty())
            m_text += u'\n';
        for (qsizetype i = 0; i < cells.size(); ++i) {
            if (i > 0)
                m_text += u'\t';
            markdown::InlineText inlined = markdown::parseInline(cells[i]);
            Cell cell;
            cell.textStart = int(m_text.size());
            m_text += inlined.text;
            cell.layout = std::make_unique<QTextLayout>(inlined.text, header ? m_fonts.strong : m_fonts.body);
            QList<QTextLayout::FormatRange> formats;
            for (const markdown::Span& span : inlined.spans) {
                if (span.style == markdown::Plain)
                    continue;
                QTextLayout::FormatRange range;
                range.start = span.start;
                range.length = span.length;
                QFont f = span.style & markdown::CodeSpan ? m_fonts.inlineCode : cell.layout->font();
                if (span.style & markdown::Bold)
                    f.setWeight(QFont::DemiBold);
                f.setItalic(span.style & markdown::Italic);
                range.format.setFont(f);
                formats += range;
            }
            cell.layout->setFormats(formats);
            QTextOption option;
            option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
            option.setAlignment(m_columns.value(i, Qt::AlignLeft));
            cell.layout->setTextOption(option);
            layoutLines(*cell.layout, 1e5, m_fonts.bodyPitch);
            cell.natural = cell.layout->lineCount() > 0 ? cell.layout->lineAt(0).naturalTextWidth() : 0;
            row.cells.push_back(std::move(cell));
        }
        row.textEnd = int(m_text.size());
        m_rows.push_back(std::move(row));
    }

    /// Natural widths where they fit; else the wide columns share what the narrow ones leave.
    std::vector<qreal> columnWidths(int available) const
    {
        std::vector<qreal> natural(std::size_t(m_columns.size()), narrowest);
        for (const Row& row : m_rows) {
            for (std::size_t i = 0; i < row.cells.size() && i < natural.size(); ++i)
                natural[i] = qMax(natural[i], std::ceil(row.cells[i].natural) + 2 * cellPadding + 1);
        }
        qreal left = available;
        std::vector<bool> settled(natural.size(), false);
        std::size_t open = natural.size();
        for (bool changed = true; changed && open > 0;) {
            changed = false;
            const qreal share = left / double(open);
            for (std::size_t i = 0; i < natural.size(); ++i) {
                if (!settled[i] && natural[i] <= share) {
                    settled[i] = changed = true;
                    left -= natural[i];
                    --open;
                }
            }
        }
        for (std::size_t i = 0; i < natural.size(); ++i) {
            if (!settled[i])
                natural[i] = qMax<qreal>(narrowest, std::floor(left / double(open)));
        }
        return natural;
    }

    void layoutRow(Row& row)
    {
        qreal height = m_fonts.bodyPitch;
        for (std::size_t i = 0; i < row.cells.size() && i < m_widths.size(); ++i)
            height = qMax(height, layoutLines(*row.cells[i].layout, m_widths[i] - 2 * cellPadding, m_fonts.bodyPitch,
                                              m_lefts[i] + cellPadding, rowPadding));
        row.height = height + 2 * rowPadding;
        row.laidOut = true;
    }

    QList<Qt::Alignment> m_columns;
    std::vector<Row> m_rows;
    std::vector<qreal> m_widths, m_lefts;
    int m_indent = 0, m_tableWidth = 0, m_tableHeight = 0;
};

} // namespace

std::unique_ptr<Item> makeTableItem(const TranscriptFonts& fonts, agents::MessageId message,
                                    const markdown::Block& block)
{
    return std::make_unique<TableItem>(fonts, message, block);
}

} // namespace octavo::ui
