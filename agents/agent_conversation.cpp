/// What a pane shows: a context, a conversation about it, and what is kept of both.

#include "agents/agent_private.h"
#include "agents/workbench_private.h"

namespace octavo::agents {

void Agent::setContext(ContextId context)
{
    if (context == d->context || (context != ContextId{} && d->workbench->d->entry(context) == nullptr))
        return;
    d->reset(context);
}

void Agent::newConversation()
{
    d->reset(d->context);
}

void Agent::openConversation(ConversationId conversation)
{
    if (conversation == d->conversation || conversation == ConversationId{})
        return;
    Workbench::Private& workbench = *d->workbench->d;
    for (Agent* other : workbench.agents) { // a conversation is in one pane at a time
        if (other != this && other->d->conversation == conversation)
            other->newConversation();
    }
    const quint64 serial = d->opening = d->nextSerial++;
    std::optional<QList<StoredMessage>> known; // reads go past writes that still wait
    if (const auto left = workbench.left.find(conversation); left != workbench.left.end())
        known = left->second.messages;
    workbench.store->read(
        [this, poster = *d->poster, prompt = workbench.prompt.get(), conversation, serial, known](SessionStore& store) {
            auto messages = known ? Result<QList<StoredMessage>>(*known) : store.messages(conversation);
            if (!messages)
                return;
            auto turns = turnsOf(*prompt, *messages);
            poster.post([this, conversation, serial, messages = *std::move(messages), turns = std::move(turns)] {
                if (serial == d->opening)
                    d->showConversation(conversation, messages, turns);
            });
        });
}

Message* Agent::Private::message(MessageId id)
{
    for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
        if (it->id == id)
            return &*it;
    }
    return nullptr;
}

PromptBuilder::Ids turnIds(const PromptBuilder& prompt, const Message& message,
                           const std::vector<engine::TokenId>& answerIds)
{
    PromptBuilder::Ids out;
    if (message.role == MessageRole::User)
        prompt.appendQuestion(out, message.text.toStdString());
    else
        prompt.appendAnswer(out, message.text.toStdString(), answerIds);
    return out;
}

TurnIds turnsOf(const PromptBuilder& prompt, const QList<StoredMessage>& messages)
{
    TurnIds out;
    for (const StoredMessage& stored : messages)
        out.insert(stored.message.id, turnIds(prompt, stored.message, stored.ids));
    return out;
}

void Agent::Private::fill(QList<StoredMessage> stored)
{
    for (StoredMessage& s : stored) {
        if (!s.ids.empty())
            ids.insert(s.message.id, std::move(s.ids));
        messages.append(std::move(s.message));
    }
}

void Agent::Private::countTurns(TurnIds known)
{
    for (const Message& m : std::as_const(messages)) {
        if (const auto turn = known.constFind(m.id); turn != known.constEnd() && !turns.contains(m.id)) {
            status.contextTokens += qint64(turn->size());
            turns.insert(m.id, *turn);
        }
    }
}

void Agent::Private::forget(MessageId message)
{
    ids.remove(message);
    turns.remove(message);
}

/// Ends what runs and shows an empty conversation about `newContext`.
void Agent::Private::reset(ContextId newContext)
{
    abandon();
    opening = 0;
    const bool contextDiffers = newContext != context;
    if (conversation != ConversationId{})
        workbench->d->leave(conversation, storedMessages());
    context = newContext;
    conversation = ConversationId{};
    messages.clear();
    ids.clear();
    turns.clear();
    status = AgentStatus{};
    Workbench::Private& w = *workbench->d;
    const ContextEntry* entry = w.entry(context);
    status.contextTokens = entry != nullptr ? entry->stored.result.tokens : 0;
    status.contextLimit = w.engine->model().contextLimit;
    w.engine->releaseAgent(engine::AgentId(quint32(index)));
    savePane();
    emit q->conversationReset();
    emitStatus();
    if (contextDiffers) {
        emit q->contextChanged(q->context());
        w.countPanes();
        // One from an earlier session that no pane has used since: made and read now, as those in use are at the start.
        if (entry != nullptr && entry->info.state == ContextState::Ready && !entry->data)
            w.build(context, true);
    }
    emit w.q->conversationsChanged();
}

void Agent::Private::showConversation(ConversationId id, QList<StoredMessage> stored, TurnIds known)
{
    Workbench::Private& w = *workbench->d;
    ContextId about = context;
    for (const StoredConversation& listed : std::as_const(w.conversations)) {
        if (listed.id == id)
            about = listed.context;
    }
    reset(about);
    conversation = id;
    fill(std::move(stored));
    countTurns(std::move(known));
    savePane();
    emit q->conversationReset();
    emitStatus();
    emit w.q->conversationsChanged();
}

QList<StoredMessage> Agent::Private::storedMessages() const
{
    QList<StoredMessage> out;
    for (const Message& m : messages)
        out.append({m, ids.value(m.id)});
    return out;
}

void Agent::Private::takeLatePane(const StoredPane& pane)
{
    if (name == defaultName())
        q->setName(nameFrom(pane.name));
    if (!pane.draft.isEmpty() && pane.draft != draft)
        q->setDraft(draft.isEmpty() ? pane.draft : pane.draft + QStringLiteral("\n\n") + draft);
    if (context != ContextId{} || conversation != ConversationId{} || run)
        return; // in use by now; what was in it is in the history
    if (pane.conversation != ConversationId{})
        q->openConversation(pane.conversation);
    else if (pane.context != ContextId{})
        q->setContext(pane.context);
}

QString Agent::Private::defaultName() const
{
    return workbench->d->options.agentName.arg(index + 1);
}

QString Agent::Private::nameFrom(const QString& kept) const
{
    const bool isDefault = kept.isEmpty() || kept == QStringLiteral("Agent %1").arg(index + 1); // older stores have it
    return isDefault ? defaultName() : kept;
}

StoredPane Agent::Private::pane() const
{
    return {index, name == defaultName() ? QString() : name, draft, context, conversation};
}

void Agent::Private::savePane()
{
    draftDirty = false;
    workbench->d->write([stored = pane()](SessionStore& s) { return s.savePane(stored); });
}

} // namespace octavo::agents
