#pragma once

/// The CPU as a Backend. makeCpuBackend() is declared in backend_factory.h.

#include "engine/backend/backend.h"
#include "engine/backend/backend_factory.h"
#include "engine/backend/cpu_forward.h"

#include <atomic>
#include <map>

namespace octavo::engine
{

class CpuBackend final : public Backend
{
public:
    static Result<std::unique_ptr<Backend>> create(const ModelConfig& config,
                                                   std::shared_ptr<const ModelWeights> weights,
                                                   const BackendOptions& options);

    const ModelConfig& config() const override { return m_model.config; }
    BackendInfo info() const override;
    BackendStats stats() const override;
    int maxPrefillSlice() const override { return 2048; }
    int maxStepRows() const override { return 128; }
    std::int64_t sequenceBytes(std::int64_t tokens) const override;
    Result<SlotId> createSequence(std::int64_t maxTokens) override;
    Result<SlotId> forkSequence(SlotId source, std::int64_t maxTokens) override;
    void destroySequence(SlotId slot) override;
    std::int64_t length(SlotId slot) const override;
    Result<void> prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits) override;
    Result<void> reserveStep(SlotId slot, int rows) override;
    std::int64_t stepBytes(SlotId slot, int rows) const override;
    bool giveUpDrafts() override;
    Result<void> step(std::span<const StepEntry> entries, std::span<float> logits) override;
    bool picksBest() const override { return true; }
    Result<void> stepBest(std::span<const StepEntry> entries, TokenId endId, std::span<TokenId> best) override;
    Result<void> commit(SlotId slot, int keptRows) override;
    bool hasMtp() const override { return m_model.mtp.has_value(); }
    Result<void> draft(std::span<const DraftEntry> entries, float leastChance, std::span<DraftChain> chains) override;
    std::string imageFormat() const override;
    Result<SequenceImage> imageOf(SlotId slot, ImageRows rows) override;
    Result<void> beginRestore(SequenceRestore& restore) override;
    Result<void> continueRestore(SequenceRestore& restore, std::int64_t atMost) override;
    void setSparseMode(SparseMode mode) override { m_sparse.setMode(mode); }

    /// For evaluation: sums over a sequence's keys, from which a sketch basis is fitted.
    Result<KeyStatistics> keyStatistics(SlotId slot, std::int64_t mostKeys);
    /// For measuring speed and memory: appends `tokens` random rows instead of reading tokens.
    Result<void> appendNoise(SlotId slot, std::int64_t tokens);
    /// For evaluation: the newest picks of a sequence, ascending. Empty where it has not decoded sparsely.
    std::vector<std::int32_t> picks(SlotId slot, int layer, int list) const;

private:
    struct ImageStorage;

    CpuBackend(CpuModel model, const kernels::cpu::Kernels& kernels, int threads, const BackendOptions& options);

    Result<SlotId> addSequence(std::int64_t maxTokens, const CpuSequence* source);
    Result<CpuSequence*> find(SlotId slot);
    /// The sequence, when it exists, has nothing uncommitted, and `tokens` are valid and fit.
    Result<CpuSequence*> ready(SlotId slot, std::span<const TokenId> tokens);
    /// Checks a step's entries and finds their memory: m_rows; gives how many rows they have.
    Result<std::size_t> beginStep(std::span<const StepEntry> entries);
    void endStep(std::size_t rows);
    Result<void> makeRoom(CpuSequence& sequence, std::int64_t tokens);
    Result<void> prepareRows(CpuSequence& sequence, std::int64_t count);
    /// Whole int8 pages that a sequence may still take.
    std::int64_t pagesToTake(std::int64_t length, std::int64_t maxTokens, std::int64_t held) const;
    Result<void> makeReady(CpuSequence& sequence, std::size_t rows);
    Result<void> makeReadyForDrafts(CpuSequence& sequence, int rows);
    /// What a step of `rows` rows still lacks of CpuSequence::pending and verified.
    struct DraftNeeds {
        std::int64_t pendingBytes = 0; ///< of a larger `pending`; 0: it is large enough
        bool states = false;           ///< `verified` is to be made
        std::int64_t newBytes = 0;     ///< that both take beyond what is there
    };
    DraftNeeds draftNeeds(const CpuSequence& sequence, int rows) const;
    /// MTP's rows up to the newest position's.
    Result<void> fillMtp(CpuSequence& sequence);
    void countMemory();
    /// Host tiers change only with the sequences and images: what they fill was reserved.
    void countTier();
    std::int64_t budget() const;
    std::shared_ptr<ImageStorage> newImage(const CpuSequence& sequence);

    const CpuModel m_model;
    const kernels::cpu::Kernels& m_kernels;
    const int m_threads;
    const std::int64_t m_budget;
    const RecurrentShape m_recurrent;
    KvPagePool m_pages;
    CpuSparse m_sparse;
    CpuForward m_forward;
    std::map<SlotId, std::unique_ptr<CpuSequence>> m_sequences;
    std::vector<CpuRows> m_rows; // reused, so that a step allocates nothing
    std::vector<std::pair<CpuSequence*, int>> m_sparseRows;
    std::vector<CpuDraft> m_drafts;
    std::int32_t m_nextSlot = 0;
    std::vector<std::weak_ptr<const ImageStorage>> m_images;
    std::vector<const BigPages*> m_states; // each once, whoever shares it
    std::shared_ptr<BigPages> m_spareStates; // of a sequence that is gone, for the next one's CpuSequence::verified
    std::int64_t m_tierBytes = 0;
    std::atomic<std::int64_t> m_reservedBytes{0}, m_kvBytes{0}, m_tierHeldBytes{0}, m_prefillTokens{0},
        m_decodeTokens{0}, m_steps{0};
    std::shared_ptr<CpuBackend*> m_self; // what images find their backend by; gone before all the rest
};

} // namespace octavo::engine
