#pragma once

/// The newest `capacity` values of a series, oldest first. Memory is taken once; push() never allocates.

#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace octavo::ui {

template <typename T>
class RingBuffer
{
public:
    explicit RingBuffer(int capacity)
        : m_capacity(capacity)
    {
        m_values.reserve(std::size_t(capacity));
    }

    int size() const { return int(m_values.size()); }
    int capacity() const { return m_capacity; }
    bool isEmpty() const { return m_values.empty(); }

    void push(T value)
    {
        if (size() < m_capacity) {
            m_values.push_back(std::move(value));
        } else {
            m_values[std::size_t(m_oldest)] = std::move(value);
            m_oldest = (m_oldest + 1) % m_capacity;
        }
    }

    /// 0 is the oldest value kept, size() - 1 the newest.
    const T& operator[](int index) const
    {
        assert(index >= 0 && index < size());
        return m_values[std::size_t((m_oldest + index) % m_capacity)];
    }

    const T& newest() const { return (*this)[size() - 1]; }

    void clear()
    {
        m_values.clear();
        m_oldest = 0;
    }

private:
    std::vector<T> m_values;
    int m_capacity;
    int m_oldest = 0;
};

} // namespace octavo::ui
