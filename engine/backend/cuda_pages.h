#pragma once

/// Where pages of KV rows lie: on the GPU, or in page-locked RAM, where kernels read them over the link. A page has 512
/// tokens of all layers that keep rows.

#include "engine/backend/cuda_memory.h"
#include "engine/memory/big_pages.h"
#include "engine/memory/page_pool.h"
#include "engine/result.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace octavo::engine
{

/// RAM in big pages, page-locked in chunks and mapped at the same address on every GPU.
class MappedMemory
{
public:
    MappedMemory() = default;
    MappedMemory(MappedMemory&& other) noexcept = default;
    MappedMemory& operator=(MappedMemory&& other) noexcept
    {
        std::swap(m_pages, other.m_pages);
        std::swap(m_locked, other.m_locked);
        return *this;
    }
    ~MappedMemory();

    /// OutOfMemory names the bytes asked for and the step that was refused.
    static Result<MappedMemory> allocate(std::int64_t bytes);
    std::uint8_t* data() const { return m_pages.as<std::uint8_t>(); }

private:
    BigPages m_pages;
    std::vector<void*> m_locked; // chunks
};

/// Of a GPU, for sequences that come later.
inline constexpr std::int64_t keptFreeBytes = std::int64_t{1} << 30;

/// Of the device that is current at each call.
std::unique_ptr<PagePool> makeDevicePages(std::int64_t pageBytes);
/// In page-locked RAM.
std::unique_ptr<PagePool> makeHostPages(std::int64_t pageBytes);

} // namespace octavo::engine
