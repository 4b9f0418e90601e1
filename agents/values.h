#pragma once

/// Plain values that the agents layer hands to the interface and the command line. No threads, no behaviour.

#include "engine/engine.h"

#include <QByteArray>
#include <QDateTime>
#include <QList>
#include <QString>

#include <cstdint>

namespace octavo::agents {

enum class ContextId : qint64 {};
enum class ConversationId : qint64 {};
enum class MessageId : qint64 {};

/// A file of a commit that was packed into a context. Paths are bytes; displayPath is escaped for people and prompts.
struct PackedFile {
    QByteArray path;
    QString displayPath;
    QByteArray blobId;   ///< hex
    qint64 bytes = 0;
    qint64 tokens = 0;   ///< of its text and its header line, exactly as sent
};

/// A file that was left out, and why, in words ("binary", "link to ../x", "submodule, not fetched").
struct SkippedFile {
    QByteArray path;
    QString displayPath;
    QString reason;
};

struct IngestOptions {
    QString repository;      ///< path of a work tree, bare repository or linked worktree
    QString ref;             ///< branch, tag or commit; empty: HEAD
    QStringList include;     ///< globs; empty: all
    QStringList exclude;
    QList<QByteArray> unchecked; ///< paths the user unticked
    bool trusted = false;    ///< read it although it belongs to another user
    qint64 tokenBudget = 0;  ///< 0: the model's context limit less room for answers
    bool uncut = false;      ///< count every file, whatever fits: for choosing among them
};

/// What a commit would read as. packed + skipped = filesTotal, always.
struct IngestResult {
    QString repositoryName;
    QString repositoryPath;
    QString ref;             ///< as resolved ("main", "v1.2")
    QString commit;          ///< hex
    QString commitSubject;
    QDateTime commitTime;
    qint64 filesTotal = 0;
    QList<PackedFile> packed;
    QList<SkippedFile> skipped;
    qint64 tokens = 0;       ///< of the whole context, scaffold included
    int filesWithSpecialText = 0; ///< files holding special-token text, read as plain text
};

/// Where an ingestion stands. total is 0 while it is not known.
struct IngestProgress {
    QString stage;           ///< "Listing files", "Counting tokens"
    QString current;         ///< path in hand
    qint64 done = 0, total = 0;
    double secondsLeft = -1; ///< negative: not known yet
};

enum class ContextState { Preparing, Ready, Reading, Read, Failed };

/// A repository at one commit, as the list on the left shows it.
struct ContextInfo {
    ContextId id{};
    QString name, repositoryPath, ref, commit;
    qint64 tokens = 0;
    int files = 0, skipped = 0;
    ContextState state = ContextState::Preparing;
    qint64 readDone = 0, readTotal = 0; ///< Ready with readDone above 0: reading stopped there, and goes on about there
    qint64 readReused = 0;   ///< of readDone, what was read before and needed no reading now
    double secondsLeft = -1;
    int panes = 0;           ///< panes that use it
    QString problem;         ///< with Failed: one sentence
};

enum class CitationKind { Path, Quote };
enum class CitationState {
    Verified,   ///< path exists, quoted code stands there
    Elsewhere,  ///< the quote exists, but in another file than the answer says; `path` is the right one
    Unverified, ///< found nowhere in the context
};

/// A path, a fenced code block or a quote behind a path in its line, of an answer, looked up in the ingested blobs.
struct Citation {
    CitationKind kind = CitationKind::Path;
    CitationState state = CitationState::Unverified;
    QByteArray path;         ///< empty when unverified
    QString displayPath;
    int line = 0;            ///< 1-based first line, 0: the file as a whole
    int lastLine = 0;
    int textStart = 0;       ///< UTF-16 offset of the cited span in the answer
    int textLength = 0;
};

struct AnswerFigures {
    qint64 promptTokens = 0, reusedTokens = 0, newTokens = 0, acceptedDrafts = 0;
    double ttftMs = -1, tokensPerSecond = -1, worstGapMs = -1; ///< negative: not known
};

enum class MessageRole { User, Assistant };
enum class MessageState {
    Pending,     ///< an answer that is queued, reading or being written
    Complete,
    Stopped,     ///< by the user; text kept
    ContextFull, ///< ended because the context was full; text kept
    LengthLimit,
    Interrupted, ///< the program ended in mid-answer; text kept
    Failed,      ///< `problem` says why; text kept
    Repeated,    ///< ended because it began to repeat itself; text kept
};

/// Whether an answer in this state can go on where it ended.
inline bool endedEarly(MessageState state)
{
    return state == MessageState::Stopped || state == MessageState::Interrupted || state == MessageState::LengthLimit;
}

struct Message {
    MessageId id{};
    MessageRole role = MessageRole::User;
    MessageState state = MessageState::Complete;
    QString text;            ///< content, never markup; answers are Markdown by convention
    QString problem;
    QList<Citation> citations;
    AnswerFigures figures;
    QDateTime time;
};

/// What a pane does now.
enum class Activity { Idle, Queued, Reading, Writing, Stopping };
enum class Outcome { None, Done, Stopped, Failed };

struct AgentStatus {
    Activity activity = Activity::Idle;
    Outcome outcome = Outcome::None;   ///< of the last question
    qint64 readDone = 0, readTotal = 0;
    double readTokensPerSecond = -1;
    double secondsLeft = -1;
    double tokensPerSecond = -1;       ///< while writing, over the last second
    double hitRate = -1;               ///< hot buffer, 0..1; negative: not in use
    qint64 contextTokens = 0, contextLimit = 0;
    QString device;
    QString problem;                   ///< with Failed: what happened, how much was missing, what to do
};

/// A conversation in the history list.
struct ConversationInfo {
    ConversationId id{};
    QString title;
    QString contextName;
    QDateTime lastUsed;
    int messages = 0;
    int pane = -1;           ///< shown in this pane now; -1: none
};

} // namespace octavo::agents

Q_DECLARE_METATYPE(octavo::Error)
Q_DECLARE_METATYPE(octavo::agents::AgentStatus)
Q_DECLARE_METATYPE(octavo::agents::ContextInfo)
Q_DECLARE_METATYPE(octavo::agents::Message)
