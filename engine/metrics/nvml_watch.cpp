#include "engine/metrics/nvml_watch.h"

#include <spdlog/spdlog.h>

#include <utility>

#include <dlfcn.h>

namespace octavo::engine
{

namespace
{

/// The few functions that are asked, by their names and numbers in NVIDIA's interface.
class Nvml
{
public:
    Nvml(const std::string& library, const std::string& pciBusId)
        : m_library(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL))
    {
        int (*init)() = nullptr;
        int (*find)(const char*, Device*) = nullptr;
        if (!m_library || !load(init, "nvmlInit_v2") || !load(find, "nvmlDeviceGetHandleByPciBusId_v2"))
            return;
        load(m_shutdown, "nvmlShutdown");
        load(m_temperature, "nvmlDeviceGetTemperature");
        load(m_power, "nvmlDeviceGetPowerUsage");
        load(m_clock, "nvmlDeviceGetClockInfo");
        load(m_linkGeneration, "nvmlDeviceGetCurrPcieLinkGeneration");
        load(m_linkWidth, "nvmlDeviceGetCurrPcieLinkWidth");
        load(m_throughput, "nvmlDeviceGetPcieThroughput");
        m_initialised = init() == 0;
        m_found = m_initialised && find(pciBusId.c_str(), &m_device) == 0;
    }
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;
    ~Nvml()
    {
        if (m_initialised && m_shutdown)
            m_shutdown();
        if (m_library)
            dlclose(m_library);
    }

    bool found() const { return m_found; }

    HardwareReading read() const
    {
        HardwareReading reading;
        unsigned value = 0, width = 0;
        if (m_temperature && m_temperature(m_device, gpuSensor, &value) == 0)
            reading.temperatureC = double(value);
        if (m_power && m_power(m_device, &value) == 0)
            reading.powerW = double(value) / 1e3;
        if (m_clock && m_clock(m_device, computeClock, &value) == 0)
            reading.computeClockMHz = double(value);
        if (m_clock && m_clock(m_device, memoryClock, &value) == 0)
            reading.memoryClockMHz = double(value);
        if (m_linkGeneration && m_linkWidth && m_linkGeneration(m_device, &value) == 0 &&
            m_linkWidth(m_device, &width) == 0 && value > 0 && width > 0)
            reading.link = "PCIe " + std::to_string(value) + " x" + std::to_string(width);
        if (m_throughput && m_throughput(m_device, received, &value) == 0)
            reading.linkReadBytesPerSecond = double(value) * 1024.0;
        if (m_throughput && m_throughput(m_device, transmitted, &value) == 0)
            reading.linkWriteBytesPerSecond = double(value) * 1024.0;
        return reading;
    }

private:
    using Device = void*;
    static constexpr int gpuSensor = 0, computeClock = 1, memoryClock = 2, transmitted = 0, received = 1;

    template <typename Function>
    bool load(Function*& function, const char* name) const
    {
        function = reinterpret_cast<Function*>(dlsym(m_library, name));
        return function != nullptr;
    }

    void* m_library;
    Device m_device = nullptr;
    bool m_initialised = false, m_found = false;
    int (*m_shutdown)() = nullptr;
    int (*m_temperature)(Device, int sensor, unsigned*) = nullptr;
    int (*m_power)(Device, unsigned* milliwatts) = nullptr;
    int (*m_clock)(Device, int clock, unsigned* megahertz) = nullptr;
    int (*m_linkGeneration)(Device, unsigned*) = nullptr;
    int (*m_linkWidth)(Device, unsigned*) = nullptr;
    int (*m_throughput)(Device, int direction, unsigned* kibibytesPerSecond) = nullptr;
};

} // namespace

NvmlWatch::NvmlWatch(std::string pciBusId, std::string library, std::chrono::milliseconds every)
    : m_thread([this, pciBusId = std::move(pciBusId), library = std::move(library), every] {
        run(pciBusId, library, every);
    })
{
}

NvmlWatch::~NvmlWatch()
{
    {
        const std::scoped_lock lock(m_mutex);
        m_stop = true;
    }
    m_stopped.notify_all();
    m_thread.join();
}

HardwareReading NvmlWatch::newest() const
{
    const std::scoped_lock lock(m_mutex);
    return m_newest;
}

void NvmlWatch::run(const std::string& pciBusId, const std::string& library, std::chrono::milliseconds every)
{
    const Nvml nvml(library, pciBusId);
    if (!nvml.found()) {
        spdlog::debug("No power or clocks of the card at {}: {} does not know it", pciBusId, library);
        return;
    }
    do {
        const HardwareReading reading = nvml.read();
        const std::scoped_lock lock(m_mutex);
        m_newest = reading;
    } while (waitForNext(every));
}

bool NvmlWatch::waitForNext(std::chrono::milliseconds every)
{
    std::unique_lock lock(m_mutex);
    return !m_stopped.wait_for(lock, every, [this] { return m_stop; });
}

} // namespace octavo::engine
