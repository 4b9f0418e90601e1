#pragma once

/// What a warpgroup of sm_90a does with a unit of weights: codes become bf16 in registers, are multiplied with the same
/// inputs of every row, and a group's sums are scaled and added. Two forms, by what registers there are for.

#include "kernels/cuda/w4_gemm_sm90.cuh"
#include "kernels/cuda/wgmma.cuh"

#include <type_traits>

namespace octavo::kernels::cuda
{

/// 16 outputs' weights of 64 inputs, as A fragments of four products.
using Fragments = uint32_t[4][4];

__device__ __forceinline__ void toFragments(Fragments& a, const uint4& codes)
{
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int step = 0; step < 4; ++step)
        wordToFragment(words[step], a[step]);
}

/// Of a warp's codes in a unit those of its first or second 16 outputs and first or second 64 inputs.
__device__ __forceinline__ uint4 loadCodes(unsigned codes, int outputs, int inputs)
{
    return loadShared16(codes + outputs * 512 + inputs * 4096);
}

/// 64 inputs of every row, as products want them named.
__device__ __forceinline__ uint64_t inputMatrix(unsigned inputs)
{
    // Lane 0's, which is every lane's: the compiler then keeps it in the registers that products want it in.
    return wgmmaMatrix(__shfl_sync(fullMask, inputs, 0), 16);
}

/// partial += (or =) the fragments' weights times 64 inputs; goes on while the caller does.
template <int RowTiles>
__device__ __forceinline__ void startProducts(float (&partial)[RowTiles][4], const Fragments& a, uint64_t matrix,
                                              bool add)
{
    wgmmaBegin();
#pragma unroll
    for (int step = 0; step < 4; ++step)
        wgmmaWeights(partial, a[step], matrix + step * 2, add || step > 0); // 32 bytes on, in sixteens
    wgmmaCommit();
}

/// sums += partial, scaled, in one rounding.
template <int RowTiles>
__device__ __forceinline__ void addScaled(float (&sums)[RowTiles][4], const float (&partial)[RowTiles][4],
                                          uint32_t scaleBits)
{
    const float2 scales = __half22float2(*reinterpret_cast<const __half2*>(&scaleBits));
#pragma unroll
    for (int t = 0; t < RowTiles; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            sums[t][i] += partial[t][i] * (i < 2 ? scales.x : scales.y);
}

/// Up to 32 rows: all of a unit's products are issued at once, and the next unit's codes are on their way before.
template <int RowTiles>
class WholeUnits
{
public:
    /// Of the first unit; `codes` are the warp's.
    __device__ __forceinline__ explicit WholeUnits(unsigned codes)
    {
#pragma unroll
        for (int part = 0; part < 4; ++part)
            toFragments(m_weights[part / 2][part % 2], loadCodes(codes, part / 2, part % 2));
    }

    /// sums += the weights of a unit, scaled, times its inputs. next() gives where the next unit's codes are, once they
    /// have come; release() once the stage has been read.
    template <typename Next, typename Release>
    __device__ __forceinline__ void addUnit(float (&sums)[2][RowTiles][4], unsigned inputs, unsigned, unsigned scalesAt,
                                            Next&& next, Release&& release)
    {
        const uint64_t matrix = inputMatrix(inputs);
        const uint2 scales = loadShared8(scalesAt);
        const unsigned nextCodes = next();
        uint4 codes[4];
#pragma unroll
        for (int part = 0; part < 4; ++part)
            codes[part] = loadCodes(nextCodes, part / 2, part % 2);
        float partial[2][RowTiles][4];
        wgmmaHold(partial[0]);
        wgmmaHold(partial[1]);
#pragma unroll
        for (int part = 0; part < 4; ++part)
            startProducts(partial[part / 2], m_weights[part / 2][part % 2], matrix + part % 2 * (blockBytes / 16),
                          part % 2 > 0);
        wgmmaWait<2>();
        wgmmaHold(partial[0]);
        addScaled(sums[0], partial[0], scales.x);
        wgmmaWait<0>();
        wgmmaHold(partial[1]);
        release();
        addScaled(sums[1], partial[1], scales.y);
#pragma unroll
        for (int part = 0; part < 4; ++part)
            toFragments(m_weights[part / 2][part % 2], codes[part]);
    }

private:
    static constexpr int blockBytes = RowTiles * 1024; // 64 inputs of every row

    Fragments m_weights[2][2]; ///< of the unit that comes next: outputs, inputs
};

/// More rows: 16 outputs of a warp at a time, and weights become bf16 while the products before are under way.
template <int RowTiles>
class HalfUnits
{
public:
    __device__ __forceinline__ explicit HalfUnits(unsigned codes) { toFragments(m_ahead, loadCodes(codes, 0, 0)); }

    /// As above; the unit's `codes` are read here.
    template <typename Next, typename Release>
    __device__ __forceinline__ void addUnit(float (&sums)[2][RowTiles][4], unsigned inputs, unsigned codes,
                                            unsigned scalesAt, Next&& next, Release&& release)
    {
        const uint2 scales = loadShared8(scalesAt);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float partial[RowTiles][4];
            wgmmaHold(partial);
            startProducts(partial, m_ahead, inputMatrix(inputs), false);
            Fragments second;
            toFragments(second, loadCodes(codes, r, 1));
            startProducts(partial, second, inputMatrix(inputs + blockBytes), true);
            wgmmaWait<1>();
            toFragments(m_ahead, r == 0 ? loadCodes(codes, 1, 0) : loadCodes(next(), 0, 0));
            wgmmaWait<0>();
            wgmmaHold(partial);
            if (r == 1)
                release();
            addScaled(sums[r], partial, r == 0 ? scales.x : scales.y);
        }
    }

private:
    static constexpr int blockBytes = RowTiles * 1024; // 64 inputs of every row

    Fragments m_ahead; ///< of the first 16 outputs and 64 inputs of the unit that comes next
};

template <int RowTiles>
using Weights = std::conditional_t<RowTiles <= 4, WholeUnits<RowTiles>, HalfUnits<RowTiles>>;

} // namespace octavo::kernels::cuda
