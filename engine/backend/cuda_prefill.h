#pragma once

/// Prefill on a GPU: whole blocks of 64 tokens that begin on multiples of 64, a slice of them at a time through all
/// layers. Products through cuBLASLt on bf16 copies of a matrix, attention and the delta rule on tensor cores.
///
/// What is read this way follows from a token's position and the slice's ends alone, and a row's result depends neither
/// on the other rows nor on where its slice begins: slices cut on multiples of 64 give the same rows and states. Tokens
/// beside whole blocks go through the decode kernels, as do all where this cannot be used.
///
/// Memory   taken once, by create(): the work space of a slice, one matrix as bf16, one stretch of a layer's rows.
/// Thread   the backend's.

#include "engine/backend/cuda_memory.h"
#include "engine/backend/cuda_model.h"
#include "engine/backend/cuda_sparse.h"
#include "engine/model/model_config.h"
#include "engine/result.h"
#include "engine/types.h"
#include "kernels/cuda/bf16_gemm.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/prefill_attention.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace octavo::engine
{

/// The one place to turn a kernel off that does not hold on some device: what stays goes the way it went before.
struct CudaPrefillPaths {
    bool blocks = true;       ///< off: everything through the decode kernels
    bool chunkedDelta = true; ///< off: the delta rule row by row
    kernels::cuda::PrefillPath attention = kernels::cuda::PrefillPath::Auto;
};

/// One GDN layer of a sequence.
struct CudaGdnState {
    float* state;
    __nv_bfloat16 *history, *pendingInput, *pendingQkv, *pendingBeta, *pendingDecay;
};

class CudaPrefill
{
public:
    static constexpr int blockTokens = 64;
    static constexpr int mostRows = 2048;

    /// Not available() where `paths` say so, cuBLASLt is missing or the work space does not fit in `mostBytes`; why()
    /// then tells. Fails with DeviceOutOfMemory alone. `contextLimit`: no sequence will be longer.
    static Result<CudaPrefill> create(const ModelConfig& config, const CudaModel& model, bool sketches,
                                      std::int64_t contextLimit, std::int64_t mostBytes, const CudaPrefillPaths& paths);

    bool available() const { return m_gemm != nullptr; }
    const std::string& why() const { return m_why; }
    int maxRows() const { return m_maxRows; }
    std::int64_t bytes() const { return m_memory.bytes(); }

    /// Of `tokens` more tokens behind `position`, how many from the first on are whole blocks: 0 .. maxRows().
    int blockRows(std::int64_t position, std::size_t tokens) const;

    struct Slice {
        std::span<const TokenId> tokens;  ///< blockRows() of them
        std::int64_t position = 0;        ///< of the first
        std::vector<std::uint8_t*> pages; ///< of the sequence, up to the slice's last token
        std::vector<CudaGdnState> gdn;    ///< by GDN layer
        int pendingRows = 0;              ///< confirmed, not yet in the states: applied first
        const CudaSketch* sketch = nullptr;
        const __nv_bfloat16* lastFinal = nullptr; ///< the final row of the position before, where there is one: for MTP
    };
    /// Enqueues the slice; its tables are read until `stream` is done. The rows, MTP's too (cuda_mtp.cpp), are written
    /// and the states moved on.
    Result<void> run(const Slice& slice, const CudaSparse& sparse, cudaStream_t stream);
    /// The final norm's output of row r at + r * hiddenSize, until the next run().
    const __nv_bfloat16* normed() const { return m_memory.at<__nv_bfloat16>(m_work.normed); }

private:
    /// Offsets into the work space. `wide` and `narrow` serve each half of a layer anew, `phase` attention or delta
    /// rule.
    struct Work {
        std::int64_t hidden = 0, normed = 0, delta = 0, wide = 0, narrow = 0, projected = 0, weights = 0, phase = 0,
                     gemm = 0, tables = 0;
    };
    struct Tables {
        std::int64_t ids = 0, positions = 0, conv = 0, delta = 0, targets = 0, pages = 0, bytes = 0;
        std::int64_t mtpPositions = 0;
    };
    /// Where a pass is.
    struct Pass {
        const Slice& slice;
        const CudaSparse& sparse;
        cudaStream_t stream;
        int rows;
    };

    std::int64_t layOut(int rows);
    /// False where a product of the model has no plan; m_why then names it.
    bool planProducts(kernels::cuda::Bf16Gemm& gemm);
    std::int64_t smallStride() const; ///< of a row's b and a
    int rowLayers() const;            ///< with MTP's
    void fillTables(const Pass& pass) const;
    /// outputStride 0: as wide as the matrix is high.
    Result<void> multiply(const Pass& pass, const CudaLinear& linear, std::int64_t input, std::int64_t output,
                          std::int64_t outputStride = 0) const;
    Result<void> attend(const Pass& pass, const CudaLayer& layer, int attentionLayer) const;
    Result<void> mix(const Pass& pass, const CudaLayer& layer, int gdnLayer) const;
    /// Head norms, rotation and KV rows of the projections in `wide`; queries to `narrow`.
    Result<kernels::cuda::QkRopeArgs> writeRows(const Pass& pass, const CudaLayer& layer, int attentionLayer,
                                                bool isMtp) const;
    Result<void> readMtp(const Pass& pass) const;
    Result<void> feedForward(const Pass& pass, const CudaLayer& layer) const;

    __nv_bfloat16* at(std::int64_t offset) const { return m_memory.at<__nv_bfloat16>(offset); }
    template <typename T>
    T* table(std::int64_t offset) const
    {
        return m_memory.at<T>(m_work.tables + offset);
    }

    ModelConfig m_config;
    const CudaModel* m_model = nullptr;
    CudaPrefillPaths m_paths;
    std::string m_why;
    std::unique_ptr<kernels::cuda::Bf16Gemm> m_gemm;
    bool m_sketches = false;
    std::int64_t m_contextLimit = 0;
    int m_maxRows = 0, m_stretchTokens = 0;
    Work m_work;
    Tables m_tables;
    DeviceMemory m_memory;
    PinnedMemory m_tableMemory;
};

} // namespace octavo::engine
