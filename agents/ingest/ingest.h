#pragma once

/// Reads what a commit holds and decides, file by file, what goes into a context and why the rest does not.

#include "agents/prompt/prompt_builder.h"
#include "agents/values.h"

#include <QHash>

#include <atomic>
#include <functional>

namespace octavo::agents {

/// Token counts of blobs, kept between ingestions: counting is the slow part. Thread: any.
class TokenCountCache
{
public:
    virtual ~TokenCountCache() = default;
    /// Counts that are known, by blob id; unknown ids are left out.
    virtual QHash<QByteArray, qint64> find(const QList<QByteArray>& blobIds) = 0;
    /// Keeps counts; returns at once. Called every few hundred files, so that a broken-off count is not lost.
    virtual void keep(const QHash<QByteArray, qint64>& counts) = 0;
};

struct IngestServices {
    const PromptBuilder* prompt = nullptr;
    TokenCountCache* cache = nullptr;                    ///< may be null
    std::function<void(const IngestProgress&)> progress; ///< at most some 20 times a second; may be empty
    const std::atomic<bool>* cancel = nullptr;           ///< looked at between files and inside each
    qint64 contextLimit = 0;                             ///< of the model
};

/// Room that a default budget leaves for questions and answers.
qint64 answerRoom(qint64 contextLimit);

/// Lists and counts the files of `options.ref`. Only the commit is read, never the working folder.
///
/// Every leaf of the tree ends up in `packed` (in the order of file_order.h) or in `skipped` with a reason.
/// Errors   RepositoryInvalid, FileUnreadable, NotFound (no such ref, or no commits yet), InvalidArgument (a glob),
///          ContextFull (the budget does not hold the bare scaffold), Cancelled.
Result<IngestResult> ingest(const IngestOptions& options, const IngestServices& services);

} // namespace octavo::agents
