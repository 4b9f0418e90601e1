#pragma once

/// KV rows in pages of 512 tokens of all attention layers, on the GPU or in page-locked RAM, where kernels read them
/// over the link. Forks share pages; a page that is full never changes, so it may move from one place to the other.
///
/// Memory   taken from the system in slabs, and only by promise(): take() never waits for the system.
/// Thread   the backend's.

#include "engine/backend/cuda_memory.h"
#include "engine/memory/big_pages.h"
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

enum class PagePlace { Device, Host };

/// Pages of one place.
class CudaPagePool
{
public:
    CudaPagePool(PagePlace place, std::int64_t pageBytes)
        : m_place(place)
        , m_pageBytes(pageBytes)
    {
    }

    /// Sees to it that `pages` more can be taken, whatever was promised to others.
    Result<void> promise(std::int64_t pages);
    /// Gives up what was promised and not taken.
    void forgo(std::int64_t pages) { m_promised -= pages; }
    /// A promised page.
    std::uint8_t* take();
    /// Beyond what is promised: null where none is free and the system has none either.
    std::uint8_t* takeSpare();
    void giveBack(std::uint8_t* page) { m_free.push_back(page); }

    PagePlace place() const { return m_place; }
    std::int64_t pageBytes() const { return m_pageBytes; }
    std::int64_t bytes() const { return m_pages * m_pageBytes; } ///< taken from the system

private:
    Result<void> grow(std::int64_t pages);

    PagePlace m_place;
    std::int64_t m_pageBytes;
    std::int64_t m_pages = 0, m_promised = 0;
    std::vector<std::uint8_t*> m_free;
    std::vector<DeviceMemory> m_deviceSlabs;
    std::vector<MappedMemory> m_hostSlabs;
};

/// One page, shared by all sequences that hold its tokens.
struct CudaPage {
    CudaPagePool* pool;
    std::uint8_t* data;

    CudaPage(CudaPagePool& from, std::uint8_t* at)
        : pool(&from)
        , data(at)
    {
    }
    CudaPage(const CudaPage&) = delete;
    CudaPage& operator=(const CudaPage&) = delete;
    ~CudaPage() { pool->giveBack(data); }
    bool onHost() const { return pool->place() == PagePlace::Host; }
};

} // namespace octavo::engine
