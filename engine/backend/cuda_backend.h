#pragma once

/// The model on one GPU. makeCudaBackend() is declared in backend_factory.h.
///
/// Attention is dense: every row of the context, int4, in device memory. Rows are written once and read as they are by
/// prefill, decode and forks. Prefill runs through the decode kernels 64 rows at a time, so that a context's state does
/// not depend on how it was cut into slices, nor on who else is in a batch.
///
/// Rows of a verify step leave the recurrent state alone; those that commit() keeps are applied by the next launch.
/// Forks copy what they hold.

#include "engine/backend/backend.h"
#include "engine/backend/backend_factory.h"
#include "engine/backend/cuda_memory.h"
#include "engine/backend/cuda_model.h"

#include <atomic>
#include <map>
#include <string>

namespace octavo::engine
{

/// What one sequence holds, in one allocation: KV rows of each attention layer, state, convolution history and pending
/// inputs of each GDN layer.
struct CudaSequence {
    std::int64_t maxTokens = 0;
    std::int64_t length = 0; ///< of confirmed rows
    int unconfirmedRows = 0; ///< of a step that waits for commit()
    int pendingRows = 0;     ///< confirmed, but not yet applied to the recurrent state
    DeviceMemory memory;
};

class CudaBackend final : public Backend
{
public:
    static Result<std::unique_ptr<Backend>>
    create(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights, const BackendOptions& options);
    ~CudaBackend() override;

    const ModelConfig& config() const override { return m_config; }
    BackendInfo info() const override;
    BackendStats stats() const override;
    int maxPrefillSlice() const override { return 512; }
    int maxStepRows() const override { return maxPending; }
    std::int64_t sequenceBytes(std::int64_t tokens) const override;
    Result<SlotId> createSequence(std::int64_t maxTokens) override;
    Result<SlotId> forkSequence(SlotId source, std::int64_t maxTokens) override;
    void destroySequence(SlotId slot) override;
    std::int64_t length(SlotId slot) const override;
    Result<void> prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits) override;
    Result<void> step(std::span<const StepEntry> entries, std::span<float> logits) override;
    Result<void> commit(SlotId slot, int keptRows) override;

private:
    static constexpr int maxRows = 64;    ///< of one pass through the layers
    static constexpr int maxPending = 32; ///< rows of a verify step that a sequence can hold
    static constexpr int rowsPerSplit = 1024;
    static constexpr int queriesPerLaunch = 16; ///< of attention, which bounds its work space

    /// One sequence's rows in a pass.
    struct Part {
        CudaSequence* sequence;
        std::span<const TokenId> tokens;
        bool final; ///< applied to the recurrent state at once
    };

    /// Offsets into a sequence's allocation.
    struct SequenceLayout {
        std::int64_t rowsPerLayer = 0; ///< bytes
        std::int64_t recurrent = 0;    ///< where the GDN layers begin; all before are rows
        std::int64_t recurrentBytes = 0;
        std::int64_t total = 0;
    };
    /// Offsets into one GDN layer's part of a sequence.
    struct GdnOffsets {
        std::int64_t state = 0, history = 0, pendingInput = 0, pendingQkv = 0, pendingBeta = 0, pendingDecay = 0,
                     bytes = 0;
    };
    /// Offsets into the work space; rows of maxRows.
    struct WorkLayout {
        std::int64_t hidden = 0, normed = 0, delta = 0, gateUp = 0, product = 0, attention = 0, query = 0, key = 0,
                     context = 0, convInput = 0, convOutput = 0, beta = 0, decay = 0, z = 0, gdnOut = 0, logits = 0,
                     partials = 0, arrivals = 0, attentionParts = 0, tables = 0;
    };
    /// Offsets into the tables of a pass, the same on host and device.
    struct TableLayout {
        std::int64_t ids = 0, positions = 0, conv = 0, gdn = 0, attention = 0, bytes = 0;
    };

    explicit CudaBackend(const ModelConfig& config);
    Result<void> initialise(const ModelWeights& weights, const BackendOptions& options);
    SequenceLayout sequenceLayout(std::int64_t tokens) const;
    int gdnLayers() const { return m_config.numLayers - m_config.numFullAttentionLayers(); }
    Result<SlotId> addSequence(std::int64_t maxTokens, const CudaSequence* source);
    Result<CudaSequence*> ready(SlotId slot, std::span<const TokenId> tokens);

    /// Runs the parts (at most maxRows rows) through all layers; the final norm's output is left in the work space.
    Result<void> forward(std::span<const Part> parts);
    /// Logits of `rows` rows of the pass from `firstRow` on.
    Result<void> logits(int firstRow, int rows, float* out);
    void fillTables(std::span<const Part> parts);
    Result<void> multiply(const CudaLinear& linear, std::int64_t input, int rows, std::int64_t output,
                          kernels::cuda::GemmOutput type = kernels::cuda::GemmOutput::Bf16);
    Result<void> attend(const CudaLayer& layer, int attentionLayer, std::span<const Part> parts, int rows);
    Result<void> mix(const CudaLayer& layer, int gdnLayer, std::span<const Part> parts, int rows);

    const ModelConfig m_config;
    int m_device = 0;
    std::string m_description;
    std::int64_t m_memoryTotal = 0, m_budget = 0;
    CudaStream m_stream;
    CudaModel m_model;
    GdnOffsets m_gdnOffsets;
    WorkLayout m_work;
    TableLayout m_tables;
    DeviceMemory m_workMemory;
    PinnedMemory m_tableMemory;
    int m_multiprocessors = 0;
    std::int64_t m_maxSplits = 0; ///< that the attention's work space has room for

    std::map<SlotId, CudaSequence> m_sequences;
    std::int32_t m_nextSlot = 0;
    std::atomic<std::int64_t> m_sequenceBytes{0}, m_prefillTokens{0}, m_decodeTokens{0}, m_steps{0};
};

} // namespace octavo::engine
