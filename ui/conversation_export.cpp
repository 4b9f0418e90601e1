#include "ui/conversation_export.h"

#include "ui/pane/pane_state.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QRegularExpression>

namespace octavo::ui {
namespace {

using namespace agents;

QString stateName(MessageState state)
{
    switch (state) {
    case MessageState::Pending:
        return QStringLiteral("pending");
    case MessageState::Complete:
        return QStringLiteral("complete");
    case MessageState::Stopped:
        return QStringLiteral("stopped");
    case MessageState::ContextFull:
        return QStringLiteral("context full");
    case MessageState::LengthLimit:
        return QStringLiteral("length limit");
    case MessageState::Interrupted:
        return QStringLiteral("interrupted");
    case MessageState::Failed:
        return QStringLiteral("failed");
    case MessageState::Repeated:
        return QStringLiteral("repeated itself");
    }
    return {};
}

QString citationName(CitationState state)
{
    switch (state) {
    case CitationState::Verified:
        return QStringLiteral("verified");
    case CitationState::Elsewhere:
        return QStringLiteral("found elsewhere");
    case CitationState::Unverified:
        return QStringLiteral("unverified");
    }
    return {};
}

/// Figures that are not known are left out, never written as zero.
QJsonObject figuresObject(const AnswerFigures& figures)
{
    QJsonObject object{{QStringLiteral("prompt_tokens"), figures.promptTokens},
                       {QStringLiteral("reused_tokens"), figures.reusedTokens},
                       {QStringLiteral("new_tokens"), figures.newTokens},
                       {QStringLiteral("accepted_drafts"), figures.acceptedDrafts}};
    if (figures.ttftMs >= 0)
        object[QStringLiteral("ttft_ms")] = figures.ttftMs;
    if (figures.tokensPerSecond >= 0)
        object[QStringLiteral("tokens_per_s")] = figures.tokensPerSecond;
    return object;
}

/// A question as a block quote that keeps its lines.
QString quoted(const QString& question)
{
    QString out;
    const QStringList lines = question.trimmed().split(u'\n');
    for (qsizetype i = 0; i < lines.size(); ++i) {
        const bool breaks = i + 1 < lines.size() && !lines[i].trimmed().isEmpty() && !lines[i + 1].trimmed().isEmpty();
        out += lines[i].isEmpty()
                   ? QStringLiteral(">\n")
                   : QStringLiteral("> ") + lines[i] + (breaks ? QStringLiteral("  \n") : QStringLiteral("\n"));
    }
    return out;
}

/// The line that ends the code block in which `text` stops; empty where it stops in none. One inside a quote ends with
/// the quote.
QString missingFence(const QString& text)
{
    static const QRegularExpression fence(QStringLiteral("^( *(?:(?:[-*+]|\\d{1,9}[.)]) +)?)(`{3,}|~{3,})(.*)$"));
    QString indent, open;
    for (const QString& line : text.split(u'\n')) {
        const QRegularExpressionMatch match = fence.match(line);
        if (!match.hasMatch())
            continue;
        const QString marks = match.captured(2), rest = match.captured(3);
        if (open.isEmpty()) {
            if (marks[0] == u'`' && rest.contains(u'`')) // a code span
                continue;
            open = marks;
            indent = QString(match.capturedLength(1), u' ');
        } else if (marks[0] == open[0] && marks.size() >= open.size() && rest.trimmed().isEmpty() &&
                   match.captured(1).trimmed().isEmpty()) {
            open.clear();
        }
    }
    return open.isEmpty() ? QString() : indent + open;
}

/// `text` as a code span, whatever backticks are in it.
QString codeSpan(const QString& text)
{
    int run = 0, longest = 0;
    for (const QChar c : text) {
        run = c == u'`' ? run + 1 : 0;
        longest = qMax(longest, run);
    }
    const QString ticks(longest + 1, u'`');
    const QString room = text.startsWith(u'`') || text.endsWith(u'`') ? QStringLiteral(" ") : QString();
    return ticks + room + text + room + ticks;
}

} // namespace

QString conversationAsMarkdown(const Agent& agent)
{
    QString out = QStringLiteral("# %1\n").arg(agent.name());
    if (const QString about = contextLabel(agent.context()); !about.isEmpty())
        out += QStringLiteral("\n%1\n").arg(about);
    for (const Message& message : agent.messages()) {
        if (message.role == MessageRole::User) {
            out += u'\n' + quoted(message.text);
            continue;
        }
        out += u'\n' + message.text;
        if (!message.text.endsWith(u'\n'))
            out += u'\n';
        if (const QString fence = missingFence(message.text); !fence.isEmpty())
            out += fence + u'\n';
        for (const Citation& citation : message.citations) {
            out += QStringLiteral("\n- ") + citationName(citation.state);
            if (!citation.displayPath.isEmpty())
                out += QStringLiteral(": ") +
                       codeSpan(citation.displayPath +
                                (citation.line > 0 ? u':' + QString::number(citation.line) : QString()));
        }
        if (!message.citations.isEmpty())
            out += u'\n';
        if (message.state != MessageState::Complete)
            out += QStringLiteral("\n*") + stateName(message.state) +
                   (message.problem.isEmpty() ? QString() : QStringLiteral(": ") + message.problem) +
                   QStringLiteral("*\n");
    }
    return out;
}

QByteArray conversationAsJson(const Agent& agent)
{
    const ContextInfo context = agent.context();
    QJsonArray messages;
    for (const Message& message : agent.messages()) {
        QJsonObject object{{QStringLiteral("role"),
                            message.role == MessageRole::User ? QStringLiteral("user") : QStringLiteral("assistant")},
                           {QStringLiteral("text"), message.text},
                           {QStringLiteral("state"), stateName(message.state)}};
        if (message.time.isValid())
            object[QStringLiteral("time")] = message.time.toUTC().toString(Qt::ISODate);
        if (message.role == MessageRole::Assistant) {
            object[QStringLiteral("figures")] = figuresObject(message.figures);
            QJsonArray citations;
            for (const Citation& citation : message.citations)
                citations += QJsonObject{{QStringLiteral("path"), citation.displayPath},
                                         {QStringLiteral("line"), citation.line},
                                         {QStringLiteral("state"), citationName(citation.state)}};
            object[QStringLiteral("citations")] = citations;
        }
        messages += object;
    }
    return QJsonDocument(QJsonObject{{QStringLiteral("pane"), agent.name()},
                                     {QStringLiteral("context"), context.name},
                                     {QStringLiteral("commit"), context.commit},
                                     {QStringLiteral("messages"), messages}})
        .toJson();
}

} // namespace octavo::ui
