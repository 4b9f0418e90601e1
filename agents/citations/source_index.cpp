#include "agents/citations/source_index.h"

#include <algorithm>
#include <string_view>
#include <xxhash.h>

namespace octavo::agents {

namespace {

bool isAscii(QStringView text)
{
    return std::all_of(text.begin(), text.end(), [](QChar c) { return c.unicode() < 0x80; });
}

/// 0 for a blank line, which no other line gets.
quint64 lineHash(QStringView line)
{
    while (!line.isEmpty() && line.back().isSpace())
        line.chop(1);
    if (line.isEmpty())
        return 0;
    QString normalised;
    if (!isAscii(line)) {
        normalised = line.toString().normalized(QString::NormalizationForm_C);
        line = normalised;
    }
    const quint64 hash = XXH3_64bits(line.utf16(), std::size_t(line.size()) * 2);
    return hash == 0 ? 1 : hash;
}

bool isOfWord(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

/// Of a UTF-8 text that has `code` from `at` on.
struct Occurrence {
    std::string_view text, code;
    std::size_t at = 0;

    /// No word of the text runs on over an end of the code.
    bool endsWithWords() const
    {
        const std::size_t end = at + code.size();
        return !(at > 0 && isOfWord(text[at - 1]) && isOfWord(code.front())) &&
               !(end < text.size() && isOfWord(text[end]) && isOfWord(code.back()));
    }

    bool isWholeLine() const
    {
        constexpr std::string_view blanks = " \t\r\f\v";
        const std::size_t before = text.substr(0, at).find_last_not_of(blanks);
        const std::size_t after = text.find_first_not_of(blanks, at + code.size());
        return (before == text.npos || text[before] == '\n') && (after == text.npos || text[after] == '\n');
    }

    int line() const { return int(std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n')) + 1; }
};

} // namespace

void SourceIndex::addFile(const QByteArray& path, const QString& displayPath, const QByteArray& content)
{
    const int index = int(m_files.size());
    const QString text = QString::fromUtf8(content);
    File file{path, displayPath, int(m_lines.size()), 0, content};
    if (!isAscii(text))
        file.text = text.normalized(QString::NormalizationForm_C).toUtf8();
    for (const QStringView line : QStringView(text).split(u'\n'))
        m_lines.push_back(lineHash(line));
    if (text.isEmpty() || text.endsWith(u'\n'))
        m_lines.pop_back();
    file.numLines = int(m_lines.size()) - file.firstLine;
    m_lines.push_back(0); // no quote runs from one file into the next without being noticed
    m_files.append(file);
    m_byPath.insert(displayPath, index);
    const QStringList parts = displayPath.split(u'/');
    m_byName[parts.last()].append(index);
    for (qsizetype i = 0; i + 1 < parts.size(); ++i)
        m_folders.insert(parts[i], true);
    if (const qsizetype dot = parts.last().lastIndexOf(u'.'); dot >= 0)
        m_endings.insert(parts.last().mid(dot), true);
}

void SourceIndex::finish()
{
    m_order.clear();
    for (quint32 i = 0; i < m_lines.size(); ++i) {
        if (m_lines[i] != 0)
            m_order.push_back(i);
    }
    std::sort(m_order.begin(), m_order.end(),
              [this](quint32 a, quint32 b) { return m_lines[a] != m_lines[b] ? m_lines[a] < m_lines[b] : a < b; });
}

std::optional<SourceIndex::Place> SourceIndex::findLines(const QList<QStringView>& quote, int preferredFile,
                                                         QStringView beginning) const
{
    const QByteArray below = beginning.trimmed().toString().normalized(QString::NormalizationForm_C).toUtf8();
    if (const auto found = findIndented(quote, preferredFile, below))
        return found;
    // A quote that is indented as a whole, of lines that are not.
    qsizetype common = -1;
    for (const QStringView line : quote) {
        const auto first = std::find_if(line.begin(), line.end(), [](QChar c) { return !c.isSpace(); });
        if (first != line.end() && (common < 0 || first - line.begin() < common))
            common = first - line.begin();
    }
    if (common <= 0)
        return {};
    QList<QStringView> moved;
    for (const QStringView line : quote)
        moved += line.mid(std::min(common, line.size()));
    return findIndented(moved, preferredFile, below);
}

std::optional<SourceIndex::Place> SourceIndex::findIndented(const QList<QStringView>& quote, int preferredFile,
                                                            const QByteArray& beginning) const
{
    int splitFile = -1; // the file whose lines `split` holds: places come in the order of files
    QList<QByteArrayView> split;
    const auto goesOn = [&](int file, int lastLine) {
        if (beginning.isEmpty())
            return true;
        if (splitFile != file) {
            splitFile = file;
            split.clear();
            const QByteArrayView text = m_files[file].text;
            for (qsizetype at = 0, end = 0; at <= text.size(); at = end + 1) {
                end = text.indexOf('\n', at);
                end = end < 0 ? text.size() : end;
                split.append(text.sliced(at, end - at));
            }
        }
        for (qsizetype i = lastLine; i < split.size(); ++i) {
            if (const QByteArrayView line = split[i].trimmed(); !line.isEmpty())
                return line.startsWith(beginning);
        }
        return false;
    };
    std::vector<quint64> hashes;
    for (const QStringView line : quote)
        hashes.push_back(lineHash(line));
    while (!hashes.empty() && hashes.back() == 0)
        hashes.pop_back();
    hashes.erase(hashes.begin(), std::find_if(hashes.begin(), hashes.end(), [](quint64 h) { return h != 0; }));
    if (hashes.empty())
        return {};

    // The rarest line of the quote leaves the fewest places to look at.
    const auto range = [this](quint64 hash) {
        return std::equal_range(m_order.begin(), m_order.end(), hash, [this](auto a, auto b) {
            const auto value = [this](auto x) {
                if constexpr (std::is_same_v<decltype(x), quint32>)
                    return m_lines[x];
                else
                    return x;
            };
            return value(a) < value(b);
        });
    };
    std::size_t rarest = 0;
    auto places = range(hashes[0]);
    for (std::size_t i = 1; i < hashes.size() && places.first != places.second; ++i) {
        if (hashes[i] == 0)
            continue;
        const auto candidate = range(hashes[i]);
        if (candidate.second - candidate.first < places.second - places.first) {
            places = candidate;
            rarest = i;
        }
    }
    std::optional<Place> found;
    for (auto it = places.first; it != places.second; ++it) {
        if (*it < rarest || *it - rarest + hashes.size() > m_lines.size())
            continue;
        const std::size_t begin = *it - rarest;
        if (!std::equal(hashes.begin(), hashes.end(), m_lines.begin() + std::ptrdiff_t(begin)))
            continue;
        const auto file =
            std::upper_bound(m_files.begin(), m_files.end(), begin,
                             [](std::size_t at, const File& f) { return at < std::size_t(f.firstLine); }) -
            1;
        const int index = int(file - m_files.begin());
        const int line = int(begin) - file->firstLine + 1;
        if (line + int(hashes.size()) - 1 > file->numLines)
            continue;
        if ((found && index != preferredFile) || !goesOn(index, line + int(hashes.size()) - 1))
            continue;
        found = Place{index, line, line + int(hashes.size()) - 1};
        if (preferredFile < 0 || found->file == preferredFile)
            break;
    }
    return found;
}

std::optional<SourceIndex::Place> SourceIndex::findInLine(QStringView code, int preferred) const
{
    const QByteArray bytes = code.trimmed().toString().normalized(QString::NormalizationForm_C).toUtf8();
    if (bytes.isEmpty())
        return {};
    const std::string_view needle(bytes.constData(), std::size_t(bytes.size()));
    const auto find = [&](int file, bool partsToo) -> std::optional<Place> {
        const QByteArray& content = m_files[file].text;
        const std::string_view text(content.constData(), std::size_t(content.size()));
        std::optional<Place> part;
        for (std::size_t at = text.find(needle); at != text.npos; at = text.find(needle, at + 1)) {
            const Occurrence here{text, needle, at};
            const bool isWhole = here.isWholeLine();
            if (!isWhole && (part || !partsToo || !here.endsWithWords()))
                continue;
            const Place place{file, here.line(), here.line()};
            if (isWhole)
                return place;
            part = place;
        }
        return part;
    };
    std::optional<Place> found;
    if (preferred >= 0)
        found = find(preferred, true);
    for (int file = 0; file < m_files.size() && !found; ++file)
        found = find(file, false);
    return found;
}

int SourceIndex::findPath(QStringView mention) const
{
    while (mention.startsWith(QLatin1String("./")))
        mention = mention.mid(2);
    const QString path = mention.toString();
    if (path.isEmpty())
        return -1;
    if (const auto exact = m_byPath.constFind(path); exact != m_byPath.constEnd())
        return *exact;
    int found = -1;
    for (const int index : m_byName.value(path.mid(path.lastIndexOf(u'/') + 1))) {
        if (!m_files[index].displayPath.endsWith(u'/' + path))
            continue;
        if (found >= 0)
            return -1; // more than one: it names none
        found = index;
    }
    return found;
}

} // namespace octavo::agents
