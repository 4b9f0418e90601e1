#pragma once

/// Zeroed host memory straight from the kernel, in big pages where the system grants them.

#include <cstddef>
#include <cstdint>

namespace octavo::engine
{

/// Owns one mapping. Pages are taken when first touched; empty when the system refused.
class BigPages
{
public:
    BigPages() = default;
    explicit BigPages(std::size_t bytes);
    BigPages(BigPages&& other) noexcept;
    BigPages& operator=(BigPages&& other) noexcept;
    BigPages(const BigPages&) = delete;
    BigPages& operator=(const BigPages&) = delete;
    ~BigPages();

    bool empty() const { return m_data == nullptr; }
    std::size_t bytes() const { return m_bytes; }
    template <typename T>
    T* as() const
    {
        return reinterpret_cast<T*>(m_data);
    }

private:
    std::byte* m_data = nullptr;
    std::size_t m_bytes = 0;
};

} // namespace octavo::engine
