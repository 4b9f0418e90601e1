#pragma once

/// The forward pass in float32, written as model-spec section 3 states it: the yardstick for every other backend.
///
/// Weights are dequantised to float once, at creation. The Gated DeltaNet runs in its recurrent form, row by row, and
/// each row is computed alone, so results do not depend on how tokens are cut into slices, bit for bit.
/// Thread   const members may run on several threads, on different states.
/// Memory   4 bytes per parameter; the embedding is read from the checkpoint row by row.

#include "engine/backend/reference_math.h"
#include "engine/model/weights.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace octavo::engine::reference
{

/// What one layer remembers of a sequence; the first two for full attention, the others for Gated DeltaNet.
struct LayerState {
    std::vector<float> keys, values; ///< (length, numKvHeads, headDim), keys after norm and RoPE
    std::vector<float> recurrent;    ///< S: (linearNumValueHeads, linearKeyHeadDim, linearValueHeadDim)
    std::vector<float> conv;         ///< (linearConvKernel - 1, convDim): the last rows before the convolution
};

struct SequenceState {
    std::int64_t length = 0;
    std::vector<LayerState> layers;
};

class Model
{
public:
    Model(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights);

    /// An empty sequence with memory reserved for `maxTokens` rows. Throws std::bad_alloc.
    SequenceState emptyState(std::int64_t maxTokens) const;

    /// Appends `tokens` (valid ids) to `state` and gives their hidden rows after the final norm: (tokens, hiddenSize).
    std::vector<float> forward(SequenceState& state, std::span<const TokenId> tokens) const;

    /// Logits of `rows` hidden rows. `out`: (rows, vocabSize).
    void logits(const float* hidden, std::size_t rows, float* out) const;

    /// The MTP layer (model-spec section 5) over rows that join a final hidden row with the token after it. They stand
    /// behind what `state`, which is MTP's own, holds already. Gives their rows after mtp.norm: (tokens, hiddenSize).
    /// Only where the checkpoint has MTP.
    std::vector<float> mtp(LayerState& state, std::span<const TokenId> tokens, const float* hidden) const;

    std::int64_t weightBytes() const { return m_weightBytes; }
    std::int64_t stateBytes(std::int64_t tokens) const;

private:
    struct Layer {
        const LayerWeights* weights = nullptr; // norms, convolution and gates
        Matrix q, k, v, o;                     // full attention
        Matrix qkv, z, b, a, out;              // Gated DeltaNet
        Matrix gate, up, down;                 // MLP
    };

    Matrix widened(const LinearWeight& weight);
    Layer widened(const LayerWeights& weights);
    /// h += the layer's two halves; h: (rows, hiddenSize) from `position` on.
    void run(const Layer& layer, LayerState& state, std::int64_t position, std::size_t rows,
             std::vector<float>& h) const;
    void attend(const Layer& layer, LayerState& state, std::int64_t position, std::size_t rows, const float* x,
                float* y) const;
    void gatedDeltaNet(const Layer& layer, LayerState& state, std::size_t rows, const float* x, float* y) const;
    void mlp(const Layer& layer, std::size_t rows, const float* x, float* y) const;
    void applyRope(float* head, std::int64_t position) const;

    const ModelConfig m_config;
    std::shared_ptr<const ModelWeights> m_weights;
    std::vector<Layer> m_layers;
    Matrix m_head;
    Matrix m_mtpFc;
    Layer m_mtpLayer; // empty where the checkpoint has no MTP
    std::vector<float> m_ropeFrequencies; // (rotaryDim / 2)
    std::int64_t m_weightBytes = 0;
};

} // namespace octavo::engine::reference
