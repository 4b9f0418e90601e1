#include "agents/ingest/glob.h"

namespace octavo::agents {

namespace {

constexpr qsizetype maxAlternatives = 1000;

Error badPattern(const QString& pattern, const char* why)
{
    return Error{ErrorCode::InvalidArgument, "glob \"" + pattern.toStdString() + "\": " + why};
}

/// Index just past the ']' that closes the set opened at `open`, or -1.
qsizetype setEnd(const QByteArray& p, qsizetype open)
{
    qsizetype i = open + 1;
    if (i < p.size() && (p[i] == '!' || p[i] == '^'))
        ++i;
    if (i < p.size() && p[i] == ']') // a first ']' is a member
        ++i;
    for (; i < p.size(); ++i) {
        if (p[i] == '\\')
            ++i;
        else if (p[i] == ']')
            return i + 1;
    }
    return -1;
}

/// Whether a range in the set p[open, end) runs backwards and so fits nothing.
bool hasBackwardRange(const QByteArray& p, qsizetype open, qsizetype end)
{
    for (qsizetype i = open + 1; i < end - 1; ++i) {
        if (p[i] == '\\' && i + 1 < end - 1)
            ++i;
        if (i + 2 < end - 1 && p[i + 1] == '-') {
            if (uchar(p[i]) > uchar(p[i + 2]))
                return true;
            i += 2;
        }
    }
    return false;
}

/// What is wrong with the sets and escapes of a pattern; null where nothing is.
const char* syntaxProblem(const QByteArray& pattern)
{
    for (qsizetype i = 0; i < pattern.size(); ++i) {
        if (pattern[i] == '\\') {
            if (++i == pattern.size())
                return "ends in a lone \\, write \\\\ for a backslash";
        } else if (pattern[i] == '[') {
            const qsizetype end = setEnd(pattern, i);
            if (end < 0)
                return "a '[' is not closed, write \\[ for a bracket";
            if (hasBackwardRange(pattern, i, end))
                return "a range in [] runs backwards and fits nothing, write its ends the other way round";
            i = end - 1;
        }
    }
    return nullptr;
}

/// Replaces the first {...} by each of its alternatives, until none is left. False: too many, or unbalanced.
bool expandBraces(const QByteArray& pattern, QList<QByteArray>& out)
{
    if (out.size() > maxAlternatives)
        return false;
    qsizetype open = -1;
    for (qsizetype i = 0; i < pattern.size() && open < 0; ++i) {
        if (pattern[i] == '\\')
            ++i;
        else if (pattern[i] == '[')
            i = setEnd(pattern, i) - 1;
        else if (pattern[i] == '{')
            open = i;
    }
    if (open < 0) {
        out.append(pattern);
        return out.size() <= maxAlternatives;
    }
    QList<QByteArray> parts;
    qsizetype from = open + 1;
    int depth = 1;
    qsizetype i = from;
    for (; i < pattern.size() && depth > 0; ++i) {
        const char c = pattern[i];
        if (c == '\\')
            ++i;
        else if (c == '[' && setEnd(pattern, i) > 0)
            i = setEnd(pattern, i) - 1;
        else if (c == '{')
            ++depth;
        else if ((c == ',' && depth == 1) || (c == '}' && --depth == 0)) {
            parts.append(pattern.mid(from, i - from));
            from = i + 1;
        }
    }
    if (depth > 0)
        return false;
    for (const QByteArray& part : parts) {
        if (!expandBraces(pattern.left(open) + part + pattern.mid(i), out))
            return false;
    }
    return true;
}

qsizetype characterLength(const QByteArray& s, qsizetype at)
{
    const auto lead = uchar(s[at]);
    const qsizetype length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    for (qsizetype i = 1; i < length; ++i) {
        if (at + i >= s.size() || (uchar(s[at + i]) & 0xc0) != 0x80)
            return 1;
    }
    return length;
}

/// Whether the byte `c` is in the set p[open, end).
bool setHolds(const QByteArray& p, qsizetype open, qsizetype end, uchar c)
{
    qsizetype i = open + 1;
    const bool inverted = p[i] == '!' || p[i] == '^';
    if (inverted)
        ++i;
    bool found = false;
    for (; i < end - 1; ++i) {
        if (p[i] == '\\' && i + 1 < end - 1)
            ++i;
        const auto low = uchar(p[i]);
        auto high = low;
        if (i + 2 < end - 1 && p[i + 1] == '-') {
            i += 2;
            high = uchar(p[i]);
        }
        found = found || (low <= c && c <= high);
    }
    return found != inverted;
}

/// One path segment against one pattern segment. Only the last '*' is ever retried, so this is O(pattern x name).
bool segmentMatches(const QByteArray& p, const QByteArray& s)
{
    qsizetype pi = 0, si = 0, starP = -1, starS = 0;
    while (si < s.size()) {
        qsizetype nextP = -1, nextS = si + 1;
        if (pi < p.size()) {
            switch (p[pi]) {
            case '*':
                starP = pi++;
                starS = si;
                continue;
            case '?':
                nextP = pi + 1;
                nextS = si + characterLength(s, si);
                break;
            case '[': {
                const qsizetype end = setEnd(p, pi);
                if (setHolds(p, pi, end, uchar(s[si])))
                    nextP = end;
                break;
            }
            case '\\':
                if (pi + 1 < p.size() && p[pi + 1] == s[si])
                    nextP = pi + 2;
                break;
            default:
                if (p[pi] == s[si])
                    nextP = pi + 1;
            }
        }
        if (nextP >= 0) {
            pi = nextP;
            si = nextS;
        } else if (starP >= 0) {
            pi = starP + 1;
            si = ++starS;
        } else
            return false;
    }
    while (pi < p.size() && p[pi] == '*')
        ++pi;
    return pi == p.size();
}

QList<QByteArray> splitPattern(const QByteArray& p)
{
    QList<QByteArray> out;
    qsizetype from = 0;
    for (qsizetype i = 0; i < p.size(); ++i) {
        if (p[i] == '\\')
            ++i;
        else if (p[i] == '[')
            i = setEnd(p, i) - 1;
        else if (p[i] == '/') {
            out.append(p.mid(from, i - from));
            from = i + 1;
        }
    }
    out.append(p.mid(from));
    return out;
}

} // namespace

Result<Glob> Glob::parse(const QString& pattern)
{
    Glob glob;
    glob.m_pattern = pattern;
    QByteArray text = pattern.toUtf8();
    if (text.startsWith('!')) {
        glob.m_negated = true;
        text.remove(0, 1);
    }
    if (text.startsWith("./"))
        text.remove(0, 2);
    if (const char* problem = syntaxProblem(text))
        return badPattern(pattern, problem);
    if (text.size() > 1 && text.endsWith('/') && !text.endsWith("\\/")) {
        glob.m_foldersOnly = true;
        text.chop(1);
    }
    if (text.isEmpty() || text == "/")
        return badPattern(pattern, "is empty");
    QList<QByteArray> expanded;
    if (!expandBraces(text, expanded))
        return badPattern(pattern, "a '{' is not closed, or there are more than 1000 alternatives");
    for (const QByteArray& alternative : std::as_const(expanded)) {
        if (const char* problem = syntaxProblem(alternative))
            return badPattern(pattern, problem);
        Segments segments = splitPattern(alternative);
        if (segments.size() > 1 && segments.first().isEmpty())
            segments.removeFirst(); // anchored by its leading '/'
        else if (segments.size() == 1 && segments.first() != "**")
            segments.prepend("**");
        glob.m_alternatives.append(segments);
    }
    return glob;
}

bool Glob::matches(const QByteArray& path) const
{
    const QList<QByteArray> names = path.split('/');
    for (const Segments& pattern : m_alternatives) {
        // fits[j]: the pattern so far fits the first j names. A fit before the end is one of a folder above.
        QList<bool> fits(names.size() + 1, false);
        fits[0] = true;
        for (qsizetype i = 0; i < pattern.size(); ++i) {
            QList<bool> next(names.size() + 1, false);
            const bool last = i + 1 == pattern.size();
            if (pattern[i] == "**") {
                bool reached = false;
                for (qsizetype j = 0; j <= names.size(); ++j) {
                    next[j] = reached || (fits[j] && !last); // at the end it takes at least one name
                    reached = reached || fits[j];
                }
            } else {
                for (qsizetype j = 0; j < names.size(); ++j)
                    next[j + 1] = fits[j] && segmentMatches(pattern[i], names[j]);
            }
            fits = next;
        }
        const qsizetype end = names.size() + (m_foldersOnly ? 0 : 1);
        for (qsizetype j = 1; j < end; ++j) {
            if (fits[j])
                return true;
        }
    }
    return false;
}

namespace {

const Glob* lastMatch(const QList<Glob>& globs, const QByteArray& path)
{
    for (auto it = globs.crbegin(); it != globs.crend(); ++it) {
        if (it->matches(path))
            return &*it;
    }
    return nullptr;
}

Result<QList<Glob>> parseAll(const QStringList& patterns)
{
    QList<Glob> out;
    for (const QString& pattern : patterns) {
        if (pattern.trimmed().isEmpty())
            continue;
        OCTAVO_TRY(Glob glob, Glob::parse(pattern.trimmed()));
        out.append(glob);
    }
    return out;
}

} // namespace

Result<GlobFilter> GlobFilter::create(const QStringList& include, const QStringList& exclude)
{
    GlobFilter filter;
    OCTAVO_TRY(filter.m_include, parseAll(include));
    OCTAVO_TRY(filter.m_exclude, parseAll(exclude));
    return filter;
}

QString GlobFilter::rejection(const QByteArray& path) const
{
    if (!m_include.isEmpty()) {
        const Glob* glob = lastMatch(m_include, path);
        if (glob == nullptr || glob->negated())
            return QStringLiteral("not among the included globs");
    }
    if (const Glob* glob = lastMatch(m_exclude, path); glob != nullptr && !glob->negated())
        return QStringLiteral("excluded by \"%1\"").arg(glob->pattern());
    return {};
}

} // namespace octavo::agents
