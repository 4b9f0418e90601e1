#include "engine/scheduler/slice_planner.h"

#include "engine/scheduler/prefix_cache.h"

#include <algorithm>

namespace octavo::engine {

int SlicePlanner::sliceFor(std::int64_t left, bool besideWriters) const
{
    const double budget = double(besideWriters ? m_limits.sliceBudgetUs : m_limits.aloneBudgetUs);
    std::int64_t tokens = checkpointStride; // the first slice only measures
    if (m_usPerToken > 0.0) {
        const auto affordable = std::int64_t(budget / m_usPerToken);
        // A slice at most four times the last one: a rate measured on little may be far off.
        tokens = std::min<std::int64_t>(affordable, std::int64_t{4} * std::max<std::int64_t>(m_lastSlice, 64));
    }
    tokens = std::clamp<std::int64_t>(roundDownToStride(tokens), checkpointStride, m_limits.largestSlice);
    return int(std::min(tokens, left));
}

void SlicePlanner::recordSlice(std::int64_t tokens, std::int64_t durationUs, bool besideWriters, bool shortRead)
{
    const double usPerToken = double(std::max<std::int64_t>(durationUs, 1)) / double(std::max<std::int64_t>(tokens, 1));
    // Slower counts at once, faster only slowly: the budget is a promise.
    if (tokens >= checkpointStride || m_usPerToken <= 0.0)
        m_usPerToken = usPerToken > m_usPerToken ? usPerToken : 0.75 * m_usPerToken + 0.25 * usPerToken;
    if (tokens >= checkpointStride)
        m_lastSlice = int(tokens);
    m_stepsSinceSlice = besideWriters ? 0 : 1;
    m_owedToWritersUs = besideWriters && !shortRead ? durationUs : 0;
}

void SlicePlanner::recordStep(std::int64_t durationUs)
{
    ++m_stepsSinceSlice;
    m_owedToWritersUs -= durationUs;
}

} // namespace octavo::engine
