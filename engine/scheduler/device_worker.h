#pragma once

/// One thread that owns a backend and its sequences. Orders come in through a bounded mailbox and are looked at between
/// any two slices or steps; events go out through each request's sink.
///
/// Thread   every public member may be called from any thread. Sinks are called on the worker's thread.
/// Life     the destructor cancels what runs, waits for the slice or step in hand and joins.

#include "engine/backend/backend.h"
#include "engine/engine.h"
#include "engine/metrics/published.h"
#include "engine/scheduler/mailbox.h"
#include "engine/scheduler/scheduler.h"

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <variant>
#include <vector>

namespace octavo::engine {

class DeviceWorker
{
public:
    /// How busy a worker is, for placing requests.
    struct Load {
        bool failed = false;
        int requests = 0;           ///< queued or running
        std::int64_t freeBytes = 0; ///< for sequences; 0: not known
    };

    static constexpr std::size_t mailboxCapacity = 64;

    DeviceWorker(std::unique_ptr<Backend> backend, SchedulerOptions options);
    ~DeviceWorker();
    DeviceWorker(const DeviceWorker&) = delete;
    DeviceWorker& operator=(const DeviceWorker&) = delete;

    /// As Scheduler::submit(). Fails with Busy when the mailbox is full; then no event follows.
    Result<void> submit(GenerationRequest request, SharedTokens prompt, EventSink sink);
    void cancel(RequestId id);
    void setPriority(RequestId id, int priority);
    void releaseAgent(AgentId agent);
    /// Joins and frees the backend; what was last published stays. For a device that has failed.
    void giveUp();

    Load load() const;
    /// How many tokens of `prompt` this device held or was reading when it last published.
    std::int64_t residentPrefix(std::span<const TokenId> prompt) const;
    /// The newest state, at most about 50 ms old while there is work. Never waits for a step.
    std::shared_ptr<const DeviceMetrics> metrics() const { return m_metrics.newest(); }

private:
    struct Submit {
        GenerationRequest request;
        SharedTokens prompt;
        EventSink sink;
        std::int64_t atUs;
    };
    struct Cancel {
        RequestId id;
    };
    struct Prioritise {
        RequestId id;
        int priority;
    };
    struct Release {
        AgentId agent;
    };
    using Command = std::variant<Submit, Cancel, Prioritise, Release>;

    void run();
    void failAll(Scheduler& scheduler, ErrorCode code, const char* why);
    void obey(Scheduler& scheduler, Command&& command);
    void publish(Scheduler& scheduler);

    std::unique_ptr<Backend> m_backend;
    const SchedulerOptions m_options;
    const BackendInfo m_info;
    Mailbox<Command> m_mailbox{mailboxCapacity};
    Published<DeviceMetrics> m_metrics;
    Published<std::vector<PrefixRef>> m_residents;
    std::atomic<int> m_requests = 0;
    std::atomic<bool> m_failed = false;
    std::thread m_thread; // declared last: it uses all of the above
};

} // namespace octavo::engine
