#pragma once

/// The reference model behind the Backend interface. makeReferenceBackend() is declared in backend_factory.h.
///
/// Forks copy what they hold instead of sharing it. After a step of several rows the recurrent state from before is
/// kept until commit(), which restores it and runs the kept rows again.

#include "engine/backend/backend.h"
#include "engine/backend/reference_model.h"

#include <atomic>
#include <map>

namespace octavo::engine
{

class ReferenceBackend final : public Backend
{
public:
    /// `memoryBudgetBytes`: for all sequences together; 0: no limit.
    ReferenceBackend(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                     std::int64_t memoryBudgetBytes);

    const ModelConfig& config() const override { return m_config; }
    BackendInfo info() const override;
    BackendStats stats() const override;
    int maxPrefillSlice() const override { return 256; }
    int maxStepRows() const override { return 64; }
    std::int64_t sequenceBytes(std::int64_t tokens) const override { return m_model.stateBytes(tokens); }
    Result<SlotId> createSequence(std::int64_t maxTokens) override;
    Result<SlotId> forkSequence(SlotId source, std::int64_t maxTokens) override;
    void destroySequence(SlotId slot) override;
    std::int64_t length(SlotId slot) const override;
    Result<void> prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits) override;
    Result<void> step(std::span<const StepEntry> entries, std::span<float> logits) override;
    Result<void> commit(SlotId slot, int keptRows) override;

private:
    struct Sequence {
        std::int64_t maxTokens = 0;
        std::int64_t bytes = 0;
        reference::SequenceState state;
        // Set from a step of several rows until its commit.
        std::vector<TokenId> uncommitted;
        std::vector<reference::LayerState> before; // without keys and values
    };

    Result<SlotId> addSequence(std::int64_t maxTokens, const Sequence* source);
    /// The sequence, when it exists, has nothing uncommitted, and `tokens` are valid and fit.
    Result<Sequence*> ready(SlotId slot, std::span<const TokenId> tokens);

    const ModelConfig m_config;
    const reference::Model m_model;
    const std::int64_t m_budget;
    std::map<SlotId, Sequence> m_sequences;
    std::int32_t m_nextSlot = 0;
    std::atomic<std::int64_t> m_sequenceBytes{0}, m_prefillTokens{0}, m_decodeTokens{0}, m_steps{0};
};

} // namespace octavo::engine
