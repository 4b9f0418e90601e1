#pragma once

/// The one thread that touches the session store.
///
/// Writes run in order, each as one short transaction. One that fails because the disk is full, the file is locked or
/// memory is short stays first in line and is tried again each second; `onProblem` hears a sentence meanwhile and an
/// empty one once it went through. One that fails for another reason is lost, and the sentence that says so stays.
/// Reads go past waiting writes, so a full disk does not stop anyone from reading; who must not miss a write of their
/// own keeps what it holds until afterWrites().
/// Where the file cannot be opened just now (locked, disk full), a store in memory stands in and opening is tried again
/// each second; what was written meanwhile is written then, in one transaction.
/// Thread   write(), read(), afterWrites() and the destructor: any one thread; callbacks: the store's thread.

#include "agents/store/session_store.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace octavo::agents {

class StoreThread
{
public:
    using Write = std::function<Result<void>(SessionStore&)>;
    using Read = std::function<void(SessionStore&)>;

    /// Opens the store on its own thread and hands over what it holds, or why it cannot. What a stand-in holds
    /// (nothing; its ids are larger than any in the file) comes first, and what the file holds once that is open.
    StoreThread(QString path, std::function<void(Result<SessionState>)> onLoaded,
                std::function<void(const QString& problem)> onProblem);
    /// Writes what is left, trying for two seconds at most (three where a try that had begun waits for another
    /// program's lock), and joins.
    ~StoreThread();

    /// `attempted` runs once after the first try: true when the write is committed, false when it is still waiting.
    void write(Write write, std::function<void(bool committed)> attempted = {});
    void read(Read read);
    /// Runs `done` when all writes of before have been committed or lost; never where the thread ends first.
    void afterWrites(std::function<void()> done);

    /// How long to wait before a failed write is tried again.
    static constexpr std::chrono::milliseconds retryInterval{1000};

private:
    struct Job {
        Write write; ///< empty: only tells that its turn has come
        std::function<void(bool)> attempted;
    };
    void run(const QString& path);
    bool perform(SessionStore& store, Job& job);
    void performMeanwhile(SessionStore& standIn, Job job);
    bool takeReal(const QString& path, std::optional<SessionStore>& store);
    void report(const QString& problem);

    std::function<void(Result<SessionState>)> m_onLoaded;
    std::function<void(const QString&)> m_onProblem;
    QString m_problem; // the thread's own, as is what follows
    QString m_lost;    // why a write was lost; empty: none was
    std::deque<Job> m_kept; // written to the stand-in only, so far

    std::mutex m_mutex;
    std::condition_variable m_wake;
    std::deque<Job> m_writes;
    std::deque<Read> m_reads;
    bool m_stopping = false;
    std::chrono::steady_clock::time_point m_deadline;
    std::thread m_thread; // last: it uses all of the above
};

} // namespace octavo::agents
