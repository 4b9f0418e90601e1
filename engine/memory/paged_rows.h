#pragma once

/// The pages of one sequence's rows, on a device and in its host tier. Forks share pages; a page that is full never
/// changes, so it may move from the device to the host.
///
/// Promises a page that sequences may move has one place promised in the host tier, however many share it, for as long
///          as one of them lives; pages not yet taken have theirs promised to the sequence.
/// Thread   one owner. The pools outlive the rows.

#include "engine/memory/page_pool.h"
#include "engine/result.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace octavo::engine
{

/// One page, shared by all sequences that hold its tokens.
class SharedPage
{
public:
    SharedPage(PagePool& device, PagePool& host)
        : m_device(device)
        , m_host(host)
    {
    }
    SharedPage(const SharedPage&) = delete;
    SharedPage& operator=(const SharedPage&) = delete;
    ~SharedPage();

    std::uint8_t* data() const { return m_data; }
    bool onHost() const { return m_onHost; }

private:
    friend class PagedRows;

    PagePool& m_device;
    PagePool& m_host;
    std::uint8_t* m_data = nullptr;
    bool m_onHost = false;
    int m_movers = 0; // sequences that may move it; where there are any and it is on the device, a place is promised
};

class PagedRows
{
public:
    PagedRows(PagePool& device, PagePool& host)
        : m_device(&device)
        , m_host(&host)
    {
    }
    PagedRows(PagedRows&& other) noexcept;
    PagedRows& operator=(PagedRows&& other) noexcept;
    ~PagedRows();

    /// To be called once: begins with `shared` pages of `source` (null: none) and sees to it that `newPages` more can
    /// come. `tiered`: pages may move to the host, so all but `freshPages` of the new ones need not be on the device.
    /// Refused, it leaves nothing behind.
    Result<void> reserve(const PagedRows* source, std::int64_t shared, std::int64_t newPages, bool tiered,
                         std::int64_t freshPages);
    /// One page more on the device: a promised one, or with `spare` one that nobody was promised. False: there is none.
    bool append(bool spare);
    /// To be called once, in place of reserve(): takes `pages` pages at once for rows that come from elsewhere, those
    /// of firstOnHost .. endOnHost - 1 in the host tier. They never move. Refused, it leaves nothing behind.
    Result<void> place(std::int64_t pages, std::int64_t firstOnHost, std::int64_t endOnHost);
    enum class Movers { Own, Any };
    /// Moves up to `most` of the pages first .. end - 1 that are not there yet to the host tier: if these rows may move
    /// pages, or with Movers::Any those that any other sequence may. `copy(to, from)` begins to copy a page, `finish()`
    /// waits for all. Returns how many moved.
    Result<std::int64_t> spill(std::int64_t first, std::int64_t end, std::int64_t most, Movers movers,
                               const std::function<Result<void>(std::uint8_t* to, const std::uint8_t* from)>& copy,
                               const std::function<Result<void>()>& finish);

    std::int64_t size() const { return std::int64_t(m_pages.size()); }
    const SharedPage& operator[](std::int64_t i) const { return *m_pages[std::size_t(i)]; }
    /// For who needs one page for longer than these rows; let go of on the owner's thread.
    std::shared_ptr<const SharedPage> share(std::int64_t i) const { return m_pages[std::size_t(i)]; }
    bool tiered() const { return m_tiered; }
    /// Pages that it may still take: on the device, and on the host for those not yet taken at all.
    std::int64_t devicePromise() const { return m_devicePromise; }
    std::int64_t hostPromise() const { return m_hostPromise; }

private:
    Result<void> addMover(SharedPage& page);
    void dropMover(SharedPage& page);

    PagePool *m_device, *m_host;
    std::vector<std::shared_ptr<SharedPage>> m_pages;
    bool m_tiered = false;
    std::int64_t m_devicePromise = 0, m_hostPromise = 0;
};

} // namespace octavo::engine
