#include "ui/transcript/markdown.h"

#include <algorithm>

namespace octavo::ui::markdown {
namespace {

constexpr int longestParagraph = 6000; ///< longer ones are split at a space, so that laying one out stays cheap

int columnOf(QStringView line)
{
    int column = 0;
    for (const QChar c : line) {
        if (c == u' ')
            ++column;
        else if (c == u'\t')
            column += 4 - column % 4;
        else
            break;
    }
    return column;
}

qsizetype leadingBlanks(QStringView line)
{
    qsizetype n = 0;
    while (n < line.size() && (line[n] == u' ' || line[n] == u'\t'))
        ++n;
    return n;
}

QStringView stripColumns(QStringView line, int columns)
{
    int column = 0;
    qsizetype n = 0;
    while (n < line.size() && column < columns && (line[n] == u' ' || line[n] == u'\t')) {
        column += line[n] == u'\t' ? 4 - column % 4 : 1;
        ++n;
    }
    return line.mid(n);
}

bool isRule(QStringView text)
{
    if (text.isEmpty() || (text[0] != u'-' && text[0] != u'*' && text[0] != u'_'))
        return false;
    int marks = 0;
    for (const QChar c : text) {
        if (c == text[0])
            ++marks;
        else if (!c.isSpace())
            return false;
    }
    return marks >= 3;
}

int headingLevel(QStringView text)
{
    int level = 0;
    while (level < text.size() && text[level] == u'#')
        ++level;
    return level >= 1 && level <= 6 && (level == text.size() || text[level].isSpace()) ? level : 0;
}

/// Length of a list marker with the blanks after it, 0 when there is none.
qsizetype listMarker(QStringView text, QString* shown)
{
    if (text.isEmpty())
        return 0;
    qsizetype n = 0;
    if (text[0] == u'-' || text[0] == u'*' || text[0] == u'+') {
        n = 1;
        *shown = QStringLiteral("\u2022");
    } else {
        while (n < text.size() && n < 9 && text[n] >= u'0' && text[n] <= u'9')
            ++n;
        if (n == 0 || n >= text.size() || (text[n] != u'.' && text[n] != u')'))
            return 0;
        *shown = text.left(n).toString() + u'.';
        ++n;
    }
    if (n < text.size() && text[n] != u' ' && text[n] != u'\t')
        return 0;
    return n == text.size() ? n : n + qMin<qsizetype>(leadingBlanks(text.mid(n)), 4);
}

QStringList tableCells(QStringView line)
{
    QStringView text = line.trimmed();
    if (text.startsWith(u'|'))
        text = text.mid(1);
    if (text.endsWith(u'|') && !text.endsWith(u"\\|"))
        text.chop(1);
    QStringList cells;
    QString cell;
    bool code = false;
    for (qsizetype i = 0; i < text.size(); ++i) {
        if (text[i] == u'\\' && i + 1 < text.size() && text[i + 1] == u'|') {
            cell += u'|';
            ++i;
        } else if (text[i] == u'|' && !code) {
            cells += cell.trimmed();
            cell.clear();
        } else {
            if (text[i] == u'`')
                code = !code;
            cell += text[i];
        }
    }
    cells += cell.trimmed();
    return cells;
}

/// The alignments of a delimiter row ("| --- | :-: |"), empty when the line is none.
QList<Qt::Alignment> tableColumns(QStringView line)
{
    if (!line.contains(u'-') || !(line.contains(u'|') || line.contains(u':')))
        return {};
    QList<Qt::Alignment> columns;
    const QStringList cells = tableCells(line);
    for (const QString& cell : cells) {
        QStringView dashes = cell;
        const bool left = dashes.startsWith(u':');
        const bool right = dashes.endsWith(u':');
        if (left)
            dashes = dashes.mid(1);
        if (right && !dashes.isEmpty())
            dashes.chop(1);
        if (dashes.isEmpty() || std::any_of(dashes.begin(), dashes.end(), [](QChar c) { return c != u'-'; }))
            return {};
        columns += left && right ? Qt::AlignHCenter : right ? Qt::AlignRight : Qt::AlignLeft;
    }
    return columns;
}

/// True while a line may still turn out to be markup only: showing it now would show what later vanishes.
bool onlyMarkup(QStringView line)
{
    const QStringView text = line.trimmed();
    if (text.isEmpty())
        return true;
    if (text.size() <= 9 &&
        std::all_of(text.begin(), text.end(), [](QChar c) { return QStringView(u"#-*+>|`~_:").contains(c); }))
        return true;
    if (text.startsWith(u"```") || text.startsWith(u"~~~"))
        return true;
    if (text.startsWith(u'|') &&
        std::all_of(text.begin(), text.end(), [](QChar c) { return QStringView(u"|:- ").contains(c); }))
        return true;
    const bool number = text.size() <= 3 && text[0].isDigit() &&
                        std::all_of(text.begin(), text.end(), [](QChar c) { return c.isDigit() || c == u'.'; });
    return number;
}

} // namespace

void Document::clear()
{
    *this = Document();
}

int Document::takeFirstChanged()
{
    return std::exchange(m_firstChanged, int(m_blocks.size()));
}

void Document::append(QStringView text)
{
    if (text.isEmpty())
        return;
    undoTentative();
    m_source += text;
    for (;;) {
        const qsizetype end = m_source.indexOf(u'\n', m_lineStart);
        if (end < 0)
            break;
        QStringView line = QStringView(m_source).mid(m_lineStart, end - m_lineStart);
        if (line.endsWith(u'\r'))
            line.chop(1);
        feedLine(line, m_lineStart, true);
        m_lineStart = int(end) + 1;
    }
    const QStringView rest = QStringView(m_source).mid(m_lineStart);
    if (rest.isEmpty())
        return;
    m_tentative = true;
    m_stateBefore = m_state;
    m_blocksBefore = int(m_blocks.size());
    if (!m_blocks.empty()) {
        const Block& last = m_blocks.back();
        m_textBefore = int(last.text.size());
        m_linesBefore = int(last.lines.size());
        m_rowsBefore = int(last.rows.size());
        m_pointsBefore = int(last.points.size());
        m_endBefore = last.sourceEnd;
    }
    feedLine(rest, m_lineStart, false);
}

void Document::undoTentative()
{
    if (!m_tentative)
        return;
    m_tentative = false;
    if (int(m_blocks.size()) > m_blocksBefore) {
        m_blocks.resize(std::size_t(m_blocksBefore));
        touch(m_blocksBefore);
    }
    if (!m_blocks.empty()) {
        Block& last = m_blocks.back();
        if (last.text.size() != m_textBefore || last.lines.size() != m_linesBefore || last.rows.size() != m_rowsBefore)
            touch(int(m_blocks.size()) - 1);
        last.text.truncate(m_textBefore);
        last.lines.resize(m_linesBefore);
        last.rows.resize(m_rowsBefore);
        last.points.resize(std::size_t(m_pointsBefore));
        last.sourceEnd = m_endBefore;
        last.closed = false;
    }
    m_state = m_stateBefore;
    if (!m_state.open && !m_blocks.empty())
        m_blocks.back().closed = true;
}

void Document::finish()
{
    undoTentative();
    if (m_lineStart < m_source.size())
        feedLine(QStringView(m_source).mid(m_lineStart), m_lineStart, true);
    m_lineStart = int(m_source.size());
    closeLast();
    m_state.fenced = false;
}

void Document::closeLast()
{
    if (m_state.open && !m_blocks.empty()) {
        m_blocks.back().closed = true;
        touch(int(m_blocks.size()) - 1);
    }
    m_state.open = false;
}

Block& Document::push(BlockKind kind, int source, const QString& marker)
{
    closeLast();
    Block block;
    block.kind = kind;
    block.quoteDepth = m_state.quoteDepth;
    block.listDepth = int(m_state.lists.size());
    block.marker = marker;
    block.sourceStart = block.sourceEnd = source;
    touch(int(m_blocks.size()));
    m_blocks.push_back(std::move(block));
    m_state.open = true;
    return m_blocks.back();
}

void Document::beginTextBlock(BlockKind kind, QStringView text, int source, const QString& marker)
{
    Block& block = push(kind, source, marker);
    block.text = text.toString();
    block.points.push_back({0, source});
    block.sourceEnd = source + int(text.size());
}

bool Document::opensFence(QStringView text, int source, int column, const QString& marker)
{
    if (!text.startsWith(u"```") && !text.startsWith(u"~~~"))
        return false;
    int length = 0;
    while (length < text.size() && text[length] == text[0])
        ++length;
    const QStringView info = text.mid(length).trimmed();
    if (text[0] == u'`' && info.contains(u'`'))
        return false;
    Block& block = push(BlockKind::Code, source, marker);
    qsizetype word = 0;
    while (word < info.size() && !info[word].isSpace() && info[word] != u'{' && info[word] != u',')
        ++word;
    block.language = info.left(word).toString();
    block.sourceEnd = source + int(text.size());
    m_state.fenced = true;
    m_state.fenceChar = text[0];
    m_state.fenceLength = length;
    m_state.fenceColumn = column;
    return true;
}

bool Document::feedFenced(QStringView line, int source, bool complete)
{
    QStringView inner = line;
    for (int depth = 0; depth < m_state.quoteDepth; ++depth) {
        const QStringView trimmed = inner.mid(leadingBlanks(inner));
        if (!trimmed.startsWith(u'>')) { // the quote ends, and what it holds with it
            m_state.fenced = false;
            closeLast();
            return false;
        }
        inner = trimmed.mid(1);
        if (inner.startsWith(u' '))
            inner = inner.mid(1);
    }
    Block& block = m_blocks.back();
    const QStringView text = inner.trimmed();
    const bool fence =
        !text.isEmpty() && std::all_of(text.begin(), text.end(), [&](QChar c) { return c == m_state.fenceChar; });
    if (fence && !complete) // the closing fence, perhaps not all of it yet
        return true;
    block.sourceEnd = source + int(line.size());
    touch(int(m_blocks.size()) - 1);
    if (fence && text.size() >= m_state.fenceLength) {
        m_state.fenced = false;
        closeLast();
        return true;
    }
    block.lines += stripColumns(inner, m_state.fenceColumn).toString();
    return true;
}

void Document::feedTable(QStringView line, int source, bool complete)
{
    Block& block = m_blocks.back();
    touch(int(m_blocks.size()) - 1);
    block.sourceEnd = source + int(line.size());
    if (!m_state.tableSure) {
        const QList<Qt::Alignment> columns = tableColumns(line);
        if (!columns.isEmpty()) {
            if (complete) {
                block.columns = columns;
                m_state.tableSure = true;
            }
            return;
        }
        if (!complete) // wait: this may become the delimiter row
            return;
        block.kind = BlockKind::Paragraph; // the header was a line with bars in it, after all
        block.rows.clear();
        block.points.push_back({int(block.text.size()) + 1, source + int(leadingBlanks(line))});
        block.text += u'\n' + line.trimmed().toString();
        return;
    }
    QStringList cells = tableCells(line);
    while (cells.size() < block.columns.size())
        cells += QString();
    cells.resize(block.columns.size());
    block.rows += cells;
}

void Document::feedLine(QStringView line, int source, bool complete)
{
    if (m_state.fenced && feedFenced(line, source, complete))
        return;
    if (!complete && onlyMarkup(line))
        return;

    // Block quotes: one '>' per depth.
    int depth = 0;
    QStringView rest = line;
    for (;;) {
        const qsizetype blanks = leadingBlanks(rest);
        if (blanks > 3 || blanks >= rest.size() || rest[blanks] != u'>')
            break;
        ++depth;
        rest = rest.mid(blanks + 1);
        if (rest.startsWith(u' '))
            rest = rest.mid(1);
    }
    if (depth != m_state.quoteDepth) {
        closeLast();
        m_state.lists.clear();
        m_state.quoteDepth = depth;
    }

    int column = columnOf(rest);
    QStringView text = rest.mid(leadingBlanks(rest));
    const auto sourceOf = [&](QStringView part) { return source + int(part.data() - line.data()); };

    if (text.trimmed().isEmpty()) {
        m_state.blank = true;
        if (m_state.open)
            closeLast();
        return;
    }
    const bool afterBlank = std::exchange(m_state.blank, false);

    if (m_state.open && m_blocks.back().kind == BlockKind::Table) {
        if (text.contains(u'|') || !m_state.tableSure) {
            feedTable(line, source, complete);
            return;
        }
        closeLast();
    }

    const bool rule = isRule(text);
    QString marker;
    const qsizetype markerLength = rule ? 0 : listMarker(text, &marker);
    // "1986. A year": a number inside a paragraph opens a list only where it can: at its start or inside one.
    const bool interrupts = !m_state.open || !m_state.lists.empty() || marker == u"\u2022" || marker == u"1.";
    if (markerLength > 0 && interrupts) {
        while (!m_state.lists.empty() && column < m_state.lists.back().contentColumn &&
               column <= m_state.lists.back().markerColumn + 1)
            m_state.lists.pop_back();
        closeLast();
        m_state.lists.push_back({column, column + int(markerLength)});
        text = text.mid(markerLength);
        column += int(markerLength);
    } else {
        marker.clear();
        if (afterBlank || rule || headingLevel(text) > 0 || text.startsWith(u"```")) {
            while (!m_state.lists.empty() && column < m_state.lists.back().contentColumn &&
                   !(afterBlank && column > m_state.lists.back().markerColumn))
                m_state.lists.pop_back();
        }
        if (!m_state.open && afterBlank && column == 0)
            m_state.lists.clear();
    }

    if (opensFence(text.trimmed(), sourceOf(text), column, marker))
        return;
    if (rule && marker.isEmpty()) {
        push(BlockKind::Rule, sourceOf(text), {}).sourceEnd = source + int(line.size());
        closeLast();
        return;
    }
    if (const int level = headingLevel(text); level > 0) {
        QStringView title = text.mid(level).trimmed();
        while (title.endsWith(u'#'))
            title.chop(1);
        title = title.trimmed();
        beginTextBlock(BlockKind::Heading, title, title.isEmpty() ? sourceOf(text) : sourceOf(title), marker);
        m_blocks.back().level = level;
        m_blocks.back().sourceEnd = source + int(line.size());
        if (complete)
            closeLast();
        return;
    }
    if (!m_state.open && text.startsWith(u'|')) {
        Block& block = push(BlockKind::Table, sourceOf(text), marker);
        block.text = text.trimmed().toString();
        block.points.push_back({0, sourceOf(text)});
        block.rows += tableCells(text);
        for (qsizetype i = 0; i < block.rows.front().size(); ++i)
            block.columns += Qt::AlignLeft;
        block.sourceEnd = source + int(line.size());
        m_state.tableSure = false;
        return;
    }
    if (m_state.open && complete && m_blocks.back().kind == BlockKind::Paragraph &&
        m_blocks.back().text.contains(u'|') && !m_blocks.back().text.contains(u'\n')) {
        const QList<Qt::Alignment> columns = tableColumns(text);
        if (columns.size() > 1) {
            Block& block = m_blocks.back();
            block.kind = BlockKind::Table;
            QStringList header = tableCells(block.text);
            header.resize(columns.size());
            block.rows = {header};
            block.columns = columns;
            block.sourceEnd = source + int(line.size());
            m_state.tableSure = true;
            touch(int(m_blocks.size()) - 1);
            return;
        }
    }
    if (m_state.open && m_blocks.back().kind == BlockKind::Paragraph && marker.isEmpty()) {
        Block& block = m_blocks.back();
        if (block.text.size() + text.size() < longestParagraph) {
            touch(int(m_blocks.size()) - 1);
            block.points.push_back({int(block.text.size()) + 1, sourceOf(text)});
            block.text += u'\n' + text.toString();
            block.sourceEnd = source + int(line.size());
            return;
        }
    }
    while (text.size() > longestParagraph) {
        qsizetype cut = text.left(longestParagraph).lastIndexOf(u' ');
        cut = cut < longestParagraph / 2 ? longestParagraph : cut + 1;
        if (text[cut - 1].isHighSurrogate())
            ++cut;
        beginTextBlock(BlockKind::Paragraph, text.left(cut), sourceOf(text), marker);
        marker.clear();
        text = text.mid(cut);
    }
    beginTextBlock(BlockKind::Paragraph, text, sourceOf(text), marker);
}

} // namespace octavo::ui::markdown
