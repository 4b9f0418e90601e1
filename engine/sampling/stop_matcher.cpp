#include "engine/sampling/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace octavo::engine {

StopMatcher::StopMatcher(std::vector<std::string> stopStrings) : m_stops(std::move(stopStrings))
{
    std::erase(m_stops, std::string());
}

StopMatcher::Output StopMatcher::append(std::string_view text)
{
    if (m_stopped)
        return {{}, true};
    m_held += text;

    // The stop string that is complete first wins, so that the answer does not depend on how the text was cut.
    std::size_t begin = std::string::npos, end = std::string::npos;
    for (const std::string& stop : m_stops) {
        const std::size_t found = m_held.find(stop);
        if (found == std::string::npos)
            continue;
        const std::size_t foundEnd = found + stop.size();
        if (foundEnd < end || (foundEnd == end && found < begin)) {
            begin = found;
            end = foundEnd;
        }
    }
    if (begin != std::string::npos) {
        m_stopped = true;
        Output output{m_held.substr(0, begin), true};
        m_held.clear();
        return output;
    }

    std::size_t held = 0;
    for (const std::string& stop : m_stops) {
        for (std::size_t length = std::min(stop.size() - 1, m_held.size()); length > held; --length) {
            if (std::string_view(m_held).ends_with(std::string_view(stop).substr(0, length)))
                held = length;
        }
    }
    Output output{m_held.substr(0, m_held.size() - held), false};
    m_held.erase(0, m_held.size() - held);
    return output;
}

std::string StopMatcher::finish()
{
    return std::exchange(m_held, {});
}

} // namespace octavo::engine
