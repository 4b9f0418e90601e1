#include "agents/ingest/ingest.h"

#include "agents/ingest/file_order.h"
#include "agents/ingest/file_text.h"
#include "agents/ingest/glob.h"
#include "agents/ingest/path_text.h"
#include "agents/ingest/repository.h"
#include "engine/counted.h"

#include <QElapsedTimer>
#include <QSet>

#include <algorithm>
#include <limits>

namespace octavo::agents {

namespace {

constexpr qint64 progressIntervalMs = 50;
constexpr int cacheBatch = 256;
constexpr qint64 leastRoom = 1024; // that no budget may take from questions and answers
constexpr int maxMisfits = 200; // after so many files in a row that did not fit, the budget counts as spent

Error cancelled()
{
    return Error{ErrorCode::Cancelled, "reading the repository was cancelled"};
}

bool isCancelled(const IngestServices& services)
{
    return services.cancel != nullptr && services.cancel->load(std::memory_order_relaxed);
}

std::string utf8(const QString& text)
{
    return text.toStdString();
}

class Progress
{
public:
    Progress(const IngestServices& services, QString stage, qint64 total, qint64 totalBytes)
        : m_services(services)
        , m_totalBytes(totalBytes)
    {
        m_now.stage = std::move(stage);
        m_now.total = total;
        m_clock.start();
        emitNow();
    }

    void begin(const QString& path)
    {
        m_now.current = path;
        if (m_clock.elapsed() - m_lastMs >= progressIntervalMs)
            emitNow();
    }

    void done(qint64 bytes)
    {
        ++m_now.done;
        m_doneBytes += bytes;
    }

    void finish() { emitNow(); }

private:
    void emitNow()
    {
        m_lastMs = m_clock.elapsed();
        if (m_doneBytes > 0 && m_lastMs > 500)
            m_now.secondsLeft = double(m_totalBytes - m_doneBytes) / double(m_doneBytes) * double(m_lastMs) / 1000.0;
        if (m_services.progress)
            m_services.progress(m_now);
    }

    const IngestServices& m_services;
    IngestProgress m_now;
    QElapsedTimer m_clock;
    qint64 m_lastMs = 0, m_doneBytes = 0, m_totalBytes;
};

struct Candidate {
    TreeEntry entry;
    qint64 bytes = 0;
    int budgetClass = 0;
};

class Ingestion
{
public:
    Ingestion(const IngestOptions& options, const IngestServices& services, Repository repository, GlobFilter filter)
        : m_options(options)
        , m_services(services)
        , m_repository(std::move(repository))
        , m_filter(std::move(filter))
        , m_unchecked(options.unchecked.begin(), options.unchecked.end())
    {
    }

    Result<IngestResult> run()
    {
        OCTAVO_TRY(const CommitInfo commit, m_repository.resolve(m_options.ref));
        m_result.repositoryName = m_repository.name();
        m_result.repositoryPath = m_repository.path();
        m_result.ref = commit.ref;
        m_result.commit = commit.id;
        m_result.commitSubject = commit.subject;
        m_result.commitTime = commit.time;
        m_result.tokens = m_services.prompt->scaffoldTokens(utf8(m_result.repositoryName));
        const qint64 limit = m_services.contextLimit;
        m_budget = m_options.tokenBudget > 0 ? std::min(m_options.tokenBudget, limit - std::min(limit / 8, leastRoom))
                                             : limit - answerRoom(limit);
        if (m_options.uncut)
            m_budget = std::numeric_limits<qint64>::max() / 2;
        if (m_result.tokens > m_budget)
            return Error{ErrorCode::ContextFull, "a budget of " + engine::counted(m_budget, "token") +
                                                     " holds no file: the frame alone takes " +
                                                     std::to_string(m_result.tokens) + "; allow more"};
        OCTAVO_CHECK(listFiles());
        OCTAVO_CHECK(countFiles());
        const auto place = [](const auto& a, const auto& b) {
            const int ca = placeClass(a.path), cb = placeClass(b.path);
            return ca != cb ? ca < cb : a.path < b.path;
        };
        std::sort(m_result.packed.begin(), m_result.packed.end(), place);
        std::sort(m_result.skipped.begin(), m_result.skipped.end(),
                  [](const SkippedFile& a, const SkippedFile& b) { return a.path < b.path; });
        return std::move(m_result);
    }

private:
    void skip(const QByteArray& path, const QString& reason)
    {
        m_result.skipped.append({path, displayPath(path), reason});
    }

    static QString unreadable(const Error& error)
    {
        if (error.code == ErrorCode::NotFound)
            return QStringLiteral("content not in this clone");
        return (error.code == ErrorCode::OutOfMemory ? QStringLiteral("not read for want of memory (%1)")
                                                     : QStringLiteral("damaged in this repository (%1)"))
            .arg(QString::fromStdString(error.message));
    }

    /// Why a leaf is not read at all; empty for a file to look into.
    QString rejection(const TreeEntry& entry)
    {
        if (m_unchecked.contains(entry.path))
            return QStringLiteral("left out by you");
        if (QString reason = m_filter.rejection(entry.path); !reason.isEmpty())
            return reason;
        if (entry.kind == TreeEntry::Kind::Submodule)
            return QStringLiteral("submodule, not fetched (at %1)").arg(QString::fromLatin1(entry.id.left(8)));
        if (entry.kind == TreeEntry::Kind::Link) {
            const auto target = m_repository.blob(entry.id);
            return target ? QStringLiteral("link to %1").arg(displayPath(target->left(200)))
                          : QStringLiteral("link, %1").arg(unreadable(target.error()));
        }
        return {};
    }

    Result<void> listFiles()
    {
        Progress progress(m_services, QStringLiteral("Listing files"), 0, 0);
        OCTAVO_TRY(const QList<TreeEntry> entries, m_repository.list(m_result.commit, m_services.cancel));
        m_result.filesTotal = entries.size();
        for (const TreeEntry& entry : entries) {
            if (isCancelled(m_services))
                return cancelled();
            if (const QString reason = rejection(entry); !reason.isEmpty()) {
                skip(entry.path, reason);
                continue;
            }
            const auto size = m_repository.blobSize(entry.id);
            if (!size)
                skip(entry.path, unreadable(size.error()));
            else if (*size > maxFileBytes)
                skip(entry.path, QStringLiteral("larger than %1 (%2)").arg(byteText(maxFileBytes), byteText(*size)));
            else
                m_candidates.append({entry, *size, budgetClass(entry.path)});
        }
        std::sort(m_candidates.begin(), m_candidates.end(), [](const Candidate& a, const Candidate& b) {
            return a.budgetClass != b.budgetClass ? a.budgetClass < b.budgetClass : a.entry.path < b.entry.path;
        });
        return {};
    }

    Result<void> countFiles()
    {
        qint64 totalBytes = 0;
        QList<QByteArray> ids;
        for (const Candidate& candidate : std::as_const(m_candidates)) {
            totalBytes += candidate.bytes;
            ids.append(candidate.entry.id);
        }
        if (m_services.cache != nullptr)
            m_known = m_services.cache->find(ids);
        Progress progress(m_services, QStringLiteral("Counting tokens"), m_candidates.size(), totalBytes);
        int misfits = 0;
        for (const Candidate& candidate : std::as_const(m_candidates)) {
            if (isCancelled(m_services))
                return cancelled();
            progress.begin(displayPath(candidate.entry.path));
            if (misfits >= maxMisfits)
                skip(candidate.entry.path, overBudget());
            else {
                const auto fits = take(candidate);
                if (!fits) {
                    keepCounts();
                    return fits.error();
                }
                misfits = *fits ? 0 : misfits + 1;
            }
            progress.done(candidate.bytes);
        }
        keepCounts();
        progress.finish();
        return {};
    }

    QString overBudget() const { return QStringLiteral("over the budget of %1 tokens").arg(m_budget); }

    /// Packs or lists one file; false: it was over the budget.
    Result<bool> take(const Candidate& candidate)
    {
        const QByteArray& path = candidate.entry.path;
        const auto content = m_repository.blob(candidate.entry.id);
        if (!content) {
            skip(path, unreadable(content.error()));
            return true;
        }
        if (const QString reason = rejectContent(*content); !reason.isEmpty()) {
            skip(path, reason);
            return true;
        }
        PackedFile file{path, displayPath(path), candidate.entry.id, candidate.bytes, 0};
        OCTAVO_TRY(file.tokens, count(file, *content));
        if (m_result.tokens + file.tokens > m_budget) {
            skip(path, overBudget());
            return false;
        }
        m_result.tokens += file.tokens;
        if (m_services.prompt->holdsSpecialText({content->constData(), std::size_t(content->size())}))
            ++m_result.filesWithSpecialText;
        m_result.packed.append(file);
        return true;
    }

    Result<qint64> count(const PackedFile& file, const QByteArray& content)
    {
        const PromptBuilder& prompt = *m_services.prompt;
        const std::string_view text(content.constData(), std::size_t(content.size()));
        const std::string header = utf8(file.displayPath);
        if (!PromptBuilder::standsAlone(text)) {
            const auto tokens = prompt.fileTokens(header, text, m_services.cancel);
            return tokens ? Result<qint64>(qint64(*tokens)) : cancelled();
        }
        auto known = m_known.constFind(file.blobId);
        if (known == m_known.constEnd()) {
            const auto tokens = prompt.textTokens(text, m_services.cancel);
            if (!tokens)
                return cancelled();
            known = m_known.insert(file.blobId, qint64(*tokens));
            m_new.insert(file.blobId, qint64(*tokens));
            if (m_new.size() >= cacheBatch)
                keepCounts();
        }
        return qint64(prompt.headerTokens(header)) + *known;
    }

    void keepCounts()
    {
        if (m_services.cache != nullptr && !m_new.isEmpty())
            m_services.cache->keep(m_new);
        m_new.clear();
    }

    const IngestOptions& m_options;
    const IngestServices& m_services;
    Repository m_repository;
    GlobFilter m_filter;
    QSet<QByteArray> m_unchecked;
    QList<Candidate> m_candidates;
    QHash<QByteArray, qint64> m_known, m_new;
    qint64 m_budget = 0;
    IngestResult m_result;
};

} // namespace

qint64 answerRoom(qint64 contextLimit)
{
    return std::min<qint64>(contextLimit / 8, 16'384);
}

Result<IngestResult> ingest(const IngestOptions& options, const IngestServices& services)
{
    OCTAVO_TRY(GlobFilter filter, GlobFilter::create(options.include, options.exclude));
    OCTAVO_TRY(Repository repository, Repository::open(options.repository, options.trusted));
    return Ingestion(options, services, std::move(repository), std::move(filter)).run();
}

} // namespace octavo::agents
