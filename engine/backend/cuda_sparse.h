#pragma once

/// What sparse attention keeps on a GPU: the basis, a sketch of every key, a hot buffer for each sequence that decodes,
/// and the work space in which a step finds its picks.
///
/// A row attends to the first tokens, the last ones, and those between that are picked by their sketches, one list for
/// all KV heads of a layer: a pick is one contiguous read over the link. Picks by priority come with lifts, by which
/// they stand for what was not picked as well (SparseSettings::pickRule, launchSketchPick()).
/// Thread   the backend's.

#include "engine/backend/backend.h"
#include "engine/backend/cuda_memory.h"
#include "engine/memory/sparse_settings.h"
#include "engine/model/model_config.h"
#include "engine/result.h"
#include "kernels/cuda/hot_buffer.h"
#include "kernels/cuda/sketch.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octavo::engine
{

/// The sketches of one sequence, all attention layers. A frozen fork shares its source's: it reads what lies below its
/// length, and the source writes behind.
struct CudaSketch {
    DeviceMemory memory;
    std::int32_t tiles = 0; ///< capacity, of 16 tokens
};

/// Rows kept near the compute, by layer.
struct CudaHotBuffer {
    DeviceMemory memory;
    std::int32_t slots = 0;
    std::int64_t tokens = 0;
    std::shared_ptr<const int> counter; ///< number of its count of bytes read
    std::int64_t counted = 0;           ///< by those who had the counter before
};

/// Which rows beside its picks a query reads.
struct SparseRange {
    std::int32_t sinks, pickEnd; ///< picks lie in sinks .. pickEnd - 1, from pickEnd on all is read
};

class CudaSparse
{
public:
    /// Without a basis file, Auto leaves the model dense; On fails with Unsupported, naming what to do.
    /// `contextLimit`: no sequence will be longer.
    static Result<CudaSparse> create(const ModelConfig& config, std::uint64_t modelHash, SparseMode mode,
                                     const SparseSettings& settings, const std::filesystem::path& basisFile,
                                     bool basisNamed, std::int64_t contextLimit);

    bool available() const { return m_available; }
    void setMode(SparseMode mode) { m_mode = mode; }
    /// Whether rows of a sequence share what can be shared; otherwise they go one by one.
    void setJointRows(bool joint) { m_jointRows = joint; }
    /// Rows of a sequence's hot buffer, in bytes; before the first is made.
    void setHotBytes(std::int64_t bytes) { m_hotBytes = bytes; }
    /// Whether a sequence of so many tokens will ever decode sparsely, and so needs a hot buffer and the host tier.
    bool wanted(std::int64_t maxTokens) const;
    /// What the row at `position` of a sequence with a hot buffer reads; nothing where it is dense.
    std::optional<SparseRange> range(std::int64_t position) const;

    std::int64_t sketchBytes(std::int64_t tokens) const;
    std::int64_t hotBytes(std::int64_t tokens) const;
    Result<std::shared_ptr<CudaSketch>> makeSketch(std::int64_t tokens) const;
    Result<void> copySketch(const CudaSketch& from, const CudaSketch& to, std::int64_t tokens,
                            cudaStream_t stream) const;
    /// Names what sketches' values depend on, for images.
    std::string layoutName() const;
    /// Where a sketch of so many tokens, a multiple of 64, lies in RAM: codes (layers * kvHeads, tiles * 512), then
    /// scales (layers * kvHeads, tiles * 16) fp16.
    struct SketchExtent {
        std::int64_t runs = 0, tiles = 0; ///< layers * kvHeads; of each. No runs: no sketches
        std::int64_t bytes() const { return runs * tiles * tileBytes; }
        /// The parts of 512 tokens from unit * 512 on, in the order in which copyIn() takes them.
        void appendUnit(std::vector<std::span<const std::byte>>& parts, const std::byte* ram, std::int64_t unit) const;
        static constexpr std::int64_t scaleBytes = kernels::cuda::sketchTileTokens * 2;
        static constexpr std::int64_t tileBytes = kernels::cuda::sketchTileBytes + scaleBytes;
    };
    SketchExtent extent(std::int64_t tokens) const;
    /// Copies a sketch's beginning to `ram`; what it has no room for stays as it is there.
    Result<void> copyOut(const CudaSketch& sketch, const SketchExtent& extent, std::byte* ram,
                         cudaStream_t stream) const;
    /// Takes `tokens` tokens' parts from firstToken on, both multiples of 64: codes of all layers and KV heads, then
    /// scales. Those beyond the sketch's room are left out. `ram` is page-locked.
    Result<void> copyIn(const CudaSketch& sketch, std::int64_t firstToken, std::int64_t tokens, const std::byte* ram,
                        cudaStream_t stream) const;
    Result<CudaHotBuffer> makeHotBuffer(std::int64_t tokens, cudaStream_t stream) const;

    kernels::cuda::SketchView view(const CudaSketch& sketch, int layer) const;
    const float* basis(int layer) const { return m_available ? m_basis.at<float>() + layer * m_basisFloats : nullptr; }
    const float* means(int layer) const
    {
        return m_available ? m_basis.at<float>() + layer * m_basisFloats + m_meansAt : nullptr;
    }

    static constexpr int maxRows = 64; ///< sparse rows of a step
    static constexpr int rowsPerSplit = 256;
    /// Rows that are picked from `range`.
    std::int32_t picks(const SparseRange& range) const;
    /// Of the row's picks, on the device; null where the largest are picked.
    float* lifts(int row) const
    {
        return m_settings.pickRule == PickRule::Priority ? m_work.at<float>(row * m_offsets.bytes + m_offsets.lifts)
                                                         : nullptr;
    }
    /// Attention's splits of a row with so many picks; no row has more than maxSplits().
    std::int64_t splits(std::int32_t picks) const
    {
        return (m_settings.sinks + m_settings.recent + 16 + picks) / rowsPerSplit + 1;
    }
    std::int64_t maxSplits() const { return splits(m_mostPicks); }
    std::int64_t contextLimit() const { return m_contextLimit; }

    /// Rows of a sequence that can share one reading of its sketch.
    int readingRows() const
    {
        return m_jointRows ? kernels::cuda::sketchMaxColumns / ((m_heads / m_kvHeads + 1) / 2 * 2) : 1;
    }

    /// One row's part of a layer, and where its picks come out.
    struct RowTables {
        kernels::cuda::SketchQuery sketch;
        kernels::cuda::HotList list;
    };
    RowTables rowTables(int row, int layer, const SparseRange& range, const __nv_bfloat16* projected,
                        const CudaSketch& sketch) const;
    /// Rows `row` .. row + rows - 1 of one sequence, whose picks are looked up and brought together. `lists`: of `row`,
    /// on the device.
    struct FetchTables {
        kernels::cuda::HotLookup lookup;
        kernels::cuda::GatherMisses gather;
    };
    FetchTables fetchTables(int row, int rows, int layer, const CudaHotBuffer& hot,
                            const kernels::cuda::RowPages& pages, const kernels::cuda::HotList* lists) const;
    /// Whether the buffer has room for the picks of so many rows at once, the last of which is at `position`.
    bool holds(const CudaHotBuffer& hot, int rows, std::int64_t position) const;
    const std::uint8_t* hotRows(const CudaHotBuffer& hot, int layer) const;
    const std::int32_t* rowIds(int row) const
    {
        return m_work.at<std::int32_t>(row * m_offsets.bytes + m_offsets.rowIds);
    }
    /// Bytes read by gathers since the start, on the device: numCounters of them, which hot buffers take in turn. They
    /// only grow.
    unsigned long long* bytesRead() const { return m_counters.at<unsigned long long>(); }
    static constexpr int numCounters = 256;
    std::int64_t workBytes() const { return m_available ? m_basis.bytes() + m_work.bytes() + m_misses.bytes() : 0; }

private:
    /// Of one row's work space.
    struct WorkOffsets {
        std::int64_t maxima = 0, logSums = 0, lines = 0, groupKeys = 0, histogram = 0, candidates = 0, counters = 0,
                     picks = 0, numPicks = 0, rowIds = 0, numMisses = 0, lifts = 0, bytes = 0;
    };
    /// Of one layer of a hot buffer.
    struct HotOffsets {
        std::int64_t slotOfToken = 0, tokenOfSlot = 0, marks = 0, hand = 0, rows = 0, bytes = 0;
    };
    HotOffsets hotOffsets(std::int64_t tokens, std::int32_t slots) const;
    std::shared_ptr<const int> takeCounter() const;
    std::int32_t slots(std::int64_t tokens) const;

    int m_layers = 0, m_heads = 0, m_kvHeads = 0, m_mostPicks = 0; // m_mostPicks: of a row
    std::int64_t m_contextLimit = 0, m_hotBytes = 0;
    bool m_available = false, m_jointRows = true;
    SparseMode m_mode = SparseMode::Off;
    SparseSettings m_settings;
    std::uint64_t m_basisHash = 0;
    std::int64_t m_basisFloats = 0, m_meansAt = 0;      // of a layer
    DeviceMemory m_basis, m_work, m_misses, m_counters; // m_misses: tokens of all rows, then slots
    std::shared_ptr<std::vector<int>> m_freeCounters;
    WorkOffsets m_offsets;
};

} // namespace octavo::engine
