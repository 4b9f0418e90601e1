#include "agents/store/session_store.h"

#include "agents/ingest/path_text.h"
#include "agents/store/message_codec.h"

#include <QRegularExpression>

#include <iterator>

namespace octavo::agents {

namespace {

/// migrations[i] leads from user_version i to i + 1. Those that were released are never changed.
constexpr const char* migrations[] = {
    R"sql(
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE contexts (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, repository TEXT NOT NULL, ref TEXT NOT NULL, commit_id TEXT NOT NULL,
    subject TEXT NOT NULL, commit_time TEXT NOT NULL, options TEXT NOT NULL,
    files_total INTEGER NOT NULL, tokens INTEGER NOT NULL, special INTEGER NOT NULL);
CREATE TABLE packed_files (
    context INTEGER NOT NULL REFERENCES contexts(id) ON DELETE CASCADE, place INTEGER NOT NULL,
    path BLOB NOT NULL, blob_id TEXT NOT NULL, bytes INTEGER NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (context, place)) WITHOUT ROWID;
CREATE TABLE skipped_files (
    context INTEGER NOT NULL REFERENCES contexts(id) ON DELETE CASCADE, place INTEGER NOT NULL,
    path BLOB NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (context, place)) WITHOUT ROWID;
CREATE TABLE conversations (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, context INTEGER REFERENCES contexts(id) ON DELETE SET NULL,
    context_name TEXT NOT NULL, last_used INTEGER NOT NULL, deleted INTEGER NOT NULL DEFAULT 0);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, conversation INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
    role INTEGER NOT NULL, state INTEGER NOT NULL, text TEXT NOT NULL, ids BLOB NOT NULL, problem TEXT NOT NULL,
    citations TEXT NOT NULL, figures TEXT NOT NULL, time INTEGER NOT NULL);
CREATE INDEX messages_by_conversation ON messages(conversation, id);
CREATE INDEX messages_in_flight ON messages(state) WHERE state = 0;
CREATE VIRTUAL TABLE messages_fts USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
CREATE TRIGGER messages_forget AFTER DELETE ON messages BEGIN
    DELETE FROM messages_fts WHERE rowid = old.id;
END;
CREATE TABLE panes (
    pane INTEGER PRIMARY KEY, name TEXT NOT NULL, draft TEXT NOT NULL,
    context INTEGER REFERENCES contexts(id) ON DELETE SET NULL,
    conversation INTEGER REFERENCES conversations(id) ON DELETE SET NULL);
CREATE TABLE token_counts (
    tokenizer INTEGER NOT NULL, blob_id TEXT NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (tokenizer, blob_id)) WITHOUT ROWID;
)sql",
    // Beginnings of words have an index of their own, and from a message to its conversation leads one that holds no
    // text: a search of 10,000 messages took five times as long without.
    R"sql(
DROP TRIGGER messages_forget;
DROP TABLE messages_fts;
CREATE VIRTUAL TABLE messages_fts USING fts5(
    text, tokenize = 'unicode61 remove_diacritics 2', prefix = '1 2 3');
INSERT INTO messages_fts(rowid, text) SELECT id, text FROM messages WHERE state <> 0;
CREATE TRIGGER messages_forget AFTER DELETE ON messages BEGIN
    DELETE FROM messages_fts WHERE rowid = old.id;
END;
CREATE INDEX conversation_of_message ON messages(id, conversation);
)sql",
};

static_assert(int(MessageState::Pending) == 0, "messages_in_flight is an index over state = 0");

constexpr const char* conversationColumns =
    "SELECT c.id, IFNULL(c.context, 0), c.title, c.context_name, c.last_used,"
    " (SELECT COUNT(*) FROM messages m WHERE m.conversation = c.id) FROM conversations c WHERE c.deleted = 0 ";

qint64 milliseconds(const QDateTime& time)
{
    return time.toMSecsSinceEpoch();
}

void bindReference(Statement& statement, qint64 id)
{
    if (id == 0)
        statement.bindNull();
    else
        statement.bind(id);
}

} // namespace

Result<SessionStore> SessionStore::open(const QString& path)
{
    OCTAVO_TRY(Database database, Database::open(path));
    SessionStore store(std::move(database));
    OCTAVO_CHECK(store.migrate());
    return store;
}

Result<void> SessionStore::migrate()
{
    constexpr auto newest = qint64(std::size(migrations));
    return m_database.transaction([&]() -> Result<void> {
        qint64 found = 0;
        { // a statement in hand would lock the tables that are changed
            Statement version = m_database.prepare("PRAGMA user_version");
            OCTAVO_CHECK(version.next());
            found = version.integer(0);
        }
        if (found > newest)
            return Error{ErrorCode::Unsupported, "the session store was written by a newer Octavo (version " +
                                                     std::to_string(found) + ", this one knows " +
                                                     std::to_string(newest) + "): update Octavo"};
        for (qint64 v = found; v < newest; ++v)
            OCTAVO_CHECK(m_database.execute(migrations[v]));
        return m_database.execute(("PRAGMA user_version = " + std::to_string(newest)).c_str());
    });
}

Result<SessionState> SessionStore::load()
{
    const Result<void> repaired = m_database.transaction([&]() -> Result<void> {
        OCTAVO_CHECK(m_database.execute("INSERT INTO messages_fts(rowid, text) SELECT id, text FROM messages"
                                        " WHERE state = 0 AND id NOT IN (SELECT rowid FROM messages_fts)"));
        OCTAVO_CHECK(m_database.prepare("UPDATE messages SET state = ? WHERE state = 0")
                         .bind(int(MessageState::Interrupted))
                         .run());
        return m_database.execute("DELETE FROM conversations WHERE deleted = 1");
    });
    OCTAVO_CHECK(repaired);
    SessionState out;
    Statement settings = m_database.prepare("SELECT key, value FROM settings");
    for (;;) {
        OCTAVO_TRY(const bool row, settings.next());
        if (!row)
            break;
        out.settings.insert(settings.text(0), settings.text(1));
    }
    OCTAVO_TRY(out.contexts, contexts());
    Statement rows =
        m_database.prepare((std::string(conversationColumns) + "ORDER BY c.last_used DESC, c.id DESC").c_str());
    OCTAVO_TRY(out.conversations, conversations(rows));
    Statement panes = m_database.prepare(
        "SELECT pane, name, draft, IFNULL(context, 0), IFNULL(conversation, 0) FROM panes ORDER BY pane");
    for (;;) {
        OCTAVO_TRY(const bool row, panes.next());
        if (!row)
            break;
        out.panes.append({int(panes.integer(0)), panes.text(1), panes.text(2), ContextId(panes.integer(3)),
                          ConversationId(panes.integer(4))});
    }
    Statement largest = m_database.prepare("SELECT IFNULL((SELECT MAX(id) FROM contexts), 0),"
                                           " IFNULL((SELECT MAX(id) FROM conversations), 0),"
                                           " IFNULL((SELECT MAX(id) FROM messages), 0)");
    OCTAVO_CHECK(largest.next());
    out.lastContext = largest.integer(0);
    out.lastConversation = largest.integer(1);
    out.lastMessage = largest.integer(2);
    return out;
}

Result<QList<StoredContext>> SessionStore::contexts()
{
    QList<StoredContext> out;
    Statement rows = m_database.prepare("SELECT id, name, repository, ref, commit_id, subject, commit_time, options,"
                                        " files_total, tokens, special FROM contexts ORDER BY id");
    for (;;) {
        OCTAVO_TRY(const bool row, rows.next());
        if (!row)
            break;
        StoredContext c;
        c.id = ContextId(rows.integer(0));
        c.result.repositoryName = rows.text(1);
        c.result.repositoryPath = rows.text(2);
        c.result.ref = rows.text(3);
        c.result.commit = rows.text(4);
        c.result.commitSubject = rows.text(5);
        c.result.commitTime = QDateTime::fromString(rows.text(6), Qt::ISODate);
        c.options = decodeOptions(rows.text(7));
        c.result.filesTotal = rows.integer(8);
        c.result.tokens = rows.integer(9);
        c.result.filesWithSpecialText = int(rows.integer(10));
        out.append(c);
    }
    for (StoredContext& c : out) {
        Statement packed = m_database.prepare(
            "SELECT path, blob_id, bytes, tokens FROM packed_files WHERE context = ? ORDER BY place");
        packed.bind(qint64(c.id));
        for (;;) {
            OCTAVO_TRY(const bool row, packed.next());
            if (!row)
                break;
            const QByteArray path = packed.blob(0);
            c.result.packed.append(
                {path, displayPath(path), packed.text(1).toLatin1(), packed.integer(2), packed.integer(3)});
        }
        Statement skipped =
            m_database.prepare("SELECT path, reason FROM skipped_files WHERE context = ? ORDER BY place");
        skipped.bind(qint64(c.id));
        for (;;) {
            OCTAVO_TRY(const bool row, skipped.next());
            if (!row)
                break;
            const QByteArray path = skipped.blob(0);
            c.result.skipped.append({path, displayPath(path), skipped.text(1)});
        }
    }
    return out;
}

Result<QList<StoredConversation>> SessionStore::conversations(Statement& rows)
{
    QList<StoredConversation> out;
    for (;;) {
        OCTAVO_TRY(const bool row, rows.next());
        if (!row)
            return out;
        out.append({ConversationId(rows.integer(0)), ContextId(rows.integer(1)), rows.text(2), rows.text(3),
                    QDateTime::fromMSecsSinceEpoch(rows.integer(4)), int(rows.integer(5))});
    }
}

Result<void> SessionStore::saveSetting(const QString& key, const QString& value)
{
    return m_database.prepare("INSERT OR REPLACE INTO settings VALUES (?, ?)").bind(key).bind(value).run();
}

Result<void> SessionStore::savePane(const StoredPane& pane)
{
    Statement statement = m_database.prepare("INSERT OR REPLACE INTO panes VALUES (?, ?, ?, ?, ?)");
    statement.bind(pane.index).bind(pane.name).bind(pane.draft);
    bindReference(statement, qint64(pane.context));
    bindReference(statement, qint64(pane.conversation));
    return statement.run();
}

Result<void> SessionStore::addContext(const StoredContext& c)
{
    OCTAVO_CHECK(m_database.prepare("INSERT INTO contexts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                     .bind(qint64(c.id))
                     .bind(c.result.repositoryName)
                     .bind(c.result.repositoryPath)
                     .bind(c.result.ref)
                     .bind(c.result.commit)
                     .bind(c.result.commitSubject)
                     .bind(c.result.commitTime.toString(Qt::ISODate))
                     .bind(encodeOptions(c.options))
                     .bind(c.result.filesTotal)
                     .bind(c.result.tokens)
                     .bind(c.result.filesWithSpecialText)
                     .run());
    int place = 0;
    for (const PackedFile& file : c.result.packed)
        OCTAVO_CHECK(m_database.prepare("INSERT INTO packed_files VALUES (?, ?, ?, ?, ?, ?)")
                         .bind(qint64(c.id))
                         .bind(place++)
                         .bind(file.path)
                         .bind(QString::fromLatin1(file.blobId))
                         .bind(file.bytes)
                         .bind(file.tokens)
                         .run());
    place = 0;
    for (const SkippedFile& file : c.result.skipped)
        OCTAVO_CHECK(m_database.prepare("INSERT INTO skipped_files VALUES (?, ?, ?, ?)")
                         .bind(qint64(c.id))
                         .bind(place++)
                         .bind(file.path)
                         .bind(file.reason)
                         .run());
    return {};
}

Result<void> SessionStore::removeContext(ContextId context)
{
    return m_database.prepare("DELETE FROM contexts WHERE id = ?").bind(qint64(context)).run();
}

Result<void> SessionStore::addConversation(const StoredConversation& c)
{
    Statement statement = m_database.prepare(
        "INSERT INTO conversations(id, title, context, context_name, last_used) VALUES (?, ?, ?, ?, ?)");
    statement.bind(qint64(c.id)).bind(c.title);
    bindReference(statement, qint64(c.context));
    return statement.bind(c.contextName).bind(milliseconds(c.lastUsed)).run();
}

Result<void> SessionStore::renameConversation(ConversationId conversation, const QString& title)
{
    return m_database.prepare("UPDATE conversations SET title = ? WHERE id = ?")
        .bind(title)
        .bind(qint64(conversation))
        .run();
}

Result<void> SessionStore::setDeleted(ConversationId conversation, bool deleted)
{
    return m_database.prepare("UPDATE conversations SET deleted = ? WHERE id = ?")
        .bind(int(deleted))
        .bind(qint64(conversation))
        .run();
}

Result<QList<StoredMessage>> SessionStore::messages(ConversationId conversation)
{
    QList<StoredMessage> out;
    Statement rows = m_database.prepare("SELECT id, role, state, text, ids, problem, citations, figures, time"
                                        " FROM messages WHERE conversation = ? ORDER BY id");
    rows.bind(qint64(conversation));
    for (;;) {
        OCTAVO_TRY(const bool row, rows.next());
        if (!row)
            return out;
        StoredMessage stored;
        stored.message.id = MessageId(rows.integer(0));
        stored.message.role = MessageRole(rows.integer(1));
        stored.message.state = MessageState(rows.integer(2));
        stored.message.text = rows.text(3);
        stored.ids = decodeIds(rows.blob(4));
        stored.message.problem = rows.text(5);
        stored.message.citations = decodeCitations(rows.text(6));
        stored.message.figures = decodeFigures(rows.text(7));
        stored.message.time = QDateTime::fromMSecsSinceEpoch(rows.integer(8));
        out.append(std::move(stored));
    }
}

Result<QList<StoredConversation>> SessionStore::search(const QString& text)
{
    static const QRegularExpression separators(QStringLiteral("[^\\p{L}\\p{N}\\p{M}]+"));
    // Each word becomes a quoted prefix, so that nothing in `text` is query syntax.
    QStringList words;
    for (const QString& word : text.split(separators, Qt::SkipEmptyParts))
        words.append(u'"' + word + QStringLiteral("\"*"));
    if (words.isEmpty())
        return QList<StoredConversation>{};
    QString pattern = text.trimmed();
    pattern.replace(u'\\', QStringLiteral("\\\\"))
        .replace(u'%', QStringLiteral("\\%"))
        .replace(u'_', QStringLiteral("\\_"));
    Statement rows = m_database.prepare(
        (std::string(conversationColumns) +
         "AND (c.title LIKE ? ESCAPE '\\' OR c.id IN (SELECT m.conversation FROM messages_fts f"
         " CROSS JOIN messages m INDEXED BY conversation_of_message ON m.id = f.rowid WHERE messages_fts MATCH ?))"
         " ORDER BY c.last_used DESC, c.id DESC")
            .c_str());
    rows.bind(QString(u'%' + pattern + u'%')).bind(words.join(u' '));
    return conversations(rows);
}

Result<void> SessionStore::index(MessageId message)
{
    OCTAVO_CHECK(m_database.prepare("DELETE FROM messages_fts WHERE rowid = ?").bind(qint64(message)).run());
    return m_database.prepare("INSERT INTO messages_fts(rowid, text) SELECT id, text FROM messages WHERE id = ?")
        .bind(qint64(message))
        .run();
}

Result<void> SessionStore::addMessages(ConversationId conversation, const QList<StoredMessage>& messages)
{
    for (const StoredMessage& stored : messages) {
        const Message& m = stored.message;
        OCTAVO_CHECK(m_database.prepare("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                         .bind(qint64(m.id))
                         .bind(qint64(conversation))
                         .bind(int(m.role))
                         .bind(int(m.state))
                         .bind(m.text)
                         .bind(encodeIds(stored.ids))
                         .bind(m.problem)
                         .bind(encodeCitations(m.citations))
                         .bind(encodeFigures(m.figures))
                         .bind(milliseconds(m.time))
                         .run());
        if (m.state != MessageState::Pending)
            OCTAVO_CHECK(index(m.id));
        OCTAVO_CHECK(m_database.prepare("UPDATE conversations SET last_used = MAX(last_used, ?) WHERE id = ?")
                         .bind(milliseconds(m.time))
                         .bind(qint64(conversation))
                         .run());
    }
    return {};
}

Result<void> SessionStore::appendText(MessageId message, const QString& text, const std::vector<engine::TokenId>& ids)
{
    return m_database.prepare("UPDATE messages SET text = text || ?, ids = CAST(ids || ? AS BLOB) WHERE id = ?")
        .bind(text)
        .bind(encodeIds(ids))
        .bind(qint64(message))
        .run();
}

Result<void> SessionStore::updateMessage(const Message& m)
{
    OCTAVO_CHECK(
        m_database.prepare("UPDATE messages SET state = ?, problem = ?, citations = ?, figures = ? WHERE id = ?")
            .bind(int(m.state))
            .bind(m.problem)
            .bind(encodeCitations(m.citations))
            .bind(encodeFigures(m.figures))
            .bind(qint64(m.id))
            .run());
    return m.state == MessageState::Pending ? Result<void>() : index(m.id);
}

Result<void> SessionStore::removeMessages(const QList<MessageId>& messages)
{
    for (const MessageId id : messages)
        OCTAVO_CHECK(m_database.prepare("DELETE FROM messages WHERE id = ?").bind(qint64(id)).run());
    return {};
}

Result<QHash<QByteArray, qint64>> SessionStore::tokenCounts(quint64 tokenizer, const QList<QByteArray>& blobIds)
{
    QHash<QByteArray, qint64> out;
    for (const QByteArray& id : blobIds) {
        Statement rows = m_database.prepare("SELECT tokens FROM token_counts WHERE tokenizer = ? AND blob_id = ?");
        rows.bind(qint64(tokenizer)).bind(QString::fromLatin1(id));
        OCTAVO_TRY(const bool row, rows.next());
        if (row)
            out.insert(id, rows.integer(0));
    }
    return out;
}

Result<void> SessionStore::keepTokenCounts(quint64 tokenizer, const QHash<QByteArray, qint64>& counts)
{
    for (auto it = counts.cbegin(); it != counts.cend(); ++it)
        OCTAVO_CHECK(m_database.prepare("INSERT OR REPLACE INTO token_counts VALUES (?, ?, ?)")
                         .bind(qint64(tokenizer))
                         .bind(QString::fromLatin1(it.key()))
                         .bind(it.value())
                         .run());
    return {};
}

} // namespace octavo::agents
