#pragma once

#include <cstdint>
#include <deque>
#include <utility>

namespace octavo::engine {

/// Events per second over the last second. Thread: one owner.
class RateMeter
{
public:
    void add(std::int64_t nowUs, std::int64_t count)
    {
        m_events.emplace_back(nowUs, count);
        m_sum += count;
        drop(nowUs);
    }

    double perSecond(std::int64_t nowUs)
    {
        drop(nowUs);
        return double(m_sum) * 1e6 / double(windowUs);
    }

private:
    static constexpr std::int64_t windowUs = 1'000'000;

    void drop(std::int64_t nowUs)
    {
        while (!m_events.empty() && m_events.front().first <= nowUs - windowUs) {
            m_sum -= m_events.front().second;
            m_events.pop_front();
        }
    }

    std::deque<std::pair<std::int64_t, std::int64_t>> m_events;
    std::int64_t m_sum = 0;
};

} // namespace octavo::engine
