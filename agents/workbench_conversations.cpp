/// The history: listed, searched, renamed, deleted and brought back.

#include "agents/workbench_private.h"

#include <QPromise>

namespace octavo::agents {

QList<ConversationInfo> Workbench::Private::infos(const QList<StoredConversation>& list) const
{
    QList<ConversationInfo> out;
    for (const StoredConversation& c : list) {
        ConversationInfo info{c.id, c.title, c.contextName, c.lastUsed, c.messages, -1};
        for (const Agent* agent : agents) {
            if (agent != nullptr && agent->d->conversation == c.id)
                info.pane = agent->index();
        }
        out.append(info);
    }
    return out;
}

QList<ConversationInfo> Workbench::conversations() const
{
    return d->infos(d->conversations);
}

QFuture<QList<ConversationInfo>> Workbench::search(const QString& text)
{
    auto promise = std::make_shared<QPromise<QList<ConversationInfo>>>();
    promise->start();
    d->store->read([promise, text, this](SessionStore& store) {
        auto found = store.search(text);
        d->poster.post([this, promise, found = std::move(found)] {
            promise->addResult(found ? d->infos(*found) : QList<ConversationInfo>());
            promise->finish();
        });
    });
    return promise->future();
}

void Workbench::Private::keepConversation(const StoredConversation& conversation)
{
    conversations.prepend(conversation);
    emit q->conversationsChanged();
}

void Workbench::Private::touchConversation(ConversationId id, int messages)
{
    for (qsizetype i = 0; i < conversations.size(); ++i) {
        if (conversations[i].id != id)
            continue;
        conversations[i].messages = messages;
        conversations[i].lastUsed = QDateTime::currentDateTimeUtc();
        conversations.move(i, 0);
        emit q->conversationsChanged();
        return;
    }
}

void Workbench::Private::leave(ConversationId id, QList<StoredMessage> messages)
{
    const quint64 serial = ++lastLeft;
    left[id] = {serial, std::move(messages)};
    store->afterWrites([this, id, serial] {
        poster.post([this, id, serial] {
            if (const auto known = left.find(id); known != left.end() && known->second.serial == serial)
                left.erase(known);
        });
    });
}

void Workbench::renameConversation(ConversationId conversation, const QString& title)
{
    for (StoredConversation& c : d->conversations) {
        if (c.id == conversation)
            c.title = title;
    }
    d->write([conversation, title](SessionStore& s) { return s.renameConversation(conversation, title); });
    emit conversationsChanged();
}

void Workbench::deleteConversation(ConversationId conversation)
{
    for (qsizetype i = 0; i < d->conversations.size(); ++i) {
        if (d->conversations[i].id != conversation)
            continue;
        d->deleted.append(d->conversations.takeAt(i));
        d->write([conversation](SessionStore& s) { return s.setDeleted(conversation, true); });
        for (Agent* agent : d->agents) {
            if (agent != nullptr && agent->d->conversation == conversation)
                agent->newConversation();
        }
        emit conversationsChanged();
        return;
    }
}

void Workbench::undoDelete(ConversationId conversation)
{
    for (qsizetype i = 0; i < d->deleted.size(); ++i) {
        if (d->deleted[i].id != conversation)
            continue;
        const StoredConversation back = d->deleted.takeAt(i);
        const auto newest = [](const StoredConversation& a, const StoredConversation& b) {
            return a.lastUsed > b.lastUsed;
        };
        d->conversations.insert(std::upper_bound(d->conversations.begin(), d->conversations.end(), back, newest), back);
        d->write([conversation](SessionStore& s) { return s.setDeleted(conversation, false); });
        emit conversationsChanged();
        return;
    }
}

} // namespace octavo::agents
