#include "engine/backend/backend_factory.h"

#include "engine/scheduler/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <thread>

namespace octavo::engine {
namespace {

std::string processorName()
{
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
        const std::size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos)
            return line.substr(colon + 2);
    }
    return "CPU";
}

/// "cuda:" and a number.
bool namesGpu(std::string_view name)
{
    constexpr std::string_view prefix = "cuda:";
    return name.starts_with(prefix) && name.size() > prefix.size() &&
           name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

} // namespace

std::vector<DeviceDescription> listDevices()
{
    std::vector<DeviceDescription> devices;
#ifdef OCTAVO_CUDA_BACKEND
    devices = listCudaDevices();
#endif
    DeviceDescription cpu;
    cpu.device = "cpu";
    cpu.description = processorName() + ", " + std::to_string(std::max(1u, std::thread::hardware_concurrency()))
                      + " threads";
    if (const auto memory = availableMemory()) {
        cpu.memoryTotalBytes = memory->limitBytes;
        cpu.memoryFreeBytes = memory->freeBytes;
    }
    devices.push_back(cpu);
    return devices;
}

Result<std::vector<std::string>> resolveDevices(const std::vector<std::string>& names)
{
    std::vector<std::string> gpus;
    for (const DeviceDescription& device : listDevices()) {
        if (device.device != "cpu")
            gpus.push_back(device.device);
    }
    std::vector<std::string> resolved;
    for (const std::string& name : names) {
        if (name == "auto") {
            if (gpus.empty())
                resolved.emplace_back("cpu");
            else
                resolved.insert(resolved.end(), gpus.begin(), gpus.end());
        } else if (name == "cpu" || name == "reference") {
            resolved.push_back(name);
        } else if (!namesGpu(name)) {
            return Error{ErrorCode::InvalidArgument,
                         "there is no device '" + name + "'; name cpu, cuda:0, cuda:0,cuda:1 or auto"};
        } else if (std::ranges::find(gpus, name) == gpus.end()) {
            return Error{ErrorCode::NotFound,
                         "device " + name + " was not found (" + std::to_string(gpus.size())
                             + " GPUs answer); 'octavo-engine devices' lists what there is"};
        } else {
            resolved.push_back(name);
        }
    }
    // Kernels whose blocks wait for each other have room for two workers of a GPU (launchSketchPick()).
    for (const std::string& name : resolved) {
        if (namesGpu(name) && std::ranges::count(resolved, name) > 2)
            return Error{ErrorCode::InvalidArgument,
                         name + " is named more than twice; two workers are the most that a GPU takes"};
    }
    if (resolved.empty())
        return Error{ErrorCode::InvalidArgument, "no device was named; name cpu, cuda:0 or auto"};
    return resolved;
}

namespace {

Result<std::unique_ptr<Backend>> makeOne(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                         const BackendOptions& options)
{
#ifdef OCTAVO_CUDA_BACKEND
    if (options.device.starts_with("cuda:"))
        return makeCudaBackend(config, std::move(weights), options);
#endif
    if (options.device == "reference" || options.cpuPath == "reference")
        return makeReferenceBackend(config, std::move(weights), options);
    if (options.device == "cpu")
        return makeCpuBackend(config, std::move(weights), options);
    return Error{ErrorCode::NotFound, "device " + options.device + " was not built into this Octavo"};
}

} // namespace

Result<std::unique_ptr<Backend>> makeBackend(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                             const BackendOptions& options)
{
    auto backend = makeOne(config, weights, options);
    if (weights->letGoOfPages) // all but the embedding was repacked, and of that few rows are read again
        weights->letGoOfPages();
    return backend;
}

void resetDevice([[maybe_unused]] const std::string& device)
{
#ifdef OCTAVO_CUDA_BACKEND
    if (device.starts_with("cuda:"))
        resetCudaDevice(device);
#endif
}

} // namespace octavo::engine
