#include "engine/sampling/loop_watch.h"

#include <algorithm>

namespace octavo::engine {

bool LoopWatch::loops(std::span<const TokenId> answer, std::span<const TokenId> prompt)
{
    constexpr int shortPeriod = 8, ofShort = 256, ofOthers = 128, repetitions = 4;
    int least = ofOthers;
    int tail = 0; // of the shortest period that repeats often enough
    for (int period = 1; period <= longestPeriod && std::size_t(period) < answer.size(); ++period) {
        int& equal = m_equal[std::size_t(period)];
        equal = answer.back() == answer[answer.size() - 1 - std::size_t(period)] ? equal + 1 : 0;
        if (period < shortPeriod && equal + period >= least)
            least = ofShort; // for its multiples too
        const int needed = std::max(least, repetitions * period);
        if (tail == 0 && equal + period >= needed)
            tail = needed;
    }
    if (tail == 0 || answer.size() < m_lookAgainAt)
        return false;
    const auto repeated = answer.last(std::size_t(tail));
    if (std::ranges::search(prompt, repeated).empty())
        return true;
    m_lookAgainAt = answer.size() + std::size_t(tail) / 2; // a longer tail may stand there no more
    return false;
}

} // namespace octavo::engine
