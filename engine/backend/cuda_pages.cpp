#include "engine/backend/cuda_pages.h"

#include "engine/scheduler/memory_budget.h"

#include <algorithm>

namespace octavo::engine
{

namespace
{

constexpr std::int64_t slabBytes = std::int64_t{64} << 20;
constexpr std::int64_t keptFree = std::int64_t{1} << 30;    // of a GPU, for sequences that come later
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

Result<void> CudaPagePool::grow(std::int64_t pages)
{
    const std::int64_t slabPages = std::max<std::int64_t>(1, slabBytes / m_pageBytes);
    while (pages > 0) {
        const std::int64_t bytes = slabPages * m_pageBytes;
        std::uint8_t* first = nullptr;
        if (m_place == PagePlace::Device) {
            OCTAVO_TRY(DeviceMemory slab, DeviceMemory::allocate(bytes, "KV rows"));
            first = slab.at();
            m_deviceSlabs.push_back(std::move(slab));
        } else {
            OCTAVO_TRY(MappedMemory slab, MappedMemory::allocate(bytes));
            first = slab.data();
            m_hostSlabs.push_back(std::move(slab));
        }
        for (std::int64_t i = slabPages; i-- > 0;)
            m_free.push_back(first + i * m_pageBytes);
        m_pages += slabPages;
        pages -= slabPages;
    }
    return {};
}

Result<void> CudaPagePool::promise(std::int64_t pages)
{
    OCTAVO_CHECK(grow(m_promised + pages - std::int64_t(m_free.size())));
    m_promised += pages;
    return {};
}

std::uint8_t* CudaPagePool::take()
{
    --m_promised;
    std::uint8_t* page = m_free.back();
    m_free.pop_back();
    return page;
}

std::uint8_t* CudaPagePool::takeSpare()
{
    if (std::int64_t(m_free.size()) <= m_promised) {
        std::size_t freeBytes = 0, totalBytes = 0;
        const bool known = m_place == PagePlace::Host || cudaMemGetInfo(&freeBytes, &totalBytes) == cudaSuccess;
        if (!known ||
            (m_place == PagePlace::Device && std::int64_t(freeBytes) < keptFree + std::max(slabBytes, m_pageBytes)) ||
            !grow(1))
            return nullptr;
    }
    std::uint8_t* page = m_free.back();
    m_free.pop_back();
    return page;
}

} // namespace octavo::engine
