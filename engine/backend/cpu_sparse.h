#pragma once

/// Where the rows of long contexts lie on the CPU backend, and its sparse attention: moves old rows into the int4 host
/// tier, decides per row what is picked, runs the picks of a pass.
///
/// From tierStart() tokens on, a row finds the first page (512 tokens, the sinks among them) and the last 1024 tokens
/// or more, in whole pages, in the int8 pages; what lies between it finds in the tier, and there alone: the int8 pages
/// of those tokens are let go of. Decoding picks from the tier; prefill, and steps with sparse attention switched off,
/// read all of it. Which rows are read where follows from a row's position alone, and a page's rows move once, when
/// they have long been confirmed: so results depend neither on slices nor on rollbacks. Backends made with
/// SparseMode::Off keep int8 pages for everything.
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
    int recentPage = 0;          ///< the first page after the picks
    AttentionPart part;          ///< of the layer at hand
    std::vector<float> tailLog;  ///< (layers, numHeads)
    std::vector<float> totalLog; ///< the same; filled by whoever merges: log of the row's whole softmax sum
};

class CpuSparse
{
public:
    CpuSparse(const ModelConfig& config, int attentionLayers, std::uint64_t modelHash, SparseMode mode,
              const SparseSettings& settings, kernels::cpu::Path path, int threads);

    /// Takes the basis from `file`. Without one, SparseMode::Auto stays dense and SparseMode::On fits one from the
    /// first long context.
    Result<void> loadBasis(const std::filesystem::path& file);

    SparseMode mode() const { return m_mode; }
    void setMode(SparseMode mode) { m_mode = mode; }
    const SparseSettings& settings() const { return m_settings; }
    const SparseAttention* attention() const { return m_attention ? &*m_attention : nullptr; }
    /// Names the basis and all settings that decide where rows lie; empty where the basis is not known yet.
    std::string layoutName() const;

    /// Tier, sketch and index of a sequence of `tokens`; 0 where it never gets long enough.
    std::int64_t sequenceBytes(std::int64_t tokens) const;
    /// The most int8 pages that a sequence of `length` tokens has before it holds `maxTokens`.
    std::int64_t mostPages(std::int64_t length, std::int64_t maxTokens) const;

    /// What a fork of `source` need not take again.
    std::int64_t sharedBytes(const CpuSequence& source) const;
    /// What a sequence holds or may still take; pages shared by several count in parts. A checkpoint takes nothing.
    std::int64_t reservedBytes(const CpuSequence& sequence) const;

    /// The fewest tokens with which a context has rows in the tier; int64's largest where none ever has.
    std::int64_t tierStart() const;
    /// The int8 page up to which a row at `position` finds its rows, from page 1 on, in the tier; 0: none are there.
    int tierPages(std::int64_t position) const;
    /// The same where the row picks from them; 0 where it reads all rows.
    int pickPages(std::int64_t position) const;

    /// Before a pass of rows at positions [length, length + count): brings the tier up to what they find there and lets
    /// go of int8 pages that none of them needs. Outside ComputePool::run(); `parallel` spreads the work. Fails with
    /// OutOfMemory.
    Result<void> prepareRows(CpuSequence& sequence, std::int64_t count, const ParallelFor& parallel);
    /// Makes room in the tier for the rows that a saved sequence of `length` tokens had there, to be written by the
    /// caller. Fails with OutOfMemory.
    Result<void> prepareRestore(CpuSequence& sequence, std::int64_t length);
    /// Shares the tier of `source`.
    Result<void> fork(const CpuSequence& source, CpuSequence& target);
    void release(CpuSequence& sequence);

    /// Before a step: which of its rows are sparse. Rows are numbered through the entries.
    void beginStep(std::span<const std::pair<CpuSequence*, int>> entries);
    /// Whether any row of the step at hand picks.
    bool anySparse() const { return m_anySparse; }
    void endStep();
    CpuPickedRow& row(int row) { return m_rows[std::size_t(row)]; }

    using QueryOf = std::function<const float*(int row, int head)>; ///< headDim floats

    /// Whether so many threads pick for KV heads of their own, with pickHead(), instead of all together.
    bool picksByHead(int threads) const { return m_settings.perHead && threads <= m_config.numKvHeads; }
    /// Asks for what pickHead() reads first, to be called some microseconds before.
    void askForLeads(int layer, int kvHead) const;
    /// Picks for one KV head of all sparse rows of a layer. On the thread that the head is always given to.
    void pickHead(int layer, int kvHead, const QueryOf& query) { pickList(layer, kvHead, query, false); }
    /// Leads the team, `threads` strong, through all sparse rows of one layer.
    void runPicks(int layer, int threads, const QueryOf& query);
    void help(int thread) { m_team.help(thread); }

    /// Sums over at most about `mostKeys` keys, evenly spread over the first `tokens` positions.
    KeyStatistics statistics(const CpuSequence& sequence, std::int64_t tokens, std::int64_t mostKeys,
                             const ParallelFor& parallel) const;

    void addStats(BackendStats& stats) const;

private:
    std::int64_t indexBytes(std::int64_t tokens) const;
    void pickList(int layer, int list, const QueryOf& query, bool together);
    Result<void> fill(CpuSequence& sequence, std::int64_t end, const ParallelFor& parallel);
    Result<void> fitBasis(const CpuSequence& sequence, std::int64_t tokens);
    Result<void> useBasis(const SketchBasis& basis);

    const ModelConfig& m_config;
    const int m_layers;
    const std::uint64_t m_modelHash;
    SparseMode m_mode;
    const SparseMode m_keptMode; ///< decides where rows lie, whatever m_mode becomes
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
    std::vector<std::vector<float>> m_queries; // (lists), (numHeads, headDim)
    // Read by stats() from any thread.
    std::atomic<std::int64_t> m_sparseSteps{0}, m_denseSteps{0}, m_hits{0}, m_misses{0}, m_evictions{0}, m_bytesRead{0},
        m_picked{0};
    std::atomic<double> m_tail{-1.0}, m_overlap{-1.0};
};

} // namespace octavo::engine
