#include "ui/wizard/selection.h"

#include "ui/controls.h"
#include "ui/wizard/file_tree_model.h"

#include "agents/ingest/file_order.h"

#include <QCoreApplication>
#include <QLocale>

#include <algorithm>
#include <numeric>

namespace octavo::ui {

namespace {

/// Where translators find the words of this file.
struct SelectionWords {
    Q_DECLARE_TR_FUNCTIONS(octavo::ui::SelectionWords)
};

} // namespace

QStringList splitGlobs(const QString& text)
{
    QStringList globs;
    QString glob;
    int depth = 0;
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text[i];
        if (c == u'\\' && i + 1 < text.size()) {
            glob += c;
            glob += text[++i];
            continue;
        }
        if (depth == 0 && (c == u',' || c.isSpace())) {
            if (!glob.isEmpty())
                globs += glob;
            glob.clear();
            continue;
        }
        depth += c == u'{' ? 1 : c == u'}' && depth > 0 ? -1 : 0;
        glob += c;
    }
    if (!glob.isEmpty())
        globs += glob;
    return globs;
}

QSet<QByteArray> uncheckedToFit(const QList<agents::PackedFile>& files, qint64 budget)
{
    std::vector<int> order(std::size_t(files.size()));
    std::iota(order.begin(), order.end(), 0);
    std::vector<int> classes;
    for (const agents::PackedFile& file : files)
        classes.push_back(agents::budgetClass(file.path));
    std::sort(order.begin(), order.end(), [&](int a, int b) {
        const int x = classes[std::size_t(a)];
        const int y = classes[std::size_t(b)];
        return x != y ? x < y : files[a].path < files[b].path;
    });
    QSet<QByteArray> unchecked;
    for (int file : order) {
        if (files[file].tokens <= budget)
            budget -= files[file].tokens;
        else
            unchecked += files[file].path;
    }
    return unchecked;
}

agents::IngestResult packedOf(const agents::IngestResult& all, const FileTreeModel& tree)
{
    agents::IngestResult result = all;
    result.packed.clear();
    for (int i = 0; i < tree.files().size(); ++i) {
        const agents::PackedFile& file = tree.files()[i];
        if (tree.isPacked(i)) {
            result.packed += file;
            continue;
        }
        result.skipped += {file.path, file.displayPath,
                           tree.isAllowed(i) ? SelectionWords::tr("left out by you")
                                             : SelectionWords::tr("left out by the patterns")};
        result.tokens -= file.tokens;
    }
    return result;
}

QString agoText(const QDateTime& time, const QDateTime& now)
{
    const qint64 seconds = time.secsTo(now);
    if (seconds < 60)
        return SelectionWords::tr("just now");
    if (seconds < 3600)
        return SelectionWords::tr("%1 min ago").arg(seconds / 60);
    if (seconds < 24 * 3600)
        return SelectionWords::tr("%1 h ago").arg(seconds / 3600);
    const qint64 days = time.date().daysTo(now.date());
    if (days <= 1)
        return SelectionWords::tr("yesterday");
    if (days < 30)
        return SelectionWords::tr("%1 days ago").arg(days);
    return QLocale().toString(time.date(), QLocale::ShortFormat);
}

QString costText(qint64 tokens, double tokensPerSecond, qint64 bytesPerToken)
{
    const double seconds = tokensPerSecond > 0 ? double(tokens) / tokensPerSecond : -1;
    const QString time = seconds < 0 ? SelectionWords::tr("reading time not known yet")
                         : seconds < 120
                             ? SelectionWords::tr("reads in about %1 s").arg(std::max(1, int(seconds + 0.5)))
                             : SelectionWords::tr("reads in about %1 min").arg(int(seconds / 60 + 0.5));
    const QString memory =
        SelectionWords::tr("%1 of RAM").arg(bytesPerToken > 0 ? bytesText(tokens * bytesPerToken) : dash());
    return QStringList{time, memory, SelectionWords::tr("shared by all panes on this commit")}.join(
        QStringLiteral(" · "));
}

} // namespace octavo::ui
