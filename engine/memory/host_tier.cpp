#include "engine/memory/host_tier.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace octavo::engine {

namespace cpu = kernels::cpu;

namespace {
constexpr std::int64_t bigPage = std::int64_t{2} << 20;
}

/// An aligned piece of anonymous memory.
class TierPage
{
public:
    static std::shared_ptr<TierPage> create(std::int64_t bytes)
    {
        // Twice the alignment is mapped and the rest given back, so that the piece starts on a big page.
        void* mapped =
            mmap(nullptr, std::size_t(bytes + bigPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return nullptr;
        auto* begin = static_cast<std::uint8_t*>(mapped);
        const std::int64_t before =
            (bigPage - std::int64_t(reinterpret_cast<std::uintptr_t>(begin) % bigPage)) % bigPage;
        if (before > 0)
            munmap(begin, std::size_t(before));
        if (before < bigPage)
            munmap(begin + before + bytes, std::size_t(bigPage - before));
        // Advice only: without big pages all works, a little slower.
        madvise(begin + before, std::size_t(bytes), MADV_HUGEPAGE);
        return std::shared_ptr<TierPage>(new TierPage(begin + before, bytes));
    }

    ~TierPage() { munmap(m_data, std::size_t(m_bytes)); }
    TierPage(const TierPage&) = delete;
    TierPage& operator=(const TierPage&) = delete;

    std::uint8_t* data() { return m_data; }
    const std::uint8_t* data() const { return m_data; }
    std::int64_t bytes() const { return m_bytes; }

    std::int64_t written = 0; ///< tokens from the page's first on that some sharer has written or may write

private:
    TierPage(std::uint8_t* data, std::int64_t bytes) : m_data(data), m_bytes(bytes) {}

    std::uint8_t* m_data;
    std::int64_t m_bytes;
};

std::int64_t TierShape::tokenBytes() const
{
    return std::int64_t(numKvHeads) *
           (std::int64_t(row().int4Bytes()) + cpu::sketchBytes(rank));
}

std::int64_t TierShape::pageBytes() const
{
    // Room for one block at least, however many heads there are.
    const std::int64_t block = tokenBytes() * cpu::sketchBlockTokens;
    return (std::max(block, bigPage) + bigPage - 1) / bigPage * bigPage;
}

std::int64_t TierShape::pageTokens() const
{
    return pageBytes() / tokenBytes() / cpu::sketchBlockTokens * cpu::sketchBlockTokens;
}

std::int64_t TierShape::bytes(std::int64_t tokens) const
{
    const std::int64_t pages = (tokens + pageTokens() - 1) / pageTokens();
    return numLayers * pages * pageBytes();
}

HostTier::HostTier(const TierShape& shape, std::int64_t maxTokens)
    : m_shape(shape)
    , m_maxTokens(maxTokens)
    , m_pageTokens(shape.pageTokens())
    , m_pagesPerLayer((maxTokens + m_pageTokens - 1) / m_pageTokens)
    , m_pages(std::size_t(shape.numLayers * m_pagesPerLayer))
{}

Result<HostTier> HostTier::create(const TierShape& shape, std::int64_t maxTokens)
{
    HostTier tier(shape, maxTokens);
    for (auto& page : tier.m_pages) {
        page = TierPage::create(shape.pageBytes());
        if (!page)
            return Error{ErrorCode::OutOfMemory, "no memory for the rows of " + std::to_string(maxTokens) +
                                                     " tokens: " + std::to_string(shape.bytes(maxTokens) >> 20) +
                                                     " MiB are needed; close an agent or take a smaller context"};
    }
    return tier;
}

Result<HostTier> HostTier::fork(std::int64_t tokens, std::int64_t maxTokens) const
{
    assert(tokens <= m_maxTokens && tokens <= maxTokens && "a fork holds what it shares");
    HostTier tier(m_shape, maxTokens);
    const std::int64_t shared = (tokens + m_pageTokens - 1) / m_pageTokens;
    for (int layer = 0; layer < m_shape.numLayers; ++layer) {
        for (std::int64_t i = 0; i < tier.m_pagesPerLayer; ++i) {
            auto& page = tier.m_pages[std::size_t(layer * tier.m_pagesPerLayer + i)];
            page =
                i < shared ? m_pages[std::size_t(layer * m_pagesPerLayer + i)] : TierPage::create(m_shape.pageBytes());
            if (!page)
                return Error{ErrorCode::OutOfMemory, "no memory to go on from a shared context: " +
                                                         std::to_string(m_shape.bytes(maxTokens - tokens) >> 20) +
                                                         " MiB are needed; close an agent or take a smaller context"};
        }
    }
    return tier;
}

std::int64_t HostTier::ownedBytes() const
{
    std::int64_t bytes = 0;
    for (const auto& page : m_pages)
        bytes += page->bytes() / page.use_count();
    return bytes;
}

Result<void> HostTier::prepareWrite(std::int64_t begin, std::int64_t end)
{
    assert(begin >= 0 && end <= m_maxTokens && "tokens lie within what was reserved");
    for (int layer = 0; layer < m_shape.numLayers; ++layer) {
        for (std::int64_t i = begin / m_pageTokens; i * m_pageTokens < end; ++i) {
            auto& page = m_pages[std::size_t(layer * m_pagesPerLayer + i)];
            const std::int64_t from = std::max<std::int64_t>(0, begin - i * m_pageTokens);
            const std::int64_t to = std::min(m_pageTokens, end - i * m_pageTokens);
            if (page.use_count() == 1 || page->written <= from) {
                page->written = to;
                continue;
            }
            auto copy = TierPage::create(m_shape.pageBytes());
            if (!copy)
                return Error{ErrorCode::OutOfMemory, "no memory to copy a shared page of " +
                                                         std::to_string(m_shape.pageBytes() >> 20) + " MiB"};
            std::memcpy(copy->data(), page->data(), std::size_t(page->bytes()));
            copy->written = to;
            page = std::move(copy);
        }
    }
    return {};
}

std::shared_ptr<TierPage>& HostTier::page(int layer, std::int64_t token)
{
    return m_pages[std::size_t(layer * m_pagesPerLayer + token / m_pageTokens)];
}

const TierPage& HostTier::page(int layer, std::int64_t token) const
{
    return *m_pages[std::size_t(layer * m_pagesPerLayer + token / m_pageTokens)];
}

void HostTier::writeRow(cpu::Path path, int layer, std::int64_t token, int kvHead, const float* key,
                        const float* value)
{
    const std::int64_t rowBytes = std::int64_t(m_shape.row().int4Bytes());
    std::uint8_t* row = page(layer, token)->data() + (token % m_pageTokens * m_shape.numKvHeads + kvHead) * rowBytes;
    cpu::quantizeRowInt4(path, m_shape.row(), key, value, row);
}

void HostTier::writeSketch(int layer, std::int64_t token, int kvHead, const float* coordinates,
                           const float* deviations)
{
    const int lane = int(token % cpu::sketchBlockTokens);
    const cpu::SketchView block = sketches(layer, token - lane, kvHead);
    cpu::writeSketch(m_shape.rank, coordinates, deviations, const_cast<std::uint8_t*>(block.leads), lane,
                     const_cast<std::uint8_t*>(block.rests) + lane * cpu::restBytes(m_shape.rank));
}

const std::uint8_t* HostTier::row(int layer, std::int64_t token, int kvHead) const
{
    const std::int64_t rowBytes = std::int64_t(m_shape.row().int4Bytes());
    return page(layer, token).data() + (token % m_pageTokens * m_shape.numKvHeads + kvHead) * rowBytes;
}

void HostTier::rows(int layer, int kvHead, std::span<const std::int32_t> tokens, const std::uint8_t** out) const
{
    const std::int64_t rowBytes = std::int64_t(m_shape.row().int4Bytes()), step = m_shape.numKvHeads * rowBytes;
    const std::uint8_t* first = nullptr; // of the page at hand
    std::int64_t begin = 0, end = 0;
    for (const std::int32_t token : tokens) {
        if (token >= end) {
            begin = token / m_pageTokens * m_pageTokens;
            end = begin + m_pageTokens;
            first = page(layer, token).data() + kvHead * rowBytes;
        }
        *out++ = first + (token - begin) * step;
    }
}

cpu::SketchView HostTier::sketches(int layer, std::int64_t token, int kvHead) const
{
    assert(token % cpu::sketchBlockTokens == 0 && "sketches are read from a block's first token on");
    const std::int64_t rows = m_pageTokens * m_shape.numKvHeads * std::int64_t(m_shape.row().int4Bytes());
    const std::int64_t leads = m_pageTokens * cpu::leadBytes(m_shape.rank), inPage = token % m_pageTokens;
    const std::uint8_t* first = page(layer, token).data() + rows;
    return {first + kvHead * leads + inPage * cpu::leadBytes(m_shape.rank),
            first + m_shape.numKvHeads * leads + (kvHead * m_pageTokens + inPage) * cpu::restBytes(m_shape.rank)};
}

std::span<const std::byte> HostTier::pageBytes(int layer, std::int64_t pageIndex) const
{
    const TierPage& held = page(layer, pageIndex * m_pageTokens);
    return {reinterpret_cast<const std::byte*>(held.data()), std::size_t(held.bytes())};
}

void HostTier::copyPage(int layer, std::int64_t pageIndex, std::int64_t tokens, std::byte* bytes) const
{
    const std::int64_t held = std::clamp<std::int64_t>(tokens - pageIndex * m_pageTokens, 0, m_pageTokens);
    const std::uint8_t* data = page(layer, pageIndex * m_pageTokens).data();
    std::memset(bytes, 0, std::size_t(m_shape.pageBytes()));
    std::memcpy(bytes, data, std::size_t(held * m_shape.numKvHeads) * m_shape.row().int4Bytes());
    const std::int64_t blocks = held / cpu::sketchBlockTokens;
    for (int head = 0; head < m_shape.numKvHeads; ++head) {
        const cpu::SketchView view = sketches(layer, pageIndex * m_pageTokens, head);
        std::memcpy(bytes + (view.leads - data), view.leads, std::size_t(blocks * cpu::leadBlockBytes(m_shape.rank)));
        std::memcpy(bytes + (view.rests - data), view.rests,
                    std::size_t(blocks * cpu::sketchBlockTokens * cpu::restBytes(m_shape.rank)));
    }
}

void HostTier::restorePage(int layer, std::int64_t pageIndex, const std::byte* bytes)
{
    std::memcpy(page(layer, pageIndex * m_pageTokens)->data(), bytes, std::size_t(m_shape.pageBytes()));
}

} // namespace octavo::engine
