#pragma once

/// A real backend of which every call fails from a chosen one on, as a GPU does that fell off the bus.

#include "engine/backend/backend.h"

#include <memory>

namespace octavo::gpu
{

class FailingBackend final : public engine::Backend
{
public:
    /// `failAt`: the first prefill, step or draft that fails; 0: none does.
    FailingBackend(std::unique_ptr<engine::Backend> real, int failAt)
        : m_real(std::move(real))
        , m_left(failAt)
    {
    }

    const engine::ModelConfig& config() const override { return m_real->config(); }
    engine::BackendInfo info() const override { return m_real->info(); }
    engine::BackendStats stats() const override { return m_real->stats(); }
    int maxPrefillSlice() const override { return m_real->maxPrefillSlice(); }
    int maxStepRows() const override { return m_real->maxStepRows(); }
    std::int64_t sequenceBytes(std::int64_t tokens) const override { return m_real->sequenceBytes(tokens); }
    Result<engine::SlotId> createSequence(std::int64_t maxTokens) override { return m_real->createSequence(maxTokens); }
    bool prepareSequence(std::int64_t tokens, int parts) override { return m_real->prepareSequence(tokens, parts); }
    Result<engine::SlotId> forkSequence(engine::SlotId source, std::int64_t maxTokens) override
    {
        return m_real->forkSequence(source, maxTokens);
    }
    void destroySequence(engine::SlotId slot) override { m_real->destroySequence(slot); }
    std::int64_t length(engine::SlotId slot) const override { return m_real->length(slot); }
    Result<void> prefill(engine::SlotId slot, std::span<const engine::TokenId> tokens, std::span<float> logits) override
    {
        OCTAVO_CHECK(maybeFail());
        return m_real->prefill(slot, tokens, logits);
    }
    Result<void> step(std::span<const engine::StepEntry> entries, std::span<float> logits) override
    {
        OCTAVO_CHECK(maybeFail());
        return m_real->step(entries, logits);
    }
    bool picksBest() const override { return m_real->picksBest(); }
    Result<void> stepBest(std::span<const engine::StepEntry> entries, engine::TokenId endId,
                          std::span<engine::TokenId> best) override
    {
        OCTAVO_CHECK(maybeFail());
        return m_real->stepBest(entries, endId, best);
    }
    Result<void> commit(engine::SlotId slot, int keptRows) override { return m_real->commit(slot, keptRows); }
    bool hasMtp() const override { return m_real->hasMtp(); }
    Result<void> draft(std::span<const engine::DraftEntry> entries, float leastChance,
                       std::span<engine::DraftChain> chains) override
    {
        OCTAVO_CHECK(maybeFail());
        return m_real->draft(entries, leastChance, chains);
    }

private:
    Result<void> maybeFail()
    {
        if (m_left == 0 || --m_left > 0)
            return {};
        m_left = 1;
        return Error{ErrorCode::DeviceFailure, "The GPU failed to answer: a fault of this test"};
    }

    std::unique_ptr<engine::Backend> m_real;
    int m_left;
};

} // namespace octavo::gpu
