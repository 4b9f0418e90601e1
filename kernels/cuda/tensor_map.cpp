#include "kernels/cuda/tensor_map.h"

namespace octavo::kernels::cuda
{
namespace
{

using EncodeTiled = decltype(cuTensorMapEncodeTiled)*;

/// The driver's function, or null.
EncodeTiled encodeTiled()
{
    static const EncodeTiled found = [] {
        void* function = nullptr;
        cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
        const cudaError_t error =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
#else
        const cudaError_t error =
            cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
        return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<EncodeTiled>(function)
                                                                             : nullptr;
    }();
    return found;
}

} // namespace

bool canDescribeRows()
{
    return encodeTiled() != nullptr;
}

cudaError_t describeRows(CUtensorMap& map, const RowStack& rows, int boxRows)
{
    if (!canDescribeRows())
        return cudaErrorNotSupported;
    const cuuint64_t sizes[] = {cuuint64_t(rows.sizes[0]), cuuint64_t(rows.sizes[1]), cuuint64_t(rows.sizes[2])};
    const cuuint64_t strides[] = {cuuint64_t(rows.strides[0]) * sizeof(__nv_bfloat16),
                                  cuuint64_t(rows.strides[1]) * sizeof(__nv_bfloat16)};
    const cuuint32_t box[] = {64, cuuint32_t(boxRows), 1}, steps[] = {1, 1, 1};
    const CUresult result = encodeTiled()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rows.sizes[2] > 0 ? 3 : 2,
                                          const_cast<__nv_bfloat16*>(rows.data), sizes, strides, box, steps,
                                          CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                          CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

} // namespace octavo::kernels::cuda
