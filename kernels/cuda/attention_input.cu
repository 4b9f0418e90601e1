#include "kernels/cuda/attention_input.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/row_math.cuh"

namespace octavo::kernels::cuda
{
namespace
{

constexpr int inputThreads = 256;             // 64 coordinates x 4 parts of the dimensions
constexpr int inputWarps = inputThreads / 32; // a head each
constexpr int partDims = kvHeadDim / 4;
constexpr int maxVectors = sketchMaxHeads + 1; // the query heads of a KV head, then its key

/// One block per (KV head, row).
__global__ void __launch_bounds__(inputThreads, 2) attentionInputKernel(const AttentionInput in)
{
    __shared__ __align__(16) float vectors[maxVectors][kvHeadDim];
    __shared__ float parts[4][maxVectors][sketchRank];
    allowDependentLaunch();
    const int kvHead = blockIdx.x, row = blockIdx.y;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int groupHeads = in.rope.heads / in.rope.kvHeads;
    const RowTarget target = in.targets[row];
    const int c = threadIdx.x % sketchRank, sub = threadIdx.x / sketchRank;
    float column[partDims];
    float mean[8] = {};
    if (in.basis) {
        const float* from = in.basis + (int64_t(kvHead) * kvHeadDim + sub * partDims) * sketchRank + c;
#pragma unroll
        for (int d = 0; d < partDims; ++d)
            column[d] = from[d * sketchRank];
#pragma unroll
        for (int i = 0; i < 8; ++i)
            mean[i] = in.means[kvHead * kvHeadDim + lane * 8 + i];
    }
    const float position = static_cast<float>(in.rope.positions[row]);
    // Of the warp's first head, while the projections are still on their way.
    HeadRotation rotation =
        headRotation(warp < groupHeads ? in.rope.queryNorm : in.rope.keyNorm, position, in.rope.frequencies);
    waitForPreviousKernel();

    // The heads go round the warps, values last: query heads 0 .. groupHeads - 1, the key, the value.
    for (int head = warp; head < groupHeads + 2; head += inputWarps) {
        const bool isKey = head == groupHeads, isValue = head == groupHeads + 1;
        if (isValue) {
            const uint4 bits =
                *reinterpret_cast<const uint4*>(in.value + row * in.valueStride + kvHead * kvHeadDim + lane * 8);
            const QuantizedPart part = quantizeHead(bits);
            storeHead(part, true, target.row + kvHead * kvHeadBytes);
            if (target.hostRow)
                storeHead(part, true, target.hostRow + kvHead * kvHeadBytes);
            continue;
        }
        const int queryHead = kvHead * groupHeads + head;
        const __nv_bfloat16* source =
            isKey ? in.rope.key + row * in.rope.keyStride + kvHead * kvHeadDim
                  : in.rope.queryGate + row * in.rope.queryGateStride + queryHead * 2 * kvHeadDim;
        const uint4 projected = *reinterpret_cast<const uint4*>(source + lane * 8);
        if (head >= inputWarps)
            rotation = headRotation(isKey ? in.rope.keyNorm : in.rope.queryNorm, position, in.rope.frequencies);
        const uint4 bits = normAndRotate(projected, rotation, in.rope.eps);
        __nv_bfloat16* out = isKey ? in.rope.keyOut : in.rope.queryOut;
        if (out)
            *reinterpret_cast<uint4*>(
                out +
                (isKey ? int64_t(row) * in.rope.kvHeads + kvHead : int64_t(row) * in.rope.heads + queryHead) *
                    kvHeadDim +
                lane * 8) = bits;
        const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
        float x[8];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 pair = unpackBf16(words[i]);
            x[2 * i] = isKey ? pair.x - mean[2 * i] : pair.x;
            x[2 * i + 1] = isKey ? pair.y - mean[2 * i + 1] : pair.y;
        }
        float4* to = reinterpret_cast<float4*>(&vectors[head][lane * 8]);
        to[0] = float4{x[0], x[1], x[2], x[3]};
        to[1] = float4{x[4], x[5], x[6], x[7]};
        if (isKey) {
            const QuantizedPart part = quantizeHead(bits);
            storeHead(part, false, target.row + kvHead * kvHeadBytes);
            if (target.hostRow)
                storeHead(part, false, target.hostRow + kvHead * kvHeadBytes);
        }
    }
    if (!in.basis)
        return;
    __syncthreads();
    for (int v = 0; v <= groupHeads; ++v) {
        float sum = 0.0f;
#pragma unroll
        for (int d = 0; d < partDims; ++d)
            sum += column[d] * vectors[v][sub * partDims + d];
        parts[sub][v][c] = sum;
    }
    __syncthreads();
    const auto coordinate = [&](int v, int at) {
        return ((parts[0][v][at] + parts[1][v][at]) + parts[2][v][at]) + parts[3][v][at];
    };
    for (int i = threadIdx.x; i < groupHeads * sketchRank; i += inputThreads)
        in.projected[(int64_t(row) * in.rope.heads + kvHead * groupHeads) * sketchRank + i] =
            __float2bfloat16_rn(coordinate(i / sketchRank, i % sketchRank) * 0.0625f);
    if (warp == inputWarps - 1 && target.sketch.codes)
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
    OCTAVO_CUDA_TRY(
        launchDependent(attentionInputKernel, dim3(rope.kvHeads, rope.tokens), inputThreads, 0, stream, input));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
