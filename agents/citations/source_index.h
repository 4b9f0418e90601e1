#pragma once

/// Every line of a context's files by its hash, so that quoted code is found in the time it takes to read the quote.
///
/// Lines are compared in NFC and without trailing white space: that is how a tokenizer normalises and how models drop
/// spaces. All else counts.
/// Memory   the text, 12 bytes a line, plus paths.
/// Thread   built by one thread, then immutable.

#include <QByteArray>
#include <QHash>
#include <QList>
#include <QString>
#include <QStringView>

#include <optional>
#include <vector>

namespace octavo::agents {

class SourceIndex
{
public:
    struct File {
        QByteArray path;
        QString displayPath;
        int firstLine = 0; ///< index of its first line among all lines
        int numLines = 0;
        QByteArray text; ///< UTF-8, in NFC
    };
    struct Place {
        int file = 0;
        int line = 0, lastLine = 0; ///< 1-based, inclusive
    };

    void addFile(const QByteArray& path, const QString& displayPath, const QByteArray& text);
    void finish(); ///< after the last file, before the first question

    const QList<File>& files() const { return m_files; }

    /// Where these lines stand one after another, as they are or less an indentation that all of them have; blank lines
    /// round them are not needed. `preferredFile` wins where the quote stands in several files, -1: the first one.
    /// Only where the first line with text below begins with `beginning`, but for the white space before both.
    /// Nothing for a quote of blank lines.
    std::optional<Place> findLines(const QList<QStringView>& lines, int preferredFile = -1,
                                   QStringView beginning = {}) const;

    /// Where `code`, a part of one line, stands in `file`: as a whole line less the white space round it, else as a
    /// part that begins and ends with words. Where it does not stand there, or `file` is -1: the first other file of
    /// which it is a whole line.
    std::optional<Place> findInLine(QStringView code, int file) const;

    /// The file that `mention` names: its whole displayed path, or the end of exactly one. -1: none.
    int findPath(QStringView mention) const;
    /// Whether a folder of the context is called so ("src" where there is src/a.c).
    bool hasFolder(const QString& name) const { return m_folders.contains(name); }
    bool hasEnding(const QString& ending) const { return m_endings.contains(ending); }

private:
    std::optional<Place> findIndented(const QList<QStringView>& lines, int preferredFile,
                                      const QByteArray& beginning) const;
    QList<File> m_files;
    QHash<QString, int> m_byPath;
    QHash<QString, QList<int>> m_byName; ///< last path component
    QHash<QString, bool> m_folders, m_endings;
    std::vector<quint64> m_lines; ///< hash of each line; 0: blank
    std::vector<quint32> m_order; ///< line indices, sorted by hash then place
};

} // namespace octavo::agents
