#include "agents/store/store_thread.h"

#include <QElapsedTimer>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QtTest>

#include <atomic>
#include <csignal>
#include <future>
#include <sys/wait.h>
#include <unistd.h>

using namespace octavo;
using namespace octavo::agents;

namespace {

StoredMessage message(qint64 id, MessageRole role, const QString& text, MessageState state = MessageState::Complete)
{
    StoredMessage out;
    out.message.id = MessageId(id);
    out.message.role = role;
    out.message.state = state;
    out.message.text = text;
    out.message.time = QDateTime::fromMSecsSinceEpoch(1'000'000 + id);
    return out;
}

StoredConversation conversation(qint64 id, const QString& title, qint64 context = 0)
{
    return {ConversationId(id),
            ContextId(context),
            title,
            QStringLiteral("octavo"),
            QDateTime::fromMSecsSinceEpoch(1'000'000 + id),
            0};
}

StoredContext context(qint64 id)
{
    StoredContext c;
    c.id = ContextId(id);
    c.options.repository = QStringLiteral("/src/octavo");
    c.options.include = {"*.cpp"};
    c.options.unchecked = {"bad\xff.txt"};
    c.options.trusted = true;
    c.result.repositoryName = QStringLiteral("octavo");
    c.result.commit = QString(40, u'a');
    c.result.commitTime = QDateTime::fromString(QStringLiteral("2026-01-02T03:04:05+01:00"), Qt::ISODate);
    c.result.filesTotal = 2;
    c.result.tokens = 123;
    c.result.packed = {{"line\nbreak\xff.c", QStringLiteral("line\\nbreak\\xff.c"), QByteArray(40, 'b'), 7, 3}};
    c.result.skipped = {{"x.png", QStringLiteral("x.png"), QStringLiteral("binary")}};
    return c;
}

void check(const Result<void>& result)
{
    QVERIFY2(result, result ? "" : result.error().message.c_str());
}

QStringList titles(const QList<StoredConversation>& conversations)
{
    QStringList out;
    for (const StoredConversation& c : conversations)
        out.append(c.title);
    return out;
}

} // namespace

class TestStore : public QObject
{
    Q_OBJECT

private slots:
    void everythingComesBack()
    {
        QTemporaryDir dir;
        const QString path = dir.filePath(QStringLiteral("new/folder/octavo.db"));
        {
            auto store = SessionStore::open(path);
            QVERIFY(store);
            QVERIFY(store->load());
            check(store->saveSetting("theme", "dark"));
            check(store->saveSetting("theme", "light"));
            check(store->addContext(context(3)));
            check(store->addConversation(conversation(5, "First", 3)));
            StoredMessage answer = message(8, MessageRole::Assistant, QString());
            answer.message.state = MessageState::Pending;
            check(store->addMessages(ConversationId(5), {message(7, MessageRole::User, "why?"), answer}));
            check(store->appendText(MessageId(8), QString::fromUtf8("because \xf0\x9f\x98\x80"), {1, 2, 16'000}));
            check(store->appendText(MessageId(8), " it is", {3}));
            answer.message.state = MessageState::Stopped;
            answer.message.figures.newTokens = 4;
            answer.message.citations = {
                {CitationKind::Quote, CitationState::Elsewhere, "a\xff.c", "a\\xff.c", 3, 5, 7, 9}};
            check(store->updateMessage(answer.message));
            check(store->savePane({2, "Ada", "half a thou", ContextId(3), ConversationId(5)}));
        }
        auto store = SessionStore::open(path);
        QVERIFY(store);
        const auto state = store->load();
        QVERIFY(state);
        QCOMPARE(state->settings.value("theme"), QStringLiteral("light"));
        QCOMPARE(state->contexts.size(), 1);
        QCOMPARE(state->contexts[0].result.packed[0].path, QByteArray("line\nbreak\xff.c"));
        QCOMPARE(state->contexts[0].result.packed[0].displayPath, QStringLiteral("line\\nbreak\\xff.c"));
        QCOMPARE(state->contexts[0].result.skipped[0].reason, QStringLiteral("binary"));
        QCOMPARE(state->contexts[0].result.commitTime, context(3).result.commitTime);
        QCOMPARE(state->contexts[0].options.unchecked, QList<QByteArray>{"bad\xff.txt"});
        QCOMPARE(state->contexts[0].options.include, QStringList{"*.cpp"});
        QVERIFY(state->contexts[0].options.trusted);
        QCOMPARE(state->panes.size(), 1);
        QCOMPARE(state->panes[0].draft, QStringLiteral("half a thou"));
        QCOMPARE(state->panes[0].conversation, ConversationId(5));
        QCOMPARE(state->lastMessage, 8);
        QCOMPARE(state->conversations[0].messages, 2);
        const auto messages = store->messages(ConversationId(5));
        QCOMPARE(messages->size(), 2);
        QCOMPARE(messages->at(1).message.text, QString::fromUtf8("because \xf0\x9f\x98\x80 it is"));
        QCOMPARE(messages->at(1).ids, (std::vector<engine::TokenId>{1, 2, 16'000, 3}));
        QCOMPARE(messages->at(1).message.state, MessageState::Stopped);
        QCOMPARE(messages->at(1).message.figures.newTokens, 4);
        QCOMPARE(messages->at(1).message.citations[0].path, QByteArray("a\xff.c"));
        QCOMPARE(messages->at(1).message.citations[0].lastLine, 5);
    }

    void searchFindsWordsAndTakesNoSyntax()
    {
        auto store = SessionStore::open({});
        check(store->addConversation(conversation(1, "About sorting")));
        check(store->addConversation(conversation(2, "50% done_now")));
        check(store->addMessages(ConversationId(1), {message(1, MessageRole::User, "Where is joinPaths defined?")}));
        check(
            store->addMessages(ConversationId(2), {message(2, MessageRole::User, "a \"quoted\" AND -word* NEAR(x)")}));
        const auto found = [&](const char* text) { return titles(*store->search(QString::fromUtf8(text))); };
        QCOMPARE(found("joinp"), QStringList{"About sorting"});
        QCOMPARE(found("defined where"), QStringList{"About sorting"});
        QCOMPARE(found("SORTING"), QStringList{"About sorting"});
        QCOMPARE(found("\"quoted\" AND"), QStringList{"50% done_now"});
        QCOMPARE(found("50%"), QStringList{"50% done_now"});
        QCOMPARE(found("done_n"), QStringList{"50% done_now"});
        QCOMPARE(found("nothing"), QStringList());
        QCOMPARE(found("* ( \" ' -"), QStringList());
        check(store->removeMessages({MessageId(1)}));
        QCOMPARE(found("joinp"), QStringList());
        check(store->setDeleted(ConversationId(2), true));
        QCOMPARE(found("quoted"), QStringList());
        check(store->setDeleted(ConversationId(2), false));
        QCOMPARE(found("quoted"), QStringList{"50% done_now"});
    }

    void deletedConversationsGoWhenTheProgramEnds()
    {
        QTemporaryDir dir;
        const QString path = dir.filePath("o.db");
        {
            auto store = SessionStore::open(path);
            check(store->addConversation(conversation(1, "kept")));
            check(store->addConversation(conversation(2, "deleted")));
            check(store->setDeleted(ConversationId(2), true));
        }
        auto store = SessionStore::open(path);
        QCOMPARE(titles(store->load()->conversations), QStringList{"kept"});
        check(store->setDeleted(ConversationId(2), false));
        QCOMPARE(titles(store->load()->conversations), QStringList{"kept"});
    }

    void removingAContextKeepsItsConversations()
    {
        auto store = SessionStore::open({});
        check(store->addContext(context(3)));
        check(store->addConversation(conversation(5, "First", 3)));
        check(store->savePane({0, "Ada", "", ContextId(3), ConversationId(5)}));
        check(store->removeContext(ContextId(3)));
        const auto state = store->load();
        QCOMPARE(state->contexts.size(), 0);
        QCOMPARE(state->conversations[0].context, ContextId(0));
        QCOMPARE(state->conversations[0].contextName, QStringLiteral("octavo"));
        QCOMPARE(state->panes[0].context, ContextId(0));
        // The database holds to it: a row cannot point at what is not there.
        QVERIFY(!store->addConversation(conversation(6, "x", 99)));
    }

    void killedInMidAnswerLosesAtMostTheLastAppend() // B-47
    {
        QTemporaryDir dir;
        const QString path = dir.filePath("o.db");
        int pipes[2];
        QCOMPARE(pipe(pipes), 0);
        const pid_t child = fork();
        QVERIFY(child >= 0);
        if (child == 0) {
            auto store = SessionStore::open(path);
            if (!store || !store->addConversation(conversation(1, "t")) ||
                !store->savePane({0, "Ada", "a draft", ContextId(0), ConversationId(1)}) ||
                !store->addMessages(ConversationId(1), {message(1, MessageRole::User, "committed question"),
                                                        message(2, MessageRole::Assistant, "", MessageState::Pending)}))
                _exit(1);
            for (int i = 0;; ++i) {
                if (!store->appendText(MessageId(2), QStringLiteral("word%1 ").arg(i), {i}))
                    _exit(1);
                if (write(pipes[1], &i, sizeof i) != ssize_t(sizeof i))
                    _exit(1);
            }
        }
        int committed = 0;
        for (int i = 0; i < 20; ++i)
            QCOMPARE(read(pipes[0], &committed, sizeof committed), ssize_t(sizeof committed));
        QCOMPARE(kill(child, SIGKILL), 0);
        int status = 0;
        QCOMPARE(waitpid(child, &status, 0), child);
        QVERIFY(WIFSIGNALED(status));
        ::close(pipes[0]);
        ::close(pipes[1]);

        auto store = SessionStore::open(path);
        QVERIFY2(store, store ? "" : store.error().message.c_str());
        const auto state = store->load();
        QCOMPARE(state->panes[0].draft, QStringLiteral("a draft"));
        const auto messages = *store->messages(ConversationId(1));
        QCOMPARE(messages[0].message.text, QStringLiteral("committed question"));
        QCOMPARE(messages[1].message.state, MessageState::Interrupted);
        for (int i = 0; i <= committed; ++i)
            QVERIFY(messages[1].message.text.contains(QStringLiteral("word%1 ").arg(i)));
        QCOMPARE(int(messages[1].ids.size()), int(messages[1].message.text.count(u' ')));
        QCOMPARE(titles(*store->search("word3")), QStringList{"t"});
    }

    void aFileCutAtAnyWriteOpensWithWhatWasCommitted() // B-47: the power went
    {
        QTemporaryDir dir;
        const QString path = dir.filePath("o.db");
        auto store = SessionStore::open(path);
        QVERIFY(store);
        QVERIFY(store->database().transaction([&]() -> Result<void> { // as the store's thread does it
            OCTAVO_CHECK(store->addConversation(conversation(1, "t")));
            return store->addMessages(ConversationId(1),
                                      {message(1, MessageRole::User, "committed question"),
                                       message(2, MessageRole::Assistant, "", MessageState::Pending)});
        }));
        QString whole;
        for (int i = 0; i < 30; ++i) {
            const QString word = QStringLiteral("word%1 ").arg(i);
            QVERIFY(store->appendText(MessageId(2), word, {i}));
            whole += word;
        }
        // As the disk would have it, had it stopped anywhere in the log; the store stays open, so the log is there.
        QFile database(path), log(path + "-wal");
        QVERIFY(database.open(QIODevice::ReadOnly) && log.open(QIODevice::ReadOnly));
        const QByteArray databaseBytes = database.readAll(), logBytes = log.readAll();
        QVERIFY(logBytes.size() > 40'000);
        qsizetype most = -1;
        for (qsizetype cut = 0; cut <= logBytes.size(); cut += 1111) {
            QTemporaryDir after;
            const QString copy = after.filePath("o.db");
            QFile databaseCopy(copy), logCopy(copy + "-wal");
            QVERIFY(databaseCopy.open(QIODevice::WriteOnly) && logCopy.open(QIODevice::WriteOnly));
            databaseCopy.write(databaseBytes);
            logCopy.write(logBytes.left(cut));
            databaseCopy.close();
            logCopy.close();
            auto reopened = SessionStore::open(copy);
            QVERIFY2(reopened, reopened ? "" : reopened.error().message.c_str());
            const auto state = reopened->load();
            QVERIFY2(state, state ? "" : state.error().message.c_str());
            const auto messages = reopened->messages(ConversationId(1));
            QVERIFY(messages && (messages->isEmpty() || messages->size() == 2)); // a question comes with its answer
            if (messages->isEmpty())
                continue;
            const QString& text = messages->at(1).message.text;
            QVERIFY(whole.startsWith(text));
            QCOMPARE(messages->at(1).message.state, MessageState::Interrupted);
            QVERIFY(text.size() >= most); // a longer log never knows less
            most = text.size();
        }
        QVERIFY(most > whole.size() / 2);
    }

    void aStoreOfTheFirstVersionIsSearchedAsBefore()
    {
        QTemporaryDir dir;
        const QString path = dir.filePath("o.db");
        {
            auto store = SessionStore::open(path);
            QVERIFY(store);
            check(store->addConversation(conversation(1, "t")));
            check(store->addMessages(ConversationId(1), {message(1, MessageRole::User, "where is the scheduler?"),
                                                         message(2, MessageRole::Assistant, "in engine")}));
            check(store->database().execute("DROP INDEX conversation_of_message; DROP TABLE messages_fts;"
                                            "CREATE VIRTUAL TABLE messages_fts USING fts5(text, tokenize = "
                                            "'unicode61 remove_diacritics 2');"
                                            "INSERT INTO messages_fts(rowid, text) SELECT id, text FROM messages;"
                                            "PRAGMA user_version = 1"));
        }
        auto store = SessionStore::open(path);
        QVERIFY2(store, store ? "" : store.error().message.c_str());
        QCOMPARE(titles(*store->search("sched")), QStringList{"t"});
        QCOMPARE(titles(*store->search("e")), QStringList{"t"});
        check(store->removeMessages({MessageId(1)}));
        QCOMPARE(titles(*store->search("sched")), QStringList());
        QCOMPARE(titles(*store->search("engine")), QStringList{"t"});
    }

    void newerSchemasAndDamagedFilesAreRefusedInWords()
    {
        QTemporaryDir dir;
        const QString newer = dir.filePath("newer.db"), damaged = dir.filePath("damaged.db");
        {
            auto store = SessionStore::open(newer);
            check(store->database().execute("PRAGMA user_version = 99"));
        }
        const auto refused = SessionStore::open(newer);
        QVERIFY(!refused);
        QCOMPARE(refused.error().code, ErrorCode::Unsupported);
        QFile file(damaged);
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(QByteArray(8192, 'x'));
        file.close();
        const auto broken = SessionStore::open(damaged);
        QVERIFY(!broken);
        QCOMPARE(broken.error().code, ErrorCode::FormatInvalid);
        QVERIFY(broken.error().message.find("damaged.db is damaged") != std::string::npos);
    }

    void aFullDiskIsReportedAndRetried() // B-48
    {
        QTemporaryDir dir;
        QMutex mutex;
        QStringList problems;
        std::promise<void> loaded;
        StoreThread thread(
            dir.filePath("o.db"),
            [&](Result<SessionState> state) {
                QVERIFY(state);
                loaded.set_value();
            },
            [&](const QString& problem) {
                const QMutexLocker lock(&mutex);
                problems.append(problem);
            });
        loaded.get_future().wait();
        thread.write([](SessionStore& s) { return s.addConversation(conversation(1, "t")); });
        std::promise<void> limited;
        thread.read([&](SessionStore& s) {
            check(s.database().execute("PRAGMA max_page_count = 1")); // SQLite takes the present size
            limited.set_value();
        });
        limited.get_future().wait();
        std::promise<bool> first;
        thread.write(
            [](SessionStore& s) {
                return s.addMessages(ConversationId(1), {message(1, MessageRole::User, QString(200'000, u'q'))});
            },
            [&](bool committed) { first.set_value(committed); });
        thread.write(
            [](SessionStore& s) { return s.addMessages(ConversationId(1), {message(2, MessageRole::User, "later")}); });
        QCOMPARE(first.get_future().get(), false);
        std::promise<int> readable; // reading goes on meanwhile
        thread.read([&](SessionStore& s) { readable.set_value(int(s.messages(ConversationId(1))->size())); });
        QCOMPARE(readable.get_future().get(), 0);
        {
            const QMutexLocker lock(&mutex);
            QCOMPARE(problems.size(), 1);
            QVERIFY2(problems[0].startsWith("the disk is full"), qPrintable(problems[0]));
        }
        thread.read([](SessionStore& s) { check(s.database().execute("PRAGMA max_page_count = 1000000")); });
        QTRY_COMPARE_WITH_TIMEOUT(([&] {
                                      const QMutexLocker lock(&mutex);
                                      return int(problems.size());
                                  }()),
                                  2, 5000);
        QCOMPARE(problems[1], QString());
        std::promise<int> count;
        std::promise<void> written; // reads go past writes: those of before are waited for
        thread.afterWrites([&] { written.set_value(); });
        written.get_future().wait();
        thread.read([&](SessionStore& s) { count.set_value(int(s.messages(ConversationId(1))->size())); });
        QCOMPARE(count.get_future().get(), 2); // in order, nothing lost
    }

    void aLostWriteStaysToldAndAShortageIsRetried()
    {
        QMutex mutex;
        QStringList problems;
        StoreThread thread(
            {}, [](Result<SessionState>) {},
            [&](const QString& problem) {
                const QMutexLocker lock(&mutex);
                problems.append(problem);
            });
        const auto told = [&] {
            const QMutexLocker lock(&mutex);
            return problems;
        };
        const auto written = [&](StoreThread::Write write) {
            std::promise<bool> done;
            thread.write(std::move(write), [&](bool committed) { done.set_value(committed); });
            return done.get_future().get();
        };
        std::atomic<int> tries = 0;
        QVERIFY(!written([&](SessionStore& s) -> Result<void> {
            if (tries++ == 0)
                return s.database().error(7); // SQLITE_NOMEM
            return s.saveSetting("a", "b");
        }));
        QCOMPARE(told().size(), 1);
        std::promise<void> after;
        thread.afterWrites([&] { after.set_value(); }); // only when the shortage is over
        after.get_future().get();
        QCOMPARE(tries.load(), 2);
        QCOMPARE(told().size(), 2);
        QCOMPARE(told()[1], QString());
        // No context 99: that will never succeed.
        QVERIFY(!written([](SessionStore& s) { return s.addConversation(conversation(6, "x", 99)); }));
        QVERIFY(written([](SessionStore& s) { return s.saveSetting("c", "d"); }));
        QCOMPARE(told().size(), 3);
        QVERIFY2(told()[2].contains(QStringLiteral("is lost")), qPrintable(told()[2]));
    }

    void aLockedFileDelaysWritersOnly() // B-49
    {
        QTemporaryDir dir;
        const QString path = dir.filePath("o.db");
        std::promise<void> loaded;
        std::atomic<int> problems = 0;
        StoreThread thread(
            path,
            [&](Result<SessionState> state) {
                QVERIFY(state);
                loaded.set_value();
            },
            [&](const QString& problem) { problems += problem.isEmpty() ? 0 : 1; });
        loaded.get_future().wait();
        auto other = Database::open(path);
        QVERIFY(other);
        check(other->execute("BEGIN EXCLUSIVE"));
        QElapsedTimer clock;
        clock.start();
        std::promise<bool> done;
        thread.write([](SessionStore& s) { return s.saveSetting("a", "b"); },
                     [&](bool committed) { done.set_value(committed); });
        QVERIFY(clock.elapsed() < 500); // the caller does not wait
        QTest::qWait(300);
        check(other->execute("COMMIT"));
        QCOMPARE(done.get_future().get(), true);
        QCOMPARE(problems.load(), 0);
        // A second process may read and write beside it.
        auto second = SessionStore::open(path);
        QVERIFY(second);
        QCOMPARE(second->load()->settings.value("a"), QStringLiteral("b"));
    }

    void aFileThatCannotBeOpenedYetIsTakenUpLater() // B-48, B-49
    {
        QTemporaryDir dir;
        const QString path = dir.filePath("o.db");
        {
            auto before = SessionStore::open(path);
            QVERIFY(before);
            check(before->saveSetting("old", "1"));
        }
        auto other = Database::open(path);
        QVERIFY(other);
        check(other->execute("BEGIN EXCLUSIVE"));
        QMutex mutex;
        QList<SessionState> states;
        QStringList problems;
        const auto numStates = [&] {
            const QMutexLocker lock(&mutex);
            return int(states.size());
        };
        {
            StoreThread thread(
                path,
                [&](Result<SessionState> loaded) {
                    const QMutexLocker lock(&mutex);
                    states.append(*loaded);
                },
                [&](const QString& problem) {
                    const QMutexLocker lock(&mutex);
                    problems.append(problem);
                });
            QTRY_COMPARE_WITH_TIMEOUT(numStates(), 1, 20000);
            QVERIFY(states[0].standIn);
            QVERIFY(states[0].lastMessage > 1'000'000'000'000); // clear of ids in the file
            std::promise<bool> committed;
            thread.write([](SessionStore& s) { return s.saveSetting("new", "2"); },
                         [&](bool done) { committed.set_value(done); });
            QCOMPARE(committed.get_future().get(), false); // and yet work goes on
            std::promise<int> seen;
            thread.read([&](SessionStore& s) { seen.set_value(int(s.load()->settings.size())); });
            QCOMPARE(seen.get_future().get(), 1);
            check(other->execute("COMMIT"));
            QTRY_COMPARE_WITH_TIMEOUT(numStates(), 2, 20000);
            const QMutexLocker lock(&mutex);
            QVERIFY(!states[1].standIn);
            QCOMPARE(states[1].settings.value("old"), QStringLiteral("1"));
            QVERIFY(!problems.first().isEmpty());
            QVERIFY(problems.last().isEmpty());
        }
        auto after = SessionStore::open(path);
        QVERIFY(after);
        const auto state = after->load();
        QCOMPARE(state->settings.value("old"), QStringLiteral("1"));
        QCOMPARE(state->settings.value("new"), QStringLiteral("2"));
    }

    void nothingIsWrittenByHalfWhenALateFileIsTakenUp()
    {
        QTemporaryDir dir;
        const QString path = dir.filePath("o.db");
        QVERIFY(SessionStore::open(path));
        auto other = Database::open(path);
        QVERIFY(other);
        check(other->execute("BEGIN EXCLUSIVE"));
        std::atomic<int> states = 0;
        {
            StoreThread thread(
                path, [&](Result<SessionState>) { ++states; }, [](const QString&) {});
            QTRY_COMPARE_WITH_TIMEOUT(states.load(), 1, 20000);
            thread.write([](SessionStore& s) -> Result<void> {
                OCTAVO_CHECK(s.saveSetting("half", "1"));
                return Error{ErrorCode::DatabaseFailure, "the second statement failed"};
            });
            thread.write([](SessionStore& s) { return s.saveSetting("whole", "1"); });
            check(other->execute("COMMIT"));
            QTRY_COMPARE_WITH_TIMEOUT(states.load(), 2, 20000);
        }
        const auto after = SessionStore::open(path)->load();
        QVERIFY(!after->settings.contains("half"));
        QCOMPARE(after->settings.value("whole"), QStringLiteral("1"));
    }

    void whatWasQueuedIsWrittenBeforeTheThreadEnds()
    {
        QTemporaryDir dir;
        const QString path = dir.filePath("o.db");
        {
            StoreThread thread(
                path, [](Result<SessionState>) {}, [](const QString&) {});
            for (int i = 0; i < 50; ++i)
                thread.write([i](SessionStore& s) { return s.saveSetting(QString::number(i), "x"); });
        }
        QCOMPARE(SessionStore::open(path)->load()->settings.size(), 50);
    }

    void tokenCountsAreToldApartByTokenizer()
    {
        auto store = SessionStore::open({});
        check(store->keepTokenCounts(1, {{"aa", 10}, {"bb", 20}}));
        check(store->keepTokenCounts(0xffffffffffffffff, {{"aa", 11}}));
        QCOMPARE(*store->tokenCounts(1, {"aa", "cc"}), (QHash<QByteArray, qint64>{{"aa", 10}}));
        QCOMPARE(*store->tokenCounts(0xffffffffffffffff, {"aa", "bb"}), (QHash<QByteArray, qint64>{{"aa", 11}}));
    }
};

QTEST_GUILESS_MAIN(TestStore)
#include "tst_store.moc"
