#pragma once

/// The engine: one model, any number of device workers, requests in, events out. What stands above sees only this.
///
/// Thread   every member may be called from any thread. Events arrive on a worker's thread, in order per request;
///          a sink must return quickly and may not call back into the Engine, save for cancel().
/// Life     create() loads the model and starts the workers; the destructor cancels what runs, joins and frees all.

#include "engine/metrics/metrics.h"
#include "engine/model/model_config.h"
#include "engine/result.h"
#include "engine/sampling/sampler.h"
#include "engine/types.h"

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace octavo::engine {

class Tokenizer;

struct EngineOptions {
    std::filesystem::path modelDir;
    std::vector<std::string> devices = {"auto"}; ///< "cpu", "cuda:0", ...; "cpu" may be named twice
    int threads = 0;                             ///< CPU compute threads; 0: all
    std::int64_t contextLimit = 0;               ///< tokens per agent; 0: min(250,000, what the model allows)
    bool contextLimitIsWish = false;             ///< more than the model allows means what it allows, not an error
    std::int64_t memoryBudgetBytes = 0;          ///< for sequences; 0: what the machine has to spare
    std::string cpuPath;                         ///< force "plain", "avx2", "avx512" or "reference"; empty: the best
    SparseMode sparse = SparseMode::Auto;
    bool quantize = true;                        ///< checkpoints in bf16, fp16 or fp32: layers to int4 while loading (CPU)
    std::filesystem::path savedContexts;         ///< folder for contexts on disk; empty: none are kept
    std::int64_t savedContextsQuota = std::int64_t{16} << 30; ///< bytes, all contexts together
};

struct LoadProgress {
    std::string stage; ///< "Reading weights"
    std::int64_t done = 0, total = 0;
};

/// What a context is called where saved ones are listed. For people: it decides nothing.
struct ContextLabel {
    std::string name;   ///< of the repository
    std::string commit; ///< hex
};

/// Where drafts come from: copied from what stands in the context, or from the model's MTP layer. All but All are for
/// measuring.
enum class DraftSources { All, Lookup, Mtp };

struct GenerationRequest {
    RequestId id{};
    AgentId agent{};
    /// The whole prompt from position 0. What earlier requests have left in memory is reused where it matches.
    std::vector<TokenId> prompt;
    /// The first this many tokens are a context that other agents are likely to share: kept for them once read.
    std::int64_t contextTokens = 0;
    ContextLabel contextLabel;
    /// 0 only reads the prompt (and keeps it); Finished follows with no text.
    int maxNewTokens = 1024;
    SamplingParams sampling;
    std::vector<std::string> stopStrings;
    bool drafts = true; ///< guess tokens ahead and check them in one step; the answer is the same either way
    DraftSources draftSources = DraftSources::All;
    /// A greedy answer that only repeats itself ends with FinishReason::Repeats, see LoopWatch.
    bool endsLoops = false;
    /// Smaller goes first; the pane a user looks at asks with a smaller one.
    int priority = 0;
};

enum class FinishReason { Stop, Length, ContextFull, Cancelled, Repeats };

struct GenerationStats {
    std::int64_t promptTokens = 0;
    std::int64_t reusedTokens = 0; ///< of the prompt, not read again
    std::int64_t newTokens = 0;    ///< written
    std::int64_t acceptedDrafts = 0;
    double queuedMs = 0.0;
    double prefillMs = 0.0;
    double ttftMs = 0.0;           ///< from submit() to the first token
    double decodeMs = 0.0;
    double worstGapMs = 0.0;
    /// Of the tokens after the first, which the time begins with; negative where there are none.
    double decodeTokensPerSecond() const
    {
        return newTokens > 1 && decodeMs > 0 ? 1000.0 * double(newTokens - 1) / decodeMs : -1.0;
    }
};

/// Sent when reading begins and after every slice.
struct PrefillProgress { std::int64_t done = 0, total = 0, reused = 0; };
/// Text in order, valid UTF-8; `tokens` are the ids behind it (a held-back tail may come with the next).
struct TextAppended { std::string text; std::vector<TokenId> tokens; };
/// Ends a request: exactly one of Finished and Failed arrives, and nothing after it.
struct Finished { FinishReason reason = FinishReason::Stop; GenerationStats stats; };
struct Failed { Error error; };

using Event = std::variant<PrefillProgress, TextAppended, Finished, Failed>;
using EventSink = std::function<void(RequestId, Event&&)>;

/// What is loaded, for display and for cache keys.
struct ModelInfo {
    std::string name;                    ///< folder name, or the name in its model card
    std::filesystem::path dir;
    std::uint64_t hash = 0;              ///< over config, tokenizer and weights, see checkpoint_hash.h
    std::int64_t parameters = 0;
    std::int64_t contextLimit = 0;
    std::int64_t bytesPerToken = 0;      ///< memory that one more token of context takes, all tiers; 0: not known
};

class Engine
{
public:
    /// Fails with the first thing that does not fit, OutOfMemory where memory ran out on the way; nothing stays
    /// allocated. `cancel` may be null.
    static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                  const std::function<void(const LoadProgress&)>& progress = {},
                                                  const std::atomic<bool>* cancel = nullptr);
    virtual ~Engine() = default;

    /// Loads the model again on every device that has failed; the others go on. Takes as long as create() and may be
    /// called beside all else, but not twice at once. Fails with what the first device says that does not come back.
    virtual Result<void> reload(const std::function<void(const LoadProgress&)>& progress = {},
                                const std::atomic<bool>* cancel = nullptr) = 0;

    virtual const ModelInfo& model() const = 0;
    virtual const ModelConfig& config() const = 0;
    virtual const Tokenizer& tokenizer() const = 0;

    /// An id no other request of this engine has.
    virtual RequestId nextRequestId() = 0;

    /// Queues a request. Fails with Busy (mailbox full), ContextFull (used / limit / needed in the message) or
    /// InvalidArgument, and then sends no event; otherwise ends in exactly one Finished or Failed.
    virtual Result<void> submit(GenerationRequest request, EventSink sink) = 0;

    /// Takes effect between slices or steps; Finished{Cancelled} still follows. Unknown ids are ignored.
    virtual void cancel(RequestId id) = 0;

    /// Changes what a queued or running request was submitted with. Unknown ids are ignored.
    virtual void setPriority(RequestId id, int priority) = 0;

    /// Forgets what an agent holds in memory (its transcript was cleared or its context changed).
    virtual void releaseAgent(AgentId agent) = 0;

    /// A copy of the newest published state; never waits for a step.
    virtual MetricsSnapshot metrics() const = 0;
};

} // namespace octavo::engine
