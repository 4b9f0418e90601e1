#pragma once

/// What one sequence holds on the CPU backend.

#include "engine/backend/cpu_kv_rows.h"
#include "engine/memory/sparse_attention.h"
#include "engine/model/model_config.h"

#include <algorithm>

namespace octavo::engine
{

/// Sizes of the recurrent part, in floats.
struct RecurrentShape {
    int layers = 0, keyHeads = 0, valueHeads = 0, keyDim = 0, valueDim = 0, convDim = 0, history = 0;
    int hidden = 0; ///< of the newest final hidden row, which MTP starts from; 0: none is kept

    static RecurrentShape of(const ModelConfig& config, bool withMtp)
    {
        return {config.numLayers - config.numFullAttentionLayers(), config.linearNumKeyHeads,
                config.linearNumValueHeads, config.linearKeyHeadDim, config.linearValueHeadDim, config.convDim(),
                config.linearConvKernel - 1, withMtp ? config.hiddenSize : 0};
    }
    std::int64_t headFloats() const { return std::int64_t(keyDim) * valueDim; }
    std::int64_t stateFloats() const { return headFloats() * valueHeads; }
    std::int64_t convFloats() const { return std::int64_t(history) * convDim; }
    std::int64_t totalFloats() const { return layers * (stateFloats() + convFloats()) + hidden; }
    /// What one unconfirmed row leaves behind in a layer: convolution input, keys, corrections and decays.
    std::int64_t pendingFloats() const
    {
        return convDim + std::int64_t(keyHeads) * keyDim + std::int64_t(valueHeads) * (valueDim + 16);
    }
};

struct CpuSequence {
    CpuSequence(KvPagePool& pool, const RecurrentShape& recurrentShape, std::int64_t tokens)
        : shape(recurrentShape)
        , maxTokens(tokens)
        , kv(pool)
        , recurrentPages(std::make_shared<BigPages>(std::size_t(shape.totalFloats()) * sizeof(float)))
    {
    }

    const RecurrentShape shape;
    const std::int64_t maxTokens;
    std::int64_t length = 0; ///< of confirmed rows
    int pendingRows = 0;     ///< rows of a step that wait for commit(); positions length .. length + pendingRows - 1
    KvRows kv;
    std::unique_ptr<SparseSequence> sparse; ///< rows to pick from, once the sequence is long; see CpuSparse
    std::int64_t tierTokens = 0;            ///< that it holds
    std::shared_ptr<BigPages> recurrentPages; ///< shared with images of a frozen sequence alone
    BigPages pending;        ///< [layer][row][pendingFloats], taken at the first step of several rows
    std::shared_ptr<BigPages> verified; ///< like recurrentPages, states after all rows that wait for commit(); taken then too

    // MTP's row of a position needs the token after it, so the newest one is always to come. After decoding there are
    // more: they wait until drafts are wanted.
    std::vector<float> unfilledHidden;   ///< (rows, hidden) of the positions before the newest one
    std::vector<TokenId> unfilledTokens; ///< the token after each
    std::vector<float> pendingHidden;    ///< of the rows that wait for commit()
    std::vector<TokenId> pendingTokens;

    std::int64_t unfilled() const { return std::int64_t(unfilledTokens.size()); }
    float* recurrent() const { return recurrentPages->as<float>(); }
    bool isFrozen() const { return maxTokens <= length; }
    /// The final hidden row of position length - 1.
    float* lastHidden() const { return recurrent() + shape.totalFloats() - shape.hidden; }
    /// Takes `rows` more positions in: their tokens and final hidden rows.
    void appendHidden(const float* rows, std::span<const TokenId> tokens)
    {
        for (std::size_t i = 0; i < tokens.size(); ++i, rows += shape.hidden) {
            if (length + std::int64_t(i) > 0) {
                unfilledHidden.insert(unfilledHidden.end(), lastHidden(), lastHidden() + shape.hidden);
                unfilledTokens.push_back(tokens[i]);
            }
            std::copy_n(rows, shape.hidden, lastHidden());
        }
    }

    float* state(int layer, int head) const
    {
        return recurrent() + layer * shape.stateFloats() + head * shape.headFloats();
    }
    /// The last `history` inputs of the convolution, oldest first.
    float* conv(int layer) const
    {
        return recurrent() + shape.layers * shape.stateFloats() + layer * shape.convFloats();
    }
    float* verifiedState(int layer, int head) const
    {
        return verified->as<float>() + layer * shape.stateFloats() + head * shape.headFloats();
    }
    // Parts of pending row `row`.
    float* pendingConv(int layer, int row, int rows) const
    {
        return pending.as<float>() + (std::int64_t(layer) * rows + row) * shape.pendingFloats();
    }
    float* pendingKeys(int layer, int row, int rows) const { return pendingConv(layer, row, rows) + shape.convDim; }
    float* pendingCorrections(int layer, int row, int rows) const
    {
        return pendingKeys(layer, row, rows) + std::int64_t(shape.keyHeads) * shape.keyDim;
    }
    float* pendingDecays(int layer, int row, int rows) const
    {
        return pendingCorrections(layer, row, rows) + std::int64_t(shape.valueHeads) * shape.valueDim;
    }
};

} // namespace octavo::engine
