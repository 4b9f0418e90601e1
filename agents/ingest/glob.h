#pragma once

/// Globs over repository paths, with the meaning they have in .gitignore.

#include "engine/result.h"

#include <QByteArray>
#include <QList>
#include <QString>
#include <QStringList>

namespace octavo::agents {

/// One pattern. `*` and `?` stop at '/', `**` as a whole segment spans folders, [a-z] and [!a-z] are sets, {a,b}
/// alternatives (they nest), `\` takes the next character literally. A pattern without '/' (but at its end) fits at
/// any depth; one that fits a folder fits all that is in it; one that ends in '/' fits folders only.
/// Matching takes time proportional to pattern x path, whatever they hold.
class Glob
{
public:
    /// Fails with InvalidArgument: empty, an unclosed bracket or brace, a range that runs backwards, a lone '\' at the
    /// end, or more than 1000 alternatives.
    static Result<Glob> parse(const QString& pattern);

    bool matches(const QByteArray& path) const;
    const QString& pattern() const { return m_pattern; }
    bool negated() const { return m_negated; } ///< began with '!'

private:
    using Segments = QList<QByteArray>;

    QString m_pattern;
    QList<Segments> m_alternatives;
    bool m_negated = false;
    bool m_foldersOnly = false;
};

/// Include and exclude lists. Within a list the last pattern that fits decides, and '!' turns its meaning round.
class GlobFilter
{
public:
    static Result<GlobFilter> create(const QStringList& include, const QStringList& exclude);

    /// Empty where `path` is wanted, else why it is not, in words.
    QString rejection(const QByteArray& path) const;

private:
    QList<Glob> m_include, m_exclude;
};

} // namespace octavo::agents
