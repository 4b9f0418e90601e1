#pragma once

/// Decides what one device does next, and does it: reads prompts in slices, writes answers in batches, keeps what was
/// read for others. One round is one unit of work, so whoever calls can look for new orders in between.
///
/// Order    short reads come before long ones, then smaller priority, then who was served least recently; a reader that
///          was passed over for two seconds comes next. Between two slices stands at least one step of all writers.
/// Memory   reserved before a request starts. What does not fit waits while others run, and is refused with used,
///          limit and needed when there is nothing left to wait for; what checking drafts takes is given up first, then
///          idle work and frozen sequences.
/// Idle     while nobody asks, the newest answers are read for the questions that may follow: where their prompts are
///          held, in memory that nobody else has.
/// Sharing  a request whose beginning another one is reading waits for that instead of reading it again.
/// Stopping a context that is left half read is kept as far as it is read, in memory and on disk.
/// Saving   a context's image shares its sequences' memory, and counts as the device's where they are gone. It is given
///          up before a request is refused.
/// Results  do not depend on what was reused: see prefix_cache.h.
/// Errors   what a backend throws becomes an error of the request it was called for, and so does what a sink throws:
///          its request ends in Failed. What the scheduler's own memory needs throw is the caller's to catch and to
///          give to failAll().
/// Thread   one owner; sinks are called on its thread.

#include "engine/backend/backend.h"
#include "engine/engine.h"
#include "engine/metrics/rate_meter.h"
#include "engine/metrics/work_log.h"
#include "engine/scheduler/context_store.h"
#include "engine/scheduler/prefix_cache.h"
#include "engine/scheduler/slice_planner.h"
#include "engine/scheduler/task.h"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace octavo::engine {

struct SchedulerOptions {
    const Tokenizer* tokenizer = nullptr;
    std::vector<TokenId> stopIds;
    std::int64_t contextLimit = 0;
    std::int64_t memoryBudgetBytes = 0;      ///< for sequences; 0: the backend alone decides
    int maxSequences = 16;                   ///< reading and writing at once
    std::int64_t checkpointInterval = 8192;  ///< on long reads; a multiple of 64
    bool reusePrefixes = true;               ///< off: every prompt is read in full
    bool readAnswersWhenIdle = true;         ///< so that a follow-up question finds the last answer read
    std::filesystem::path savedContexts;     ///< folder for contexts on disk; empty: none are kept
    std::int64_t savedContextsQuota = 0;     ///< bytes
    std::int64_t restoreSlice = 32 << 20;    ///< bytes of a saved context that are copied between two steps
    std::int64_t saveReadingEveryUs = 20'000'000; ///< at least, between two parts saved of a context that is being read
    std::uint64_t modelHash = 0;             ///< of model and tokenizer, for saved contexts
    std::string modelName;                   ///< for people who list them
    SlicePlanner::Limits slices;
    std::function<std::int64_t()> nowUs;     ///< a steady clock, from the Engine's start
};

class Scheduler
{
public:
    Scheduler(Backend& backend, SchedulerOptions options);
    ~Scheduler(); ///< Cancels all that is left.

    /// `prompt` takes the place of request.prompt; both must have passed checkRequest().
    void submit(GenerationRequest request, SharedTokens prompt, EventSink sink, std::int64_t submittedUs);
    void cancel(RequestId id);
    void setPriority(RequestId id, int priority);
    void releaseAgent(AgentId agent);
    void cancelAll();
    /// Ends all that is left in Failed; the device works on. For what runRound() or cancel() threw. Does not throw:
    /// where there is no room for the message, the code goes alone.
    void failAll(const Error& error);

    /// One slice or one step; false when there is nothing to do. After a failure of the device everything has ended
    /// in Failed, failure() says why, and what is submitted later fails the same way.
    bool runRound();

    const std::optional<Error>& failure() const { return m_failure; }

    /// Fills in what this class knows: agents, work, rates.
    void describe(DeviceMetrics& metrics);

    /// Waits until every context queued for saving is on disk.
    void flushSavedContexts();

    /// Prefixes on this device or about to be, for placing agents near them.
    std::vector<PrefixRef> residentPrefixes() const;
    int numRequests() const; ///< queued or running, idle work left out

private:
    struct AgentRecord {
        AgentMetrics metrics;
        RateMeter decode, prefill;
        double draftedRounds = 0.0, acceptedInRounds = 0.0;
        DraftAcceptance copies;
        MtpAcceptance mtp;
    };

    /// A saved context on its way into memory: its file is checked on the store's thread, then its rows are copied a
    /// part at a time.
    struct Reopening {
        Task* task = nullptr; // who waits for it
        ContextStore::Hit saved;
        std::optional<ContextStore::Opened> opened; // null: still being checked
        SequenceRestore restore;
    };

    // Admission and memory: scheduler_admission.cpp
    void admit();
    bool admitTask(Task& task);
    const Task* readerWorthWaitingFor(const Task& task, std::int64_t held);
    std::int64_t bytesNeeded(const PrefixCache::Hit& hit, std::int64_t tokens) const;
    bool makeRoomInBudget(std::int64_t bytes, SlotId keep);
    bool fitsBudget(std::int64_t bytes) const;
    bool isPrepared(std::int64_t newTokens);
    Result<SlotId> reserve(const Task& task, const PrefixCache::Hit& hit, std::int64_t tokens);
    bool agentIsBusy(const Task& task) const;
    bool someoneRuns(const Task* except) const;
    bool giveUpOne(SlotId keep = noSlot);
    std::int64_t sequenceMemoryUsed() const;
    // Saved contexts that are opened: scheduler_reopening.cpp
    bool waitsForSaved(Task& task, const PrefixCache::Hit& held, std::int64_t limit);
    void goOnReopening();
    Result<void> beginRestoring();
    void endReopening(const Error& error);
    void dropReopening();

    // What reading leaves for others: scheduler_checkpoints.cpp
    void planCheckpoints(Task& task, std::int64_t held);
    void leaveCheckpoint(Task& task, PrefixCache::Kind kind);
    void saveContext(const Task& task, SlotId frozen);
    std::vector<PrefixCache::Hit> resumePoints(const Task& task, SlotId frozen) const;
    void readAnswerWhenIdle(const Task& task);
    void dropIdleWork(AgentId agent);
    // Contexts whose reading is left: scheduler_unfinished.cpp
    void keepUnfinished(Task& task);
    void saveOnTheWay(Task& task);
    void savePart(Task& task);
    // Reading: scheduler_reading.cpp
    Task* pickReader();
    void readSlice(Task& task);
    void startWriting(Task& task, std::span<const float> logits);
    // Writing, and how requests end: scheduler_writing.cpp
    std::vector<Task*> pickWriters();
    void makeReady(std::vector<Task*>& writers);
    void dropDrafts(Task& task);
    void writeStep(std::vector<Task*> writers);
    // Drafts: scheduler_drafts.cpp
    void planDrafts(std::span<Task* const> writers);
    std::int64_t roomForDrafts(const Task& task) const;
    /// Those of the writers whose next drafts MTP makes, each with its chain; empty when it does not pay.
    std::vector<Task*> draftWithMtp(std::span<Task* const> writers);
    void chooseRows(std::span<Task* const> writers);
    void recordDrafts(Task& task, int rows, int accepted, bool rejected);
    void takeRows(Task& task, int rows, const std::function<std::optional<TokenId>(int row)>& draw);
    /// False when the task ended with this token.
    bool takeToken(Task& task, TokenId id);

    void send(Task& task, Event&& event) const;
    void sendText(Task& task, Answer::Piece&& piece) const;
    void failUndelivered();
    void finish(Task& task, FinishReason reason);
    void fail(Task& task, Error error);
    void end(Task& task);
    void noteTierBytes(const Task& task);
    void deviceFailed(const Error& error);
    void removeEnded();

    bool isRunning(const Task& task) const { return task.state != Task::State::Queued && !task.ended; }
    AgentRecord& record(AgentId agent);

    static constexpr std::int64_t worthWaiting = 256; // tokens; less is read twice sooner than waited for

    Backend& m_backend;
    SchedulerOptions m_options;
    PrefixCache m_cache;
    std::unique_ptr<ContextStore> m_store; // null: contexts are not saved
    std::optional<Reopening> m_reopening;  // one at a time
    SlicePlanner m_planner;
    StepCost m_stepCost, m_passCost; // rows of a step and what commit() takes after it, chains of an MTP pass
    std::int64_t m_commitUs = 0;     // of the step at hand
    std::vector<std::unique_ptr<Task>> m_tasks; // in order of arrival
    std::map<AgentId, AgentRecord> m_agents;
    WorkLog m_work;
    RateMeter m_decodeRate, m_prefillRate;
    std::vector<float> m_logits;
    std::vector<TokenId> m_best; // of a step's rows, where the device picks
    std::optional<Error> m_failure;
    std::int64_t m_weightBytes = 0; // what the backend used before there were sequences
    bool m_admissionDue = false;
    int m_partsToPrepare = 0; ///< of contexts' memory, beside writers, in what is left of this round
};

/// Whether a request can be run at all: InvalidArgument, or ContextFull with used, limit and needed.
Result<void> checkRequest(const GenerationRequest& request, TokenId endId, std::int64_t contextLimit);

} // namespace octavo::engine
