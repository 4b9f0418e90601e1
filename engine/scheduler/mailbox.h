#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace octavo::engine {

/// Many senders, one receiver. What may pile up is bounded by tryPush(); push() is for messages that must arrive
/// (cancel, shut down) and that the senders cannot have more of than there are requests.
template <typename T>
class Mailbox
{
public:
    explicit Mailbox(std::size_t capacity) : m_capacity(capacity) {}

    /// False, and `message` untouched, when `capacity` messages wait already or the mailbox is closed.
    bool tryPush(T& message)
    {
        {
            const std::scoped_lock lock(m_mutex);
            if (m_closed || m_messages.size() >= m_capacity)
                return false;
            m_messages.push_back(std::move(message));
        }
        m_arrived.notify_one();
        return true;
    }

    void push(T message)
    {
        {
            const std::scoped_lock lock(m_mutex);
            if (m_closed)
                return;
            m_messages.push_back(std::move(message));
        }
        m_arrived.notify_one();
    }

    /// Takes all that wait; with `wait`, sleeps until there is one, the mailbox is closed or `patience` has passed.
    std::vector<T> take(bool wait, std::chrono::milliseconds patience)
    {
        std::unique_lock lock(m_mutex);
        if (wait)
            m_arrived.wait_for(lock, patience, [&] { return !m_messages.empty() || m_closed; });
        std::vector<T> taken(std::make_move_iterator(m_messages.begin()), std::make_move_iterator(m_messages.end()));
        m_messages.clear();
        return taken;
    }

    /// Refuses what comes from now on; what waits can still be taken.
    void close()
    {
        {
            const std::scoped_lock lock(m_mutex);
            m_closed = true;
        }
        m_arrived.notify_one();
    }

    bool isClosed() const
    {
        const std::scoped_lock lock(m_mutex);
        return m_closed;
    }

private:
    const std::size_t m_capacity;
    mutable std::mutex m_mutex;
    std::condition_variable m_arrived;
    std::deque<T> m_messages;
    bool m_closed = false;
};

} // namespace octavo::engine
