#pragma once

/// A Backend without a model, for tests of what stands above: its next token is a hash of all tokens before it, so any
/// mix-up of states changes what it writes.
///
/// Like a real backend it tells apart what was read from what was written, and what was read from a multiple of 64 on
/// from what was not: a scheduler that resumes from the wrong kind of state gets another answer than a cold run.
/// Time is a number that calls add to, memory a number that sequences take from, and any call can be made to fail.

#include "engine/backend/backend.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octavo::test {

/// What tests set before, and look at while, the backend that shares it is in use.
struct FakeDevice {
    // How it behaves; set before use.
    std::string name = "fake";
    int vocabSize = 261;                ///< fakeTokenizer()'s
    int maxRows = 8;
    int maxSlice = 2048;
    std::int64_t stateBytes = 4096;     ///< per sequence
    std::int64_t bytesPerToken = 16;    ///< KV rows; shared by forks
    std::int64_t memoryBytes = 0;       ///< for sequences; 0: no limit
    std::int64_t imageBytes = 0;        ///< that each image takes for as long as it is held
    std::int64_t draftBytes = 0;        ///< that a sequence takes from its first drafted row on, until they are given up
    std::int64_t otherRowsFrom = 1 << 30; ///< tokens from which on rows lie otherwise, and shorter ones' do not fit
    std::int64_t readUsPerToken = 0, stepUs = 0, rowUs = 0;
    bool sleeps = false;                ///< the time above passes for real
    /// The likeliest next token after `history`; nothing: the hash decides (a printable character).
    std::function<std::optional<engine::TokenId>(std::span<const engine::TokenId> history)> script;
    /// What its MTP layer expects after `history`; nothing: it has none.
    std::function<std::vector<engine::TokenId>(std::span<const engine::TokenId> history, int most)> mtp;
    std::int64_t passUs = 0;            ///< each depth of a draft()
    std::int64_t rejectUs = 0;          ///< a commit() of fewer rows than there are
    float mtpChance = 0.9f;             ///< that it gives each of its tokens
    bool picksBest = false;             ///< has stepBest()
    std::int64_t tierBytesPerRow = -1;  ///< that each row of a step reads from the host tier; negative: not known
    /// Called at the start of each prefill(), step(), draft() and continueRestore() ("restore"), on the worker's
    /// thread.
    std::function<void(const std::string& call)> onCall;
    /// What reserveStep() gives; nothing: there is always room.
    std::function<Result<void>(engine::SlotId slot, int rows)> onReserve;

    int prepareCalls = 0;               ///< of prepareSequence() that a sequence of 1,000 tokens or more needs
    std::int64_t prepareUs = 0;         ///< each of them
    bool savesWhileReading = true;

    // Faults: call number `failAt` (1: the next) of any that can fail gives `fault`.
    std::atomic<int> failAt = 0;
    ErrorCode fault = ErrorCode::DeviceFailure;
    bool throws = false; ///< the call throws std::bad_alloc in place of returning `fault`

    // What happened.
    std::atomic<std::int64_t> nowUs = 0;
    std::atomic<std::int64_t> tokensRead = 0;
    std::atomic<int> steps = 0, bestSteps = 0, widestStep = 0, liveSlots = 0, misuses = 0, commits = 0, passes = 0;

    std::function<std::int64_t()> clock()
    {
        return [this] { return nowUs.load(); };
    }
};

class FakeBackend final : public engine::Backend
{
public:
    explicit FakeBackend(std::shared_ptr<FakeDevice> device);
    ~FakeBackend() override;

    const engine::ModelConfig& config() const override { return m_config; }
    engine::BackendInfo info() const override { return {m_device->name, "a fake for tests", "fake", 0}; }
    engine::BackendStats stats() const override;
    std::int64_t tierBytesRead(engine::SlotId slot) const override;
    int maxPrefillSlice() const override { return m_device->maxSlice; }
    int maxStepRows() const override { return m_device->maxRows; }
    std::int64_t sequenceBytes(std::int64_t tokens) const override;
    bool prepareSequence(std::int64_t newTokens, int parts) override;
    Result<engine::SlotId> createSequence(std::int64_t maxTokens) override;
    Result<engine::SlotId> forkSequence(engine::SlotId source, std::int64_t maxTokens) override;
    void destroySequence(engine::SlotId slot) override;
    std::int64_t length(engine::SlotId slot) const override;
    Result<void> prefill(engine::SlotId slot, std::span<const engine::TokenId> tokens,
                         std::span<float> logits) override;
    Result<void> reserveStep(engine::SlotId slot, int rows) override;
    std::int64_t stepBytes(engine::SlotId slot, int rows) const override;
    bool giveUpDrafts() override;
    Result<void> step(std::span<const engine::StepEntry> entries, std::span<float> logits) override;
    bool picksBest() const override { return m_device->picksBest; }
    Result<void> stepBest(std::span<const engine::StepEntry> entries, engine::TokenId endId,
                          std::span<engine::TokenId> best) override;
    Result<void> commit(engine::SlotId slot, int keptRows) override;
    bool hasMtp() const override { return bool(m_device->mtp); }
    Result<void> draft(std::span<const engine::DraftEntry> entries, float leastChance,
                       std::span<engine::DraftChain> chains) override;
    std::string imageFormat() const override { return "fake " + m_device->name; }
    bool savesWhileReading() const override { return m_device->savesWhileReading; }
    Result<engine::SequenceImage> imageOf(engine::SlotId slot, engine::ImageRows rows) override;
    Result<void> beginRestore(engine::SequenceRestore& restore) override;
    Result<void> continueRestore(engine::SequenceRestore& restore, std::int64_t atMost) override;

private:
    struct Sequence {
        std::vector<engine::TokenId> tokens;
        std::vector<std::uint64_t> states; // after each token
        std::int64_t maxTokens = 0;
        std::int64_t ownBytes = 0;
        int uncommittedRows = 0;
        std::int64_t draftBytes = 0;
        std::int64_t steppedRows = 0;
    };

    Sequence* find(engine::SlotId slot);
    Result<void> maybeFail(const char* call);
    Result<engine::SlotId> add(Sequence sequence);
    void append(Sequence& sequence, engine::TokenId id, bool wasRead, bool isAligned);
    void fillLogits(const Sequence& sequence, std::span<float> logits) const;
    void spend(std::int64_t us);
    void takePrepared(std::int64_t tokens);
    int layoutOf(std::int64_t tokens) const { return tokens >= m_device->otherRowsFrom ? 1 : 0; }

    std::shared_ptr<FakeDevice> m_device;
    engine::ModelConfig m_config;
    std::map<engine::SlotId, Sequence> m_sequences;
    std::shared_ptr<std::atomic<std::int64_t>> m_used = std::make_shared<std::atomic<std::int64_t>>(0); // images' too
    int m_nextSlot = 0, m_prepared = 0;
};

/// The token a FakeBackend without a script writes after reading `prompt`, and the `count` after it.
std::vector<engine::TokenId> fakeAnswer(std::span<const engine::TokenId> prompt, int count);

} // namespace octavo::test
