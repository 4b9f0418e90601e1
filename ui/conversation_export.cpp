#include "ui/conversation_export.h"

#include "ui/pane/pane_state.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

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

} // namespace

QString conversationAsMarkdown(const Agent& agent)
{
    QString out = QStringLiteral("# %1\n").arg(agent.name());
    if (const QString about = contextLabel(agent.context()); !about.isEmpty())
        out += QStringLiteral("\n%1\n").arg(about);
    for (const Message& message : agent.messages()) {
        if (message.role == MessageRole::User) {
            out += QStringLiteral("\n## ") + message.text.simplified() + u'\n';
            continue;
        }
        out += u'\n' + message.text;
        if (!message.text.endsWith(u'\n'))
            out += u'\n';
        for (const Citation& citation : message.citations) {
            out += QStringLiteral("\n- ") + citationName(citation.state);
            if (!citation.displayPath.isEmpty())
                out += QStringLiteral(": `") + citation.displayPath +
                       (citation.line > 0 ? u':' + QString::number(citation.line) : QString()) + u'`';
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
