#include "kernels/cuda/bf16_gemm.h"

#if __has_include(<cublasLt.h>)
#define OCTAVO_CUBLASLT 1
#include <cublasLt.h>
#include <dlfcn.h>
#endif

namespace octavo::kernels::cuda
{

#ifdef OCTAVO_CUBLASLT

namespace
{

cudaError_t asCudaError(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS         ? cudaSuccess
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? cudaErrorNotSupported
           : status == CUBLAS_STATUS_INVALID_VALUE ? cudaErrorInvalidValue
                                                   : cudaErrorLaunchFailure;
}

#define OCTAVO_LT_TRY(expression)                                                                                      \
    do {                                                                                                               \
        if (const cublasStatus_t octavoStatus = (expression); octavoStatus != CUBLAS_STATUS_SUCCESS)                   \
            return asCudaError(octavoStatus);                                                                          \
    } while (false)

} // namespace

/// The functions that are used, by the names that the header declares them under.
struct Bf16Gemm::Library {
    void* file = nullptr;
    cublasLtHandle_t handle = nullptr;
    decltype(&cublasLtCreate) create = nullptr;
    decltype(&cublasLtDestroy) destroy = nullptr;
    decltype(&cublasLtGetVersion) version = nullptr;
    decltype(&cublasLtMatmul) matmul = nullptr;
    decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
    decltype(&cublasLtMatmulAlgoCheck) check = nullptr;
    decltype(&cublasLtMatmulDescCreate) createDesc = nullptr;
    decltype(&cublasLtMatmulDescDestroy) destroyDesc = nullptr;
    decltype(&cublasLtMatmulDescSetAttribute) setDesc = nullptr;
    decltype(&cublasLtMatrixLayoutCreate) createLayout = nullptr;
    decltype(&cublasLtMatrixLayoutDestroy) destroyLayout = nullptr;
    decltype(&cublasLtMatmulPreferenceCreate) createPreference = nullptr;
    decltype(&cublasLtMatmulPreferenceDestroy) destroyPreference = nullptr;
    decltype(&cublasLtMatmulPreferenceSetAttribute) setPreference = nullptr;

    ~Library()
    {
        if (handle)
            destroy(handle);
        if (file)
            dlclose(file);
    }

    bool load(std::string& why)
    {
        const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
        file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!file) {
            const char* text = dlerror();
            why = name + " cannot be loaded: " + (text ? text : "no reason given");
            return false;
        }
        bool all = true;
        const auto find = [&](auto& function, const char* symbol) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(file, symbol));
            all = all && function;
        };
        find(create, "cublasLtCreate");
        find(destroy, "cublasLtDestroy");
        find(version, "cublasLtGetVersion");
        find(matmul, "cublasLtMatmul");
        find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
        find(check, "cublasLtMatmulAlgoCheck");
        find(createDesc, "cublasLtMatmulDescCreate");
        find(destroyDesc, "cublasLtMatmulDescDestroy");
        find(setDesc, "cublasLtMatmulDescSetAttribute");
        find(createLayout, "cublasLtMatrixLayoutCreate");
        find(destroyLayout, "cublasLtMatrixLayoutDestroy");
        find(createPreference, "cublasLtMatmulPreferenceCreate");
        find(destroyPreference, "cublasLtMatmulPreferenceDestroy");
        find(setPreference, "cublasLtMatmulPreferenceSetAttribute");
        if (!all) {
            why = name + " lacks functions that are needed";
            return false;
        }
        if (const cublasStatus_t status = create(&handle); status != CUBLAS_STATUS_SUCCESS) {
            handle = nullptr;
            why = name + " does not start on this device (status " + std::to_string(int(status)) + ")";
            return false;
        }
        return true;
    }
};

struct Bf16Gemm::Plan {
    const Library& library;
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatrixLayout_t weights = nullptr, x = nullptr, y = nullptr;
    cublasLtMatmulAlgo_t algorithm{};

    explicit Plan(const Library& from)
        : library(from)
    {
    }
    ~Plan()
    {
        for (const cublasLtMatrixLayout_t layout : {weights, x, y}) {
            if (layout)
                library.destroyLayout(layout);
        }
        if (desc)
            library.destroyDesc(desc);
    }

    /// The library counts columns first: y^T (N, M) = W (K, N)^T x^T (K, M).
    cudaError_t describe(const Shape& shape)
    {
        const auto [rows, outputs, inputs, xStride, weightStride, yStride] = shape;
        OCTAVO_LT_TRY(library.createDesc(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        const cublasOperation_t transposed = CUBLAS_OP_T;
        OCTAVO_LT_TRY(library.setDesc(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
        const auto layout = [&](cublasLtMatrixLayout_t& to, int columns, int ofWhich, std::int64_t stride) {
            return library.createLayout(&to, CUDA_R_16BF, std::uint64_t(columns), std::uint64_t(ofWhich), stride);
        };
        OCTAVO_LT_TRY(layout(weights, inputs, outputs, weightStride));
        OCTAVO_LT_TRY(layout(x, inputs, rows, xStride));
        OCTAVO_LT_TRY(layout(y, outputs, rows, yStride));
        return cudaSuccess;
    }

    /// The library's own choice among kernels that do not cut K.
    cudaError_t choose()
    {
        cublasLtMatmulPreference_t preference = nullptr;
        OCTAVO_LT_TRY(library.createPreference(&preference));
        const std::size_t bytes = workspaceBytes;
        const std::uint32_t whole = CUBLASLT_REDUCTION_SCHEME_NONE;
        cublasLtMatmulHeuristicResult_t result{};
        int found = 0;
        cublasStatus_t status =
            library.setPreference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
        if (status == CUBLAS_STATUS_SUCCESS)
            status =
                library.setPreference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &whole, sizeof whole);
        if (status == CUBLAS_STATUS_SUCCESS)
            status = library.heuristic(library.handle, desc, weights, x, y, y, preference, 1, &result, &found);
        library.destroyPreference(preference);
        OCTAVO_LT_TRY(status);
        if (found == 0)
            return cudaErrorNotSupported;
        algorithm = result.algo;
        return cudaSuccess;
    }

    bool accepts(const cublasLtMatmulAlgo_t& other) const
    {
        cublasLtMatmulHeuristicResult_t result{};
        return library.check(library.handle, desc, weights, x, y, y, &other, &result) == CUBLAS_STATUS_SUCCESS &&
               result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspaceBytes;
    }
};

std::unique_ptr<Bf16Gemm> Bf16Gemm::open(int planRows, std::string& why)
{
    auto gemm = std::unique_ptr<Bf16Gemm>(new Bf16Gemm);
    gemm->m_planRows = planRows;
    gemm->m_library = std::make_unique<Library>();
    if (!gemm->m_library->load(why))
        return nullptr;
    return gemm;
}

cudaError_t Bf16Gemm::plan(const Shape& shape, Plan*& out)
{
    if (const auto known = m_plans.find(shape); known != m_plans.end()) {
        out = known->second.get();
        return cudaSuccess;
    }
    auto made = std::make_unique<Plan>(*m_library);
    if (const cudaError_t status = made->describe(shape); status != cudaSuccess)
        return status;
    Plan* model = nullptr;
    if (std::get<0>(shape) != m_planRows) {
        Shape whole = shape;
        std::get<0>(whole) = m_planRows;
        if (plan(whole, model) != cudaSuccess)
            model = nullptr;
    }
    if (model && made->accepts(model->algorithm))
        made->algorithm = model->algorithm;
    else if (const cudaError_t status = made->choose(); status != cudaSuccess)
        return status;
    out = (m_plans[shape] = std::move(made)).get();
    return cudaSuccess;
}

cudaError_t Bf16Gemm::prepare(int outputs, int inputs, std::int64_t weightStride, std::int64_t yStride)
{
    Plan* made = nullptr;
    return plan({m_planRows, outputs, inputs, inputs, weightStride, yStride}, made);
}

cudaError_t Bf16Gemm::multiply(MatrixView<const __nv_bfloat16> x, MatrixView<const __nv_bfloat16> weights,
                               __nv_bfloat16* y, std::int64_t yStride, void* workspace, cudaStream_t stream)
{
    if (x.rows < 0 || weights.rows <= 0 || x.cols <= 0 || x.cols != weights.cols || yStride < weights.rows ||
        x.stride % 8 != 0 || weights.stride % 8 != 0 || yStride % 8 != 0)
        return cudaErrorInvalidValue;
    if (x.rows == 0)
        return cudaSuccess;
    Plan* how = nullptr;
    if (const cudaError_t status = plan({x.rows, weights.rows, x.cols, x.stride, weights.stride, yStride}, how);
        status != cudaSuccess)
        return status;
    const float one = 1.0f, zero = 0.0f;
    return asCudaError(m_library->matmul(m_library->handle, how->desc, &one, weights.data, how->weights, x.data, how->x,
                                         &zero, y, how->y, y, how->y, &how->algorithm, workspace, workspaceBytes,
                                         stream));
}

#else

struct Bf16Gemm::Library {
};
struct Bf16Gemm::Plan {
};

std::unique_ptr<Bf16Gemm> Bf16Gemm::open(int, std::string& why)
{
    why = "this build has no cuBLASLt: its header was missing";
    return nullptr;
}

cudaError_t Bf16Gemm::prepare(int, int, std::int64_t, std::int64_t)
{
    return cudaErrorNotSupported;
}

cudaError_t Bf16Gemm::multiply(MatrixView<const __nv_bfloat16>, MatrixView<const __nv_bfloat16>, __nv_bfloat16*,
                               std::int64_t, void*, cudaStream_t)
{
    return cudaErrorNotSupported;
}

#endif

Bf16Gemm::Bf16Gemm() = default;
Bf16Gemm::~Bf16Gemm()
{
    m_plans.clear(); // before the library that they were made by
}

} // namespace octavo::kernels::cuda
