#include "agents/ingest/clone_job.h"

#include "agents/ingest/repository.h"
#include "engine/backend/guarded.h"

#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QFileInfo>
#include <QFutureInterface>
#include <QFutureWatcher>
#include <QPromise>
#include <QTimer>

#include <git2.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <system_error>
#include <thread>

namespace octavo::agents {

namespace {

constexpr qint64 progressIntervalMs = 50;
constexpr int interruptIntervalMs = 20;
constexpr int interruptsAtTheEnd = 50;

/// What the thread and the job share; the thread may outlive the job.
struct CloneState {
    std::atomic<bool> cancelled{false};
    std::atomic<bool> ended{false};
    std::function<void(const IngestProgress&)> report;
    QElapsedTimer clock;
    qint64 lastReportMs = -progressIntervalMs;
    bool triedAgent = false;
};

void report(CloneState& state, const IngestProgress& progress)
{
    const qint64 now = state.clock.elapsed();
    if (now - state.lastReportMs < progressIntervalMs && progress.done < progress.total)
        return;
    state.lastReportMs = now;
    state.report(progress);
}

int onTransfer(const git_indexer_progress* stats, void* payload)
{
    auto& state = *static_cast<CloneState*>(payload);
    IngestProgress progress;
    progress.stage = QStringLiteral("Receiving objects");
    progress.current = QStringLiteral("%1 MiB").arg(double(stats->received_bytes) / (1024 * 1024), 0, 'f', 1);
    progress.done = stats->received_objects;
    progress.total = stats->total_objects;
    if (stats->received_objects == stats->total_objects && stats->total_deltas > 0) {
        progress.stage = QStringLiteral("Resolving deltas");
        progress.done = stats->indexed_deltas;
        progress.total = stats->total_deltas;
    }
    const double seconds = double(state.clock.elapsed()) / 1000.0;
    if (progress.done > 0 && seconds > 1)
        progress.secondsLeft = seconds * double(progress.total - progress.done) / double(progress.done);
    report(state, progress);
    return state.cancelled.load(std::memory_order_relaxed) ? GIT_EUSER : 0;
}

int onSideband(const char*, int, void* payload)
{
    return static_cast<CloneState*>(payload)->cancelled.load(std::memory_order_relaxed) ? GIT_EUSER : 0;
}

void onCheckout(const char* path, size_t done, size_t total, void* payload)
{
    IngestProgress progress;
    progress.stage = QStringLiteral("Writing files");
    progress.current = QString::fromUtf8(path);
    progress.done = qint64(done);
    progress.total = qint64(total);
    report(*static_cast<CloneState*>(payload), progress);
}

int onCredentials(git_credential** out, const char*, const char* user, unsigned int allowed, void* payload)
{
    auto& state = *static_cast<CloneState*>(payload);
    if (allowed & GIT_CREDENTIAL_USERNAME)
        return git_credential_username_new(out, user != nullptr ? user : "git");
    // Asked again means refused: a second try would go on for ever.
    if ((allowed & GIT_CREDENTIAL_SSH_KEY) && !state.triedAgent) {
        state.triedAgent = true;
        return git_credential_ssh_key_from_agent(out, user != nullptr ? user : "git");
    }
    git_error_set_str(GIT_ERROR_CALLBACK, (allowed & GIT_CREDENTIAL_SSH_KEY)
                                              ? "the server accepted no key of the ssh agent"
                                              : "it asks for a password; only public repositories and ssh keys work");
    return GIT_EAUTH;
}

Result<IngestResult> clone(const QString& url, const QString& folder, CloneState& state)
{
    const bool existed = QFileInfo::exists(folder);
    if (existed && !QDir(folder).isEmpty())
        return Error{ErrorCode::FileUnwritable, folder.toStdString() + " exists already and is not empty"};
    git_libgit2_init();
    git_clone_options options;
    git_clone_options_init(&options, GIT_CLONE_OPTIONS_VERSION);
    options.fetch_opts.callbacks.transfer_progress = onTransfer;
    options.fetch_opts.callbacks.sideband_progress = onSideband;
    options.fetch_opts.callbacks.credentials = onCredentials;
    options.fetch_opts.callbacks.payload = &state;
    options.checkout_opts.checkout_strategy = GIT_CHECKOUT_SAFE;
    options.checkout_opts.progress_cb = onCheckout;
    options.checkout_opts.progress_payload = &state;
    git_repository* raw = nullptr;
    const int rc = git_clone(&raw, url.toUtf8().constData(), QFile::encodeName(folder).constData(), &options);
    git_repository_free(raw);
    const git_error* error = rc < 0 ? git_error_last() : nullptr;
    const std::string why = error != nullptr && error->message != nullptr ? error->message : "no reason given";
    git_libgit2_shutdown();
    if (rc < 0 || state.cancelled.load(std::memory_order_relaxed)) {
        if (!existed)
            QDir(folder).removeRecursively();
        if (state.cancelled.load(std::memory_order_relaxed))
            return Error{ErrorCode::Cancelled, "cloning was cancelled"};
        return Error{ErrorCode::RepositoryInvalid, url.toStdString() + " could not be cloned: " + why};
    }
    OCTAVO_TRY(const Repository repository, Repository::open(folder));
    IngestResult result;
    result.repositoryPath = repository.path();
    result.repositoryName = repository.name();
    return result;
}

class CloneJob final : public IngestJob
{
public:
    CloneJob(const QString& url, const QString& folder, QObject* parent)
        : IngestJob(parent)
        , m_state(std::make_shared<CloneState>())
    {
        // The thread speaks through the watcher's future, which dies quietly with this object.
        const auto sink = std::make_shared<QFutureInterface<IngestProgress>>();
        sink->reportStarted();
        m_state->report = [sink](const IngestProgress& progress) { sink->reportResult(progress); };
        connect(&m_progress, &QFutureWatcher<IngestProgress>::resultReadyAt, this,
                [this](int index) { emit progress(m_progress.resultAt(index)); });
        m_progress.setFuture(sink->future());
        m_state->clock.start();
        auto promise = std::make_shared<QPromise<Result<IngestResult>>>();
        promise->start();
        promise->future().then(this, [this](const Result<IngestResult>& result) {
            // Queued: a clone that fails at once would else end before anyone has connected.
            QMetaObject::invokeMethod(
                this,
                [this, result] {
                    if (result)
                        emit finished(*result);
                    else
                        emit failed(result.error());
                },
                Qt::QueuedConnection);
        });
        const auto end = [state = m_state, sink, promise](Result<IngestResult> result) {
            sink->reportFinished();
            promise->addResult(std::move(result));
            promise->finish();
            state->ended = true;
        };
        try {
            m_thread = std::thread([url, folder, state = m_state, end] {
                auto cloned = engine::guarded("a repository was cloned", [&] { return clone(url, folder, *state); });
                end(std::move(cloned));
            });
        } catch (const std::system_error&) {
            end(Error{ErrorCode::OutOfMemory, "no thread could be started to clone with"});
        }
        connect(&m_interrupts, &QTimer::timeout, this, [this] { interrupt(); });
    }

    ~CloneJob() override
    {
        m_state->cancelled = true;
        for (int i = 0; i < interruptsAtTheEnd && !m_state->ended; ++i) {
            interrupt();
            std::this_thread::sleep_for(std::chrono::milliseconds(interruptIntervalMs));
        }
        if (m_state->ended && m_thread.joinable())
            m_thread.join();
        else if (m_thread.joinable())
            m_thread.detach(); // looking up a name, say: it ends by itself, or with the program
    }

    void cancel() override
    {
        m_state->cancelled = true;
        m_interrupts.start(interruptIntervalMs);
    }

private:
    /// libgit2 waits for a server's next word without a limit and asks nobody meanwhile. A signal ends that wait; one
    /// that comes a moment before the wait is lost, so there are several.
    void interrupt()
    {
        if (m_state->ended || !m_thread.joinable()) {
            m_interrupts.stop();
            return;
        }
        static const bool handled = [] {
            struct sigaction action {};
            action.sa_handler = [](int) {}; // without SA_RESTART: the call that waits fails
            return sigaction(SIGURG, &action, nullptr) == 0;
        }();
        if (handled)
            pthread_kill(m_thread.native_handle(), SIGURG);
    }

    std::shared_ptr<CloneState> m_state;
    QFutureWatcher<IngestProgress> m_progress;
    QTimer m_interrupts;
    std::thread m_thread;
};

} // namespace

QString folderOfUrl(const QString& url)
{
    QString name = url.trimmed();
    while (name.endsWith(u'/'))
        name.chop(1);
    if (name.endsWith(QStringLiteral("/.git")))
        name.chop(5);
    name = name.mid(std::max(name.lastIndexOf(u'/'), name.lastIndexOf(u':')) + 1);
    if (name.endsWith(QStringLiteral(".git")))
        name.chop(4);
    return name == QStringLiteral(".") || name == QStringLiteral("..") ? QString() : name;
}

IngestJob* cloneRepository(const QString& url, const QString& folder, QObject* parent)
{
    return new CloneJob(url, folder, parent);
}

} // namespace octavo::agents
