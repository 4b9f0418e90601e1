#pragma once

/// The Engine of this program: any number of device workers over one model.
///
/// A request goes where most of its context is, then where there is room, then where the fewest wait. While an agent
/// has a request at one device its next one goes there too, so that its requests end in order. A device that failed is
/// replaced as a whole by reload().

#include "engine/backend/backend.h"
#include "engine/engine.h"
#include "engine/scheduler/device_worker.h"
#include "engine/tokenizer/tokenizer.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace octavo::engine {

/// One device with the memory that its sequences may take (0: the backend alone decides).
struct EngineDevice {
    using Make = std::function<Result<std::unique_ptr<Backend>>(const std::atomic<bool>* cancel)>;

    std::unique_ptr<Backend> backend;
    std::int64_t memoryBudgetBytes = 0;
    Make again; ///< makes another backend for it when this one has failed; empty: it stays lost
};

class LocalEngine final : public Engine
{
public:
    /// `scheduling` gives what differs from the defaults; tokenizer, stop ids, limits and clock are filled in here.
    /// config.stopIds should hold the union already; info.contextLimit rules.
    LocalEngine(ModelInfo info, ModelConfig config, Tokenizer tokenizer, std::vector<EngineDevice> devices,
                SchedulerOptions scheduling = {});
    ~LocalEngine() override;

    const ModelInfo& model() const override { return m_info; }
    const ModelConfig& config() const override { return m_config; }
    const Tokenizer& tokenizer() const override { return m_tokenizer; }
    Result<void> reload(const std::function<void(const LoadProgress&)>& progress,
                        const std::atomic<bool>* cancel) override;
    RequestId nextRequestId() override;
    Result<void> submit(GenerationRequest request, EventSink sink) override;
    void cancel(RequestId id) override;
    void setPriority(RequestId id, int priority) override;
    void releaseAgent(AgentId agent) override;
    MetricsSnapshot metrics() const override;

private:
    struct Placed {
        AgentId agent{};
        std::size_t worker = 0;
        PrefixRef prompt;
    };

    using Worker = std::shared_ptr<DeviceWorker>;

    std::vector<Worker> workers() const;
    Worker workerOf(RequestId id) const;
    std::optional<std::size_t> chooseWorker(const GenerationRequest& request, std::span<const TokenId> prompt) const;
    SchedulerOptions schedulingOf(std::size_t device) const;

    const ModelInfo m_info;
    const ModelConfig m_config;
    const Tokenizer m_tokenizer;
    std::function<std::int64_t()> m_nowUs;
    std::atomic<std::uint64_t> m_lastId = 0;
    SchedulerOptions m_scheduling;
    std::vector<std::int64_t> m_budgets;        // of each device
    std::vector<EngineDevice::Make> m_again;    // likewise
    mutable std::mutex m_mutex;             // guards m_placed and which workers there are; never held while a sink runs
    std::map<RequestId, Placed> m_placed;   // accepted, not yet ended
    std::vector<Worker> m_workers; // declared last: their threads use all of the above
};

/// config.stopIds and the tokenizer's own ends of a turn or text, each once.
std::vector<TokenId> allStopIds(const ModelConfig& config, const Tokenizer& tokenizer);

} // namespace octavo::engine
