#pragma once

/// All agents of the dashboard: one big rate, the figures that matter, rates by agent over time, the scheduler's strip,
/// and the buttons that say what is shown.

#include "ui/charts/stacked_chart.h"
#include "ui/controls.h"
#include "ui/dashboard/metrics_history.h"
#include "ui/dashboard/scheduler_strip.h"

#include <QPushButton>

namespace octavo::ui {

class ThroughputCard final : public Card
{
    Q_OBJECT

public:
    explicit ThroughputCard(QWidget* parent = nullptr);

    void setAgentNames(const QStringList& names);
    void showHistory(const MetricsHistory& history, WorkHistory& work, const TimeWindow& window);
    void setPaused(bool paused);
    void setWindowSeconds(int seconds);

signals:
    void windowSecondsChosen(int seconds);
    void pauseToggled(bool paused);
    void csvRequested();
    void imageRequested();

private:
    TextLabel* m_rate;
    TextLabel* m_figures;
    QPushButton* m_window;
    QPushButton* m_pause;
    StackedChart* m_rates;
    SchedulerStrip* m_strip;
};

} // namespace octavo::ui
