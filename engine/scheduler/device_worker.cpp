#include "engine/scheduler/device_worker.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>

namespace octavo::engine {
namespace {

constexpr std::int64_t publishEveryUs = 50'000;
constexpr std::chrono::milliseconds idlePatience{250}; // so that rates fall to zero when work ends

} // namespace

DeviceWorker::DeviceWorker(std::unique_ptr<Backend> backend, SchedulerOptions options)
    : m_backend(std::move(backend))
    , m_options(std::move(options))
    , m_info(m_backend->info())
{
    DeviceMetrics first;
    first.device = m_info.device;
    first.description = m_info.description;
    first.weightBytes = m_info.weightBytes;
    first.backend = m_backend->stats();
    m_metrics.publish(std::move(first));
    m_thread = std::thread([this] { run(); });
}

DeviceWorker::~DeviceWorker()
{
    giveUp();
}

void DeviceWorker::giveUp()
{
    m_mailbox.close();
    if (m_thread.joinable())
        m_thread.join();
    m_backend.reset();
}

Result<void> DeviceWorker::submit(GenerationRequest request, SharedTokens prompt, EventSink sink)
{
    m_requests.fetch_add(1);
    EventSink counting = [this, sink = std::move(sink)](RequestId id, Event&& event) {
        const bool isLast = std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event);
        if (isLast)
            m_requests.fetch_sub(1);
        sink(id, std::move(event));
    };
    Command command = Submit{std::move(request), std::move(prompt), std::move(counting), m_options.nowUs()};
    if (m_mailbox.tryPush(command))
        return {};
    m_requests.fetch_sub(1);
    return Error{ErrorCode::Busy, m_info.device + " has " + std::to_string(mailboxCapacity)
                                      + " requests waiting already; try again when one has ended"};
}

void DeviceWorker::cancel(RequestId id)
{
    m_mailbox.push(Cancel{id});
}

void DeviceWorker::setPriority(RequestId id, int priority)
{
    m_mailbox.push(Prioritise{id, priority});
}

void DeviceWorker::releaseAgent(AgentId agent)
{
    m_mailbox.push(Release{agent});
}

DeviceWorker::Load DeviceWorker::load() const
{
    const BackendStats stats = metrics()->backend;
    const std::int64_t budget = m_options.memoryBudgetBytes;
    const std::int64_t left = budget > 0 ? budget + m_info.weightBytes - stats.memoryUsedBytes
                                         : stats.memoryTotalBytes - stats.memoryUsedBytes; // a device of its own
    return {m_failed.load(), m_requests.load(), std::max<std::int64_t>(left, 0)};
}

std::int64_t DeviceWorker::residentPrefix(std::span<const TokenId> prompt) const
{
    const auto residents = m_residents.newest(); // held while it is read: a newer one may replace it
    std::int64_t longest = 0;
    for (const PrefixRef& resident : *residents) {
        if (resident.length <= longest)
            continue;
        const std::span known = std::span(*resident.tokens).first(std::size_t(resident.length));
        longest = std::max(longest, roundDownToStride(commonPrefix(prompt, known)));
    }
    return longest;
}

void DeviceWorker::run()
{
    Scheduler scheduler(*m_backend, m_options);
    bool hasWork = false;
    std::int64_t publishedUs = 0;
    const auto safely = [&](auto&& work) {
        try {
            work();
        } catch (const std::exception& thrown) {
            const bool isMemory = dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr;
            failAll(scheduler, isMemory ? ErrorCode::OutOfMemory : ErrorCode::DeviceFailure,
                    isMemory ? "memory ran out; close contexts or other programs and ask again" : thrown.what());
            hasWork = true;
        }
    };
    const auto obeyAll = [&](std::vector<Command> commands) { // each by itself: one that fails takes no other along
        for (Command& command : commands)
            safely([&] { obey(scheduler, std::move(command)); });
        return !commands.empty();
    };
    while (!m_mailbox.isClosed()) {
        safely([&] {
            const bool wasAsked = obeyAll(m_mailbox.take(!hasWork, idlePatience));
            hasWork = scheduler.runRound();
            m_failed.store(scheduler.failure().has_value());
            if (!hasWork || wasAsked || m_options.nowUs() - publishedUs >= publishEveryUs) {
                publish(scheduler);
                publishedUs = m_options.nowUs();
            }
        });
    }
    safely([&] { obeyAll(m_mailbox.take(false, {})); }); // accepted, so they end in an event too
    safely([&] { scheduler.cancelAll(); });
}

void DeviceWorker::failAll(Scheduler& scheduler, ErrorCode code, const char* why)
{
    Error error{code, {}};
    try {
        error.message = m_info.device + ": " + why;
    } catch (const std::exception&) { // not even room to say so
    }
    scheduler.failAll(error);
}

/// A request that cannot even be queued ends too.
void DeviceWorker::obey(Scheduler& scheduler, Command&& command)
{
    if (auto* submit = std::get_if<Submit>(&command)) {
        const RequestId id = submit->request.id;
        EventSink sink;
        try {
            sink = submit->sink;
            scheduler.submit(std::move(submit->request), std::move(submit->prompt), std::move(submit->sink),
                             submit->atUs);
        } catch (const std::exception&) {
            try {
                (sink ? sink : submit->sink)(
                    id,
                    Failed{{ErrorCode::OutOfMemory, m_info.device + ": memory ran out while a question was queued"}});
            } catch (const std::exception&) { // whoever asked has no room to hear of it
            }
        }
    } else if (const auto* cancel = std::get_if<Cancel>(&command)) {
        scheduler.cancel(cancel->id);
    } else if (const auto* changed = std::get_if<Prioritise>(&command)) {
        scheduler.setPriority(changed->id, changed->priority);
    } else {
        scheduler.releaseAgent(std::get<Release>(command).agent);
    }
}

void DeviceWorker::publish(Scheduler& scheduler)
{
    DeviceMetrics metrics;
    metrics.device = m_info.device;
    metrics.description = m_info.description;
    metrics.weightBytes = m_info.weightBytes;
    HardwareReading hardware = m_backend->hardware();
    metrics.temperatureC = hardware.temperatureC;
    metrics.powerW = hardware.powerW;
    metrics.computeClockMHz = hardware.computeClockMHz;
    metrics.memoryClockMHz = hardware.memoryClockMHz;
    metrics.link = std::move(hardware.link);
    metrics.linkReadBytesPerSecond = hardware.linkReadBytesPerSecond;
    metrics.linkWriteBytesPerSecond = hardware.linkWriteBytesPerSecond;
    scheduler.describe(metrics);
    m_metrics.publish(std::move(metrics));
    m_residents.publish(scheduler.residentPrefixes());
}

} // namespace octavo::engine
