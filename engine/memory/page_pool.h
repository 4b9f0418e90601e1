#pragma once

/// Pages of one place, taken from the system in slabs and lent one by one.
///
/// Memory   comes from the system only by promise(), prepare() and takeSpare() and goes back only by shrink(): take()
///          never waits.
/// Thread   one owner.

#include "engine/result.h"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

namespace octavo::engine
{

/// A run of pages from the system, given back when it is destroyed.
class PageSlab
{
public:
    virtual ~PageSlab() = default;
    virtual std::uint8_t* data() const = 0;
};

/// Where a pool's slabs come from.
class SlabSource
{
public:
    virtual ~SlabSource() = default;
    /// OutOfMemory or DeviceOutOfMemory where the system has none.
    virtual Result<std::unique_ptr<PageSlab>> allocate(std::int64_t bytes) = 0;
    /// Whether the system can do without `bytes` more that nobody was promised.
    virtual bool hasSpare(std::int64_t bytes) const = 0;
};

class PagePool
{
public:
    PagePool(std::unique_ptr<SlabSource> source, std::int64_t pageBytes, std::int64_t slabBytes);

    /// Sees to it that `pages` more can be taken, whatever was promised to others. Refused, it leaves nothing behind.
    Result<void> promise(std::int64_t pages);
    /// Goes a part of the way to a promise of `pages`: takes at most `slabs` slabs from the system, which may need tens
    /// of milliseconds each. True when that promise would take none any more. Fails as promise() would.
    Result<bool> prepare(std::int64_t pages, int slabs);
    /// Gives up what was promised and not taken.
    void forgo(std::int64_t pages) { m_promised -= pages; }
    /// A promised page.
    std::uint8_t* take();
    /// Beyond what is promised: null where none is free and the system can spare none.
    std::uint8_t* takeSpare();
    void giveBack(std::uint8_t* page);
    /// As if it had not been taken: the page is promised again.
    void untake(std::uint8_t* page)
    {
        giveBack(page);
        ++m_promised;
    }
    /// Slabs of which nothing is taken and nothing promised go back to the system, `mostSlabs` of them at most, so that
    /// `spareBytes` stay free beside what is promised. Returns their bytes.
    std::int64_t shrink(std::int64_t spareBytes = 0, std::int64_t mostSlabs = std::numeric_limits<std::int64_t>::max());

    std::int64_t pageBytes() const { return m_pageBytes; }
    std::int64_t bytes() const { return std::int64_t(m_slabs.size()) * m_slabPages * m_pageBytes; } ///< of the system
    std::int64_t inUse() const { return std::int64_t(m_slabs.size()) * m_slabPages - m_free; }
    std::int64_t promised() const { return m_promised; }
    /// What sequences hold or may still take, each page once.
    std::int64_t claimedBytes() const { return (inUse() + m_promised) * m_pageBytes; }

private:
    struct Slab {
        std::unique_ptr<PageSlab> memory;
        std::vector<std::uint8_t*> free;
    };

    Result<void> grow();
    std::uint8_t* takeFree();

    const std::unique_ptr<SlabSource> m_source;
    const std::int64_t m_pageBytes, m_slabPages;
    std::int64_t m_free = 0, m_promised = 0; // pages
    std::map<std::uint8_t*, Slab> m_slabs;   // by first byte
};

} // namespace octavo::engine
