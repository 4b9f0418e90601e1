#include "kernels/cuda/attention_input.h"

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/row_math.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int partDims = kvHeadDim / 4;
constexpr int teamThreads = 4 * sketchRank; // a coordinate and a part of the dimensions each
constexpr int together = 4;                 // vectors whose sums a thread has under way
constexpr int maxVectors = 3 * together;    // the query heads of a KV head, then its key, and room for whole runs
static_assert(sketchMaxHeads + 1 <= maxVectors);

/// Teams of threads share the vectors, whose norms their warps made; two warps more see to the row.
constexpr int inputThreads(int teams)
{
    return teams * teamThreads + 2 * 32;
}

/// The key or the value to where the row is kept, by a warp that nobody waits for.
__device__ __forceinline__ void storeRow(const AttentionInput& in, const RowTarget& target, int kvHead, int row,
                                         bool isValue, const HeadRotation& rotation)
{
    const __nv_bfloat16* source = isValue ? in.value + row * in.valueStride : in.rope.key + row * in.rope.keyStride;
    const uint4 projected = *reinterpret_cast<const uint4*>(source + kvHead * kvHeadDim + threadIdx.x % 32 * 8);
    const QuantizedPart part = quantizeHead(isValue ? projected : normAndRotate(projected, rotation, in.rope.eps));
    storeHead(part, isValue, target.row + kvHead * kvHeadBytes);
    if (target.hostRow)
        storeHead(part, isValue, target.hostRow + kvHead * kvHeadBytes);
}

/// Norms and rotates a query head or (vector == groupHeads) the key, by a warp; the vector as the basis meets it.
__device__ __forceinline__ void makeVector(const AttentionInput& in, int kvHead, int row, int vector, int groupHeads,
                                           const HeadRotation& rotation, const float (&mean)[8], float* out)
{
    const bool isKey = vector == groupHeads;
    const int lane = threadIdx.x % 32, queryHead = kvHead * groupHeads + vector;
    const __nv_bfloat16* source = isKey ? in.rope.key + row * in.rope.keyStride + kvHead * kvHeadDim
                                        : in.rope.queryGate + row * in.rope.queryGateStride + queryHead * 2 * kvHeadDim;
    const uint4 bits = normAndRotate(*reinterpret_cast<const uint4*>(source + lane * 8), rotation, in.rope.eps);
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
    float x[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpackBf16(words[i]);
        x[2 * i] = isKey ? pair.x - mean[2 * i] : pair.x;
        x[2 * i + 1] = isKey ? pair.y - mean[2 * i + 1] : pair.y;
    }
    float4* to = reinterpret_cast<float4*>(out + lane * 8);
    to[0] = float4{x[0], x[1], x[2], x[3]};
    to[1] = float4{x[4], x[5], x[6], x[7]};
    __nv_bfloat16* rotated = isKey ? in.rope.keyOut : in.rope.queryOut;
    if (rotated)
        *reinterpret_cast<uint4*>(
            rotated +
            (isKey ? int64_t(row) * in.rope.kvHeads + kvHead : int64_t(row) * in.rope.heads + queryHead) * kvHeadDim +
            lane * 8) = bits;
}

/// One block per (KV head, row). What does not depend on the projections is made while they are on their way.
template <int Teams>
__global__ void __launch_bounds__(inputThreads(Teams), 3 - Teams) attentionInputKernel(const AttentionInput in)
{
    constexpr int sumThreads = Teams * teamThreads, sumWarps = sumThreads / 32;
    __shared__ __align__(16) float vectors[maxVectors][kvHeadDim];
    __shared__ float parts[4][maxVectors][sketchRank];
    allowDependentLaunch();
    const int kvHead = blockIdx.x, row = blockIdx.y;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groupHeads = in.rope.heads / in.rope.kvHeads;
    const RowTarget target = in.targets[row];
    const float position = static_cast<float>(in.rope.positions[row]);
    const auto rotationOf = [&](bool isKey) {
        return headRotation(isKey ? in.rope.keyNorm : in.rope.queryNorm, position, in.rope.frequencies);
    };
    HeadRotation rotation{};
    if (warp <= groupHeads || warp == sumWarps)
        rotation = rotationOf(warp == groupHeads || warp == sumWarps);
    if (warp >= sumWarps) {
        waitForPreviousKernel();
        storeRow(in, target, kvHead, row, warp > sumWarps, rotation);
        return;
    }
    const int c = threadIdx.x % sketchRank, sub = threadIdx.x % teamThreads / sketchRank;
    float column[partDims];
    float mean[8] = {};
    if (in.basis) {
        const float* from = in.basis + (int64_t(kvHead) * kvHeadDim + sub * partDims) * sketchRank + c;
#pragma unroll
        for (int d = 0; d < partDims; ++d)
            column[d] = from[d * sketchRank];
        if (warp == groupHeads % sumWarps) { // who has the key
#pragma unroll
            for (int i = 0; i < 8; ++i)
                mean[i] = in.means[kvHead * kvHeadDim + lane * 8 + i];
        }
    }
    waitForPreviousKernel();
    for (int vector = warp; vector <= groupHeads; vector += sumWarps) {
        if (vector >= sumWarps)
            rotation = rotationOf(vector == groupHeads);
        makeVector(in, kvHead, row, vector, groupHeads, rotation, mean, vectors[vector]);
    }
    if (!in.basis)
        return;
    namedBarrier(1, sumThreads);
    for (int first = threadIdx.x / teamThreads * together; first <= groupHeads; first += Teams * together) {
        float sums[together] = {};
#pragma unroll
        for (int d = 0; d < partDims; ++d) {
#pragma unroll
            for (int i = 0; i < together; ++i)
                sums[i] += column[d] * vectors[first + i][sub * partDims + d]; // also of vectors that are not there
        }
#pragma unroll
        for (int i = 0; i < together; ++i)
            parts[sub][first + i][c] = sums[i];
    }
    namedBarrier(1, sumThreads);
    const auto coordinate = [&](int vector, int at) {
        return ((parts[0][vector][at] + parts[1][vector][at]) + parts[2][vector][at]) + parts[3][vector][at];
    };
    for (int i = threadIdx.x; i < groupHeads * sketchRank; i += sumThreads)
        in.projected[(int64_t(row) * in.rope.heads + kvHead * groupHeads) * sketchRank + i] =
            __float2bfloat16_rn(coordinate(i / sketchRank, i % sketchRank) * 0.0625f);
    if (warp == sumWarps - 1 && target.sketch.codes)
        storeSketch(coordinate(groupHeads, 2 * lane), coordinate(groupHeads, 2 * lane + 1), target.sketch, kvHead,
                    target.position);
}

} // namespace

cudaError_t launchAttentionInput(const AttentionInput& input, cudaStream_t stream)
{
    const QkRopeArgs& rope = input.rope;
    if (rope.tokens < 0 || rope.heads <= 0 || rope.kvHeads <= 0 || rope.heads % rope.kvHeads != 0 ||
        rope.heads / rope.kvHeads > sketchMaxHeads || rope.queryGateStride % 8 != 0 || rope.keyStride % 8 != 0 ||
        input.valueStride % 8 != 0 || rope.tokens > 65535)
        return cudaErrorInvalidValue;
    if (rope.tokens == 0)
        return cudaSuccess;
    // Where all blocks have a multiprocessor of their own the larger ones take less time, else two smaller ones on
    // each.
    const dim3 grid(rope.kvHeads, rope.tokens);
    OCTAVO_CUDA_TRY(rope.kvHeads * rope.tokens <= deviceMultiprocessors()
                        ? launchDependent(attentionInputKernel<2>, grid, inputThreads(2), 0, stream, input)
                        : launchDependent(attentionInputKernel<1>, grid, inputThreads(1), 0, stream, input));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
