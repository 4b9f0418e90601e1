#include "kernels/cuda/attention_decode.h"

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/cuda_check.h"

#include <array>
#include <atomic>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int warps = 4;
constexpr int tileRows = 16;
constexpr int stages = 3;
constexpr int liftsAt = tileRows * kvHeadBytes; // in a stage, behind its rows
constexpr int stageBytes = liftsAt + tileRows * int(sizeof(float));
constexpr int chunksPerRow = kvHeadBytes / 16;
constexpr int maxGroup = 8; // query heads per KV head
constexpr int partFloats = maxGroup * (kvHeadDim + 2);
constexpr int ringBytes = warps * stages * stageBytes;
static_assert(ringBytes >= (warps + 1) * partFloats * 4, "the rings hold the warps' sums at the end, and the split's");
constexpr int clusterBlocks = 16, clusterSplits = 2 * clusterBlocks; // split s is of block s % 16
constexpr int shortSplit = 256; // rows: two of them to a block take less time than a second kernel
constexpr float toBase2 = 1.4426950408889634f;
constexpr float scoreScale = 0.0625f * toBase2; // 256^-0.5, and to base 2

/// Of 4 bytes; zeros where not valid.
__device__ __forceinline__ void copyAsync4(unsigned target, const void* source, bool valid)
{
    const int bytes = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

__device__ __forceinline__ int rowCount(const AttentionRows& rows)
{
    return rows.sinks + rows.recent + rows.count;
}

__device__ __forceinline__ int splitRows(const AttentionRows& rows, const AttentionShape& shape)
{
    return rows.rowsPerSplit > 0 ? rows.rowsPerSplit : shape.rowsPerSplit;
}

/// O^T and the softmax numbers of a warp: keys are the rows of a fragment and query heads its columns, so that six or
/// eight heads fill the tensor core's narrow side.
struct Accumulator {
    float out[4][4][4];       // [group of 64 dimensions][16 of them][fragment]
    float maximum[2], sum[2]; // of heads 2 t, 2 t + 1
};

/// Where rows' gates are, and where their results go.
struct Gating {
    const __nv_bfloat16* gate;
    int64_t stride, headStride;
    __nv_bfloat16* out;
};

/// A value of a row, once all splits have met.
__device__ __forceinline__ void storeGated(const Gating& gating, int64_t row, int heads, int head, int d, float value,
                                           float sum, float gate)
{
    gating.out[(row * heads + head) * kvHeadDim + d] =
        __float2bfloat16_rn(sum > 0.0f ? value / sum * sigmoid(gate) : 0.0f);
}

__device__ __forceinline__ float gateAt(const Gating& gating, int64_t row, int head, int d)
{
    return __bfloat162float(gating.gate[row * gating.stride + head * gating.headStride + d]);
}

/// The same sums as mergeKernel(), by a cluster whose blocks hold the parts. `parts`: shared address of a block's first
/// one. By all threads, of which each has at most one value.
__device__ __forceinline__ void mergeInCluster(unsigned parts, int splits, int64_t row, const AttentionShape& shape,
                                               const Gating& gating)
{
    __shared__ float2 numbers[clusterSplits][maxGroup]; // maxima and sums
    const int groupHeads = shape.heads / shape.kvHeads;
    constexpr int headValues = kvHeadDim / clusterBlocks; // that a block has of each head
    static_assert(maxGroup * headValues <= warps * 32);
    const int at = clusterRank() * groupHeads * headValues + int(threadIdx.x);
    const bool has = int(threadIdx.x) < groupHeads * headValues;
    const int inGroup = at / kvHeadDim, d = at % kvHeadDim, head = int(blockIdx.y) * groupHeads + inGroup;
    const float gate = has ? gateAt(gating, row, head, d) : 0.0f;
    clusterBarrier();
    const auto partOf = [&](int s) { return clusterAddress(parts + s / clusterBlocks * ringBytes, s % clusterBlocks); };
    float values[clusterSplits];
#pragma unroll
    for (int s = 0; s < clusterSplits; ++s)
        values[s] = has && s < splits ? clusterLoad(partOf(s) + at * 4) : 0.0f;
    for (int i = threadIdx.x; i < splits * groupHeads; i += int(blockDim.x)) {
        const unsigned softmax = partOf(i / groupHeads) + (maxGroup * kvHeadDim + i % groupHeads) * 4;
        numbers[i / groupHeads][i % groupHeads] = float2{clusterLoad(softmax), clusterLoad(softmax + maxGroup * 4)};
    }
    clusterArrive(); // no block ends before all have read its parts
    __syncthreads();
    if (has) {
        float maximum = -INFINITY;
        for (int s = 0; s < splits; ++s)
            maximum = fmaxf(maximum, numbers[s][inGroup].x);
        float value = 0.0f, sum = 0.0f;
#pragma unroll
        for (int s = 0; s < clusterSplits; ++s) {
            if (s >= splits)
                break;
            const float factor = exp2f(numbers[s][inGroup].x - maximum);
            sum += factor * numbers[s][inGroup].y;
            value += factor * values[s];
        }
        storeGated(gating, row, shape.heads, head, d, value, sum, gate);
    }
    clusterWait();
}

/// Clustered: the blocks along x are a cluster and have two splits each, whose parts they put together; else a block
/// has one and leaves its part in the work space.
template <bool Clustered>
__global__ void __launch_bounds__(warps * 32 * (Clustered ? 2 : 1))
    attentionKernel(const AttentionRows* queries, const AttentionShape shape, const __nv_bfloat16* query,
                    float* workspace, const Gating gating)
{
    extern __shared__ __align__(128) uint8_t rings[];
    allowDependentLaunch();
    const AttentionRows rows = queries[blockIdx.z];
    waitForPreviousKernel();
    const int half = Clustered ? int(threadIdx.x) / (warps * 32) : 0, thread = threadIdx.x % (warps * 32);
    uint8_t* shared = rings + half * ringBytes;
    const int split = half * clusterBlocks + blockIdx.x;
    const int rowsPerSplit = splitRows(rows, shape);
    const int firstRow = split * rowsPerSplit;
    const int total = rowCount(rows);
    if (!Clustered && firstRow >= total)
        return;
    const int endRow = min(total, firstRow + rowsPerSplit);
    const int lane = thread % 32, warp = thread / 32;
    const int g = lane / 4, t = lane % 4;
    const int kvHead = blockIdx.y;
    const int groupHeads = shape.heads / shape.kvHeads;
    const int64_t rowBytes = int64_t(shape.kvHeads) * kvHeadBytes;
    const int paged = rows.sinks + rows.recent;
    const auto rowAt = [&](int i) -> const uint8_t* {
        if (i >= paged)
            return rows.rows + (rows.rowIds ? rows.rowIds[i - paged] : i - paged) * rowBytes;
        const int token = i < rows.sinks ? i : rows.recentBegin + i - rows.sinks;
        return rows.pages.pages[token / rowPageTokens] + rows.pages.offset + token % rowPageTokens * rowBytes;
    };
    uint8_t* ring = shared + warp * stages * stageBytes;

    // B fragments of the query: head g, and for each group the dimensions that lane t's eight key bytes hold.
    uint32_t q[4][4][2];
#pragma unroll
    for (int group = 0; group < 4; ++group) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint4 bits{};
            if (g < groupHeads)
                bits = *reinterpret_cast<const uint4*>(
                    query +
                    (int64_t(int(blockIdx.z) + rows.shift) * shape.heads + kvHead * groupHeads + g) * kvHeadDim +
                    group * 64 + half * 32 + t * 8);
            q[group][0][half] = __byte_perm(bits.x, bits.y, 0x5410);
            q[group][1][half] = __byte_perm(bits.x, bits.y, 0x7632);
            q[group][2][half] = __byte_perm(bits.z, bits.w, 0x5410);
            q[group][3][half] = __byte_perm(bits.z, bits.w, 0x7632);
        }
    }

    const int tiles = (max(endRow - firstRow, 0) + tileRows - 1) / tileRows;
    const auto load = [&](int tile, int slot) {
        if (tile < tiles) {
            const int base = firstRow + tile * tileRows;
            uint64_t own = 0; // where row base + lane lies
            if (lane < tileRows && base + lane < endRow)
                own = reinterpret_cast<uint64_t>(rowAt(base + lane)) + kvHead * kvHeadBytes;
            const unsigned target = sharedAddress(ring + slot * stageBytes);
#pragma unroll
            for (int i = 0; i < (tileRows * chunksPerRow + 31) / 32; ++i) {
                const int chunk = i * 32 + lane;
                const int row = chunk / chunksPerRow;
                const uint64_t at = __shfl_sync(fullMask, own, row & 15);
                const bool valid = base + row < endRow;
                if (chunk < tileRows * chunksPerRow)
                    copyAsync16(target + chunk * 16,
                                reinterpret_cast<const uint8_t*>(valid ? at + chunk % chunksPerRow * 16
                                                                       : reinterpret_cast<uint64_t>(query)),
                                valid);
            }
            if (rows.lifts && lane < tileRows) {
                const bool lifted = base + lane >= paged && base + lane < endRow;
                copyAsync4(sharedAddress(ring + slot * stageBytes + liftsAt) + lane * 4,
                           lifted ? rows.lifts + (base + lane - paged) : reinterpret_cast<const float*>(query), lifted);
            }
        }
        copyAsyncCommit();
    };

    Accumulator a;
#pragma unroll
    for (int i = 0; i < 64; ++i)
        (&a.out[0][0][0])[i] = 0.0f;
    a.maximum[0] = a.maximum[1] = -INFINITY;
    a.sum[0] = a.sum[1] = 0.0f;

    for (int i = 0; i < stages - 1; ++i)
        load(warp + i * warps, i);
    int slot = 0;
    for (int tile = warp; tile < tiles; tile += warps) {
        copyAsyncWait<stages - 2>();
        __syncwarp();
        load(tile + (stages - 1) * warps, slot == 0 ? stages - 1 : slot - 1);
        const uint8_t* row0 = ring + slot * stageBytes + g * kvHeadBytes;
        const uint8_t* row1 = row0 + 8 * kvHeadBytes;
        const float* lifts = reinterpret_cast<const float*>(ring + slot * stageBytes + liftsAt);
        slot = slot + 1 == stages ? 0 : slot + 1;

        float score[4] = {};
        {
            const uint2 scales0 = *reinterpret_cast<const uint2*>(row0 + 256);
            const uint2 scales1 = *reinterpret_cast<const uint2*>(row1 + 256);
#pragma unroll
            for (int group = 0; group < 4; ++group) {
                const uint2 codes0 = *reinterpret_cast<const uint2*>(row0 + group * 32 + t * 8);
                const uint2 codes1 = *reinterpret_cast<const uint2*>(row1 + group * 32 + t * 8);
                float part[4];
#pragma unroll
                for (int step = 0; step < 4; ++step) {
                    const uint32_t word0 = step < 2 ? codes0.x : codes0.y, word1 = step < 2 ? codes1.x : codes1.y;
                    const uint32_t k[4] = {step % 2 ? int4PairToBf16<2>(word0) : int4PairToBf16<0>(word0),
                                           step % 2 ? int4PairToBf16<2>(word1) : int4PairToBf16<0>(word1),
                                           step % 2 ? int4PairToBf16<3>(word0) : int4PairToBf16<1>(word0),
                                           step % 2 ? int4PairToBf16<3>(word1) : int4PairToBf16<1>(word1)};
                    if (step == 0)
                        mmaBf16FromZero(part, k, q[group][step][0], q[group][step][1]);
                    else
                        mmaBf16(part, k, q[group][step][0], q[group][step][1]);
                }
                const uint32_t bits0 = group < 2 ? scales0.x : scales0.y, bits1 = group < 2 ? scales1.x : scales1.y;
                const float2 pair0 = __half22float2(*reinterpret_cast<const __half2*>(&bits0));
                const float2 pair1 = __half22float2(*reinterpret_cast<const __half2*>(&bits1));
                const float s0 = group % 2 ? pair0.y : pair0.x, s1 = group % 2 ? pair1.y : pair1.x;
                score[0] += s0 * part[0], score[1] += s0 * part[1];
                score[2] += s1 * part[2], score[3] += s1 * part[3];
            }
        }
        const int base = firstRow + tile * tileRows;
        float weight[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            weight[i] = base + g + (i < 2 ? 0 : 8) < endRow ? score[i] * scoreScale : -INFINITY;
        if (rows.lifts) {
            const float lift0 = lifts[g] * toBase2, lift1 = lifts[g + 8] * toBase2;
            weight[0] += lift0, weight[1] += lift0;
            weight[2] += lift1, weight[3] += lift1;
        }
        float rescale[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const float maximum = fmaxf(a.maximum[h], warpMax<28>(fmaxf(weight[h], weight[h + 2])));
            rescale[h] = exp2f(a.maximum[h] - maximum); // exp2(-inf) = 0 at the start: every tile has a row
            a.maximum[h] = maximum;
            weight[h] = exp2f(weight[h] - maximum);
            weight[h + 2] = exp2f(weight[h + 2] - maximum);
            a.sum[h] = a.sum[h] * rescale[h] + weight[h] + weight[h + 2];
        }
        if (__any_sync(fullMask, rescale[0] != 1.0f || rescale[1] != 1.0f)) {
#pragma unroll
            for (int i = 0; i < 64; ++i)
                (&a.out[0][0][0])[i] *= rescale[i % 2];
        }

        const uint2 valueScales0 = *reinterpret_cast<const uint2*>(row0 + 264);
        const uint2 valueScales1 = *reinterpret_cast<const uint2*>(row1 + 264);
        const uint8_t* values = row0 - g * kvHeadBytes + 128 + g * 4;
#pragma unroll
        for (int group = 0; group < 4; ++group) {
            const uint32_t bits0 = group < 2 ? valueScales0.x : valueScales0.y;
            const uint32_t bits1 = group < 2 ? valueScales1.x : valueScales1.y;
            const float2 pair0 = __half22float2(*reinterpret_cast<const __half2*>(&bits0));
            const float2 pair1 = __half22float2(*reinterpret_cast<const __half2*>(&bits1));
            const float s0 = group % 2 ? pair0.y : pair0.x, s1 = group % 2 ? pair1.y : pair1.x;
            const uint32_t b0 = transposeMatrix(packBf16(weight[0] * s0, weight[1] * s0));
            const uint32_t b1 = transposeMatrix(packBf16(weight[2] * s1, weight[3] * s1));
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) // rows 2 t, 2 t + 1, 2 t + 8, 2 t + 9
                words[i] =
                    *reinterpret_cast<const uint32_t*>(values + (2 * t + i % 2 + i / 2 * 8) * kvHeadBytes + group * 32);
            const uint32_t low0 = __byte_perm(words[0], words[1], 0x5410),
                           high0 = __byte_perm(words[0], words[1], 0x7632);
            const uint32_t low1 = __byte_perm(words[2], words[3], 0x5410),
                           high1 = __byte_perm(words[2], words[3], 0x7632);
            const uint32_t v0[4] = {int4PairToBf16<0>(low0), int4PairToBf16<1>(low0), int4PairToBf16<0>(low1),
                                    int4PairToBf16<1>(low1)};
            const uint32_t v1[4] = {int4PairToBf16<2>(low0), int4PairToBf16<3>(low0), int4PairToBf16<2>(low1),
                                    int4PairToBf16<3>(low1)};
            const uint32_t v2[4] = {int4PairToBf16<0>(high0), int4PairToBf16<1>(high0), int4PairToBf16<0>(high1),
                                    int4PairToBf16<1>(high1)};
            const uint32_t v3[4] = {int4PairToBf16<2>(high0), int4PairToBf16<3>(high0), int4PairToBf16<2>(high1),
                                    int4PairToBf16<3>(high1)};
            mmaBf16(a.out[group][0], v0, b0, b1);
            mmaBf16(a.out[group][1], v1, b0, b1);
            mmaBf16(a.out[group][2], v2, b0, b1);
            mmaBf16(a.out[group][3], v3, b0, b1);
        }
    }
    copyAsyncWait<0>();
    __syncthreads(); // the rings become the place where the warps meet

    // Each warp leaves [head][dimension], then maxima and sums.
    float* mine = reinterpret_cast<float*>(shared) + warp * partFloats;
#pragma unroll
    for (int h = 0; h < 2; ++h)
        a.sum[h] = warpSum<28>(a.sum[h]);
#pragma unroll
    for (int group = 0; group < 4; ++group) {
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int dimension = group * 64 + g * 4 + tile + (i < 2 ? 0 : 32);
                mine[(2 * t + i % 2) * kvHeadDim + dimension] = a.out[group][tile][i];
            }
        }
    }
    if (g == 0) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            mine[maxGroup * kvHeadDim + 2 * t + h] = a.maximum[h];
            mine[maxGroup * kvHeadDim + maxGroup + 2 * t + h] = a.sum[h];
        }
    }
    __syncthreads();
    float* part =
        Clustered ? reinterpret_cast<float*>(shared) + warps * partFloats
                  : workspace + ((int64_t(blockIdx.z) * shape.kvHeads + kvHead) * shape.maxSplits + split) * partFloats;
    const float* all = reinterpret_cast<const float*>(shared);
    for (int head = 0; head < groupHeads; ++head) {
        float maximum = -INFINITY;
#pragma unroll
        for (int w = 0; w < warps; ++w)
            maximum = fmaxf(maximum, all[w * partFloats + maxGroup * kvHeadDim + head]);
        float factor[warps], sum = 0.0f;
#pragma unroll
        for (int w = 0; w < warps; ++w) {
            factor[w] = exp2f(all[w * partFloats + maxGroup * kvHeadDim + head] - maximum);
            sum += factor[w] * all[w * partFloats + maxGroup * kvHeadDim + maxGroup + head];
        }
        for (int d = thread; d < kvHeadDim; d += warps * 32) {
            float value = 0.0f;
#pragma unroll
            for (int w = 0; w < warps; ++w)
                value += factor[w] * all[w * partFloats + head * kvHeadDim + d];
            part[head * kvHeadDim + d] = value;
        }
        if (thread == 0) {
            part[maxGroup * kvHeadDim + head] = maximum;
            part[maxGroup * kvHeadDim + maxGroup + head] = sum;
        }
    }
    if (Clustered)
        mergeInCluster(sharedAddress(rings) + warps * partFloats * 4, (total + rowsPerSplit - 1) / rowsPerSplit,
                       int64_t(blockIdx.z) + rows.shift, shape, gating);
}

__global__ void __launch_bounds__(kvHeadDim)
    mergeKernel(const AttentionRows* queries, const AttentionShape shape, const float* workspace, const Gating gating)
{
    allowDependentLaunch();
    const int head = blockIdx.x, query = blockIdx.y, d = threadIdx.x;
    const int groupHeads = shape.heads / shape.kvHeads;
    const int kvHead = head / groupHeads, inGroup = head % groupHeads;
    const AttentionRows rows = queries[query];
    const int rowsPerSplit = splitRows(rows, shape);
    waitForPreviousKernel();
    const int splits = (rowCount(rows) + rowsPerSplit - 1) / rowsPerSplit;
    const float* parts = workspace + (int64_t(query) * shape.kvHeads + kvHead) * shape.maxSplits * partFloats;
    // One thread fetches a split's numbers for all, so that nobody waits for them one by one.
    extern __shared__ float2 numbers[]; // (maxSplits): maximum, later the factor; sum
    __shared__ float warpMaxima[kvHeadDim / 32];
    float own = -INFINITY;
    for (int s = d; s < splits; s += kvHeadDim) {
        const float* softmax = parts + int64_t(s) * partFloats + maxGroup * kvHeadDim + inGroup;
        numbers[s] = float2{softmax[0], softmax[maxGroup]};
        own = fmaxf(own, numbers[s].x);
    }
    own = warpMax(own);
    if (d % 32 == 0)
        warpMaxima[d / 32] = own;
    __syncthreads();
    float maximum = -INFINITY;
#pragma unroll
    for (int w = 0; w < kvHeadDim / 32; ++w)
        maximum = fmaxf(maximum, warpMaxima[w]);
    for (int s = d; s < splits; s += kvHeadDim)
        numbers[s].x = exp2f(numbers[s].x - maximum);
    __syncthreads();
    float value = 0.0f, sum = 0.0f;
    const float* part = parts + inGroup * kvHeadDim + d;
#pragma unroll 16
    for (int s = 0; s < splits; ++s) {
        sum += numbers[s].x * numbers[s].y;
        value += numbers[s].x * part[int64_t(s) * partFloats];
    }
    const int row = query + rows.shift;
    storeGated(gating, row, shape.heads, head, d, value, sum, gateAt(gating, row, head, d));
}

/// Of attentionKernel<true> on the current device, which is asked once.
int roomForClusters()
{
    static std::array<std::atomic<int>, 64> known{}; // by device: one more than the room, 0 not yet asked
    int device = 0;
    if (!deviceHasSm90() || cudaGetDevice(&device) != cudaSuccess || device >= int(known.size()))
        return 0;
    std::atomic<int>& room = known[std::size_t(device)];
    if (room == 0)
        room = 1 + clusterRoom(attentionKernel<true>, clusterBlocks, 2 * warps * 32, 2 * ringBytes);
    return room - 1;
}

} // namespace

bool attentionMeets(const AttentionShape& shape)
{
    const int mostSplits = shape.rowsPerSplit <= shortSplit ? clusterSplits : clusterBlocks;
    return shape.maxSplits <= mostSplits && shape.kvHeads * shape.queries <= roomForClusters();
}

cudaError_t launchAttentionDecode(const AttentionRows* rows, const AttentionShape& shape, const __nv_bfloat16* query,
                                  const __nv_bfloat16* gate, std::int64_t gateStride, std::int64_t gateHeadStride,
                                  float* workspace, __nv_bfloat16* out, cudaStream_t stream, AttentionWay way)
{
    if (shape.queries < 0 || shape.kvHeads <= 0 || shape.heads % shape.kvHeads != 0 ||
        shape.heads / shape.kvHeads > maxGroup || shape.heads <= 0 || shape.rowsPerSplit <= 0 ||
        shape.rowsPerSplit % 64 != 0 || shape.maxSplits <= 0 || shape.maxSplits > 4096 || shape.queries > 65535)
        return cudaErrorInvalidValue;
    if (shape.queries == 0)
        return cudaSuccess;
    const Gating gating{gate, gateStride, gateHeadStride, out};
    if (way == AttentionWay::Best && attentionMeets(shape))
        return launchDependentClusters(attentionKernel<true>, dim3(clusterBlocks, shape.kvHeads, shape.queries),
                                       2 * warps * 32, 2 * ringBytes, stream, rows, shape, query, workspace, gating);
    OCTAVO_CUDA_TRY(
        cudaFuncSetAttribute(attentionKernel<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, ringBytes));
    OCTAVO_CUDA_TRY(launchDependent(attentionKernel<false>, dim3(shape.maxSplits, shape.kvHeads, shape.queries),
                                    warps * 32, ringBytes, stream, rows, shape, query, workspace, gating));
    OCTAVO_CUDA_TRY(launchDependent(mergeKernel, dim3(shape.heads, shape.queries), kvHeadDim,
                                    shape.maxSplits * int(sizeof(float2)), stream, rows, shape, workspace, gating));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
