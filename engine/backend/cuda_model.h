#pragma once

/// A checkpoint's weights on the device: int4 linears in the kernels' layout, the rest as bf16, norms as fp32.

#include "engine/backend/backend_factory.h"
#include "engine/backend/cuda_memory.h"
#include "engine/model/model_config.h"
#include "engine/model/weights.h"
#include "engine/result.h"
#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/views.h"
#include "kernels/cuda/w4_gemm.h"

#include <cuda_bf16.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace octavo::engine
{

/// y = x W^T; one or several linears of the checkpoint that share their input, outputs side by side.
struct CudaLinear {
    kernels::cuda::W4Matrix int4;                         ///< used where units is set
    kernels::cuda::MatrixView<const __nv_bfloat16> dense; ///< otherwise
    bool gated = false; ///< gate and up in one, stored as silu(gate) * up: GemmOutput::Gated
    /// Dense, with outputs enough for all multiprocessors: each weight is read once for all rows.
    bool many = false;

    int outFeatures() const { return int4.units ? int4.outFeatures : dense.rows; }
    int inFeatures() const { return int4.units ? int4.inFeatures : dense.cols; }
    /// The linear of the first `count` outputs, by the same kernel; of all where there are no more, and for 0. Not
    /// gated.
    CudaLinear firstOutputs(int count) const
    {
        CudaLinear first = *this;
        if (count > 0 && count < outFeatures())
            (int4.units ? first.int4.outFeatures : first.dense.rows) = count;
        return first;
    }
};

struct CudaLayer {
    LayerType type = LayerType::LinearAttention;
    const float* inputNorm = nullptr;
    const float* postAttentionNorm = nullptr;
    CudaLinear queryKeyValue, attentionOut; ///< full attention
    const float* queryNorm = nullptr;
    const float* keyNorm = nullptr;
    CudaLinear mix;        ///< GDN: query, key and value, then the gate
    CudaLinear projection; ///< GDN: b, then a; dense
    CudaLinear gdnOut;
    const float* conv = nullptr;
    kernels::cuda::GdnLayer gdn;
    CudaLinear gateUp, down;
};

/// The layer that drafts: x = fc [norm(embedding), norm(hidden)], then a full-attention layer and the model's head.
struct CudaMtp {
    CudaLinear fc;
    const float* embeddingNorm = nullptr;
    const float* hiddenNorm = nullptr;
    const float* norm = nullptr;
    CudaLayer layer;
};

class CudaModel
{
public:
    /// What the kernels are built for; Unsupported names the size that does not fit.
    static Result<void> check(const ModelConfig& config);

    /// Packs and copies every weight to the current device. Needs check(). On error nothing stays allocated.
    /// Of the options those that say what to load and how: mtp, quantizeHead, quantizeDrafts, draftVocabulary; `cancel`
    /// is looked at between layers, then Cancelled.
    static Result<CudaModel> load(const ModelConfig& config, const ModelWeights& weights,
                                  const BackendOptions& options);

    std::vector<CudaLayer> layers;
    CudaLinear embedding; ///< dense
    CudaLinear head;
    CudaLinear draftHead; ///< what MTP chooses its drafts by: the head's first outputs, or a copy of these in int4
    std::optional<CudaMtp> mtp;
    const float* finalNorm = nullptr;
    const float* ropeFrequencies = nullptr;

    std::int64_t bytes() const { return m_bytes; }
    int widestLinear() const { return m_widestLinear; }

private:
    Result<const void*> upload(const void* data, std::int64_t bytes);
    Result<const float*> upload(const std::vector<float>& values);
    /// Int4 where all parts are what the kernel reads (symmetric, 128 inputs to a scale, in order), else bf16.
    Result<CudaLinear> upload(std::span<const LinearWeight* const> parts);
    Result<CudaLinear> uploadDense(std::span<const LinearWeight* const> parts);
    Result<CudaLinear> uploadQuantized(const LinearWeight& weight);
    Result<CudaLinear> uploadDraftHead(const LinearWeight& weight, const BackendOptions& options);
    /// Gated where both are int4, else side by side.
    Result<CudaLinear> uploadGated(const LinearWeight& gate, const LinearWeight& up);
    Result<CudaLayer> uploadLayer(const ModelConfig& config, const LayerWeights& source);

    /// Packs a matrix with `pack` and copies it up; one that was packed from the same source before is copied on the
    /// device (random weights of a shape, for measuring).
    using Source = std::vector<std::pair<const void*, int>>;
    Result<const void*> uploadPacked(const Source& source, int outFeatures, int inFeatures,
                                     const std::function<void(std::vector<std::uint8_t>& units)>& pack);

    std::vector<DeviceMemory> m_memory;
    std::map<Source, const void*> m_packed;
    std::int64_t m_bytes = 0;
    int m_widestLinear = 0;
};

} // namespace octavo::engine
