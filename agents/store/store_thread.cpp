#include "agents/store/store_thread.h"

#include <QDateTime>

#include <algorithm>
#include <utility>

namespace octavo::agents {

using Clock = std::chrono::steady_clock;

namespace {

QString lostWords(const Error& error)
{
    return QStringLiteral("something of this session is lost: ") + QString::fromStdString(error.message);
}

/// Opens the store at `path` into `store`; gives what it holds.
Result<SessionState> openAt(const QString& path, std::optional<SessionStore>& store)
{
    OCTAVO_TRY(SessionStore opened, SessionStore::open(path));
    OCTAVO_TRY(SessionState state, opened.load());
    store.emplace(std::move(opened));
    return state;
}

} // namespace

StoreThread::StoreThread(QString path, std::function<void(Result<SessionState>)> onLoaded,
                         std::function<void(const QString&)> onProblem)
    : m_onLoaded(std::move(onLoaded))
    , m_onProblem(std::move(onProblem))
    , m_thread([this, path = std::move(path)] { run(path); })
{
}

StoreThread::~StoreThread()
{
    {
        const std::lock_guard lock(m_mutex);
        m_stopping = true;
        m_deadline = Clock::now() + std::chrono::seconds(2);
    }
    m_wake.notify_one();
    m_thread.join();
}

void StoreThread::write(Write write, std::function<void(bool)> attempted)
{
    {
        const std::lock_guard lock(m_mutex);
        m_writes.push_back({std::move(write), std::move(attempted)});
    }
    m_wake.notify_one();
}

void StoreThread::read(Read read)
{
    {
        const std::lock_guard lock(m_mutex);
        m_reads.push_back(std::move(read));
    }
    m_wake.notify_one();
}

void StoreThread::afterWrites(std::function<void()> done)
{
    write({}, [done = std::move(done)](bool) { done(); });
}

void StoreThread::report(const QString& problem)
{
    if (problem != m_problem) {
        m_problem = problem;
        m_onProblem(problem);
    }
}

/// False: to be tried again.
bool StoreThread::perform(SessionStore& store, Job& job)
{
    const auto body = [&] { return job.write(store); };
    const Result<void> result = job.write ? store.database().transaction(body) : Result<void>();
    const bool retry = !result && Database::isTransient(result.error());
    if (!result && !retry)
        m_lost = lostWords(result.error());
    report(retry ? QString::fromStdString(result.error().message) : m_lost);
    if (job.attempted)
        std::exchange(job.attempted, {})(result.has_value());
    return !retry;
}

/// To the stand-in, and kept for the file.
void StoreThread::performMeanwhile(SessionStore& standIn, Job job)
{
    if (job.write) {
        const Result<void> done = standIn.database().transaction([&] { return job.write(standIn); });
        if (!done)
            report(QString::fromStdString(done.error().message));
        if (job.attempted)
            std::exchange(job.attempted, {})(false);
    }
    m_kept.push_back(std::move(job));
}

/// Opens the file, writes what was kept for it and hands over what it held before. False: to be tried again.
bool StoreThread::takeReal(const QString& path, std::optional<SessionStore>& store)
{
    std::optional<SessionStore> real;
    Result<SessionState> state = openAt(path, real);
    Result<void> done = state ? Result<void>() : state.error();
    QString lost = m_lost;
    if (done) {
        done = real->database().transaction([&]() -> Result<void> {
            for (const Job& job : m_kept) {
                if (!job.write)
                    continue;
                OCTAVO_CHECK(real->database().execute("SAVEPOINT job")); // none is written by half
                const Result<void> written = job.write(*real);
                if (!written && Database::isTransient(written.error()))
                    return written;
                if (!written) {
                    lost = lostWords(written.error());
                    OCTAVO_CHECK(real->database().execute("ROLLBACK TO job"));
                }
                OCTAVO_CHECK(real->database().execute("RELEASE job"));
            }
            return {};
        });
    }
    if (!done) {
        report(QString::fromStdString(done.error().message));
        return false;
    }
    m_lost = lost;
    store = std::move(real);
    for (Job& job : std::exchange(m_kept, {})) {
        if (job.attempted)
            job.attempted(true);
    }
    report(m_lost);
    m_onLoaded(std::move(state));
    return true;
}

void StoreThread::run(const QString& path)
{
    std::optional<SessionStore> opened;
    Result<SessionState> state = openAt(path, opened);
    bool standsIn = !state && !path.isEmpty() && Database::isTransient(state.error());
    if (standsIn) {
        report(QString::fromStdString(state.error().message));
        state = openAt({}, opened);
        if (state) {
            state->standIn = true;
            // Larger than any that is counted up from one, and than those of an earlier stand-in.
            state->lastContext = state->lastConversation = state->lastMessage = QDateTime::currentMSecsSinceEpoch();
        }
    }
    const bool works = state.has_value();
    m_onLoaded(std::move(state));
    if (!works)
        return;

    Clock::time_point notBefore = Clock::now() + (standsIn ? retryInterval : std::chrono::milliseconds(0));
    std::unique_lock lock(m_mutex);
    for (;;) {
        const bool due = Clock::now() >= notBefore || m_stopping;
        const auto failed = [&] { // true: it is time to give up
            notBefore = Clock::now() + retryInterval;
            if (m_stopping)
                m_wake.wait_for(lock, std::chrono::milliseconds(50));
            return m_stopping && Clock::now() >= m_deadline;
        };
        if (!m_reads.empty()) {
            Read read = std::move(m_reads.front());
            m_reads.pop_front();
            lock.unlock();
            read(*opened);
            lock.lock();
        } else if (standsIn && !m_writes.empty()) {
            Job job = std::move(m_writes.front());
            m_writes.pop_front();
            lock.unlock();
            performMeanwhile(*opened, std::move(job));
            lock.lock();
        } else if (standsIn && m_stopping && m_kept.empty()) {
            return;
        } else if (standsIn && due) {
            lock.unlock();
            standsIn = !takeReal(path, opened);
            lock.lock();
            if (!standsIn)
                notBefore = Clock::now();
            else if (failed())
                return;
        } else if (!m_writes.empty() && due) {
            Job job = std::move(m_writes.front());
            m_writes.pop_front();
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(m_deadline - Clock::now());
            if (m_stopping)
                opened->database().waitForLocks(std::max(left, std::chrono::milliseconds(0)));
            lock.unlock();
            const bool done = perform(*opened, job);
            lock.lock();
            if (!done) {
                m_writes.push_front(std::move(job));
                if (failed())
                    return;
            }
        } else if (m_stopping && m_writes.empty())
            return;
        else if (m_writes.empty() && !standsIn)
            m_wake.wait(lock);
        else
            m_wake.wait_until(lock, notBefore);
    }
}

} // namespace octavo::agents
