#pragma once

/// Products of bf16 matrices through cuBLASLt, for the many rows of a prefill slice.
///
/// The library is looked up when the program runs: machines without it, and builds whose toolkit lacks its header, are
/// told so and prefill goes through the kernels for few rows.

#include "kernels/cuda/views.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <tuple>

namespace octavo::kernels::cuda
{

/// Owns the library's handle on the device that was current; plans are kept by shape. One thread at a time.
class Bf16Gemm
{
public:
    static constexpr std::size_t workspaceBytes = std::size_t{32} << 20;

    /// Null where the library cannot be used; `why` then says it in a sentence. `planRows`: rows that plans are made
    /// for; other numbers of rows use the same one, so that a row's result does not depend on them.
    static std::unique_ptr<Bf16Gemm> open(int planRows, std::string& why);
    ~Bf16Gemm();

    /// Makes the plan for planRows dense rows by a matrix of (outputs, inputs) ahead of time. Errors as multiply().
    [[nodiscard]] cudaError_t prepare(int outputs, int inputs, std::int64_t weightStride, std::int64_t yStride);

    /// y = x W^T.
    ///
    /// Shapes   x: (M, K), weights: (N, K), y: (M, N), yStride apart; all rows 16-byte aligned. workspace:
    ///          workspaceBytes, 256-byte aligned; products on one stream may share it.
    /// Numerics fp32 sums over K in one run, one rounding to bf16.
    /// Errors   cudaErrorInvalidValue for sizes that do not match, cudaErrorNotSupported where the library has no
    ///          kernel for the shape, cudaErrorLaunchFailure for what else it reports.
    /// Stream   enqueues on `stream`. Makes a plan for a shape that is new, on the host.
    [[nodiscard]] cudaError_t multiply(MatrixView<const __nv_bfloat16> x, MatrixView<const __nv_bfloat16> weights,
                                       __nv_bfloat16* y, std::int64_t yStride, void* workspace, cudaStream_t stream);

private:
    struct Library;
    struct Plan;
    using Shape = std::tuple<int, int, int, std::int64_t, std::int64_t, std::int64_t>; // M, N, K, strides

    Bf16Gemm();
    std::unique_ptr<Library> m_library;
    int m_planRows = 0;
    std::map<Shape, std::unique_ptr<Plan>> m_plans;
    cudaError_t plan(const Shape& shape, Plan*& out);
};

} // namespace octavo::kernels::cuda
