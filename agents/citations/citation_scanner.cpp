#include "agents/citations/citation_scanner.h"

#include <QRegularExpression>

#include <algorithm>

namespace octavo::agents {

namespace {

struct Fence {
    QChar mark;
    qsizetype length = 0, indent = 0;
    QStringView rest;
};

Fence fenceOf(QStringView line)
{
    Fence out;
    while (out.indent < line.size() && line[out.indent] == u' ')
        ++out.indent;
    const QStringView body = line.mid(out.indent);
    if (body.isEmpty() || (body[0] != u'`' && body[0] != u'~'))
        return out;
    while (out.length < body.size() && body[out.length] == body[0])
        ++out.length;
    if (out.length >= 3)
        out.mark = body[0];
    out.rest = body.mid(out.length).trimmed();
    return out;
}

/// Whether the words right beside a path say that it is not there, so that nothing is claimed that could be looked up.
bool isDenied(QStringView before, QStringView after)
{
    static const QRegularExpression denies(
        QStringLiteral("\\b(?:(?:could|can|did)(?: ?not|n['\u2019]t) find|there is no)(?: (?:a|any|the))?(?: file)?"
                       "(?: (?:called|named))? *$"),
        QRegularExpression::CaseInsensitiveOption);
    static const QRegularExpression denied(
        QStringLiteral(
            "^ (?:does(?: not|n['\u2019]t) exist|(?:is|was)(?: not|n['\u2019]t) (?:among|in|part of|one of) the "
            "(?:loaded |read )?(?:files|context|repository)|(?:is|was)(?: not|n['\u2019]t) (?:found|loaded|there))\\b"),
        QRegularExpression::CaseInsensitiveOption);
    return denies.match(before).hasMatch() || denied.match(after).hasMatch();
}

} // namespace

void CitationScanner::append(const QString& text)
{
    if (!m_index)
        return;
    m_text += text;
    for (qsizetype end = m_text.indexOf(u'\n', m_lineStart); end >= 0; end = m_text.indexOf(u'\n', m_lineStart)) {
        takeLine(m_lineStart, end);
        m_lineStart = end + 1;
    }
}

void CitationScanner::finish()
{
    if (!m_index)
        return;
    if (m_lineStart < m_text.size())
        takeLine(m_lineStart, m_text.size());
    m_lineStart = m_text.size();
    if (!m_fence.isNull())
        closeBlock(m_text.size(), true);
}

void CitationScanner::takeLine(qsizetype start, qsizetype end)
{
    const QStringView line = QStringView(m_text).mid(start, end - start);
    const Fence fence = fenceOf(line);
    if (m_fence.isNull()) {
        if (!fence.mark.isNull() && !(fence.mark == u'`' && fence.rest.contains(u'`'))) {
            m_fence = fence.mark;
            m_fenceLength = fence.length;
            m_fenceIndent = fence.indent;
            m_blockStart = std::min(end + 1, m_text.size());
        } else
            takeProse(line, start);
    } else if (fence.mark == m_fence && fence.length >= m_fenceLength && fence.rest.isEmpty())
        closeBlock(start);
}

void CitationScanner::takeProse(QStringView line, qsizetype start)
{
    static const QRegularExpression between(QStringLiteral(
        "^[\\s*_]*(?:\\(?lines? \\d{1,9}(?: ?[-\u2013] ?\\d{1,9})?\\)?)?[\\s*_]*[-:\u2013\u2014][\\s*_]*$"));
    qsizetype pathEnd = -1; // of a path that a quote may follow
    for (qsizetype at = line.indexOf(u'`'); at >= 0; at = line.indexOf(u'`', at)) {
        const qsizetype ticks = at;
        qsizetype open = at;
        while (open < line.size() && line[open] == u'`')
            ++open;
        const qsizetype close = line.indexOf(QString(open - ticks, u'`'), open);
        if (close < 0)
            return;
        const QStringView span = line.mid(open, close - open);
        at = close + (open - ticks);
        const bool follows = pathEnd >= 0 && between.match(line.mid(pathEnd, ticks - pathEnd)).hasMatch();
        const bool isPath = takePath(span, start + open, isDenied(line.left(ticks), line.mid(at)));
        pathEnd = isPath ? at : -1;
        if (pathEnd < 0 && follows)
            takeInlineQuote(span, start + open);
    }
}

bool CitationScanner::takePath(QStringView span, qsizetype start, bool denied)
{
    static const QRegularExpression lineNumbers(
        QStringLiteral("^(.+?)(?::(\\d{1,9})(?:[-:](\\d{1,9}))?|#L(\\d{1,9})(?:-L?(\\d{1,9}))?)$"));
    QStringView path = span;
    int first = 0, last = 0;
    int file = m_index->findPath(path);
    if (file < 0) {
        if (const auto match = lineNumbers.match(span); match.hasMatch()) {
            path = match.capturedView(1);
            const int group = match.hasCaptured(2) ? 2 : 4;
            first = match.capturedView(group).toInt();
            last = match.hasCaptured(group + 1) ? match.capturedView(group + 1).toInt() : first;
            file = m_index->findPath(path);
        }
    }
    if (file < 0) { // does it look like a path of a repository such as this one?
        static const QRegularExpression shape(QStringLiteral("^[\\w.+@-]+(/[\\w.+@-]+)*$"));
        if (!shape.match(path).hasMatch())
            return false;
        const QString text = path.toString();
        const QString name = text.mid(text.lastIndexOf(u'/') + 1);
        const qsizetype dot = name.lastIndexOf(u'.');
        const bool ending = dot > 0 && m_index->hasEnding(name.mid(dot));
        const bool folder = text.contains(u'/') && (dot > 0 || m_index->hasFolder(text.section(u'/', 0, 0)));
        if (!ending && !folder)
            return false;
        if (m_index->hasFolder(name))
            return false; // a folder's path
        if (denied)
            return true;
    }
    Citation citation;
    citation.kind = CitationKind::Path;
    citation.textStart = int(start);
    citation.textLength = int(span.size());
    m_named = true;
    m_namedFile = file;
    if (file >= 0) {
        const SourceIndex::File& known = m_index->files()[file];
        citation.path = known.path;
        citation.displayPath = known.displayPath;
        const bool linesExist = first <= last && last <= known.numLines;
        citation.state = linesExist ? CitationState::Verified : CitationState::Unverified;
        citation.line = linesExist ? first : 0;
        citation.lastLine = linesExist ? last : 0;
    }
    m_citations.append(citation);
    return true;
}

void CitationScanner::takeInlineQuote(QStringView code, qsizetype start)
{
    if (code.trimmed().isEmpty())
        return;
    Citation citation;
    citation.kind = CitationKind::Quote;
    citation.textStart = int(start);
    citation.textLength = int(code.size());
    settle(citation, m_index->findInLine(code, m_namedFile));
    m_citations.append(citation);
}

/// What was found of a quote, or that nothing was.
void CitationScanner::settle(Citation& citation, const std::optional<SourceIndex::Place>& found) const
{
    if (!found)
        return;
    const SourceIndex::File& file = m_index->files()[found->file];
    citation.state = m_named && found->file != m_namedFile ? CitationState::Elsewhere : CitationState::Verified;
    citation.path = file.path;
    citation.displayPath = file.displayPath;
    citation.line = found->line;
    citation.lastLine = found->lastLine;
}

void CitationScanner::closeBlock(qsizetype end, bool wasCut)
{
    m_fence = QChar();
    const QStringView body = QStringView(m_text).mid(m_blockStart, end - m_blockStart);
    QList<QStringView> lines = body.split(u'\n');
    for (QStringView& line : lines) { // a block inside a list is indented with its fence
        qsizetype drop = 0;
        while (drop < m_fenceIndent && drop < line.size() && line[drop] == u' ')
            ++drop;
        line = line.mid(drop);
    }
    if (body.trimmed().isEmpty())
        return;
    auto found = m_index->findLines(lines, m_namedFile);
    if (!found && wasCut) { // its last line is a beginning; where that is all, nothing is quoted yet
        const QStringView beginning = lines.takeLast();
        if (std::ranges::all_of(lines, [](QStringView line) { return line.trimmed().isEmpty(); }))
            return;
        found = m_index->findLines(lines, m_namedFile, beginning);
    }
    Citation citation;
    citation.kind = CitationKind::Quote;
    citation.textStart = int(m_blockStart);
    citation.textLength = int(body.size()) - (body.endsWith(u'\n') ? 1 : 0);
    settle(citation, found);
    m_citations.append(citation);
}

} // namespace octavo::agents
