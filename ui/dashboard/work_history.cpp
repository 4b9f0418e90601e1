#include "ui/dashboard/work_history.h"

#include <algorithm>
#include <cmath>

namespace octavo::ui {

void WorkHistory::clear()
{
    m_spans.clear();
    m_newestStartUs.clear();
    m_timeUs = -1;
    m_added = m_covered = 0;
    m_coverage = {};
}

void WorkHistory::add(const engine::MetricsSnapshot& snapshot)
{
    if (snapshot.timeUs < m_timeUs)
        clear();
    m_timeUs = snapshot.timeUs;
    m_newestStartUs.resize(std::max(m_newestStartUs.size(), snapshot.devices.size()), -1);
    for (std::size_t d = 0; d < snapshot.devices.size(); ++d) {
        const std::vector<engine::WorkSpan>& work = snapshot.devices[d].recentWork;
        const auto isKnown = [&](const engine::WorkSpan& span) { return span.startUs <= m_newestStartUs[d]; };
        auto span = std::find_if(work.rbegin(), work.rend(), isKnown).base();
        for (; span != work.end(); ++span) {
            m_spans.push(*span);
            ++m_added;
            m_newestStartUs[d] = span->startUs;
        }
    }
}

const LaneCoverage& WorkHistory::coverage(const TimeWindow& window, int columns, int lanes)
{
    const double stepUs = window.step(columns) * 1e6;
    const std::int64_t first = window.lastColumn(columns) - columns + 1;
    LaneCoverage& c = m_coverage;
    const std::int64_t moved = first - c.firstColumn;
    if (c.lanes != lanes || c.columns != columns || m_stepUs != stepUs || moved < 0 || moved >= columns) {
        c = {lanes, columns, first, {}};
        c.share.assign(std::size_t(LaneCoverage::numKinds) * std::size_t(lanes) * std::size_t(columns), 0.0F);
        m_stepUs = stepUs;
        m_covered = m_added - m_spans.size();
    }
    for (; c.firstColumn < first; ++c.firstColumn) { // the oldest column's place becomes the newest one's
        const std::size_t place = c.place(c.firstColumn, engine::WorkSpan::Kind{});
        std::fill_n(c.share.begin() + std::ptrdiff_t(place), LaneCoverage::numKinds * lanes, 0.0F);
    }
    const double endUs = double(first + columns) * stepUs;
    const std::int64_t oldest = m_added - m_spans.size();
    for (m_covered = std::max(m_covered, oldest); m_covered < m_added; ++m_covered) {
        const engine::WorkSpan& span = m_spans[int(m_covered - oldest)];
        if (double(span.startUs) + span.durationUs > endUs)
            break;
        addTo(c, span);
    }
    return c;
}

void WorkHistory::addTo(LaneCoverage& c, const engine::WorkSpan& span) const
{
    const double begin = double(span.startUs) / m_stepUs;
    const double end = (double(span.startUs) + span.durationUs) / m_stepUs;
    const std::int64_t first = std::max(c.firstColumn, std::int64_t(std::floor(begin)));
    const std::int64_t last = std::min(c.firstColumn + c.columns - 1, std::int64_t(std::floor(end)));
    for (std::int64_t column = first; column <= last; ++column) {
        const float part = float(std::min(end, double(column) + 1) - std::max(begin, double(column)));
        const std::size_t place = c.place(column, span.kind);
        for (int lane = 0; lane < c.lanes; ++lane) {
            const std::uint32_t served = span.agentMask >> lane;
            if (lane + 1 < c.lanes ? served & 1U : served != 0) {
                float& share = c.share[place + std::size_t(lane)];
                share = std::min(1.0F, share + std::max(0.0F, part));
            }
        }
    }
}

} // namespace octavo::ui
