#pragma once

/// Finds the paths and the quoted code of an answer as it streams, and looks them up in what was read.
///
/// A path in backticks (also with ":12" or ":12-20" behind it) is Verified when the context has it; one that it does
/// not have is Unverified, but where the answer itself says so, and then it is not cited. A fenced block is Verified
/// when its lines stand in the file that was named last before it, or anywhere where none was; Elsewhere when they
/// stand in another file; else Unverified. Code in backticks is a quote where only a colon or a dash stands between it
/// and a path ("- `a.cpp`: `int a = 1;`"): Verified in a line of that file or as one, Elsewhere as a line of another. A
/// block that the answer's end cuts off is looked up by its whole lines and the beginning of the last. Each line of the
/// answer is looked at once.
/// Thread   one at a time; the index is shared.

#include "agents/citations/source_index.h"
#include "agents/values.h"

#include <memory>
#include <optional>

namespace octavo::agents {

class CitationScanner
{
public:
    /// Without an index nothing is ever cited.
    explicit CitationScanner(std::shared_ptr<const SourceIndex> index)
        : m_index(std::move(index))
    {
    }

    void append(const QString& text);
    void finish(); ///< takes the last line, and an open block, as they are

    const QList<Citation>& citations() const { return m_citations; }

private:
    void takeLine(qsizetype start, qsizetype end);
    void takeProse(QStringView line, qsizetype start);
    bool takePath(QStringView mention, qsizetype start, bool denied); ///< false: it is none
    void takeInlineQuote(QStringView code, qsizetype start);
    void closeBlock(qsizetype end, bool wasCut = false);
    void settle(Citation& citation, const std::optional<SourceIndex::Place>& found) const;

    std::shared_ptr<const SourceIndex> m_index;
    QString m_text;
    qsizetype m_lineStart = 0; ///< of the first line not yet looked at
    int m_namedFile = -1;
    bool m_named = false; ///< a path was named, whether or not it exists
    QChar m_fence;        ///< null outside a block
    qsizetype m_fenceLength = 0, m_fenceIndent = 0, m_blockStart = 0;
    QList<Citation> m_citations;
};

} // namespace octavo::agents
