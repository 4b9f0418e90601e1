#pragma once

/// Keys and values of one sequence on the CPU: int8 rows in pages that sequences share, copied when written.
///
/// Layout   a page holds kernels::cpu::pageTokens tokens of all attention layers; for each (layer, KV head) keys in
///          panels of 16 tokens, values in panels of 16 dimensions, and one scale per token for either.
/// Memory   pages come from a pool of big chunks and go back to it when no sequence holds them.
/// Thread   the backend's; writes to different heads may run at once after prepare().

#include "engine/memory/big_pages.h"
#include "kernels/cpu/kernels.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace octavo::engine
{

struct KvShape {
    int layers = 0, kvHeads = 0, headDim = 0;

    std::int64_t headBytes() const { return std::int64_t(kernels::cpu::pageTokens) * (2 * headDim + 8); }
    std::int64_t pageBytes() const { return headBytes() * layers * kvHeads; }
};

/// Hands out pages. Outlives nothing: pages keep what they need of it alive.
class KvPagePool
{
public:
    using Page = std::shared_ptr<std::byte>;

    explicit KvPagePool(const KvShape& shape);

    const KvShape& shape() const { return m_shape; }
    /// Null when the system has no memory left. The content is not defined.
    Page take();
    std::int64_t pagesInUse() const;

private:
    struct Store;
    const KvShape m_shape;
    std::shared_ptr<Store> m_store;
};

class KvRows
{
public:
    explicit KvRows(KvPagePool& pool) : m_pool(&pool) {}

    /// Makes positions [length, length + tokens) writable: adds pages and copies one that is shared. False when memory
    /// ran out: every row holds what it held, and what was added so far stays for another try.
    bool prepare(std::int64_t length, std::int64_t tokens);
    /// Shares the pages that hold the first `length` positions of `other`.
    void shareFrom(const KvRows& other, std::int64_t length);
    /// Lets go of pages beyond `length`.
    void truncate(std::int64_t length);
    /// Lets go of pages [begin, end), whose rows are from now on read elsewhere; later pages keep their numbers.
    void release(int begin, int end);
    /// Pages for the first `length` positions but for [holeBegin, holeEnd). False when memory ran out.
    bool prepareWithHole(std::int64_t length, int holeBegin, int holeEnd);

    int pages() const { return int(m_pages.size()); }
    /// Those of them that were not let go of.
    int heldPages() const { return pages() - m_released; }
    bool holds(int page) const { return bool(m_pages[std::size_t(page)]); }
    /// A page as it is, for saving and restoring.
    std::byte* pageData(int page) const { return m_pages[std::size_t(page)].get(); }
    std::span<const std::byte> pageBytes(int page) const
    {
        return {pageData(page), std::size_t(m_pool->shape().pageBytes())};
    }
    kernels::cpu::KvPageView view(int page, int layer, int kvHead) const;
    void write(const kernels::cpu::Kernels& kernels, int layer, int kvHead, std::int64_t position, const float* k,
               const float* v) const;

private:
    std::byte* head(int page, int layer, int kvHead) const;

    KvPagePool* m_pool;
    std::vector<KvPagePool::Page> m_pages; // null where let go of
    int m_released = 0;
};

} // namespace octavo::engine
