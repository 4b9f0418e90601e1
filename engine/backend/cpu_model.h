#pragma once

/// A model's weights as the CPU kernels want them. Immutable after load(); shared by the compute threads.

#include "engine/backend/backend_factory.h"
#include "engine/backend/cpu_linear.h"
#include "engine/backend/cpu_rough_head.h"

#include <atomic>
#include <optional>

namespace octavo::engine
{

struct CpuAttention {
    CpuLinear q, k, v, o;
    std::vector<float> qNorm, kNorm;
};

struct CpuGdn {
    CpuLinear qkv, z, ba, out;      ///< ba: rows of b, then of a
    std::vector<float> taps;        ///< (linearConvKernel, convDim)
    std::vector<float> decayRate;   ///< exp(A_log)
    std::vector<float> dtBias, norm;
};

struct CpuLayer {
    std::vector<float> inputNorm, postAttentionNorm;
    std::optional<CpuAttention> attention;
    std::optional<CpuGdn> gdn;
    CpuLinear gate, up, down;
    int kindIndex = 0; ///< among the layers of its kind
};

/// The layer that drafts: from the embedding of a token and the final hidden row before it to the token after it.
struct CpuMtp {
    CpuLinear fc; ///< embedding first, hidden row second
    std::vector<float> embeddingNorm, hiddenNorm, norm;
    CpuLayer layer; ///< its kindIndex follows those of the model's attention layers
};

/// Bytes that the CPU backend's copies of a head take: its own form, and the rough one.
std::int64_t cpuHeadBytes(const LinearWeight& head);

struct CpuModel {
    ModelConfig config;
    std::shared_ptr<const ModelWeights> source; ///< the embedding is read from the map
    std::vector<CpuLayer> layers;
    std::vector<float> finalNorm;
    CpuLinear head;
    std::optional<CpuRoughHead> roughHead; ///< empty where the head has no more bytes itself
    std::optional<CpuMtp> mtp;
    int attentionLayers = 0, gdnLayers = 0;
    std::int64_t bytes = 0;
    bool quantized = false; ///< some layers hold int4 where the checkpoint holds floats

    /// Layers that keep KV rows.
    int kvLayers() const { return attentionLayers + (mtp ? 1 : 0); }

    /// Fails with Unsupported where a size does not suit the kernels (each must be a multiple of 16).
    /// With BackendOptions::quantize also with FormatInvalid for weights that are no numbers. With Cancelled where
    /// BackendOptions::cancel, which is looked at between layers, or onQuantized says so.
    static Result<CpuModel> load(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                 const BackendOptions& options, int threads);
};

} // namespace octavo::engine
