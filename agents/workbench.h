#pragma once

/// The whole program without a window: the engine, eight agents, contexts, the session store and the threads they use.
///
/// Thread   lives in the GUI thread; members return at once, answers come as signals or futures.

#include "agents/agent.h"
#include "agents/ingest/ingest_change.h"
#include "agents/ingest_job.h"
#include "agents/values.h"

#include <QFuture>
#include <QObject>

#include <filesystem>
#include <memory>
#include <utility>

namespace octavo::agents {

inline constexpr int numAgents = 8;

struct WorkbenchOptions {
    engine::EngineOptions engine;
    QString databasePath;                 ///< empty: in memory
    engine::SamplingParams sampling;
    int maxNewTokens = 1024;
    /// Guess tokens ahead, copied from the context or by the model's MTP layer; see engine::GenerationRequest.
    bool lookupDrafts = true, mtpDrafts = true;
    QString agentName = QStringLiteral("Agent %1"); ///< of agents without a name of their own; %1: 1 to 8
};

/// What came of a question to all agents that have a context.
struct AskedAll {
    int asked = 0;                        ///< took it
    QList<std::pair<int, Error>> refused; ///< index of an agent, and why it did not
};

/// A file of a context's commit, for the source viewer.
struct SourceText {
    QString displayPath, commit, text;
};

class Workbench final : public QObject
{
    Q_OBJECT
    Q_DISABLE_COPY_MOVE(Workbench)

public:
    explicit Workbench(WorkbenchOptions options, QObject* parent = nullptr);
    /// For tests: an engine of the caller's (a fake one, say) instead of a loaded model.
    Workbench(WorkbenchOptions options, std::unique_ptr<engine::Engine> engine, QObject* parent = nullptr);
    ~Workbench() override;

    /// Opens the store and loads the model in the background; ready() or failed() follows.
    void start();
    bool isReady() const;
    engine::ModelInfo model() const;      ///< valid once ready

    /// Why a device has stopped working; empty while all work. What ran there has failed, its text is kept.
    QString deviceProblem() const;
    /// Loads the model again in the background on the devices that have failed; contexts in use are read anew.
    /// deviceChanged() follows.
    void reload();
    bool isReloading() const;

    Agent* agent(int index) const;        ///< 0 .. numAgents - 1, valid once ready
    QList<ContextInfo> contexts() const;

    /// Lists and counts what a commit would read as; nothing is kept.
    IngestJob* preview(const IngestOptions& options);
    /// Turns a preview into a context and has the engine read it; contextChanged() tells how far it is.
    ContextId addContext(const IngestOptions& options, const IngestResult& result);
    /// Reading goes on in the background; cancel keeps the context, unread.
    void cancelReading(ContextId context);
    /// Reads a context that is not read: one that was cancelled, failed or comes from an earlier session.
    void readContext(ContextId context);
    void removeContext(ContextId context);
    QList<PackedFile> packedFiles(ContextId context) const;
    QList<SkippedFile> skippedFiles(ContextId context) const;
    /// How it was ingested: preview() of these (with another ref, say) shows what an update would read.
    IngestOptions ingestOptions(ContextId context) const;
    IngestChange changeSince(ContextId context, const IngestResult& newer) const;
    QFuture<Result<SourceText>> source(ContextId context, const QByteArray& path);

    /// How answers are drawn from the next question on.
    engine::SamplingParams sampling() const;
    int maxNewTokens() const;
    void setSampling(const engine::SamplingParams& sampling, int maxNewTokens);
    bool lookupDrafts() const;
    bool mtpDrafts() const;
    void setDrafts(bool lookup, bool mtp);

    /// Where contexts that were read are kept; see saved_contexts.h. Empty: nowhere.
    std::filesystem::path savedContextsFolder() const;

    /// Puts `question` to every agent that has a context; those that are busy refuse.
    AskedAll askAll(const QString& question);

    QList<ConversationInfo> conversations() const; ///< newest first
    QFuture<QList<ConversationInfo>> search(const QString& text);
    void renameConversation(ConversationId conversation, const QString& title);
    void deleteConversation(ConversationId conversation);  ///< hidden at once, gone when the program ends
    void undoDelete(ConversationId conversation);

    engine::MetricsSnapshot metrics() const;
    /// Small settings of the interface (geometry, grid, theme), kept in the store. Values are read at start().
    QString setting(const QString& key) const;
    void setSetting(const QString& key, const QString& value);

signals:
    void loadProgress(const QString& stage, qint64 done, qint64 total);
    /// setting() gives what was kept: the store is read, long before a large model is.
    void settingsRead();
    void ready();
    void failed(const octavo::Error& error);
    void contextAdded(const octavo::agents::ContextInfo& context);
    void contextChanged(const octavo::agents::ContextInfo& context);
    void contextRemoved(octavo::agents::ContextId context);
    void conversationsChanged();
    /// Saving fails (disk full, ...): `problem` is a sentence; empty once it works again.
    void saveProblem(const QString& problem);
    /// deviceProblem() or isReloading() changed.
    void deviceChanged();

private:
    friend class Agent;
    struct Private;
    std::unique_ptr<Private> d;
};

} // namespace octavo::agents

Q_DECLARE_METATYPE(octavo::agents::ContextId)
