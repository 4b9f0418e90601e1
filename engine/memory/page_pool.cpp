#include "engine/memory/page_pool.h"

#include <algorithm>

namespace octavo::engine
{

PagePool::PagePool(std::unique_ptr<SlabSource> source, std::int64_t pageBytes, std::int64_t slabBytes)
    : m_source(std::move(source))
    , m_pageBytes(pageBytes)
    , m_slabPages(std::max<std::int64_t>(1, slabBytes / pageBytes))
{
}

Result<void> PagePool::grow()
{
    OCTAVO_TRY(std::unique_ptr<PageSlab> memory, m_source->allocate(m_slabPages * m_pageBytes));
    std::uint8_t* first = memory->data();
    Slab slab{std::move(memory), {}};
    for (std::int64_t i = m_slabPages; i-- > 0;)
        slab.free.push_back(first + i * m_pageBytes);
    m_slabs.emplace(first, std::move(slab));
    m_free += m_slabPages;
    return {};
}

Result<void> PagePool::promise(std::int64_t pages)
{
    while (m_free < m_promised + pages) {
        if (Result<void> grown = grow(); !grown) {
            shrink();
            return grown;
        }
    }
    m_promised += pages;
    return {};
}

Result<bool> PagePool::prepare(std::int64_t pages, int slabs)
{
    for (; slabs > 0 && m_free < m_promised + pages; --slabs)
        OCTAVO_CHECK(grow());
    return m_free >= m_promised + pages;
}

/// From a slab that is in use anyway where there is one, so that the others can go.
std::uint8_t* PagePool::takeFree()
{
    Slab* from = nullptr;
    for (auto& [first, slab] : m_slabs) {
        if (slab.free.empty())
            continue;
        from = &slab;
        if (std::int64_t(slab.free.size()) < m_slabPages)
            break;
    }
    std::uint8_t* page = from->free.back();
    from->free.pop_back();
    --m_free;
    return page;
}

std::uint8_t* PagePool::take()
{
    --m_promised;
    return takeFree();
}

std::uint8_t* PagePool::takeSpare()
{
    if (m_free <= m_promised && (!m_source->hasSpare(m_slabPages * m_pageBytes) || !grow()))
        return nullptr;
    return takeFree();
}

void PagePool::giveBack(std::uint8_t* page)
{
    std::prev(m_slabs.upper_bound(page))->second.free.push_back(page);
    ++m_free;
}

std::int64_t PagePool::shrink(std::int64_t spareBytes, std::int64_t mostSlabs)
{
    const std::int64_t before = bytes(), kept = m_promised + spareBytes / m_pageBytes;
    for (auto it = m_slabs.begin(); it != m_slabs.end() && mostSlabs > 0 && m_free - m_slabPages >= kept;) {
        if (std::int64_t(it->second.free.size()) < m_slabPages) {
            ++it;
            continue;
        }
        it = m_slabs.erase(it);
        m_free -= m_slabPages;
        --mostSlabs;
    }
    return before - bytes();
}

} // namespace octavo::engine
