#pragma once

/// Runs rows of tokens through a CpuModel. One pass is one parallel region: each thread takes the same heads and output
/// panels of every layer, so what a head needs stays with its thread and few barriers are left (four per layer when
/// decoding). Gated DeltaNet stands in cpu_gdn.cpp, attention in cpu_attention.cpp, MTP in cpu_mtp.cpp, the choice of
/// greedy tokens in cpu_best.cpp.
///
/// Numerics every row is computed the same way whatever stands beside it; a pass of single rows equals passes of one.

#include "engine/backend/compute_pool.h"
#include "engine/backend/cpu_model.h"
#include "engine/backend/cpu_sequence.h"
#include "engine/backend/cpu_sparse.h"

#include <array>
#include <limits>
#include <span>

namespace octavo::engine
{

/// Part of a pass: rows of one sequence.
struct CpuRows {
    CpuSequence* sequence = nullptr;
    std::span<const TokenId> tokens;
    std::int64_t position = 0; ///< of the first; the sequence's length, save for drafts
};

/// Sixteen outputs of the head and the largest of their logits; panel -1: none.
struct LikelyPanel {
    float largest = -std::numeric_limits<float>::infinity();
    int panel = -1;
};

/// A chain of drafts on its way.
struct CpuDraft {
    CpuSequence* sequence = nullptr;
    TokenId next = -1; ///< what the chain goes on from
    int most = 1;
    DraftChain* chain = nullptr;
    double chance = 1.0; ///< that all of it is right
};

enum class CpuPass {
    Prefill, ///< one sequence, chunked GDN, state moves on
    Step,    ///< recurrent GDN; sequences with several rows keep their state until commit()
    Draft,   ///< the MTP layer alone
};

class CpuForward
{
public:
    /// `sparse`: picks rows for steps; null where attention is always dense.
    CpuForward(const CpuModel& model, const kernels::cpu::Kernels& kernels, int threads, int maxRows,
               CpuSparse* sparse);
    ~CpuForward();

    bool ready() const; ///< whether the work space could be had

    int maxRows() const { return m_maxRows; }
    std::int64_t workBytes() const;

    /// Pages, pending memory and lengths are the caller's affair; `logitRows` last rows give logits.
    void run(CpuPass pass, std::span<const CpuRows> entries, int logitRows, float* logits);
    /// A step whose rows give their best tokens alone, as Backend::stepBest() (cpu_best.cpp).
    void runBest(std::span<const CpuRows> entries, TokenId endId, std::span<TokenId> best);
    /// Takes the first `kept` of a sequence's pending rows into its recurrent state.
    void commit(CpuSequence& sequence, int kept);

    // MTP, where the model has it (cpu_mtp.cpp). Pages must be writable from the first row that is not filled.
    /// The final hidden rows of the last pass, (rows, hiddenSize), in order of its entries.
    const float* finalHidden() const { return m_final; }
    /// Fills MTP's rows up to the newest position's, which waits for the token after it.
    void fillMtp(CpuSequence& sequence);
    /// Runs all chains to their ends. Their sequences' unfilled rows and the chains fit maxRows() together.
    void draft(std::span<CpuDraft> chains, float leastChance);
    /// Spreads tasks over the pool's threads, between passes.
    ParallelFor parallel();

private:
    struct Private; ///< one thread's buffers
    struct Range {
        int begin = 0, end = 0;
    };
    /// Normalised or plain rows, as floats and quantised.
    struct Input {
        const float* x = nullptr;
        std::int64_t stride = 0;
        kernels::cpu::QuantizedRows quantized;
        Private* own = nullptr; ///< of the thread that prepared the rows
    };

    Range share(int count, int thread) const;
    /// `rows` rows of x for `linear`: normalised where normWeight is given, quantised where it wants that.
    Input prepare(int thread, const float* x, std::int64_t stride, int rows, const float* normWeight,
                  const CpuLinear& linear);
    void linear(const CpuLinear& linear, const Input& input, int outputBegin, int outputEnd, float* out,
                std::int64_t outStride) const;
    /// The next layer, or the first one, with which the next step begins.
    const CpuLayer& layerAfter(const CpuLayer& layer) const;
    /// Has the products up to layer `next` ask for the states, keys and values that this thread reads there.
    void lookAhead(int thread, const CpuLayer& next);
    void addToHidden(int thread, const CpuLinear& layer, const Input& input);
    /// One of several prepared rows by itself; until the next of the same thread.
    Input rowOf(const Input& rows, int row) const;
    /// The head's logits of one row in one panel, (16), any behind the last output; until the next of the same thread.
    float* panelLogits(const Input& row, int panel) const;

    void runThread(int thread);
    void embed(int thread);
    void gdnLayer(int thread, const CpuLayer& layer);
    void gdnStep(int thread, const CpuLayer& layer, Range keyHeads);
    void gdnPrefill(int thread, const CpuLayer& layer, Range keyHeads);
    void convolve(const CpuLayer& layer, int channelBegin, int channelEnd);
    void attentionLayer(int thread, const CpuLayer& layer);
    void attend(int thread, const CpuLayer& layer, const CpuRows& entry, int firstRow, int kvHead);
    /// attend() for this thread's share of a slice's rows and KV heads.
    void attendShare(int thread, const CpuLayer& layer);
    /// A page of rows in the host tier, unpacked into the thread's own space.
    kernels::cpu::KvPageView unpackTierPage(int thread, const CpuSequence& sequence, int page, int layer, int kvHead);
    /// The rows that sparse attention picks, for all rows of the pass.
    void pickRows(int thread, const CpuLayer& layer);
    bool picking() const { return m_pass == CpuPass::Step && m_sparse && m_sparse->anySparse(); }
    const float* query(int row, int head) const;
    void mlp(int thread, const CpuLayer& layer);
    void writeLogits(int thread);

    /// An MTP row: the final hidden row of a position and the token after it.
    struct MtpRow {
        CpuSequence* sequence = nullptr;
        const float* hidden = nullptr;
        TokenId token = -1;
        std::int64_t position = 0;
    };
    /// A part of the vocabulary: its likeliest panels, and its sum of exponentials relative to the first one's logit.
    struct DraftPart {
        std::array<LikelyPanel, 2> likely;
        float sum = 0.0f;
    };
    static constexpr int draftParts = 64; ///< so no more threads than that share the head's work
    struct BestDraft {
        TokenId token = 0;
        double chance = 0.0;
    };
    /// The best token of a thread's part of a row; -1: no logit is finite.
    struct BestToken {
        TokenId token = -1;
        float logit = -std::numeric_limits<float>::infinity();
    };
    /// Finds the best tokens of all rows in this thread's panels, by way of the rough head.
    void findBest(int thread, const Input& input, Range panels);
    /// The same by all logits.
    void findBestOfAll(int thread, const Input& input, Range panels);
    /// Puts the best of a panel's tokens in the place of `best`, if it is better.
    void lookThrough(const Input& row, int panel, BestToken& best) const;
    void addUnfilled(CpuSequence& sequence);
    void mtpEmbed(int thread);
    void mtpWriteKv(int thread, int firstRow);
    void mtpAfterPrefill(int thread);
    void runDrafts(int thread);
    void mtpLogits(int thread);
    BestDraft bestDraft(int row);
    /// Takes one token of each chain; false when none goes on.
    bool takeDrafts();

    const CpuModel& m_model;
    const ModelConfig& m_config;
    const kernels::cpu::Kernels& m_kernels;
    const RecurrentShape m_shape; // without the hidden row
    const int m_maxRows;
    CpuSparse* const m_sparse;
    ComputePool m_pool;
    std::vector<float> m_ropeFrequencies;

    // The pass at hand.
    CpuPass m_pass = CpuPass::Step;
    std::span<const CpuRows> m_entries;
    int m_rows = 0, m_logitRows = 0;
    float* m_logits = nullptr;
    std::vector<MtpRow> m_mtpRows;
    std::vector<CpuDraft*> m_drafts;
    std::vector<CpuRows> m_draftRows; // one of each chain that goes on
    std::vector<float> m_ownLogits; // of drafts, and of steps that give tokens alone
    std::vector<std::vector<BestToken>> m_best; // by thread, then row
    std::vector<std::vector<float>> m_toReach;  // the same: a logit that the best token does not stay below
    TokenId m_bestBelow = 0;                    // 0: the logits are wanted
    std::vector<std::array<DraftPart, draftParts>> m_draftParts; // by chain
    Input m_draftInput; // of the head, for the model's own
    float m_leastChance = 0.0f;
    bool m_draftsGoOn = false;

    // Shared rows, (maxRows, ...) each.
    BigPages m_memory;
    float* m_hidden = nullptr;
    float* m_norm = nullptr;
    float* m_projected = nullptr; ///< qkv, gate and up, and what goes to the hidden rows
    float* m_conv = nullptr;
    float* m_gate = nullptr;      ///< z
    float* m_mixed = nullptr;     ///< what out, o and down take in
    float* m_final = nullptr;     ///< hidden rows after the final norm; with MTP only
    float* m_scales = nullptr;
    float* m_cosines = nullptr;
    float* m_sines = nullptr;
    std::int16_t* m_quantized = nullptr;
    int m_widest = 0; ///< the longest input row
    std::vector<std::unique_ptr<Private>> m_private;
};

} // namespace octavo::engine
