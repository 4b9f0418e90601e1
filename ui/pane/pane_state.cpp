#include "ui/pane/pane_state.h"

#include "ui/controls.h"

#include <QCoreApplication>

namespace octavo::ui {
namespace {

/// Where translators find the words of this file.
struct PaneWords {
    Q_DECLARE_TR_FUNCTIONS(octavo::ui::PaneWords)
};

PaneState readingState(qint64 done, qint64 total, double secondsLeft)
{
    if (total <= 0)
        return {PaneWords::tr("reading"), {}, Tone::Warning};
    const qint64 percent = qBound(qint64(0), done * 100 / total, qint64(100));
    return {PaneWords::tr("reading %1%").arg(percent),
            secondsLeft >= 0 ? PaneWords::tr("%1 left").arg(durationText(secondsLeft)) : QString(), Tone::Warning};
}

} // namespace

PaneState paneState(const agents::AgentStatus& status, const agents::ContextInfo& context)
{
    using agents::Activity;
    using agents::Outcome;
    switch (status.activity) {
    case Activity::Queued:
        return {PaneWords::tr("queued"), {}, Tone::Warning};
    case Activity::Reading:
        return readingState(status.readDone, status.readTotal, status.secondsLeft);
    case Activity::Writing:
        return {PaneWords::tr("writing"), {}, Tone::Accent};
    case Activity::Stopping:
        return {PaneWords::tr("stopping"), {}, Tone::Muted};
    case Activity::Idle:
        break;
    }
    if (status.outcome == Outcome::Failed)
        return {PaneWords::tr("failed"), {}, Tone::Bad};
    if (context.state == agents::ContextState::Reading)
        return readingState(context.readDone, context.readTotal, context.secondsLeft);
    if (!context.name.isEmpty() && context.state == agents::ContextState::Preparing)
        return {PaneWords::tr("preparing"), {}, Tone::Warning};
    switch (status.outcome) {
    case Outcome::Done:
        return {PaneWords::tr("done"), {}, Tone::Good};
    case Outcome::Stopped:
        return {PaneWords::tr("stopped"), {}, Tone::Warning};
    default:
        break;
    }
    return {context.name.isEmpty() ? PaneWords::tr("no context") : PaneWords::tr("idle"), {}, Tone::Muted};
}

QString shortCommit(const QString& commit)
{
    return commit.left(7);
}

QString contextLabel(const agents::ContextInfo& context)
{
    if (context.name.isEmpty())
        return {};
    const QString at = context.commit.isEmpty() ? context.ref : shortCommit(context.commit);
    return at.isEmpty() ? context.name : context.name + QStringLiteral(" @ ") + at;
}

QString readingLine(const agents::AgentStatus& status)
{
    QStringList parts;
    if (status.readTotal > 0)
        parts += PaneWords::tr("%1 of %2 tokens").arg(countText(status.readDone), countText(status.readTotal));
    if (status.readTokensPerSecond >= 0)
        parts += PaneWords::tr("%1 tok/s").arg(countText(qint64(status.readTokensPerSecond)));
    if (status.secondsLeft >= 0)
        parts += PaneWords::tr("%1 left").arg(durationText(status.secondsLeft));
    return parts.join(QStringLiteral(" \u00b7 "));
}

QString readingLine(const agents::ContextInfo& context)
{
    QStringList parts;
    if (context.readTotal > 0)
        parts += PaneWords::tr("%1 of %2 tokens").arg(countText(context.readDone), countText(context.readTotal));
    if (context.readTotal > 0 && context.readReused > 0)
        parts += PaneWords::tr("resumed at %1%").arg(context.readReused * 100 / context.readTotal);
    if (context.secondsLeft >= 0)
        parts += PaneWords::tr("%1 left").arg(durationText(context.secondsLeft));
    return parts.join(QStringLiteral(" \u00b7 "));
}

Tone contextTone(qint64 used, qint64 limit)
{
    if (limit <= 0)
        return Tone::Normal;
    const qint64 left = limit - used;
    return left < qMin<qint64>(1024, limit / 25)   ? Tone::Bad
           : left < qMin<qint64>(4096, limit / 10) ? Tone::Warning
                                                   : Tone::Normal;
}

QString contextFigures(qint64 used, qint64 limit)
{
    return shortCountText(used > 0 || limit > 0 ? used : -1) + QStringLiteral(" / ") +
           shortCountText(limit > 0 ? limit : -1);
}

ProblemWords splitProblem(const QString& problem)
{
    for (qsizetype i = 0; i + 1 < problem.size(); ++i) {
        const bool end = problem[i] == u'.' || problem[i] == u'!' || problem[i] == u'?';
        if ((end && problem[i + 1] == u' ') || problem[i] == u'\n')
            return {problem.left(end ? i + 1 : i).trimmed(), problem.mid(i + 1).trimmed()};
    }
    return {problem.trimmed(), {}};
}

} // namespace octavo::ui
