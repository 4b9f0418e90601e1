#pragma once

/// A Workbench whose agents do what a test says: the class of agents/workbench.h with a body of ours, so that widgets
/// are tested without an engine, a database or threads. Link it instead of octavo_agents' own.

#include "agents/workbench.h"

#include <QHash>

#include <functional>

namespace octavo::ui::test {

/// What stands behind an agent. Change it through the functions below, so that the signals follow.
struct AgentScript {
    QString name;
    agents::ContextInfo context;
    agents::ConversationId conversation{};
    agents::AgentStatus status;
    QList<agents::Message> messages;
    QString draft;
    // What the widgets asked for.
    QStringList asked;
    int stops = 0, regenerations = 0, continuations = 0;
    QStringList edits;
    bool failNextAsk = false;
};

AgentScript& script(agents::Agent* agent);

void setStatus(agents::Agent* agent, const agents::AgentStatus& status);
void setContext(agents::Agent* agent, const agents::ContextInfo& context);
void setMessages(agents::Agent* agent, const QList<agents::Message>& messages);
agents::MessageId addMessage(agents::Agent* agent, agents::MessageRole role, const QString& text,
                             agents::MessageState state = agents::MessageState::Complete);
/// Adds to the agent's last message and tells its views.
void appendText(agents::Agent* agent, const QString& text);
void changeLast(agents::Agent* agent, const std::function<void(agents::Message&)>& change);

/// A ready workbench with eight idle agents.
std::unique_ptr<agents::Workbench> makeWorkbench();
void becomeReady(agents::Workbench* workbench);
/// The store is read, the model is not.
void readSettings(agents::Workbench* workbench);
void reportLoad(agents::Workbench* workbench, const QString& stage, qint64 done, qint64 total);
void failLoading(agents::Workbench* workbench, const Error& error);
void setModel(agents::Workbench* workbench, const engine::ModelInfo& model);
void setContexts(agents::Workbench* workbench, const QList<agents::ContextInfo>& contexts);
void setConversations(agents::Workbench* workbench, const QList<agents::ConversationInfo>& conversations);
void setMetrics(agents::Workbench* workbench, const engine::MetricsSnapshot& metrics);
void setSource(agents::Workbench* workbench, const QByteArray& path, const agents::SourceText& text);
void reportSaveProblem(agents::Workbench* workbench, const QString& problem);
/// A device was lost (or, where `problem` is empty, is back); what was being reloaded has ended.
void reportDevice(agents::Workbench* workbench, const QString& problem);

} // namespace octavo::ui::test
