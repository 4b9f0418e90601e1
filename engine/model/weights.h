#pragma once

/// A checkpoint's tensors as the file has them: views into the memory map, checked for name, dtype and shape.
///
/// Backends repack what they need for themselves and then let go of the map. Norm weights are widened to float and
/// hold the factor itself: the zero-centred ones come with their 1 already added, once, here.

#include "engine/model/model_config.h"
#include "engine/result.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octavo::engine
{

/// y = W x with W (outFeatures, inFeatures).
struct LinearWeight {
    enum class Format { Bf16, F16, F32, Int4 };

    std::string name;
    Format format = Format::Bf16;
    int outFeatures = 0;
    int inFeatures = 0;

    /// Bf16, F16, F32: row-major (outFeatures, inFeatures), as stored; may be unaligned beyond the element size.
    const void* dense = nullptr;

    /// Int4, GPTQ packing: code(n,k) = (qweight[k/8][n] >> 4*(k%8)) & 15, W[n][k] = scale * (code - zero).
    int groupSize = 0;
    const std::uint32_t* qweight = nullptr; ///< (inFeatures/8, outFeatures)
    const std::uint16_t* scales = nullptr;  ///< fp16, signed, (groups, outFeatures)
    std::vector<std::uint8_t> zeros;        ///< (groups, outFeatures), true zero point; empty: 8 throughout
    std::vector<std::int32_t> groupOfInput; ///< g_idx (inFeatures); empty: k / groupSize

    int numGroups() const { return groupSize > 0 ? (inFeatures + groupSize - 1) / groupSize : 0; }
    bool symmetric() const { return zeros.empty(); }

    /// Row n as float, exactly (fp16 scale times integer, or the widened value). `out`: (inFeatures).
    void dequantizeRow(int n, std::span<float> out) const;

    /// All rows at once, row-major. `out`: (outFeatures, inFeatures). Reads an int4 matrix in the order it is stored.
    void dequantize(std::span<float> out) const;

    std::int64_t parameters() const { return std::int64_t(outFeatures) * inFeatures; }
    std::int64_t storedBytes() const; ///< codes, scales and zero points, or the dense values
};

struct MlpWeights {
    LinearWeight gate, up, down;
};

struct AttentionWeights {
    LinearWeight q, k, v, o;         ///< q: per head headDim query rows, then headDim gate rows
    std::vector<float> qNorm, kNorm; ///< (headDim), 1 + w
};

struct GdnWeights {
    LinearWeight qkv, z, b, a, out;
    std::vector<float> conv;         ///< (convDim, linearConvKernel)
    std::vector<float> aLog, dtBias; ///< (linearNumValueHeads)
    std::vector<float> norm;         ///< (linearValueHeadDim), plain w
};

struct LayerWeights {
    LayerType type = LayerType::LinearAttention;
    std::vector<float> inputNorm, postAttentionNorm; ///< (hiddenSize), 1 + w
    std::optional<AttentionWeights> attention;
    std::optional<GdnWeights> gdn;
    MlpWeights mlp;
};

struct MtpWeights {
    LinearWeight fc; ///< (hiddenSize, 2 * hiddenSize): embedding first, hidden second
    std::vector<float> preFcNormEmbedding, preFcNormHidden, norm; ///< 1 + w
    LayerWeights layer;                                           ///< a full-attention layer
};

struct ModelWeights {
    LinearWeight embedding;             ///< (vocabSize, hiddenSize)
    std::optional<LinearWeight> lmHead; ///< empty: tied to the embedding
    std::vector<float> finalNorm;       ///< 1 + w
    std::vector<LayerWeights> layers;
    std::optional<MtpWeights> mtp;
    std::int64_t parameters = 0;         ///< of the text model and MTP
    std::uint64_t hash = 0;              ///< over config.json and the tensors with their bytes, see checkpoint_hash.h
    std::filesystem::path dir;           ///< where it came from
    std::shared_ptr<const void> storage; ///< keeps the memory maps alive
    std::function<void()> letGoOfPages;  ///< for who has repacked what it needs: see MappedFile; empty: nothing is mapped

    const LinearWeight& head() const { return lmHead ? *lmHead : embedding; }

    /// Embedding, head where it is untied, and every linear module of the layers and of MTP.
    std::vector<const LinearWeight*> linears() const;

    /// Opens DIR/model.safetensors or the shards of DIR/model.safetensors.index.json and finds every tensor that
    /// `config` needs under one of the three name prefixes. Allocates little; reads headers, norms and what is hashed.
    static Result<ModelWeights> open(const std::filesystem::path& modelDir, const ModelConfig& config);
};

} // namespace octavo::engine
