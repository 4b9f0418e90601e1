#pragma once

/// What the W4 products of sm_90 store where a tile ends: the sums as they are asked for, or what comes of them in the
/// residual stream.

#include "kernels/cuda/device_utils.cuh"
#include "kernels/cuda/w4_gemm_internal.h"
#include "kernels/cuda/w4_gemm_parts.cuh"

namespace octavo::kernels::cuda
{

/// Eight rows of a warp's 32 outputs as products leave them: of the lane, outputs l / 4 (+ 8 at 2 and 3) of the first
/// and the second 16, rows l % 4 * 2 and one more.
using Octet = float[2][4];

/// Swaps words among four lanes that share l / 4: lane l gets word l % 4 of each of them, in their order.
__device__ __forceinline__ void transposeLanes(uint32_t (&words)[4])
{
#pragma unroll
    for (int bit = 1; bit <= 2; bit <<= 1)
#pragma unroll
        for (int low = 0; low < 4; ++low) {
            if (low & bit)
                continue;
            const bool upper = threadIdx.x & bit;
            const uint32_t other = __shfl_xor_sync(fullMask, upper ? words[low] : words[low | bit], bit);
            (upper ? words[low] : words[low | bit]) = other;
        }
}

/// Stores a warp's 32 outputs of a tile, eight rows at a time. Rows of bf16 go in 16 bytes a lane: lane l then has row
/// l / 4 of the eight and outputs l % 4 * 8 .. + 7.
class Ending
{
public:
    __device__ __forceinline__ Ending(const W4GemmArgs& args, const float* scales, int tile, int warp)
        : m_args(args)
        , m_scales(scales)
        , m_firstOutput(tile * tileOutputs + warp * 32)
    {
        if (args.norms.hidden) {
            const auto* weight = reinterpret_cast<const float4*>(args.norms.weight + laneOutput());
            const float4 low = __ldg(weight), high = __ldg(weight + 1);
            m_weight[0] = low.x, m_weight[1] = low.y, m_weight[2] = low.z, m_weight[3] = low.w;
            m_weight[4] = high.x, m_weight[5] = high.y, m_weight[6] = high.z, m_weight[7] = high.w;
        }
    }

    /// The residual stream's values that `octet`'s rows are added to. Past L1: warps that have not themselves waited
    /// for the kernel before may read them.
    __device__ __forceinline__ uint4 before(int octet) const
    {
        return m_args.norms.hidden && laneRow(octet) < m_args.rows
                   ? __ldcg(reinterpret_cast<const uint4*>(m_args.norms.hidden + hiddenAt(octet)))
                   : uint4{};
    }

    __device__ __forceinline__ void store(Octet& sums, int octet, const uint4& before) const
    {
        if (m_args.norms.squares) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float scale = m_scales[octet * 8 + threadIdx.x % 4 * 2 + i];
#pragma unroll
                for (int r = 0; r < 2; ++r)
                    sums[r][i] *= scale, sums[r][2 + i] *= scale;
            }
        }
        if (m_args.output == GemmOutput::Float || !m_args.wideRows)
            storeSingly(sums, octet);
        else if (m_args.output == GemmOutput::Gated)
            storeGated(sums, octet);
        else
            storeRows(sums, octet, before);
    }

private:
    __device__ __forceinline__ int laneRow(int octet) const
    {
        return octet * 8 + threadIdx.x % 32 / 4;
    }
    __device__ __forceinline__ int laneOutput() const
    {
        return m_firstOutput + threadIdx.x % 4 * 8;
    }
    __device__ __forceinline__ bool present(int octet) const
    {
        return laneRow(octet) < m_args.rows && m_firstOutput < m_args.outFeatures;
    }
    __device__ __forceinline__ int64_t hiddenAt(int octet) const
    {
        return int64_t(laneRow(octet)) * m_args.outFeatures + laneOutput();
    }
    __device__ __forceinline__ __nv_bfloat16* outputRow(int octet) const
    {
        return static_cast<__nv_bfloat16*>(m_args.y) + laneRow(octet) * m_args.yStride;
    }

    __device__ __forceinline__ void storeRows(const Octet& sums, int octet, const uint4& before) const
    {
        uint32_t words[4];
#pragma unroll
        for (int at = 0; at < 4; ++at)
            words[at] = transposeMatrix(packBf16(sums[at / 2][at % 2 * 2], sums[at / 2][at % 2 * 2 + 1]));
        transposeLanes(words);
        if (m_args.norms.hidden)
            addToStream(words, octet, before);
        if (present(octet))
            *reinterpret_cast<uint4*>(outputRow(octet) + laneOutput()) = uint4{words[0], words[1], words[2], words[3]};
    }

    /// Adds the words to their place in the residual stream; they become what the next product reads.
    __device__ __forceinline__ void addToStream(uint32_t (&words)[4], int octet, const uint4& before) const
    {
        const uint32_t stream[4] = {before.x, before.y, before.z, before.w};
        uint32_t after[4];
        float square = 0.0f;
#pragma unroll
        for (int at = 0; at < 4; ++at) {
            const float2 old = unpackBf16(stream[at]), more = unpackBf16(words[at]);
            after[at] = packBf16(old.x + more.x, old.y + more.y);
            const float2 hidden = unpackBf16(after[at]);
            square = fmaf(hidden.y, hidden.y, fmaf(hidden.x, hidden.x, square));
            words[at] = packBf16(hidden.x * m_weight[at * 2], hidden.y * m_weight[at * 2 + 1]);
        }
        square = warpSum<3>(square); // over the lanes of the row
        if (laneRow(octet) >= m_args.rows)
            return;
        *reinterpret_cast<uint4*>(m_args.norms.hidden + hiddenAt(octet)) =
            uint4{after[0], after[1], after[2], after[3]};
        if (threadIdx.x % 4 == 0)
            m_args.norms.squaresOut[int64_t(laneRow(octet)) * (m_args.outFeatures / w4SquareValues) +
                                    m_firstOutput / w4SquareValues] = square;
    }

    __device__ __forceinline__ void storeGated(const Octet& sums, int octet) const
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const __nv_bfloat162 pair{gatedProduct(sums[0][half * 2], sums[1][half * 2]),
                                      gatedProduct(sums[0][half * 2 + 1], sums[1][half * 2 + 1])};
            const uint32_t bits = transposeMatrix(*reinterpret_cast<const uint32_t*>(&pair));
            if (present(octet))
                *reinterpret_cast<uint32_t*>(outputRow(octet) + m_firstOutput / 2 + half * 8 + threadIdx.x % 4 * 2) =
                    bits;
        }
    }

    /// Floats, and rows whose places allow no more than a value at a time.
    __device__ __forceinline__ void storeSingly(const Octet& sums, int octet) const
    {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = octet * 8 + lane % 4 * 2 + (i & 1);
                const int output = m_firstOutput + r * 16 + lane / 4 + (i < 2 ? 0 : 8);
                if (row >= m_args.rows || output >= m_args.outFeatures)
                    continue;
                const int64_t first = row * m_args.yStride;
                if (m_args.output == GemmOutput::Float) {
                    static_cast<float*>(m_args.y)[first + output] = sums[r][i];
                } else if (m_args.output == GemmOutput::Bf16) {
                    static_cast<__nv_bfloat16*>(m_args.y)[first + output] = __float2bfloat16_rn(sums[r][i]);
                } else if (r == 0) {
                    const int64_t to = first + output / 32 * 16 + output % 16;
                    static_cast<__nv_bfloat16*>(m_args.y)[to] = gatedProduct(sums[0][i], sums[1][i]);
                }
            }
    }

    const W4GemmArgs& m_args;
    const float* m_scales;
    int m_firstOutput; ///< of the warp
    float m_weight[8]; ///< of the norm after, of the lane's outputs
};

} // namespace octavo::kernels::cuda
