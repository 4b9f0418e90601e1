#pragma once

/// Builds backends by the names users give: "cpu", "cuda:0", "auto".

#include "engine/backend/backend.h"
#include "engine/memory/sparse_settings.h"
#include "engine/model/weights.h"
#include "engine/result.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace octavo::engine {

/// How one backend is to be set up. Zero and empty mean: as the device thinks best.
struct BackendOptions {
    std::string device = "cpu";         ///< "cpu", "reference" (plain float32, for tests), "cuda:N"
    int threads = 0;                    ///< compute threads of the CPU backend; 0: all
    std::string cpuPath;                ///< "plain", "avx2", "avx512"; empty: the best this CPU has
    std::int64_t contextLimit = 0;      ///< the longest sequence that will be asked for
    std::int64_t memoryBudgetBytes = 0; ///< for all sequences together; 0: the backend sets no limit of its own
    int sequences = 8;                  ///< long ones at once: a GPU's hot buffers share what is left between so many
    SparseMode sparse = SparseMode::Auto;
    SparseSettings sparseSettings;
    bool quantize = false;              ///< dense linears of the layers to int4 while loading, where the device can
    /// Parameters quantised so far, and of all that will be; false cancels the loading. On the caller's thread.
    std::function<bool(std::int64_t done, std::int64_t total)> onQuantized;
    const std::atomic<bool>* cancel = nullptr; ///< looked at between modules while weights are packed; may be null
    bool mtp = true;                    ///< run the MTP layer where the model has one; it takes KV rows of its own
    /// Drafts of a GPU's MTP layer are looked for among the first so many ids, which byte-level BPE gives to the
    /// commonest tokens, so that a pass reads that part of the head alone; 0: all. No answer depends on it.
    int draftVocabulary = 98'304;
    /// A GPU drafts by that part of a head of floats in int4, a copy beside the head, where the copy is less than a
    /// hundredth of its memory. No answer depends on it.
    bool quantizeDrafts = true;
    /// A GPU keeps a head of floats in int4, a quarter of the memory and the time to read it; answers change a little.
    bool quantizeHead = false;
    /// A GPU reads whole blocks of 64 tokens through kernels for many rows; off: all through those of decode.
    bool prefillBlocks = true;
    /// Empty: basis.safetensors beside the weights. Where there is none, SparseMode::Auto decodes densely.
    std::filesystem::path sketchBasis;
};

/// Float32 throughout, plain loops: the yardstick. engine/backend/reference_backend.cpp
Result<std::unique_ptr<Backend>> makeReferenceBackend(const ModelConfig& config,
                                                      std::shared_ptr<const ModelWeights> weights,
                                                      const BackendOptions& options);

/// engine/backend/cpu_backend.cpp
Result<std::unique_ptr<Backend>> makeCpuBackend(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                                const BackendOptions& options);

/// engine/backend/cuda_backend.cpp, built where CUDA is.
Result<std::unique_ptr<Backend>> makeCudaBackend(const ModelConfig& config,
                                                 std::shared_ptr<const ModelWeights> weights,
                                                 const BackendOptions& options);

/// A device that this machine and build can use.
struct DeviceDescription {
    std::string device;      ///< "cpu", "cuda:0"
    std::string description;
    std::int64_t memoryTotalBytes = 0, memoryFreeBytes = 0;
    std::string link;        ///< "PCIe 4 x16"; empty where there is none or it is not known
    std::string driver;
};

/// What can be named as a device, the CPU last.
std::vector<DeviceDescription> listDevices();

/// engine/backend/cuda_backend.cpp, built where CUDA is; empty where no GPU answers.
std::vector<DeviceDescription> listCudaDevices();

/// "auto" becomes the GPUs that are there, else the CPU; a comma separates several. Fails with InvalidArgument for a
/// name that is none, with NotFound for a device that this machine or build lacks. "cpu" may be named twice.
Result<std::vector<std::string>> resolveDevices(const std::vector<std::string>& names);

/// The backend for options.device, which must come from resolveDevices().
Result<std::unique_ptr<Backend>> makeBackend(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                             const BackendOptions& options);

/// Lets go of all that this process has on a device that failed, so that makeBackend() may work there again. No backend
/// may be left on it.
void resetDevice(const std::string& device);

/// engine/backend/cuda_backend.cpp
void resetCudaDevice(const std::string& device);

} // namespace octavo::engine
