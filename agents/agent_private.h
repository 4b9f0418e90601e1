#pragma once

/// The inside of an Agent; included by agent*.cpp and workbench*.cpp only.

#include "agents/agent.h"
#include "agents/answer_stream.h"
#include "agents/citations/citation_scanner.h"
#include "agents/context_data.h"
#include "agents/poster.h"
#include "agents/store/session_store.h"

#include <QElapsedTimer>
#include <QHash>

#include <deque>

namespace octavo::agents {

/// An answer being made. Its phases: the question is stored; its context is read; the engine writes; citations of the
/// last lines are looked up. Replaced as a whole, so that what belongs to an older one is known by its serial.
struct AnswerRun {
    quint64 serial = 0;
    MessageId answer{};
    engine::RequestId request{};
    bool submitted = false;
    bool stopping = false;  ///< by the user: text that still comes is dropped
    bool finishing = false; ///< the engine is done with it
    bool continues = false;                   ///< the answer had text already
    bool scanned = false;                     ///< citations of the text so far were asked for
    bool waitsForContext = false;
    std::unique_ptr<AnswerStream> stream;
    std::shared_ptr<CitationScanner> scanner; ///< used on the citation thread only
    QString unsavedText;
    std::vector<engine::TokenId> unsavedIds;
    std::deque<std::pair<qint64, int>> recent; ///< (ms, tokens) of the last second
    QElapsedTimer clock;
    qint64 readStartMs = -1, readStartDone = 0;
    qint64 hotHits = -1, hotMisses = -1; ///< of the device, when last looked at
    /// Set when the engine is done.
    MessageState outcome = MessageState::Complete;
    QString problem;
};

/// A message as the engine sees it, its scaffold included.
PromptBuilder::Ids turnIds(const PromptBuilder& prompt, const Message& message,
                           const std::vector<engine::TokenId>& answerIds);

using TurnIds = QHash<MessageId, PromptBuilder::Ids>;
/// turnIds() of each; slow for long conversations, so it is done off the GUI thread where many come at once.
TurnIds turnsOf(const PromptBuilder& prompt, const QList<StoredMessage>& messages);

struct Agent::Private {
    /// What a new answer takes the place of.
    enum class Replaces { Nothing, LastAnswer, LastTurn };
    /// A long question whose tokens are being counted: nothing of it is shown or stored yet.
    struct Counted {
        quint64 serial = 0;
        QString question;
        Replaces replaces = Replaces::Nothing;
    };

    Workbench* workbench = nullptr;
    Agent* q = nullptr;
    int index = 0;
    QString name;
    ContextId context{};
    ConversationId conversation{};
    QList<Message> messages;
    QHash<MessageId, std::vector<engine::TokenId>> ids; ///< of answers
    TurnIds turns;                                      ///< made once per message, as far as they were needed
    QString draft;
    bool draftDirty = false;
    bool attended = false;
    AgentStatus status;
    quint64 nextSerial = 1;
    quint64 opening = 0; ///< serial of the newest openConversation()
    std::unique_ptr<AnswerRun> run;
    std::optional<Counted> counted;
    std::unique_ptr<Poster> poster;

    bool busy() const { return counted || (run && !run->stopping); }
    int priority() const; ///< of its next request
    Message* message(MessageId id);

    Result<void> begin(const QString& question, Replaces replaces);
    void begin(const QString& question, Replaces replaces, const PromptBuilder::Ids& questionIds, qint64 promptTokens);
    void questionCounted(quint64 serial, const Result<PromptBuilder::Ids>& ids);
    Result<qint64> roomUsed(qsizetype keptMessages);
    Result<qint64> checkRoom(qint64 questionTokens, qsizetype keptMessages);
    PromptBuilder::Ids conversationIds(qsizetype numMessages);
    void proceed(quint64 serial); ///< the question is stored
    void start(AnswerRun&& prepared, qint64 promptTokens);
    void contextRead(quint64 serial, const Result<void>& result);
    void submit();
    void take(quint64 serial, StreamBatch&& batch);
    void appendText(const QString& text, std::vector<engine::TokenId> ids);
    void postCitations(const QString& text, bool last);
    void engineDone(MessageState outcome, const QString& problem, const AnswerFigures& figures);
    void finish();  ///< the message and its citations are complete
    void flush();   ///< text since the last flush goes to the store
    void abandon(); ///< stops without waiting; the message ends as Stopped
    void setActivity(Activity activity);
    void updateStatus();
    void readMetrics();
    void emitStatus();
    void showConversation(ConversationId id, QList<StoredMessage> stored, TurnIds known);
    void fill(QList<StoredMessage> stored); ///< messages and what was written for them
    void countTurns(TurnIds known);         ///< into status.contextTokens
    void forget(MessageId message);
    void reset(ContextId context);
    void savePane();
    void takeLatePane(const StoredPane& pane); ///< what was kept of it, found only now
    QString defaultName() const;
    QString nameFrom(const QString& kept) const; ///< as the store has it: empty for one that was given none
    StoredPane pane() const;
    QList<StoredMessage> storedMessages() const; ///< as the store holds them once all writes are through
};

} // namespace octavo::agents
