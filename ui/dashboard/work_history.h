#pragma once

/// What the devices worked on, for the scheduler strip: spans collected from snapshots, each kept once.
///
/// Thread   none of its own; belongs to the GUI thread.

#include "ui/charts/resample.h"
#include "ui/charts/ring_buffer.h"

#include "engine/metrics/metrics.h"

#include <array>
#include <cstdint>
#include <vector>

namespace octavo::ui {

/// Share of each column's time in which a lane was read, written or had drafts checked; 0..1.
struct LaneCoverage {
    static constexpr int numKinds = 3; ///< engine::WorkSpan::Kind
    int lanes = 0, columns = 0;
    std::int64_t firstColumn = 0; ///< number of column 0, counted from time 0
    std::vector<float> share;     ///< (column's number modulo columns, kind, lane)

    float at(engine::WorkSpan::Kind kind, int lane, int column) const
    {
        return share[place(firstColumn + column, kind) + std::size_t(lane)];
    }
    /// Where the lanes of column number `column` begin.
    std::size_t place(std::int64_t column, engine::WorkSpan::Kind kind) const
    {
        const std::int64_t slot = (column % columns + columns) % columns;
        return std::size_t((slot * numKinds + int(kind)) * lanes);
    }
    bool operator==(const LaneCoverage&) const = default;
};

class WorkHistory
{
public:
    static constexpr int capacity = 60000; ///< 300 s of two devices at 100 steps/s

    WorkHistory()
        : m_spans(capacity)
    {
    }

    /// Takes over the spans that began after the newest one known of their device.
    void add(const engine::MetricsSnapshot& snapshot);
    void clear();

    int size() const { return m_spans.size(); }
    /// For a strip of `columns`. The last lane stands for all agents from its number on. Spans that came since the last
    /// call are added to what was there, so following the present is cheap; another window, or one that moves back, is
    /// worked out anew. A span appears once it lies within the window.
    const LaneCoverage& coverage(const TimeWindow& window, int columns, int lanes);

private:
    void addTo(LaneCoverage& coverage, const engine::WorkSpan& span) const;

    RingBuffer<engine::WorkSpan> m_spans;
    std::vector<std::int64_t> m_newestStartUs; ///< by device, in the snapshot's order
    std::int64_t m_timeUs = -1;
    std::int64_t m_added = 0; ///< spans ever pushed
    LaneCoverage m_coverage;
    double m_stepUs = 0;
    std::int64_t m_covered = 0; ///< of m_added, in m_coverage
};

} // namespace octavo::ui
