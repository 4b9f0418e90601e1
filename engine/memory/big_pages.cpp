#include "engine/memory/big_pages.h"

#include <utility>

#include <sys/mman.h>

namespace octavo::engine
{

namespace
{
constexpr std::size_t bigPageBytes = std::size_t(2) << 20;
}

BigPages::BigPages(std::size_t bytes)
{
    if (bytes == 0)
        return;
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return;
    if (bytes >= bigPageBytes)
        ::madvise(data, bytes, MADV_HUGEPAGE); // a wish: small pages serve as well
    m_data = static_cast<std::byte*>(data);
    m_bytes = bytes;
}

BigPages::BigPages(BigPages&& other) noexcept
    : m_data(std::exchange(other.m_data, nullptr))
    , m_bytes(std::exchange(other.m_bytes, 0))
{
}

BigPages& BigPages::operator=(BigPages&& other) noexcept
{
    std::swap(m_data, other.m_data);
    std::swap(m_bytes, other.m_bytes);
    return *this;
}

BigPages::~BigPages()
{
    if (m_data)
        ::munmap(m_data, m_bytes);
}

} // namespace octavo::engine
