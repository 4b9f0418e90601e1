#include "agents/store/store_thread.h"

#include <algorithm>
#include <utility>

namespace octavo::agents {

using Clock = std::chrono::steady_clock;

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
        m_lost = QStringLiteral("something of this session is lost: ") + QString::fromStdString(result.error().message);
    report(retry ? QString::fromStdString(result.error().message) : m_lost);
    if (job.attempted)
        std::exchange(job.attempted, {})(result.has_value());
    return !retry;
}

void StoreThread::run(const QString& path)
{
    auto opened = SessionStore::open(path);
    if (!opened) {
        m_onLoaded(std::move(opened).error());
        return;
    }
    SessionStore store = *std::move(opened);
    m_onLoaded(store.load());

    Clock::time_point notBefore = Clock::now();
    std::unique_lock lock(m_mutex);
    for (;;) {
        const auto writable = [&] { return !m_writes.empty() && (Clock::now() >= notBefore || m_stopping); };
        if (!m_reads.empty()) {
            Read read = std::move(m_reads.front());
            m_reads.pop_front();
            lock.unlock();
            read(store);
            lock.lock();
        } else if (writable()) {
            Job job = std::move(m_writes.front());
            m_writes.pop_front();
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(m_deadline - Clock::now());
            if (m_stopping)
                store.database().waitForLocks(std::max(left, std::chrono::milliseconds(0)));
            lock.unlock();
            const bool done = perform(store, job);
            lock.lock();
            if (!done) {
                m_writes.push_front(std::move(job));
                notBefore = Clock::now() + retryInterval;
                if (m_stopping && Clock::now() >= m_deadline)
                    return;
                if (m_stopping)
                    m_wake.wait_for(lock, std::chrono::milliseconds(50));
            }
        } else if (m_stopping && m_writes.empty())
            return;
        else if (m_writes.empty())
            m_wake.wait(lock);
        else
            m_wake.wait_until(lock, notBefore);
    }
}

} // namespace octavo::agents
