#include "engine/local_engine.h"

#include "engine/scheduler/memory_budget.h"
#include "engine/scheduler/placement.h"

#include <algorithm>

namespace octavo::engine {

std::vector<TokenId> allStopIds(const ModelConfig& config, const Tokenizer& tokenizer)
{
    std::vector<TokenId> ids = config.stopIds;
    for (const char* text : {"<|im_end|>", "<|endoftext|>"}) {
        if (const auto id = tokenizer.addedToken(text))
            ids.push_back(*id);
    }
    std::ranges::sort(ids);
    const auto repeated = std::ranges::unique(ids);
    ids.erase(repeated.begin(), repeated.end());
    return ids;
}

LocalEngine::LocalEngine(ModelInfo info, ModelConfig config, Tokenizer tokenizer, std::vector<EngineDevice> devices,
                         SchedulerOptions scheduling)
    : m_info(std::move(info))
    , m_config(std::move(config))
    , m_tokenizer(std::move(tokenizer))
{
    scheduling.tokenizer = &m_tokenizer;
    scheduling.stopIds = m_config.stopIds;
    scheduling.contextLimit = m_info.contextLimit;
    scheduling.modelHash = m_info.hash;
    scheduling.modelName = m_info.name;
    if (!scheduling.nowUs) {
        scheduling.nowUs = [start = std::chrono::steady_clock::now()] {
            const auto passed = std::chrono::steady_clock::now() - start;
            return std::int64_t(std::chrono::duration_cast<std::chrono::microseconds>(passed).count());
        };
    }
    m_nowUs = scheduling.nowUs;
    m_scheduling = std::move(scheduling);
    for (EngineDevice& device : devices) {
        m_budgets.push_back(device.memoryBudgetBytes);
        m_again.push_back(std::move(device.again));
        m_workers.push_back(std::make_shared<DeviceWorker>(std::move(device.backend), schedulingOf(m_workers.size())));
    }
}

LocalEngine::~LocalEngine()
{
    m_workers.clear(); // their last events still find this object whole
}

SchedulerOptions LocalEngine::schedulingOf(std::size_t device) const
{
    SchedulerOptions options = m_scheduling;
    options.memoryBudgetBytes = m_budgets[device];
    return options;
}

std::vector<LocalEngine::Worker> LocalEngine::workers() const
{
    const std::scoped_lock lock(m_mutex);
    return m_workers;
}

Result<void> LocalEngine::reload(const std::function<void(const LoadProgress&)>& progress,
                                 const std::atomic<bool>* cancel)
{
    const auto known = workers();
    for (std::size_t i = 0; i < known.size(); ++i) {
        const std::string device = known[i]->metrics()->device;
        if (!known[i]->load().failed)
            continue;
        if (!m_again[i])
            return Error{ErrorCode::Unsupported, device + " cannot be loaded again; start Octavo again"};
        if (progress)
            progress({"Preparing " + device, std::int64_t(i), std::int64_t(known.size())});
        known[i]->giveUp(); // its memory is needed
        OCTAVO_TRY(auto backend, m_again[i](cancel));
        auto worker = std::make_shared<DeviceWorker>(std::move(backend), schedulingOf(i));
        const std::scoped_lock lock(m_mutex);
        m_workers[i] = std::move(worker);
    }
    return {};
}

RequestId LocalEngine::nextRequestId()
{
    return RequestId{m_lastId.fetch_add(1) + 1};
}

Result<void> LocalEngine::submit(GenerationRequest request, EventSink sink)
{
    OCTAVO_CHECK(checkRequest(request, m_tokenizer.endId(), m_info.contextLimit));
    auto prompt = std::make_shared<const std::vector<TokenId>>(std::move(request.prompt));
    request.prompt.clear();
    const RequestId id = request.id;
    Worker worker;
    {
        const std::scoped_lock lock(m_mutex);
        if (m_placed.contains(id))
            return Error{ErrorCode::InvalidArgument, "request " + std::to_string(std::uint64_t(id))
                                                         + " runs already; take ids from nextRequestId()"};
        const auto chosen = chooseWorker(request, *prompt);
        if (!chosen)
            return Error{ErrorCode::DeviceFailure, "no device works any more; reload the model"};
        worker = m_workers[*chosen];
        m_placed[id] = {request.agent, *chosen, {prompt, roundDownToStride(std::int64_t(prompt->size()))}};
    }
    EventSink noting = [this, sink = std::move(sink)](RequestId ended, Event&& event) {
        if (std::holds_alternative<Finished>(event) || std::holds_alternative<Failed>(event)) {
            const std::scoped_lock lock(m_mutex);
            m_placed.erase(ended);
        }
        sink(ended, std::move(event));
    };
    auto accepted = worker->submit(std::move(request), std::move(prompt), std::move(noting));
    if (!accepted) {
        const std::scoped_lock lock(m_mutex);
        m_placed.erase(id);
    }
    return accepted;
}

std::optional<std::size_t> LocalEngine::chooseWorker(const GenerationRequest& request,
                                                     std::span<const TokenId> prompt) const
{
    if (m_workers.size() == 1)
        return m_workers[0]->load().failed ? std::nullopt : std::optional<std::size_t>(0);
    std::vector<PlacementCandidate> candidates;
    for (const auto& worker : m_workers) {
        const DeviceWorker::Load load = worker->load();
        candidates.push_back({load.failed, worker->residentPrefix(prompt), load.freeBytes, 0, load.requests});
    }
    for (const auto& [id, placed] : m_placed) { // what was just sent there is not in its residents yet
        if (placed.agent == request.agent && !candidates[placed.worker].failed)
            return placed.worker;
        const std::span known = std::span(*placed.prompt.tokens).first(std::size_t(placed.prompt.length));
        std::int64_t& resident = candidates[placed.worker].residentTokens;
        resident = std::max(resident, roundDownToStride(commonPrefix(prompt, known)));
    }
    const auto tokens = std::int64_t(prompt.size()) + request.maxNewTokens;
    for (PlacementCandidate& candidate : candidates)
        candidate.neededBytes = m_info.bytesPerToken * std::max<std::int64_t>(tokens - candidate.residentTokens, 0);
    return placeRequest(candidates);
}

LocalEngine::Worker LocalEngine::workerOf(RequestId id) const
{
    const std::scoped_lock lock(m_mutex);
    const auto placed = m_placed.find(id);
    return placed == m_placed.end() ? nullptr : m_workers[placed->second.worker];
}

void LocalEngine::cancel(RequestId id)
{
    if (const Worker worker = workerOf(id))
        worker->cancel(id);
}

void LocalEngine::setPriority(RequestId id, int priority)
{
    if (const Worker worker = workerOf(id))
        worker->setPriority(id, priority);
}

void LocalEngine::releaseAgent(AgentId agent)
{
    for (const Worker& worker : workers())
        worker->releaseAgent(agent);
}

MetricsSnapshot LocalEngine::metrics() const
{
    MetricsSnapshot snapshot;
    snapshot.timeUs = m_nowUs();
    snapshot.processResidentBytes = residentBytes();
    for (const Worker& worker : workers())
        snapshot.devices.push_back(*worker->metrics());
    return snapshot;
}

} // namespace octavo::engine
