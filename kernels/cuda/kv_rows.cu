#include "kernels/cuda/kv_rows.h"

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/row_math.cuh"

namespace octavo::kernels::cuda
{
namespace
{

/// One warp per (token, KV head, key or value): see quantizeHead().
__global__ void quantizeRowsKernel(MatrixView<const __nv_bfloat16> keys, MatrixView<const __nv_bfloat16> values,
                                   int kvHeads, const int64_t* rowIds, uint8_t* out)
{
    allowDependentLaunch();
    waitForPreviousKernel();
    const int lane = threadIdx.x % 32;
    const int64_t index = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    if (index >= int64_t(keys.rows) * kvHeads * 2)
        return;
    const bool isValue = index % 2;
    const int head = static_cast<int>(index / 2 % kvHeads);
    const int64_t token = index / 2 / kvHeads;
    const auto& source = isValue ? values : keys;
    const uint4 bits =
        *reinterpret_cast<const uint4*>(source.data + token * source.stride + head * kvHeadDim + lane * 8);
    storeHead(quantizeHead(bits), isValue, out + ((rowIds ? rowIds[token] : token) * kvHeads + head) * kvHeadBytes);
}

} // namespace

cudaError_t launchQuantizeRows(MatrixView<const __nv_bfloat16> keys, MatrixView<const __nv_bfloat16> values,
                               int kvHeads, const std::int64_t* rowIds, std::uint8_t* out, cudaStream_t stream)
{
    if (kvHeads <= 0 || keys.rows != values.rows || keys.cols != kvHeads * kvHeadDim || values.cols != keys.cols ||
        keys.stride % 8 != 0 || values.stride % 8 != 0)
        return cudaErrorInvalidValue;
    if (keys.rows == 0)
        return cudaSuccess;
    constexpr int warps = 4;
    const std::int64_t pieces = std::int64_t{keys.rows} * kvHeads * 2;
    const auto blocks = static_cast<unsigned>((pieces + warps - 1) / warps);
    OCTAVO_CUDA_TRY(
        launchDependent(quantizeRowsKernel, blocks, warps * 32, 0, stream, keys, values, kvHeads, rowIds, out));
    return cudaGetLastError();
}

} // namespace octavo::kernels::cuda
