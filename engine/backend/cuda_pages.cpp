#include "engine/backend/cuda_pages.h"

#include "engine/scheduler/memory_budget.h"

#include <algorithm>

namespace octavo::engine
{

namespace
{

constexpr std::int64_t slabBytes = std::int64_t{64} << 20;
constexpr std::int64_t keptRam = std::int64_t{1} << 30;     // for all other programs
constexpr std::int64_t lockedChunk = std::int64_t{1} << 30; // some drivers refuse to lock more in one call

} // namespace

MappedMemory::~MappedMemory()
{
    for (void* chunk : m_locked)
        cudaHostUnregister(chunk);
}

Result<MappedMemory> MappedMemory::allocate(std::int64_t bytes)
{
    const auto refused = [&](const std::string& why) {
        return Error{ErrorCode::OutOfMemory, "The host tier needs " + std::to_string(bytes >> 20) +
                                                 " MiB more of page-locked RAM, " + why +
                                                 "; close other contexts or raise the limit of locked memory"};
    };
    // Locked memory cannot be paged out: what other programs need must stay free, or the system kills one of them.
    const auto available = availableMemory();
    if (available && available->freeBytes < bytes + keptRam)
        return refused("but only " + std::to_string(available->freeBytes >> 20) + " MiB of RAM are free");
    MappedMemory memory;
    memory.m_pages = BigPages(std::size_t(bytes));
    if (memory.m_pages.empty())
        return refused("which the system does not have");
    for (std::int64_t at = 0; at < bytes; at += lockedChunk) {
        std::uint8_t* chunk = memory.data() + at;
        const auto size = std::size_t(std::min(lockedChunk, bytes - at));
        if (const cudaError_t status = cudaHostRegister(chunk, size, cudaHostRegisterMapped | cudaHostRegisterPortable);
            status != cudaSuccess) {
            cudaGetLastError();
            return refused(std::string("but locking failed: ") + cudaGetErrorString(status));
        }
        memory.m_locked.push_back(chunk);
        void* onDevice = nullptr;
        if (cudaHostGetDevicePointer(&onDevice, chunk, 0) != cudaSuccess || onDevice != chunk) {
            cudaGetLastError();
            return refused("but this GPU cannot read it at the address that the CPU uses");
        }
    }
    return memory;
}

namespace
{

class DeviceSlab final : public PageSlab
{
public:
    explicit DeviceSlab(DeviceMemory memory)
        : m_memory(std::move(memory))
    {
    }
    std::uint8_t* data() const override { return m_memory.at(); }

private:
    DeviceMemory m_memory;
};

class DeviceSlabs final : public SlabSource
{
public:
    Result<std::unique_ptr<PageSlab>> allocate(std::int64_t bytes) override
    {
        OCTAVO_TRY(DeviceMemory memory, DeviceMemory::allocate(bytes, "KV rows"));
        return std::unique_ptr<PageSlab>(std::make_unique<DeviceSlab>(std::move(memory)));
    }
    bool hasSpare(std::int64_t bytes) const override
    {
        std::size_t freeBytes = 0, totalBytes = 0;
        return cudaMemGetInfo(&freeBytes, &totalBytes) == cudaSuccess &&
               std::int64_t(freeBytes) >= keptFreeBytes + bytes;
    }
};

class HostSlab final : public PageSlab
{
public:
    explicit HostSlab(MappedMemory memory)
        : m_memory(std::move(memory))
    {
    }
    std::uint8_t* data() const override { return m_memory.data(); }

private:
    MappedMemory m_memory;
};

class HostSlabs final : public SlabSource
{
public:
    Result<std::unique_ptr<PageSlab>> allocate(std::int64_t bytes) override
    {
        OCTAVO_TRY(MappedMemory memory, MappedMemory::allocate(bytes));
        return std::unique_ptr<PageSlab>(std::make_unique<HostSlab>(std::move(memory)));
    }
    bool hasSpare(std::int64_t) const override { return false; } // all that may move there has its place promised
};

} // namespace

std::unique_ptr<PagePool> makeDevicePages(std::int64_t pageBytes)
{
    return std::make_unique<PagePool>(std::make_unique<DeviceSlabs>(), pageBytes, slabBytes);
}

std::unique_ptr<PagePool> makeHostPages(std::int64_t pageBytes)
{
    return std::make_unique<PagePool>(std::make_unique<HostSlabs>(), pageBytes, slabBytes);
}

} // namespace octavo::engine
