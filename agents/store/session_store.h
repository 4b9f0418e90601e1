#pragma once

/// What is kept through a restart: settings, contexts, conversations, panes, token counts of blobs.
///
/// Thread   one at a time; nothing here waits but for the disk and (3 s at most) another program's lock.
/// Errors   as Database gives them. A failed write changes nothing.

#include "agents/ingest/ingest.h"
#include "agents/store/database.h"
#include "agents/values.h"

#include <QHash>

#include <optional>
#include <vector>

namespace octavo::agents {

struct StoredContext {
    ContextId id{};
    IngestOptions options;
    IngestResult result;
};

struct StoredConversation {
    ConversationId id{};
    ContextId context{}; ///< 0: removed since
    QString title, contextName;
    QDateTime lastUsed;
    int messages = 0;
};

struct StoredMessage {
    Message message;
    std::vector<engine::TokenId> ids; ///< of an answer, as the model wrote them
};

struct StoredPane {
    int index = 0;
    QString name, draft;
    ContextId context{};           ///< 0: none
    ConversationId conversation{}; ///< 0: none
};

struct SessionState {
    QHash<QString, QString> settings;
    QList<StoredContext> contexts;
    QList<StoredConversation> conversations; ///< newest first
    QList<StoredPane> panes;
    qint64 lastContext = 0, lastConversation = 0, lastMessage = 0; ///< largest ids in use
    bool standIn = false; ///< not what is kept: the file cannot be opened yet
};

class SessionStore
{
public:
    /// Opens and brings the schema up to date. Fails with Unsupported where a newer Octavo has written it.
    static Result<SessionStore> open(const QString& path);

    /// Puts right what a crash left (answers that were being written become Interrupted), forgets deleted
    /// conversations, and gives all but the messages.
    Result<SessionState> load();

    Result<void> saveSetting(const QString& key, const QString& value);
    Result<void> savePane(const StoredPane& pane);
    Result<void> addContext(const StoredContext& context);
    Result<void> removeContext(ContextId context);

    Result<void> addConversation(const StoredConversation& conversation);
    Result<void> renameConversation(ConversationId conversation, const QString& title);
    Result<void> setDeleted(ConversationId conversation, bool deleted);
    Result<QList<StoredMessage>> messages(ConversationId conversation);
    /// Conversations whose title or messages hold every word of `text`, newest first.
    Result<QList<StoredConversation>> search(const QString& text);

    Result<void> addMessages(ConversationId conversation, const QList<StoredMessage>& messages);
    Result<void> appendText(MessageId message, const QString& text, const std::vector<engine::TokenId>& ids);
    /// State, problem, citations and figures; the text is added by appendText().
    Result<void> updateMessage(const Message& message);
    Result<void> removeMessages(const QList<MessageId>& messages);

    /// Counts are those of one tokenizer, told apart by its hash.
    Result<QHash<QByteArray, qint64>> tokenCounts(quint64 tokenizer, const QList<QByteArray>& blobIds);
    Result<void> keepTokenCounts(quint64 tokenizer, const QHash<QByteArray, qint64>& counts);

    const Database& database() const { return m_database; }

private:
    explicit SessionStore(Database database)
        : m_database(std::move(database))
    {
    }
    Result<void> migrate();
    Result<QList<StoredContext>> contexts();
    Result<QList<StoredConversation>> conversations(Statement& rows);
    Result<void> index(MessageId message);

    Database m_database;
};

} // namespace octavo::agents
