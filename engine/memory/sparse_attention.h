#pragma once

/// Attention over a few rows of a long context: sketch scores of all tokens, an exact top-K, exact attention over the
/// picked rows.
///
/// A backend keeps the sinks and the recent tokens by itself and attends to them as it always does; what lies between
/// is asked for here and comes back as one more part of the same softmax. With topK at least that many tokens, all of
/// them are picked and the result is dense attention over the same rows.
///
/// Numerics picks are exact and ties go to the lower index; sums run in an order that depends on token positions alone.
///          So picks and results are the same for any number of threads and in any batch.
/// Thread   one owner, which brings the ParallelFor that the work is spread with.

#include "engine/memory/host_tier.h"
#include "engine/memory/hot_buffer.h"
#include "engine/memory/sketch_basis.h"
#include "engine/memory/sparse_settings.h"
#include "engine/result.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/sparse_select.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace octavo::engine {

/// Runs body(0) .. body(count - 1) on any threads and returns when all are done.
using ParallelFor = std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& body)>;

/// Runs on the calling thread.
ParallelFor serialFor();

/// What one sequence keeps: its tier, its lanes of the hot buffer, its last picks.
class SparseSequence
{
public:
    const HostTier& tier() const { return m_tier; }
    HostTier& tier() { return m_tier; }
    /// The newest picks of a layer's list, ascending. `list`: KV head, or 0 for a shared list.
    const std::vector<std::int32_t>& picks(int layer, int list) const;
    /// Estimated share of attention that the newest step left out, mean over heads; negative before the first.
    double tail(int layer) const { return m_layers[std::size_t(layer)].tail; }

private:
    friend class SparseAttention;
    struct Layer {
        std::vector<HotBuffer::LaneId> lanes;         // (lists), from the first attend() on
        std::vector<std::vector<std::int32_t>> picks; // (lists)
        double tail = -1.0;
        int boost = 1; // of topK, adaptive
    };
    SparseSequence(HostTier&& tier, int layers) : m_tier(std::move(tier)), m_layers(std::size_t(layers)) {}

    HostTier m_tier;
    std::vector<Layer> m_layers;
};

/// Part of a softmax: per query head. context / sum is the attention over these rows alone.
struct AttentionPart {
    std::vector<float> maximum, sum; ///< (numHeads)
    std::vector<float> context;      ///< (numHeads, headDim)
    std::vector<float> tailLog;      ///< (numHeads): log of the estimated sum of e^score over tokens left out
};

struct SparseCounters {
    std::int64_t attends = 0; ///< layers times rows
    std::int64_t pickedRows = 0, repeatedPicks = 0;
    double tailSum = 0.0;
    std::int64_t tailCount = 0;
};

class SparseAttention
{
public:
    /// `basis`: as fitted for the model. `numHeads`: query heads, a multiple of the KV heads.
    static Result<SparseAttention> create(const SketchBasis& basis, int numHeads, const SparseSettings& settings,
                                          kernels::cpu::Path path, ParallelFor parallel);

    const SparseSettings& settings() const { return m_settings; }
    const TierShape& shape() const { return m_shape; }
    std::uint64_t basisHash() const { return m_basis.contentHash(); }

    Result<std::unique_ptr<SparseSequence>> createSequence(std::int64_t maxTokens);
    /// Shares the first `tokens` tokens of `source`.
    Result<std::unique_ptr<SparseSequence>> forkSequence(const SparseSequence& source, std::int64_t tokens,
                                                         std::int64_t maxTokens);
    void destroySequence(std::unique_ptr<SparseSequence> sequence);

    /// Makes tokens [begin, begin + count) writable in all layers and forgets what was there. Once per slice.
    Result<void> prepareAppend(SparseSequence& sequence, std::int64_t begin, std::int64_t count);

    /// Writes the rows of one layer. keys (after RoPE), values: row t at t * stride, (numKvHeads, headDim) in it.
    void append(SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t count, const float* keys,
                std::int64_t keyStride, const float* values, std::int64_t valueStride);

    /// Begins a decode step: rows of the step before may be evicted from the hot buffer.
    void beginStep() { m_hot.beginStep(); }

    /// Attends to at most topK of the tokens [begin, end) of one layer; both are multiples of 16.
    /// queries: (numHeads, headDim) after RoPE. The part is valid until the next call.
    const AttentionPart& attend(SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t end,
                                const float* queries);

    /// Takes in what share of the attention a row left out: its part's tailLog, and the log of its whole softmax sum.
    void noteTail(SparseSequence& sequence, int layer, std::span<const float> tailLog, std::span<const float> totalLog);

    const SparseCounters& counters() const { return m_counters; }
    const HotBuffer& hot() const { return m_hot; }

private:
    SparseAttention(const SketchBasis& basis, HotBuffer&& hot, int numHeads, const SparseSettings& settings,
                    kernels::cpu::Path path, ParallelFor parallel);

    void addLanes(SparseSequence& sequence, int layer);
    int lists() const { return m_settings.perHead ? m_shape.numKvHeads : 1; }
    int headsPerList() const { return m_numHeads / lists(); }
    void score(const SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t end, const float* queries);
    void pick(SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t end, const float* queries);
    void gather(SparseSequence& sequence, int layer, int list);
    void attendPicked(SparseSequence& sequence, int layer, const float* queries);

    SketchBasis m_basis;
    TierShape m_shape;
    int m_numHeads;
    SparseSettings m_settings;
    kernels::cpu::Path m_path;
    ParallelFor m_parallel;
    HotBuffer m_hot;
    float m_scale;
    SparseCounters m_counters;

    // Work space, grown once.
    std::vector<kernels::cpu::SketchQuery> m_queries;
    std::vector<std::vector<float>> m_scores;        // (numHeads) by token - begin
    std::vector<std::vector<float>> m_keys;          // (lists)
    std::vector<kernels::cpu::LogSum> m_pageSums;    // (numHeads, pages)
    std::vector<float> m_logSums;                    // (numHeads)
    std::vector<kernels::cpu::SelectScratch> m_select;
    std::vector<std::vector<std::int32_t>> m_picks;  // (lists)
    std::vector<HotBuffer::Row> m_rows;
    std::vector<std::uint8_t> m_overflow;            // rows for which the buffer had no room
    std::vector<std::vector<const std::uint8_t*>> m_pointers; // (numKvHeads)
    std::vector<float> m_chunkWork;
    AttentionPart m_part;
};

} // namespace octavo::engine
