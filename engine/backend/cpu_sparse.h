#pragma once

/// Sparse attention of the CPU backend: decides per row, keeps the host tier in step with the int8 pages, runs the
/// picks of a pass.
///
/// The first page (512 tokens, the sinks among them) and the last 1024 tokens or more, in whole pages, are attended
/// from the int8 pages like everything is in dense attention; what lies between may be picked. The tier's rows are
/// made from the int8 pages, one whole page at a time, once it can be picked from: so they are a function of the
/// tokens alone, rollbacks never reach them, and a fork need not carry what it can make again.
/// Thread   the backend's; runPicks() and help() inside a ComputePool::run().

#include "engine/backend/backend.h"
#include "engine/backend/cpu_sequence.h"
#include "engine/backend/task_team.h"
#include "engine/memory/sparse_attention.h"
#include "engine/model/model_config.h"

#include <filesystem>
#include <optional>
#include <vector>

namespace octavo::engine
{

/// What picking found for one row: its part of the softmax, by query head.
struct CpuPickedRow {
    bool sparse = false;
    int recentPage = 0;             ///< the first page after the picks; 0 where the row is dense
    std::vector<float> maximum, sum, context, tailLog;
    std::vector<float> totalLog;    ///< filled by whoever merges: log of the row's whole softmax sum
};

class CpuSparse
{
public:
    CpuSparse(const ModelConfig& config, int attentionLayers, std::uint64_t modelHash, SparseMode mode,
              const SparseSettings& settings, kernels::cpu::Path path, int threads);

    /// Takes the basis from `file`. Without one, SparseMode::Auto stays dense and SparseMode::On fits one from the first
    /// long context.
    Result<void> loadBasis(const std::filesystem::path& file);

    SparseMode mode() const { return m_mode; }
    void setMode(SparseMode mode) { m_mode = mode; }
    const SparseSettings& settings() const { return m_settings; }
    const SparseAttention* attention() const { return m_attention ? &*m_attention : nullptr; }

    /// Tier, sketch and index of a sequence of `tokens`; 0 where it never gets long enough.
    std::int64_t sequenceBytes(std::int64_t tokens) const;

    /// What a fork of `source` need not take again.
    std::int64_t sharedBytes(const CpuSequence& source) const;
    /// What a sequence holds or may still take; pages shared by several count in parts. A checkpoint takes nothing.
    std::int64_t reservedBytes(const CpuSequence& sequence) const;

    /// One past the last token that a row at `position` may pick, a page boundary; nothing where the row is dense.
    std::optional<std::int64_t> pickEnd(std::int64_t position) const;

    /// Brings the tier up to what rows up to position `length` may pick. Outside ComputePool::run(); `parallel`
    /// spreads the work. Fails with OutOfMemory.
    Result<void> fill(CpuSequence& sequence, std::int64_t length, const ParallelFor& parallel);
    /// After a slice: the same, for the row that comes next.
    Result<void> fillAhead(CpuSequence& sequence, const ParallelFor& parallel);
    /// Shares whole tier pages of `source`.
    Result<void> fork(const CpuSequence& source, CpuSequence& target);
    void release(CpuSequence& sequence);

    /// Before a step: which of its rows are sparse. Rows are numbered through the entries.
    void beginStep(std::span<const std::pair<CpuSequence*, int>> entries);
    bool anySparse() const { return m_anySparse; }
    void endStep();
    CpuPickedRow& row(int row) { return m_rows[std::size_t(row)]; }

    /// Leads the team through all sparse rows of one layer. query(row, head): headDim floats.
    void runPicks(int layer, const std::function<const float*(int row, int head)>& query);
    void help(int thread) { m_team.help(thread); }

    /// Sums over at most about `mostKeys` keys, evenly spread over the first `tokens` positions.
    KeyStatistics statistics(const CpuSequence& sequence, std::int64_t tokens, std::int64_t mostKeys,
                             const ParallelFor& parallel) const;

    void addStats(BackendStats& stats) const;

private:
    std::int64_t indexBytes(std::int64_t tokens) const;
    Result<void> fitBasis(const CpuSequence& sequence, std::int64_t tokens);
    Result<void> useBasis(const SketchBasis& basis);

    const ModelConfig& m_config;
    const int m_layers;
    const std::uint64_t m_modelHash;
    SparseMode m_mode;
    const SparseSettings m_settings;
    const kernels::cpu::Path m_path;
    const bool m_supported; ///< head sizes that the tier's groups of 64 do not fit stay dense
    TaskTeam m_team;
    ParallelFor m_parallel; // outside a run as `fill` was given it, inside the team's
    std::optional<SparseAttention> m_attention;
    std::vector<CpuPickedRow> m_rows;
    std::vector<std::pair<CpuSequence*, std::int64_t>> m_rowOf; // sequence and position of each row
    int m_numRows = 0;
    bool m_anySparse = false;
    SparseCounters m_pickedBefore;
    std::vector<float> m_queries;
    // Read by stats() from any thread.
    std::atomic<std::int64_t> m_sparseSteps{0}, m_denseSteps{0}, m_hits{0}, m_misses{0}, m_evictions{0}, m_bytesRead{0},
        m_picked{0}, m_tierBytes{0}, m_hotBytes{0};
    std::atomic<double> m_tail{-1.0}, m_overlap{-1.0};
};

} // namespace octavo::engine
