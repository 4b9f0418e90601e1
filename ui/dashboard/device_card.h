#pragma once

/// One device of the dashboard: what it is, how warm, what fills its memory, what its tier is read at.

#include "ui/charts/line_chart.h"
#include "ui/charts/segment_bar.h"
#include "ui/controls.h"
#include "ui/dashboard/metrics_history.h"

class QGridLayout;

namespace octavo::ui {

class DeviceCard final : public Card
{
    Q_OBJECT

public:
    explicit DeviceCard(const QString& title, QWidget* parent = nullptr);

    /// Labels and bars: what is so now.
    void showDevice(const engine::DeviceMetrics& metrics);
    /// Charts: what was. `index` is the device's place in the history.
    void showHistory(const MetricsHistory& history, std::size_t index, const TimeWindow& window);

    /// "GPU 0" for "cuda:0", "CPU" for "cpu".
    static QString titleOf(const std::string& device);

private:
    struct MemoryRow {
        TextLabel* name;
        SegmentBar* bar;
        TextLabel* figure;
    };
    MemoryRow addMemoryRow(QGridLayout* grid, int row);

    TextLabel* m_title;
    TextLabel* m_description;
    TextLabel* m_sensors;
    TextLabel* m_failure;
    MemoryRow m_memory, m_hostTier;
    LineChart* m_tierRead;
    LineChart* m_hits;
    QWidget* m_body;
    bool m_isGpu = false;
    bool m_failed = false;
};

} // namespace octavo::ui
