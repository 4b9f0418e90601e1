#include "engine/backend/cpu_kv_rows.h"

#include <algorithm>
#include <cstring>

namespace octavo::engine
{

using kernels::cpu::pageTokens;

namespace
{
constexpr std::int64_t chunkBytes = std::int64_t(16) << 20;
}

struct KvPagePool::Store {
    struct Chunk {
        BigPages memory;
        std::vector<std::byte*> free;
        std::size_t total = 0;
    };

    std::int64_t pageBytes = 0;
    std::int64_t inUse = 0;
    std::vector<std::unique_ptr<Chunk>> chunks;

    void giveBack(Chunk* chunk, std::byte* page)
    {
        chunk->free.push_back(page);
        --inUse;
        // One empty chunk is kept for the next sequence; the rest goes back to the system.
        if (chunk->free.size() == chunk->total && chunks.size() > 1)
            std::erase_if(chunks, [chunk](const auto& owned) { return owned.get() == chunk; });
    }
};

KvPagePool::KvPagePool(const KvShape& shape)
    : m_shape(shape)
    , m_store(std::make_shared<Store>())
{
    m_store->pageBytes = (shape.pageBytes() + 4095) / 4096 * 4096;
}

std::int64_t KvPagePool::pagesInUse() const
{
    return m_store->inUse;
}

KvPagePool::Page KvPagePool::take()
{
    Store::Chunk* from = nullptr;
    for (const auto& chunk : m_store->chunks) {
        if (!chunk->free.empty())
            from = chunk.get();
    }
    if (!from) {
        auto chunk = std::make_unique<Store::Chunk>();
        chunk->total = std::size_t(std::max<std::int64_t>(1, chunkBytes / m_store->pageBytes));
        chunk->memory = BigPages(chunk->total * std::size_t(m_store->pageBytes));
        if (chunk->memory.empty())
            return nullptr;
        for (std::size_t i = chunk->total; i-- > 0;)
            chunk->free.push_back(chunk->memory.as<std::byte>() + i * std::size_t(m_store->pageBytes));
        from = chunk.get();
        m_store->chunks.push_back(std::move(chunk));
    }
    std::byte* page = from->free.back();
    from->free.pop_back();
    ++m_store->inUse;
    return {page, [store = m_store, from](std::byte* p) { store->giveBack(from, p); }};
}

bool KvRows::prepare(std::int64_t length, std::int64_t tokens)
{
    const std::size_t first = std::size_t(length / pageTokens);
    const std::size_t needed = std::size_t((length + tokens + pageTokens - 1) / pageTokens);
    if (first < m_pages.size() && m_pages[first].use_count() > 1) {
        KvPagePool::Page copy = m_pool->take();
        if (!copy)
            return false;
        std::memcpy(copy.get(), m_pages[first].get(), std::size_t(m_pool->shape().pageBytes()));
        m_pages[first] = std::move(copy);
    }
    while (m_pages.size() < needed) {
        KvPagePool::Page page = m_pool->take();
        if (!page)
            return false;
        m_pages.push_back(std::move(page));
    }
    return true;
}

void KvRows::shareFrom(const KvRows& other, std::int64_t length)
{
    m_pages.assign(other.m_pages.begin(), other.m_pages.begin() + (length + pageTokens - 1) / pageTokens);
    m_released = int(std::ranges::count(m_pages, nullptr));
}

void KvRows::release(int begin, int end)
{
    for (int page = begin; page < std::min(end, pages()); ++page) {
        m_released += m_pages[std::size_t(page)] ? 1 : 0;
        m_pages[std::size_t(page)] = nullptr;
    }
}

bool KvRows::prepareWithHole(std::int64_t length, int holeBegin, int holeEnd)
{
    const int count = int((length + pageTokens - 1) / pageTokens);
    for (int page = pages(); page < count; ++page) {
        const bool hole = page >= holeBegin && page < holeEnd;
        KvPagePool::Page taken = hole ? nullptr : m_pool->take();
        if (!taken && !hole)
            return false;
        m_pages.push_back(std::move(taken));
        m_released += hole ? 1 : 0;
    }
    return true;
}

void KvRows::truncate(std::int64_t length)
{
    m_pages.resize(std::min(m_pages.size(), std::size_t((length + pageTokens - 1) / pageTokens)));
}

std::byte* KvRows::head(int page, int layer, int kvHead) const
{
    const KvShape& shape = m_pool->shape();
    return m_pages[std::size_t(page)].get() + (std::int64_t(layer) * shape.kvHeads + kvHead) * shape.headBytes();
}

kernels::cpu::KvPageView KvRows::view(int page, int layer, int kvHead) const
{
    const std::int64_t rowBytes = std::int64_t(pageTokens) * m_pool->shape().headDim;
    const std::byte* base = head(page, layer, kvHead);
    const auto* scales = reinterpret_cast<const float*>(base + 2 * rowBytes);
    return {reinterpret_cast<const std::int8_t*>(base), reinterpret_cast<const std::int8_t*>(base + rowBytes), scales,
            scales + pageTokens};
}

void KvRows::write(const kernels::cpu::Kernels& kernels, int layer, int kvHead, std::int64_t position, const float* k,
                   const float* v) const
{
    const std::int64_t rowBytes = std::int64_t(pageTokens) * m_pool->shape().headDim;
    std::byte* base = head(int(position / pageTokens), layer, kvHead);
    auto* scales = reinterpret_cast<float*>(base + 2 * rowBytes);
    kernels.writeKv(k, v, m_pool->shape().headDim, int(position % pageTokens), reinterpret_cast<std::int8_t*>(base),
                    reinterpret_cast<std::int8_t*>(base + rowBytes), scales, scales + pageTokens);
}

} // namespace octavo::engine
