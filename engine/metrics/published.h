#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace octavo::engine {

/// The newest of a series of immutable values. The lock is held to swap one pointer, never while one is made or read,
/// so a reader can't hold up the writer's step.
template <typename T>
class Published
{
public:
    explicit Published(T first = {}) : m_newest(std::make_shared<const T>(std::move(first))) {}

    void publish(T value)
    {
        auto next = std::make_shared<const T>(std::move(value));
        const std::scoped_lock lock(m_mutex);
        m_newest.swap(next);
    }

    std::shared_ptr<const T> newest() const
    {
        const std::scoped_lock lock(m_mutex);
        return m_newest;
    }

private:
    mutable std::mutex m_mutex;
    std::shared_ptr<const T> m_newest;
};

} // namespace octavo::engine
