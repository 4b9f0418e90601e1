#include "engine/memory/paged_rows.h"

#include <algorithm>
#include <utility>

namespace octavo::engine
{

SharedPage::~SharedPage()
{
    if (m_data)
        (m_onHost ? m_host : m_device).giveBack(m_data);
}

PagedRows::PagedRows(PagedRows&& other) noexcept
    : m_device(other.m_device)
    , m_host(other.m_host)
    , m_pages(std::exchange(other.m_pages, {}))
    , m_tiered(other.m_tiered)
    , m_devicePromise(std::exchange(other.m_devicePromise, 0))
    , m_hostPromise(std::exchange(other.m_hostPromise, 0))
{
}

PagedRows& PagedRows::operator=(PagedRows&& other) noexcept
{
    std::swap(m_device, other.m_device);
    std::swap(m_host, other.m_host);
    std::swap(m_pages, other.m_pages);
    std::swap(m_tiered, other.m_tiered);
    std::swap(m_devicePromise, other.m_devicePromise);
    std::swap(m_hostPromise, other.m_hostPromise);
    return *this;
}

PagedRows::~PagedRows()
{
    m_device->forgo(m_devicePromise);
    m_host->forgo(m_hostPromise);
    for (const auto& page : m_pages)
        dropMover(*page);
}

Result<void> PagedRows::addMover(SharedPage& page)
{
    if (page.m_movers == 0 && !page.m_onHost)
        OCTAVO_CHECK(m_host->promise(1));
    ++page.m_movers;
    return {};
}

void PagedRows::dropMover(SharedPage& page)
{
    if (m_tiered && --page.m_movers == 0 && !page.m_onHost)
        m_host->forgo(1);
}

Result<void> PagedRows::reserve(const PagedRows* source, std::int64_t shared, std::int64_t newPages, bool tiered,
                                std::int64_t freshPages)
{
    PagedRows rows(*m_device, *m_host); // lets go of what it got where the rest is refused
    rows.m_tiered = tiered;
    for (std::int64_t i = 0; i < shared; ++i) {
        const std::shared_ptr<SharedPage>& page = source->m_pages[std::size_t(i)];
        if (tiered)
            OCTAVO_CHECK(addMover(*page));
        rows.m_pages.push_back(page);
    }
    const std::int64_t onDevice = tiered ? std::min(newPages, freshPages) : newPages;
    OCTAVO_CHECK(m_device->promise(onDevice));
    rows.m_devicePromise = onDevice;
    if (tiered) {
        OCTAVO_CHECK(m_host->promise(newPages));
        rows.m_hostPromise = newPages;
    }
    *this = std::move(rows);
    return {};
}

bool PagedRows::append(bool spare)
{
    if (m_tiered && m_hostPromise == 0) // as long as it was to be
        return false;
    m_pages.push_back(std::make_shared<SharedPage>(*m_device, *m_host)); // before a page is taken that could be lost
    if (m_devicePromise > 0) {
        --m_devicePromise;
        m_pages.back()->m_data = m_device->take();
    } else if (spare) {
        m_pages.back()->m_data = m_device->takeSpare();
    }
    if (!m_pages.back()->m_data) {
        m_pages.pop_back();
        return false;
    }
    if (m_tiered) { // the page's own from here on
        --m_hostPromise;
        m_pages.back()->m_movers = 1;
    }
    return true;
}

Result<void> PagedRows::place(std::int64_t pages, std::int64_t firstOnHost, std::int64_t endOnHost)
{
    const std::int64_t onHost = std::max<std::int64_t>(0, std::min(endOnHost, pages) - firstOnHost);
    PagedRows rows(*m_device, *m_host); // lets go of what it got where the rest is refused
    OCTAVO_CHECK(m_device->promise(pages - onHost));
    rows.m_devicePromise = pages - onHost;
    OCTAVO_CHECK(m_host->promise(onHost));
    rows.m_hostPromise = onHost;
    for (std::int64_t i = 0; i < pages; ++i) {
        const bool isOnHost = i >= firstOnHost && i < firstOnHost + onHost;
        rows.m_pages.push_back(std::make_shared<SharedPage>(*m_device, *m_host));
        rows.m_pages.back()->m_onHost = isOnHost;
        --(isOnHost ? rows.m_hostPromise : rows.m_devicePromise);
        rows.m_pages.back()->m_data = (isOnHost ? m_host : m_device)->take();
    }
    *this = std::move(rows);
    return {};
}

Result<std::int64_t>
PagedRows::spill(std::int64_t first, std::int64_t end, std::int64_t most, Movers movers,
                 const std::function<Result<void>(std::uint8_t* to, const std::uint8_t* from)>& copy,
                 const std::function<Result<void>()>& finish)
{
    std::vector<std::pair<SharedPage*, std::uint8_t*>> moves;
    Result<void> done;
    const std::int64_t last = m_tiered || movers == Movers::Any ? std::min(end, size()) : first;
    for (std::int64_t i = first; i < last && std::int64_t(moves.size()) < most; ++i) {
        SharedPage& page = *m_pages[std::size_t(i)];
        if (page.m_onHost || page.m_movers == 0)
            continue;
        moves.emplace_back(&page, m_host->take());
        done = copy(moves.back().second, page.m_data);
        if (!done)
            break;
    }
    if (done && !moves.empty())
        done = finish();
    for (const auto& [page, data] : moves) {
        if (!done) { // its place stays promised
            m_host->untake(data);
            continue;
        }
        m_device->giveBack(page->m_data);
        page->m_data = data;
        page->m_onHost = true;
        if (m_tiered && m_devicePromise < 1 && m_device->promise(1)) // just freed: what the sequence may need next
            ++m_devicePromise;
    }
    OCTAVO_CHECK(done);
    return std::int64_t(moves.size());
}

} // namespace octavo::engine
