#pragma once

/// The model on one GPU. makeCudaBackend() is declared in backend_factory.h.
///
/// Rows are int4, written once and read as they are by prefill, decode and forks. Prefill is dense. Whole blocks of 64
/// tokens on multiples of 64 go through the kernels for many rows (cuda_prefill.h), what is beside them, and all where
/// those cannot be used, through the decode kernels 64 rows at a time: a context's state does not depend on how it was
/// cut into slices on multiples of 64, nor on who else is in a batch. Decode is dense or sparse by the context's length
/// (cuda_sparse.h).
///
/// Rows lie in pages on the GPU. A sequence that decodes sparsely moves its full pages to the host tier, all but the
/// first and the last ones; a sequence for which the GPU has no page left moves its oldest there while it is read, and
/// dense attention reads them over the link. Forks share full pages.
///
/// A step is a CUDA graph: what differs from step to step (tokens, positions, lengths, where things lie)
/// is in tables that the graph copies first, so one graph serves all steps of so many rows and about that length.
///
/// Rows of a verify step leave the recurrent state alone; those that commit() keeps are applied by the next launch.
/// MTP's rows have a layer of their own in the same pages (cuda_mtp.cpp).

#include "engine/backend/backend.h"
#include "engine/backend/backend_factory.h"
#include "engine/backend/cuda_memory.h"
#include "engine/backend/cuda_model.h"
#include "engine/backend/cuda_pages.h"
#include "engine/backend/cuda_prefill.h"
#include "engine/backend/cuda_sparse.h"
#include "engine/memory/paged_rows.h"
#include "engine/metrics/nvml_watch.h"
#include "kernels/cuda/attention_input.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace octavo::engine
{

/// What one sequence holds.
struct CudaSequence {
    PagedRows pages;
    std::int64_t maxTokens = 0;
    std::int64_t length = 0; ///< of confirmed rows
    int unconfirmedRows = 0; ///< of a step that waits for commit()
    int pendingRows = 0;     ///< confirmed, but not yet applied to the recurrent state
    std::shared_ptr<CudaSketch> sketch;
    std::optional<CudaHotBuffer> hot;
    DeviceMemory memory;  ///< state, convolution history and pending inputs of each GDN layer; then rows for MTP
    bool compact = false; ///< frozen: without pending inputs, and with the newest row alone

    // MTP's row of a position needs the token after it, so the newest one is always to come. After decoding there are
    // more: they wait until drafts are wanted. Their final hidden rows, and the newest position's, lie in `memory`.
    std::vector<TokenId> unfilledTokens;    ///< the token after each position whose row waits, the newest left out
    std::vector<TokenId> unconfirmedTokens; ///< of a step that waits for commit()

    std::int64_t unfilled() const { return std::int64_t(unfilledTokens.size()); }
    std::int64_t heldHidden() const { return length > 0 ? 1 + unfilled() : 0; }
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
    HardwareReading hardware() const override;
    std::int64_t tierBytesRead(SlotId slot) const override;
    int maxPrefillSlice() const override { return std::max(512, m_prefill.maxRows()); }
    int maxStepRows() const override { return maxRows; }
    std::int64_t sequenceBytes(std::int64_t tokens) const override;
    Result<SlotId> createSequence(std::int64_t maxTokens) override;
    bool prepareSequence(std::int64_t newTokens, int parts) override;
    Result<SlotId> forkSequence(SlotId source, std::int64_t maxTokens) override;
    void destroySequence(SlotId slot) override;
    std::int64_t length(SlotId slot) const override;
    Result<void> prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits) override;
    Result<void> step(std::span<const StepEntry> entries, std::span<float> logits) override;
    Result<void> commit(SlotId slot, int keptRows) override;
    bool picksBest() const override { return true; }
    Result<void> stepBest(std::span<const StepEntry> entries, TokenId endId, std::span<TokenId> best) override;
    bool hasMtp() const override { return m_model.mtp.has_value(); }
    Result<void> draft(std::span<const DraftEntry> entries, float leastChance, std::span<DraftChain> chains) override;
    std::string imageFormat() const override;
    bool savesWhileReading() const override { return false; } // pages that leave the card for it would be missed there
    Result<SequenceImage> imageOf(SlotId slot, ImageRows rows) override;
    Result<void> beginRestore(SequenceRestore& restore) override;
    Result<void> continueRestore(SequenceRestore& restore, std::int64_t atMost) override;
    void setSparseMode(SparseMode mode) override { m_sparse.setMode(mode); }
    /// Whether a sequence's sketch is read, and what it picks is brought, once for all its rows of a step; it is unless
    /// turned off, which changes no result.
    void setJointRows(bool joint) { m_sparse.setJointRows(joint); }

    /// For measuring speed and memory: appends `tokens` random rows instead of reading tokens. What it is behind must
    /// be noise too.
    Result<void> appendNoise(SlotId slot, std::int64_t tokens);
    /// For measuring: bytes of the device, by what they are for. Any sum of them is in stats().
    struct MemoryParts {
        std::int64_t weights = 0, workSpace = 0, prefillScratch = 0, states = 0, sketches = 0, hotBuffers = 0, rows = 0;
    };
    MemoryParts memoryParts() const;
    /// Passes so far, of steps and of drafts: put on the stream one by one, recorded as a graph, and replayed.
    struct PassCounts {
        std::int64_t direct = 0, recorded = 0, replayed = 0;
    };
    const PassCounts& passCounts() const { return m_passes; }

private:
    static constexpr int maxRows = 64;    ///< of one pass through the layers
    static constexpr int maxPending = 32; ///< rows of a verify step that a sequence can hold, more than drafts are long
    static constexpr int rowsPerSplit = 1024;
    static constexpr int queriesPerLaunch = 16; ///< of attention, which bounds its work space

    /// One sequence's rows in a pass.
    struct Part {
        CudaSequence* sequence;
        std::span<const TokenId> tokens;
        bool final; ///< applied to the recurrent state at once
    };

    /// Rows that attend together. Rows of one sequence share its hot buffer: what one picked must not be evicted for
    /// another before it was read.
    struct Wave {
        int rows = 0, sparse = 0; ///< sparse: lookups of hot buffers
        auto operator<=>(const Wave&) const = default;
    };

    /// Sequences of a pass whose rows pick and attend on a stream of their own, beside those of the other side: one's
    /// reading of sketches fills the multiprocessors that the other's few blocks, or the link, leave idle.
    struct Side {
        int queries = 0, readings = 0; ///< sparse rows, and readings of sketches
        std::vector<Wave> waves;
        auto operator<=>(const Side&) const = default;
    };
    static constexpr int mostSides = 2;
    static constexpr int leastBeside = 8; ///< sparse rows of a pass of several sides, equally many of each part

    /// What decides the shape of a pass's launches; all else is in its tables.
    struct PassShape {
        int rows = 0, parts = 0;
        int readingRows = 0, lookupRows = 1; ///< the most that share a reading of a sketch, and a lookup of picks
        std::vector<Side> sides;
        bool verifies = false; ///< some rows wait for commit()
        bool decode = false;
        bool dense = false;          ///< some rows attend to all tokens
        int maxSplits = 0;           ///< of attention, rounded up
        std::int64_t pickTokens = 0; ///< that a sparse row may pick from, rounded up
        auto operator<=>(const PassShape&) const = default;
    };
    static constexpr std::size_t mostGraphs = 96;
    /// A shape is recorded when it comes back, so that what is seen once is not prepared for many.
    template <typename Shape>
    using Graphs = std::map<Shape, std::optional<CudaGraph>>;
    template <typename Shape, typename Enqueue>
    Result<void> runGraph(Graphs<Shape>& graphs, const Shape& shape, Enqueue&& enqueue);

    /// MTP reads the newest rows alone: beyond that far a draft loses little.
    static constexpr std::int64_t mtpWindow = 8192;
    static constexpr std::int64_t mtpPages = mtpWindow / kernels::cuda::rowPageTokens + 2;
    static constexpr std::int64_t mostUnfilled = 64; ///< rows that wait for MTP's keys and values
    /// One row of an MTP pass: the final hidden row of `position` and the token after it.
    struct MtpRow {
        CudaSequence* sequence;
        const void* hidden;
        TokenId token;
        std::int64_t position;
    };
    struct MtpShape {
        int rows = 0, chains = 0, maxSplits = 0;
        auto operator<=>(const MtpShape&) const = default;
    };
    static constexpr std::int64_t checkpointsPerSequence = 2; ///< that the hot buffers leave room for
    static constexpr std::int64_t freshPages = 8;             ///< that a sequence of the host tier keeps on the GPU
    static constexpr std::int64_t spareHostBytes = std::int64_t{1} << 30; ///< of the host tier, kept for who comes next
    static constexpr std::int64_t hostSlabsAtOnce = 4; ///< that go back to the system when a sequence ends
    /// Offsets into one GDN layer's part of a sequence.
    struct GdnOffsets {
        std::int64_t state = 0, history = 0, pendingInput = 0, pendingQkv = 0, pendingBeta = 0, pendingDecay = 0,
                     bytes = 0;
    };
    /// Offsets into the work space; rows of maxRows.
    struct WorkLayout {
        std::int64_t hidden = 0, normed = 0, delta = 0, squares = 0, gateUp = 0, product = 0, attention = 0, query = 0,
                     key = 0, projected = 0, context = 0, mixed = 0, convOutput = 0, beta = 0, decay = 0, gdnOut = 0,
                     logits = 0, partials = 0, arrivals = 0, attentionParts = 0, tables = 0;
        std::int64_t best = 0, bestParts = 0; ///< the token of each row
        std::int64_t mtpHidden = 0, mtpInput = 0, mtpX = 0, mtpNormed = 0, mtpFinal = 0, mtpTables = 0, peaks = 0;
    };
    /// Offsets into the tables of a pass, the same on host and device.
    struct TableLayout {
        std::int64_t ids = 0, positions = 0, conv = 0, gdn = 0, attention = 0, targets = 0, pages = 0, sketch = 0,
                     lists = 0, lookup = 0, gather = 0, readings = 0, hidden = 0, bytes = 0;
    };
    /// The same for a pass of MTP; `peaks` on the host alone.
    struct MtpTableLayout {
        std::int64_t ids = 0, positions = 0, hidden = 0, targets = 0, attention = 0, pages = 0, bytes = 0, peaks = 0;
    };

    explicit CudaBackend(const ModelConfig& config);
    Result<void> initialise(const ModelWeights& weights, const BackendOptions& options);
    Result<void> shareRest(const BackendOptions& options);
    std::int64_t recurrentBytes() const { return m_gdnOffsets.bytes * gdnLayers(); }
    /// Of a sequence's own memory.
    std::int64_t stateBytes() const
    {
        return std::max<std::int64_t>(256, recurrentBytes() + (hasMtp() ? (1 + mostUnfilled) * hiddenBytes() : 0));
    }
    /// Of a frozen sequence without pending rows.
    std::int64_t frozenBytes() const
    {
        return std::max<std::int64_t>(256, m_gdnOffsets.pendingInput * gdnLayers() + (hasMtp() ? hiddenBytes() : 0));
    }
    std::int64_t hiddenBytes() const { return std::int64_t(m_config.hiddenSize) * 2; }
    /// The i-th final hidden row that a sequence keeps for MTP.
    std::uint8_t* hiddenRow(const CudaSequence& sequence, std::int64_t i) const
    {
        const std::int64_t states = sequence.compact ? m_gdnOffsets.pendingInput * gdnLayers() : recurrentBytes();
        return sequence.memory.at(states + i * hiddenBytes());
    }
    std::int64_t layerOffset(int attentionLayer) const; ///< of its rows in a page
    static std::int64_t pagesOf(std::int64_t tokens);
    /// Pages for `tokens` tokens; the last ones may have to take the place of older ones, which move to the host tier.
    Result<void> makeRoom(CudaSequence& sequence, std::int64_t tokens);
    /// Moves pages to the host tier that a sparse row no longer reads by itself, `most` at most; returns how many.
    Result<std::int64_t> spill(CudaSequence& sequence, std::int64_t most,
                               PagedRows::Movers movers = PagedRows::Movers::Own);
    /// Pages 1 .. this - 1 may lie in the host tier: the first page holds the sinks, the last ones what is recent.
    static std::int64_t hostPagesEnd(std::int64_t length)
    {
        return length / kernels::cuda::rowPageTokens - (freshPages - 2);
    }
    /// What all sequences take, each shared page and sketch once, with the pages that they may still take on the GPU.
    void countMemory();
    std::int64_t pagesOnDevice(std::int64_t newPages, bool tiered) const
    {
        return tiered ? std::min(newPages, freshPages) : newPages;
    }
    Result<void> clearState(CudaSequence& sequence);
    Result<void> copyState(const CudaSequence& source, CudaSequence& target, bool frozen);
    int gdnLayers() const { return m_config.numLayers - m_config.numFullAttentionLayers(); }
    Result<SlotId> addSequence(std::int64_t maxTokens, const CudaSequence* source);
    /// Lists the sequence that `make` makes, which is asked again where letting go of unused slabs may help.
    Result<SlotId> admit(const std::function<Result<CudaSequence>()>& make);
    /// DeviceOutOfMemory where sequences may not take so much more.
    Result<void> checkBudget(std::int64_t tokens, std::int64_t bytes) const;

    // Images: cuda_images.cpp
    /// What an image has of a sequence's own memory, with what `pendingRows` rows of it left to be applied.
    std::int64_t imageStateBytes(int pendingRows) const;
    std::int64_t imageUnitBytes() const
    {
        return m_devicePages->pageBytes() + m_sparse.sketchBytes(kernels::cuda::rowPageTokens);
    }
    Result<CudaSequence> makeRestored(std::int64_t length, std::span<const std::byte> state, int pendingRows);
    Result<CudaSequence> makeSequence(std::int64_t maxTokens, const CudaSequence* source);
    Result<CudaSequence*> ready(SlotId slot, std::span<const TokenId> tokens);

    /// Runs the parts (at most maxRows rows) through all layers; the final norm's output is left in the work space.
    Result<void> forward(std::span<const Part> parts, bool decode);
    /// Reads the first of `tokens`, whole blocks, through CudaPrefill and returns how many. `logits`: none, room for
    /// the last row's, or with `everyRow` for all rows'.
    Result<int> readBlocks(CudaSequence& sequence, std::span<const TokenId> tokens, bool everyRow, float* logits);
    Result<void> enqueue(const PassShape& shape);
    /// Logits of `rows` rows of the pass from `firstRow` on.
    Result<void> logits(int firstRow, int rows, float* out);
    PassShape fillTables(std::span<const Part> parts, bool decode);
    std::vector<int> firstQueries(std::span<const Part> parts, const PassShape& shape) const;
    static std::vector<int> sidesOf(std::span<const int> firstQuery);
    void fillReadings(std::span<const int> firstQuery, std::span<const int> sideOf, PassShape& shape);
    std::optional<SparseRange> sparseRange(const Part& part, int row, const PassShape& shape) const;
    void fillAttentionRow(std::size_t p, const Part& part, std::int64_t row, int inPart,
                          const std::optional<SparseRange>& range, int query, int at);
    void fillFetch(std::size_t p, const Part& part, int query, int queries, int lookup);
    kernels::cuda::RowPages pagesAt(std::size_t p, int attentionLayer) const;
    void fillAttention(std::span<const Part> parts, std::span<const std::int64_t> firstRows, PassShape& shape);
    /// Of the p-th part, in the tables.
    std::int64_t pageTableAt(std::size_t p) const
    {
        return m_tables.pages + std::int64_t(p) * pagesOf(m_contextLimit) * std::int64_t(sizeof(std::uint8_t*));
    }
    Result<void> multiply(const CudaLinear& linear, std::int64_t input, int rows, std::int64_t output,
                          kernels::cuda::GemmOutput type = kernels::cuda::GemmOutput::Bf16,
                          const kernels::cuda::W4Norms& norms = {});
    Result<void> multiplyLast(const CudaLinear& linear, std::int64_t input, int rows,
                              const kernels::cuda::W4Norms& after);
    kernels::cuda::W4Norms normBetween(const CudaLinear& product, const CudaLinear& next, const float* weight) const;
    kernels::cuda::W4Norms scaleAfter(const kernels::cuda::W4Norms& between) const;
    /// Of `rows` rows whose projections lie in the work space, without sketches; positions and targets on the device.
    kernels::cuda::AttentionInput attentionInput(const CudaLayer& layer, int rows, const std::int32_t* positions,
                                                 const kernels::cuda::RowTarget* targets) const;
    /// From m_work.normed to m_work.delta; `before` and `after`: the norms that products take along on either side.
    Result<void> attend(const CudaLayer& layer, int attentionLayer, const PassShape& shape,
                        const kernels::cuda::W4Norms& before, const kernels::cuda::W4Norms& after);
    /// What the sides before one take of a pass's tables.
    struct SideBegin {
        int row = 0, query = 0, reading = 0, lookup = 0;
    };
    /// Picks and attention of a side, from m_work.query to m_work.context.
    Result<void> attendSide(int attentionLayer, const PassShape& shape, int side, SideBegin begin,
                            const kernels::cuda::QkRopeArgs& rope, cudaStream_t stream);
    Result<void> pick(int attentionLayer, const PassShape& shape, const Side& side, const SideBegin& begin,
                      cudaStream_t stream);
    Result<void> fetch(int attentionLayer, const PassShape& shape, int firstLookup, int count, cudaStream_t stream);
    Result<void> mix(const CudaLayer& layer, int gdnLayer, const PassShape& shape, const kernels::cuda::W4Norms& before,
                     const kernels::cuda::W4Norms& after);
    /// m_work.delta = the MLP of `rows` rows at `input`.
    Result<void> gatedMlp(const CudaLayer& layer, std::int64_t input, int rows,
                          const kernels::cuda::W4Norms& before = {}, const kernels::cuda::W4Norms& after = {});
    /// Checks a step's entries and makes parts of them; how many rows they have.
    Result<int> prepareStep(std::span<const StepEntry> entries, std::size_t room, std::vector<Part>& parts);
    void finishStep(std::span<const Part> parts);
    /// Positions that a step wrote and that stay.
    void take(CudaSequence& sequence, std::span<const TokenId> tokens) const;
    /// The best token below `endId` of the pass's rows, into m_best.
    Result<void> bestTokens(int rows, TokenId endId);
    /// Brings the counters and waits for the pass.
    Result<void> finishPass();

    // MTP: cuda_mtp.cpp
    /// MTP's rows after a pass that read `tokens` at the end of the sequence and left their final rows at `finalRows`:
    /// (tokens, hiddenSize). To be called before the sequence's length moves on.
    Result<void> readMtp(CudaSequence& sequence, std::span<const TokenId> tokens, const __nv_bfloat16* finalRows);
    /// MTP's rows up to the newest position's.
    Result<void> fillMtp(CudaSequence& sequence);
    /// Keys and values of the rows; the first `chains` of them draft, and leave their tokens in the host's table.
    Result<void> mtpPass(std::span<const MtpRow> rows, int chains);
    Result<void> enqueueMtp(const MtpShape& shape);
    void addUnfilled(CudaSequence& sequence, std::vector<MtpRow>& rows) const;
    Result<void> forgetFilled(CudaSequence& sequence);

    const ModelConfig m_config;
    int m_device = 0;
    std::string m_description, m_link, m_architecture;
    std::unique_ptr<NvmlWatch> m_nvml;
    std::int64_t m_memoryTotal = 0, m_budget = 0;
    CudaStream m_stream;
    std::array<CudaStream, mostSides - 1> m_sideStreams;
    std::array<CudaEvent, mostSides - 1> m_sideEvents;
    CudaModel m_model;
    GdnOffsets m_gdnOffsets;
    WorkLayout m_work;
    TableLayout m_tables;
    DeviceMemory m_workMemory;
    PinnedMemory m_tableMemory;
    int m_multiprocessors = 0;
    std::int64_t m_maxSplits = 0; ///< that the attention's work space has room for
    std::int64_t m_contextLimit = 0;
    CudaSparse m_sparse;
    CudaPrefill m_prefill;
    int m_sparseRows = 0; ///< of the newest pass
    Graphs<PassShape> m_graphs;
    PassCounts m_passes;
    MtpTableLayout m_mtpTables;
    PinnedMemory m_mtpMemory;
    Graphs<MtpShape> m_mtpGraphs;
    DeviceMemory m_noise;
    PinnedMemory m_restoreMemory;                         ///< one page's part of an image; from the first on
    PinnedMemory m_best;                                  ///< tokens of a step's rows
    std::unique_ptr<PagePool> m_devicePages, m_hostPages; // outlive the sequences' pages
    PinnedMemory m_bytesRead;

    std::int64_t m_preparedPages = 0; // of the host tier, for a sequence that is to come
    std::int64_t m_ownBytes = 0; // of all sequences, without their pages

    std::map<SlotId, CudaSequence> m_sequences;
    std::int32_t m_nextSlot = 0;
    std::atomic<std::int64_t> m_sequenceBytes{0}, m_prefillTokens{0}, m_decodeTokens{0}, m_sparseSteps{0},
        m_denseSteps{0}, m_hostBytes{0}, m_hotBytes{0}, m_picked{0}, m_tierBytes{0}, m_misses{0};
};

template <typename Shape, typename Enqueue>
Result<void> CudaBackend::runGraph(Graphs<Shape>& graphs, const Shape& shape, Enqueue&& enqueue)
{
    const auto known = graphs.find(shape);
    if (known == graphs.end()) {
        if (graphs.size() >= mostGraphs)
            graphs.clear();
        graphs.emplace(shape, std::nullopt);
        ++m_passes.direct;
        return enqueue();
    }
    if (!known->second) {
        OCTAVO_TRY(known->second, CudaGraph::record(m_stream.get(), enqueue));
        ++m_passes.recorded;
    }
    ++m_passes.replayed;
    return known->second->launch(m_stream.get());
}

} // namespace octavo::engine
