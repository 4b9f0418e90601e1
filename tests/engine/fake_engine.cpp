#include "tests/engine/fake_engine.h"

#include "tests/engine/fake_tokenizer.h"

#include <algorithm>
#include <chrono>

namespace octavo::test {
using namespace octavo::engine;

FakeEngine::FakeEngine(std::function<Script(const GenerationRequest&)> scriptFor, std::int64_t contextLimit)
    : m_tokenizer(fakeTokenizer())
    , m_scriptFor(std::move(scriptFor))
{
    m_info.name = "fake model";
    m_info.hash = 1;
    m_info.contextLimit = contextLimit;
    m_info.bytesPerToken = 16;
    m_config.vocabSize = m_tokenizer.endId();
    m_config.maxPositions = contextLimit;
    m_config.stopIds = {endOfText, imEnd};
    m_thread = std::thread([this] { run(); });
}

FakeEngine::~FakeEngine()
{
    {
        const std::scoped_lock lock(m_mutex);
        m_closing = true;
    }
    m_changed.notify_all();
    m_thread.join();
}

RequestId FakeEngine::nextRequestId()
{
    const std::scoped_lock lock(m_mutex);
    return RequestId{++m_lastId};
}

Result<void> FakeEngine::submit(GenerationRequest request, EventSink sink)
{
    {
        const std::scoped_lock lock(m_mutex);
        if (m_refusal)
            return *std::exchange(m_refusal, std::nullopt);
        if (m_loss)
            return *m_loss;
        if (std::int64_t(request.prompt.size()) >= m_info.contextLimit)
            return Error{ErrorCode::ContextFull,
                         "the context is full: used " + std::to_string(request.contextTokens) + " tokens, limit "
                             + std::to_string(m_info.contextLimit) + ", needed "
                             + std::to_string(request.prompt.size() + 1)};
        m_accepted.push_back(request);
        m_running.push_back({std::move(request), std::move(sink), {}, false, 0});
    }
    m_changed.notify_all();
    return {};
}

void FakeEngine::cancel(RequestId id)
{
    {
        const std::scoped_lock lock(m_mutex);
        m_cancelled.insert(id);
    }
    m_changed.notify_all();
}

void FakeEngine::setPriority(RequestId id, int priority)
{
    const std::scoped_lock lock(m_mutex);
    m_priorities[id] = priority;
}

std::map<RequestId, int> FakeEngine::priorities() const
{
    const std::scoped_lock lock(m_mutex);
    return m_priorities;
}

void FakeEngine::releaseAgent(AgentId agent)
{
    const std::scoped_lock lock(m_mutex);
    m_released.push_back(agent);
}

MetricsSnapshot FakeEngine::metrics() const
{
    MetricsSnapshot snapshot;
    DeviceMetrics device;
    device.device = "fake";
    device.description = "a fake for tests";
    const std::scoped_lock lock(m_mutex);
    device.failed = m_loss.has_value();
    device.failure = m_loss ? m_loss->message : std::string();
    snapshot.devices.push_back(device);
    return snapshot;
}

void FakeEngine::resume()
{
    {
        const std::scoped_lock lock(m_mutex);
        m_resumed = true;
    }
    m_changed.notify_all();
}

void FakeEngine::lose(const std::string& why)
{
    const std::scoped_lock lock(m_mutex);
    m_loss = Error{ErrorCode::DeviceFailure, why};
}

void FakeEngine::refuseReload(Error error)
{
    const std::scoped_lock lock(m_mutex);
    m_reloadRefusal = std::move(error);
}

Result<void> FakeEngine::reload(const std::function<void(const LoadProgress&)>& progress, const std::atomic<bool>*)
{
    if (progress)
        progress({"Preparing fake", 0, 1});
    const std::scoped_lock lock(m_mutex);
    if (m_reloadRefusal)
        return *std::exchange(m_reloadRefusal, std::nullopt);
    m_loss.reset();
    return {};
}

void FakeEngine::refuseNext(Error error)
{
    const std::scoped_lock lock(m_mutex);
    m_refusal = std::move(error);
}

std::vector<GenerationRequest> FakeEngine::requests() const
{
    const std::scoped_lock lock(m_mutex);
    return m_accepted;
}

std::vector<AgentId> FakeEngine::releasedAgents() const
{
    const std::scoped_lock lock(m_mutex);
    return m_released;
}

void FakeEngine::run()
{
    std::unique_lock lock(m_mutex);
    while (!m_closing || !m_running.empty()) {
        bool moved = false;
        for (std::size_t i = 0; i < m_running.size();) {
            Entry entry = std::move(m_running[i]);
            const std::size_t before = entry.sent;
            const bool wasStarted = entry.started;
            const bool goesOn = advance(entry, lock); // unlocks while a sink runs; others may be added at the end
            moved = moved || !goesOn || entry.sent != before || entry.started != wasStarted;
            if (goesOn)
                m_running[i++] = std::move(entry);
            else
                m_running.erase(m_running.begin() + std::ptrdiff_t(i));
        }
        if (!moved && !m_closing)
            m_changed.wait_for(lock, std::chrono::milliseconds(20));
    }
}

/// Sends one piece of one request; false when it has ended.
bool FakeEngine::advance(Entry& entry, std::unique_lock<std::mutex>& lock)
{
    const RequestId id = entry.request.id;
    const bool isCancelled = m_closing || m_cancelled.contains(id);
    const bool hasBegun = entry.sent > 0 || (entry.started && entry.request.maxNewTokens == 0);
    const bool isHeld = entry.script.waits && hasBegun && !m_resumed;
    if (isHeld && !isCancelled)
        return true;
    lock.unlock();
    const auto total = std::int64_t(entry.request.prompt.size());
    GenerationStats stats;
    stats.promptTokens = total;
    bool goesOn = true;
    if (isCancelled) {
        stats.newTokens = std::int64_t(entry.sent);
        entry.sink(id, Finished{FinishReason::Cancelled, stats});
        goesOn = false;
    } else if (!entry.started) {
        entry.started = true;
        entry.script = m_scriptFor ? m_scriptFor(entry.request) : Script{};
        const std::int64_t reused = std::min(entry.script.reused, total);
        for (int slice = 0; slice <= entry.script.readSlices; ++slice) {
            const std::int64_t read =
                entry.script.readSlices > 0 ? (total - reused) * slice / entry.script.readSlices : 0;
            entry.sink(id, PrefillProgress{reused + read, total, reused});
        }
    } else if (entry.request.maxNewTokens > 0 && entry.sent < entry.script.pieces.size()) {
        if (entry.script.microsBetweenPieces > 0)
            std::this_thread::sleep_for(std::chrono::microseconds(entry.script.microsBetweenPieces));
        if (entry.script.beforePiece)
            entry.script.beforePiece(entry.sent);
        const std::string& text = entry.script.pieces[entry.sent++];
        entry.sink(id, TextAppended{text, m_tokenizer.encode(text, SpecialTokens::Plain)});
    } else {
        goesOn = false;
        stats.reusedTokens = std::min(entry.script.reused, total);
        stats.newTokens = std::int64_t(entry.sent);
        stats.ttftMs = stats.prefillMs = stats.decodeMs = 1.0;
        if (entry.script.failure)
            entry.sink(id, Failed{*entry.script.failure});
        else
            entry.sink(id, Finished{entry.script.reason, stats});
    }
    lock.lock();
    return goesOn;
}

} // namespace octavo::test
