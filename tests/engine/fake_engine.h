#pragma once

/// An Engine that says what the test wrote, on a thread of its own. For tests of agents and of the interface.

#include "engine/engine.h"
#include "engine/tokenizer/tokenizer.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace octavo::test {

/// How one request is to go.
struct Script {
    std::vector<std::string> pieces = {"An answer."}; ///< sent one TextAppended each
    int microsBetweenPieces = 0;
    std::function<void(std::size_t piece)> beforePiece; ///< called on the engine's thread; may wait, to keep time
    std::int64_t reused = 0;                  ///< tokens of the prompt said to be in memory already
    int readSlices = 1;                       ///< PrefillProgress events after the first
    bool waits = false;                       ///< after the first piece (a mere read: at its end), until resume() or cancel()
    engine::FinishReason reason = engine::FinishReason::Stop;
    std::optional<Error> failure;             ///< instead of Finished, after the pieces
};

class FakeEngine final : public engine::Engine
{
public:
    /// `scriptFor` is asked on the engine's thread as each request starts; without it every answer is Script{}.
    explicit FakeEngine(std::function<Script(const engine::GenerationRequest&)> scriptFor = {},
                        std::int64_t contextLimit = 250'000);
    ~FakeEngine() override; ///< Cancels what is left, as the real one does.

    const engine::ModelInfo& model() const override { return m_info; }
    const engine::ModelConfig& config() const override { return m_config; }
    const engine::Tokenizer& tokenizer() const override { return m_tokenizer; }
    Result<void> reload(const std::function<void(const engine::LoadProgress&)>& progress,
                        const std::atomic<bool>* cancel) override;
    engine::RequestId nextRequestId() override;
    Result<void> submit(engine::GenerationRequest request, engine::EventSink sink) override;
    void cancel(engine::RequestId id) override;
    void setPriority(engine::RequestId id, int priority) override;
    void releaseAgent(engine::AgentId agent) override;
    engine::MetricsSnapshot metrics() const override;

    void resume();                            ///< lets all waiting scripts go on
    void refuseNext(Error error);             ///< the next submit() fails with it
    void lose(const std::string& why);        ///< its device has failed: submit() too, until reload()
    void refuseReload(Error error);           ///< the next reload() fails with it
    std::vector<engine::GenerationRequest> requests() const; ///< all accepted so far
    std::vector<engine::AgentId> releasedAgents() const;
    std::map<engine::RequestId, int> priorities() const; ///< that were changed

private:
    struct Entry {
        engine::GenerationRequest request;
        engine::EventSink sink;
        Script script;
        bool started = false;
        std::size_t sent = 0;
    };

    void run();
    bool advance(Entry& entry, std::unique_lock<std::mutex>& lock);

    const engine::Tokenizer m_tokenizer;
    const std::function<Script(const engine::GenerationRequest&)> m_scriptFor;
    engine::ModelInfo m_info;
    engine::ModelConfig m_config;
    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<Entry> m_running;
    std::set<engine::RequestId> m_cancelled;
    std::vector<engine::GenerationRequest> m_accepted;
    std::vector<engine::AgentId> m_released;
    std::map<engine::RequestId, int> m_priorities;
    std::optional<Error> m_refusal, m_loss, m_reloadRefusal;
    std::uint64_t m_lastId = 0;
    bool m_resumed = false, m_closing = false;
    std::thread m_thread;
};

} // namespace octavo::test
