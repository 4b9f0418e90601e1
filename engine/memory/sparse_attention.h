#pragma once

/// Attention over a few rows of a long context: sketch scores, a top-K, exact attention over the picked rows.
///
/// A backend keeps the sinks and the recent tokens by itself and attends to them as it always does; what lies between
/// is asked for here and comes back as one more part of the same softmax. With topK (what
/// SparseSettings::topKOnCpu() says) at least that many tokens, all of them are picked and the result is dense
/// attention over the same rows.
///
/// Picks    a token's key is the log of the largest share of attention that any head gives it, by its sketch. The topK
///          with the largest keys are picked, exactly (PickRule::Largest), or by priority (PickRule::Priority): each
///          key plus a boost, a random number that is the token's own for good (kernels/cpu/sparse_priority.h).
/// Lifts    a token picked by priority enters the softmax of every head with its exact score plus a lift, -log of how
///          likely it was to be picked, so that it stands for others that were as likely. On average sums over the
///          picks are those over all tokens, however wrong the sketch; what lifts add is the tail, the share of the
///          attention that was not looked at. Of picks by largest keys, the tail is what the sketch says they leave
///          out.
/// Leads    by priority, keys are computed only where the leads of sketches promise much to any head: of about lookAt *
///          topK tokens for each, which are taken by priority too, so that lifts make up for those never looked at as
///          well. The limits of leads come from blocks evenly spread over the range; where they mislead, all sketches
///          are scored.
/// Numerics ties go to the lower index; boosts and sums depend on token positions alone. So picks and results are the
///          same for any number of threads and in any batch.
/// Buffer   rows are read where the tier has them; a HotBuffer counts what one near the compute would have had to
///          fetch.
/// Thread   one owner, which brings the ParallelFor that the work is spread with. attendList() of different lists may
///          run on several threads at once: every list has a hot buffer and work space of its own.

#include "engine/memory/host_tier.h"
#include "engine/memory/hot_buffer.h"
#include "engine/memory/sketch_basis.h"
#include "engine/memory/sparse_settings.h"
#include "engine/result.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/sparse_attend.h"
#include "kernels/cpu/sparse_priority.h"
#include "kernels/cpu/sparse_rows.h"
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
    /// Estimated share of attention that the newest step did not look at, mean over heads; negative before the first.
    double tail(int layer) const { return m_layers[std::size_t(layer)].tail; }

private:
    friend class SparseAttention;
    struct Layer {
        std::vector<HotBuffer::LaneId> lanes;         // (lists), from the first attend() on
        std::vector<std::vector<std::int32_t>> picks; // (lists)
        double tail = -1.0;
    };
    SparseSequence(HostTier&& tier, int layers) : m_tier(std::move(tier)), m_layers(std::size_t(layers)) {}

    HostTier m_tier;
    std::vector<Layer> m_layers;
};

/// Part of a softmax: per query head. context / sum is the attention over these rows alone.
struct AttentionPart {
    AttentionPart() = default;
    AttentionPart(int numHeads, int headDim)
        : maximum(std::size_t(numHeads)), sum(std::size_t(numHeads))
        , context(std::size_t(numHeads) * std::size_t(headDim)), tailLog(std::size_t(numHeads))
    {}

    std::vector<float> maximum, sum; ///< (numHeads)
    std::vector<float> context;      ///< (numHeads, headDim)
    /// (numHeads): log of what lifts add to sum and context; of picks by largest keys, of the estimated sum of e^score
    /// over all others, which both leave out.
    std::vector<float> tailLog;
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
    void beginStep();

    /// Attends to at most topK (up to four times that where the budget is adaptive) of the tokens [begin, end) of one
    /// layer; both are multiples of 16. queries: (numHeads, headDim) after RoPE. The part is valid until the next call.
    const AttentionPart& attend(SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t end,
                                const float* queries);

    /// Lists of picks per layer: one for each KV head, or one for all. List i is that of query heads i * headsPerList()
    /// and on.
    int lists() const { return m_settings.perHead ? m_shape.numKvHeads : 1; }
    int headsPerList() const { return m_numHeads / lists(); }
    /// Before attendList() of this sequence may run on several threads.
    void prepareLists(SparseSequence& sequence);
    /// Asks for what attendList() reads first, which lies anywhere: to be called a little before, on any thread.
    void askForLeads(const SparseSequence& sequence, int layer, int list, std::int64_t begin, std::int64_t end) const;
    /// attend() for the heads of one list, on the calling thread, into their places of `part` (of all heads).
    void attendList(SparseSequence& sequence, int layer, int list, std::int64_t begin, std::int64_t end,
                    const float* queries, AttentionPart& part)
    {
        attendList(sequence, layer, list, begin, end, queries, part, nullptr);
    }
    /// The same with all of the owner's threads.
    void attendListTogether(SparseSequence& sequence, int layer, int list, std::int64_t begin, std::int64_t end,
                            const float* queries, AttentionPart& part)
    {
        attendList(sequence, layer, list, begin, end, queries, part, &m_parallel);
    }

    /// Of the picks that a list attended to last, what was added to their scores; empty where all counted once.
    const std::vector<float>& lifts(int list) const { return m_lists[std::size_t(list)].lifts; }

    /// Keys lie in the tier less their head's mean of the basis, so that int4 tells the rest apart more finely: what a
    /// query's scores with them lack, the same for all of them. query: (headDim).
    float meanScore(int layer, int kvHead, const float* query) const;

    /// Takes in what share of the attention a row did not pick: its part's tailLog, and the log of its whole softmax
    /// sum.
    void noteTail(SparseSequence& sequence, int layer, std::span<const float> tailLog, std::span<const float> totalLog);

    /// Sums over all lists.
    SparseCounters counters() const;
    HotCounters hotCounters() const;
    std::int64_t hotRowsInUse() const;

private:
    /// Work space of one list, grown once.
    struct List {
        explicit List(HotBuffer&& buffer) : hot(std::move(buffer)) {}

        HotBuffer hot;
        SparseCounters counters;
        std::vector<kernels::cpu::SketchQuery> sketchQueries; // (headsPerList)
        std::vector<kernels::cpu::RowQuery> rowQueries;       // (headsPerList)
        std::vector<std::vector<float>> scores;               // (headsPerList) by token - begin, or by candidate
        std::vector<std::int32_t> candidates;                 // tokens
        std::vector<float> lacks;                             // by candidate: what its leads lack
        std::vector<std::int64_t> pageCounts;                 // candidates of each page
        std::vector<std::vector<std::int32_t>> leads;         // (headsPerList) of sampled tokens
        std::vector<std::int32_t> limits, boostedLimits;      // (headsPerList), and as LeadRule has them
        std::vector<float> units;                             // (headsPerList) of leads
        std::vector<kernels::cpu::LogSum> pageSums;           // (headsPerList, pages)
        std::vector<float> logSums, kept;                     // (headsPerList)
        std::vector<float> lifted;                            // scores of one head's candidates with their lacks
        kernels::cpu::PriorityScratch select;
        std::vector<std::int32_t> picks;
        std::vector<float> lifts;                  // of the picks; none where all count once
        std::vector<const std::uint8_t*> pointers; // (KV heads of the list, picks)
        std::vector<float> chunks;                 // by task: contexts, maxima, sums, work space
    };

    SparseAttention(const SketchBasis& basis, std::vector<List>&& lists, int numHeads, const SparseSettings& settings,
                    kernels::cpu::Path path, ParallelFor parallel);

    int kvHeadsPerList() const { return m_settings.perHead ? 1 : m_shape.numKvHeads; }
    /// Picks of a row from `count` tokens, before its budget grows, and the most there may be.
    std::int64_t picksOf(std::int64_t count) const { return std::min<std::int64_t>(count, m_settings.topKOnCpu()); }
    std::int64_t mostPicksOf(std::int64_t count) const;
    void attendList(SparseSequence& sequence, int layer, int list, std::int64_t begin, std::int64_t end,
                    const float* queries, AttentionPart& part, const ParallelFor* parallel);
    void projectQueries(List& work, int layer, int list, const float* queries);
    void scoreAll(List& work, const SparseSequence& sequence, int layer, int list, std::int64_t begin,
                  std::int64_t end, const ParallelFor* parallel);
    /// Scores the tokens whose leads promise most and returns how many there are: `wanted` at least, or none.
    std::int64_t scoreCandidates(List& work, const SparseSequence& sequence, int layer, int list, std::int64_t begin,
                                 std::int64_t end, std::int64_t wanted, const ParallelFor* parallel);
    /// Whether leads say of which of `count` tokens keys are computed, where `wanted` are picked.
    bool looksAtLeads(std::int64_t count, std::int64_t wanted) const;
    void sampleLeads(List& work, const SparseSequence& sequence, int layer, int list, std::int64_t begin,
                     std::int64_t end, std::int64_t stride);
    /// The rule that makes about `target` of `count` tokens candidates, by `sampled` of their leads.
    kernels::cpu::LeadRule ruleOf(List& work, double target, std::int64_t sampled, std::int64_t count);
    void sumCandidates(List& work, std::int64_t candidates);
    void choose(List& work, const kernels::cpu::PriorityTokens& tokens, std::int64_t wanted);
    void pick(List& work, SparseSequence& sequence, int layer, int list, std::int64_t begin, std::int64_t end,
              const float* queries, AttentionPart& part, const ParallelFor* parallel);
    void findRows(List& work, const SparseSequence& sequence, int layer, int list);
    void countPicks(List& work, SparseSequence& sequence, int layer, int list);
    void attendPicked(List& work, const SparseSequence& sequence, int layer, int list, const float* queries,
                      AttentionPart& part, const ParallelFor* parallel);

    SketchBasis m_basis;
    TierShape m_shape;
    int m_numHeads;
    SparseSettings m_settings;
    kernels::cpu::Path m_path;
    ParallelFor m_parallel;
    float m_scale;
    std::vector<List> m_lists;
    SparseCounters m_tails; // tailSum and tailCount alone
    AttentionPart m_part;
};

} // namespace octavo::engine
