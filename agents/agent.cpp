#include "agents/agent.h"

#include "agents/agent_private.h"
#include "agents/workbench_private.h"

namespace octavo::agents {

Agent::Agent(std::unique_ptr<Private> p, QObject* parent)
    : QObject(parent)
    , d(std::move(p))
{
    d->q = this;
    d->poster = std::make_unique<Poster>(this);
}

Agent::~Agent()
{
    d->poster->close();
}

int Agent::index() const
{
    return d->index;
}

QString Agent::name() const
{
    return d->name;
}

void Agent::setName(const QString& name)
{
    if (name == d->name)
        return;
    d->name = name;
    d->savePane();
    emit nameChanged(name);
}

ContextInfo Agent::context() const
{
    const ContextEntry* entry = d->workbench->d->entry(d->context);
    return entry != nullptr ? entry->info : ContextInfo{};
}

ConversationId Agent::conversation() const
{
    return d->conversation;
}

AgentStatus Agent::status() const
{
    return d->status;
}

const QList<Message>& Agent::messages() const
{
    return d->messages;
}

QString Agent::draft() const
{
    return d->draft;
}

void Agent::setAttended(bool attended)
{
    d->attended = attended;
}

void Agent::setDraft(const QString& text)
{
    if (text == d->draft)
        return;
    d->draft = text;
    d->draftDirty = true;
    emit draftChanged(text);
}

} // namespace octavo::agents
