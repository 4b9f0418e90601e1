/// A session store of 10,000 messages in 500 conversations, and one conversation of 2,000: how long full-text search
/// takes on the store's thread, and how long that conversation takes from the file to the transcript.
///
/// bench_sessions

#include "agents/store/session_store.h"

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QTemporaryDir>

#include <algorithm>
#include <cstdio>
#include <vector>

using namespace octavo;
using namespace octavo::agents;

namespace {

const char* const words[] = {"scheduler", "buffer", "cache",  "token", "commit", "thread",  "queue",  "parser",
                             "header",    "kernel", "stream", "page",  "sketch", "verify", "prefix", "mailbox"};

/// About 120 words, told apart by `seed`.
QString text(unsigned seed)
{
    QString out = QStringLiteral("Message %1. ").arg(seed);
    for (int i = 0; i < 120; ++i) {
        seed = seed * 1664525u + 1013904223u;
        out += QLatin1String(words[(seed >> 16) % std::size(words)]) + QStringLiteral("_%1 ").arg((seed >> 8) % 997);
    }
    return out;
}

Result<void> fill(SessionStore& store)
{
    qint64 id = 0;
    const auto add = [&](ConversationId conversation, int messages) -> Result<void> {
        StoredConversation stored;
        stored.id = conversation;
        stored.title = QStringLiteral("Session %1").arg(qint64(conversation));
        stored.lastUsed = QDateTime::currentDateTimeUtc();
        OCTAVO_CHECK(store.addConversation(stored));
        QList<StoredMessage> all;
        for (int i = 0; i < messages; ++i) {
            StoredMessage message;
            message.message.id = MessageId(++id);
            message.message.role = i % 2 ? MessageRole::Assistant : MessageRole::User;
            message.message.text = text(unsigned(id));
            message.message.time = QDateTime::currentDateTimeUtc();
            all.append(message);
        }
        return store.addMessages(conversation, all);
    };
    return store.database().transaction([&]() -> Result<void> {
        for (int i = 1; i <= 400; ++i)
            OCTAVO_CHECK(add(ConversationId(i), 20));
        return add(ConversationId(1000), 2000);
    });
}

} // namespace

int main(int argc, char** argv)
{
    const QCoreApplication app(argc, argv);
    const QTemporaryDir folder;
    auto store = SessionStore::open(folder.filePath(QStringLiteral("bench.db")));
    if (!store) {
        std::fprintf(stderr, "%s\n", store.error().message.c_str());
        return 1;
    }
    if (const Result<void> filled = fill(*store); !filled) {
        std::fprintf(stderr, "%s\n", filled.error().message.c_str());
        return 1;
    }
    const char* const queries[] = {"message", "scheduler", "kernel_5", "mailbox_123 prefix", "session", "nowhere"};
    QElapsedTimer clock;
    for (const char* query : queries) {
        std::vector<double> times;
        qsizetype found = 0;
        for (int i = 0; i < 20; ++i) {
            clock.start();
            const auto result = store->search(QString::fromLatin1(query));
            times.push_back(double(clock.nsecsElapsed()) * 1e-6);
            found = result ? result->size() : -1;
        }
        std::sort(times.begin(), times.end());
        std::printf("search of 10,000 messages for '%s': %lld conversations, median %.1f ms, slowest %.1f ms\n", query,
                    static_cast<long long>(found), times[times.size() / 2], times.back());
    }
    clock.start();
    const auto messages = store->messages(ConversationId(1000));
    std::printf("a conversation of %lld messages from the file: %.1f ms\n",
                static_cast<long long>(messages ? messages->size() : -1), double(clock.nsecsElapsed()) * 1e-6);
    return 0;
}
