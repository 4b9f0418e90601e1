#pragma once

/// The inside of a Workbench; included by agent*.cpp and workbench*.cpp only.

#include "agents/agent_private.h"
#include "agents/store/store_thread.h"
#include "agents/stored_token_counts.h"
#include "agents/workbench.h"

#include <QThreadPool>
#include <QTimer>

#include <array>
#include <future>
#include <map>
#include <set>

namespace octavo::agents {

/// Of requests; the smaller goes first. The pane that the user looks at, other panes, contexts that nobody waits for.
inline constexpr int attendedPriority = 0, questionPriority = 5, backgroundPriority = 10;

/// A context with what is running for it.
struct ContextEntry {
    ContextInfo info;
    StoredContext stored;
    std::shared_ptr<const ContextData> data; ///< null while Preparing, or when that failed
    std::shared_ptr<std::atomic<bool>> cancelBuild = std::make_shared<std::atomic<bool>>(false);
    std::unique_ptr<AnswerStream> reading;
    engine::RequestId request{};
    bool readForItself = false;             ///< asked for by the user, not only by waiting questions
    QList<std::pair<int, quint64>> waiting; ///< (agent, serial) of questions held until it is read
    QElapsedTimer clock;
    qint64 firstDone = -1;
};

/// What a pane showed of a conversation when it left it.
struct LeftConversation {
    quint64 serial = 0;
    QList<StoredMessage> messages;
};

struct Workbench::Private {
    explicit Private(Workbench* workbench)
        : q(workbench)
        , poster(workbench)
    {
    }

    Workbench* q;
    Poster poster;
    WorkbenchOptions options;
    std::atomic<bool> closing = false;
    bool started = false, isReady = false, stateLoaded = false;

    std::unique_ptr<StoreThread> store;
    std::unique_ptr<engine::Engine> engine;
    std::unique_ptr<PromptBuilder> prompt;
    std::unique_ptr<StoredTokenCounts> counts;
    std::thread loader;
    QThreadPool ingestPool;   ///< listing, counting, building contexts
    QThreadPool citationPool; ///< one thread, so that an answer's lines stay in order; counts long questions too

    QHash<QString, QString> settings;
    QList<StoredConversation> conversations; ///< newest first
    QList<StoredConversation> deleted;       ///< may come back until the program ends
    /// Conversations of which the store may not have written all yet: it would read less than was shown.
    std::map<ConversationId, LeftConversation> left;
    quint64 lastLeft = 0;
    std::map<ContextId, ContextEntry> contexts;
    std::array<Agent*, numAgents> agents{};
    QList<StoredPane> panes;
    QHash<int, QList<StoredMessage>> paneMessages; ///< until the agents exist
    QHash<QString, QList<std::pair<int, quint64>>> counting; ///< long questions: (agent, serial) of who asks them
    qint64 longestToken = 1;                                 ///< bytes
    qint64 lastContext = 0, lastConversation = 0, lastMessage = 0;
    bool standIn = false;    ///< the store's file could not be opened yet
    quint64 stateRound = 0;  ///< of the store's states that came
    QTimer flushTimer, statusTimer;
    QString deviceProblem; ///< what is shown: deviceFailure, or why reloading it failed
    QString deviceFailure; ///< as the engine last had it
    bool isReloading = false;

    void openStore();
    void takeState(SessionState&& state);
    void takeLateState(SessionState&& state);
    void takeContext(StoredContext&& stored);
    void loadEngine();
    void engineLoaded(Result<std::unique_ptr<engine::Engine>> result, qint64 longest);
    void becomeReady();
    void watchDevices();
    void reloaded(const Result<void>& result);
    void tick();

    ContextEntry* entry(ContextId id);
    void build(ContextId id, bool readThen);
    void startReading(ContextEntry& entry);
    void takeReading(ContextId id, StreamBatch&& batch);
    void changed(ContextEntry& entry);
    /// Kept until reading ended one way or the other, so that the next start takes up what this one leaves undone.
    void keepWanted(ContextId id, bool wanted);
    bool isWanted(ContextId id) const;
    void readEnded(ContextEntry& entry, const Result<void>& result);
    /// Calls agent.contextRead(serial) now or once `id` is read; reading starts where it has not.
    void waitForContext(ContextId id, int agent, quint64 serial);
    void stopWaiting(ContextId id, int agent);
    void stopReading(ContextEntry& known);
    /// Of reading it: that of the most urgent question that waits.
    int readingPriority(const ContextEntry& known) const;
    void countPanes();
    /// Calls agent.questionCounted(serial, ids) when they are known; once for all who ask the same.
    void count(const QString& question, int agent, quint64 serial);

    void keepConversation(const StoredConversation& conversation); ///< new or changed: to the top
    void touchConversation(ConversationId id, int messages);
    /// Keeps `messages` until all that was written of them is in the store.
    void leave(ConversationId id, QList<StoredMessage> messages);
    QList<ConversationInfo> infos(const QList<StoredConversation>& list) const;
    void write(StoreThread::Write write, std::function<void(bool)> attempted = {});
};

} // namespace octavo::agents
