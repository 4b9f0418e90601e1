#pragma once

/// The machine at work: one card per device and one for all agents, ten times a second.
///
/// Cost     a tick copies one snapshot and paints only charts of which a column is new; nothing while hidden.
/// Thread   GUI thread; files are written on another.

#include "ui/dashboard/device_card.h"
#include "ui/dashboard/metrics_history.h"
#include "ui/dashboard/throughput_card.h"
#include "ui/dashboard/work_history.h"

#include <QTimer>
#include <QWidget>

#include <functional>
#include <optional>

class QHBoxLayout;

namespace octavo::agents {
class Workbench;
}

namespace octavo::ui {

class DashboardPanel final : public QWidget
{
    Q_OBJECT

public:
    static constexpr int tickMs = 100;

    explicit DashboardPanel(agents::Workbench* workbench, QWidget* parent = nullptr);
    /// Shows what `source` gives: for tests and pictures.
    explicit DashboardPanel(std::function<engine::MetricsSnapshot()> source, QWidget* parent = nullptr);

    /// One poll, as the timer does it.
    void tick();
    const MetricsHistory& history() const { return m_history; }

    bool isPaused() const { return m_paused; }
    void setPaused(bool paused); ///< holds what is shown and exported; recording goes on
    int windowSeconds() const { return m_windowSeconds; }
    void setWindowSeconds(int seconds);
    void setAgentNames(const QStringList& names);

    /// Write in the background; exported() or exportFailed() follows.
    void exportCsv(const QString& path);
    void exportImage(const QString& path);

    QSize sizeHint() const override;

signals:
    void windowSecondsChanged(int seconds);
    void exported(const QString& path);
    void exportFailed(const QString& problem);

protected:
    void showEvent(QShowEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void build();
    void showSnapshot(const engine::MetricsSnapshot& snapshot);
    void showHistory();
    void askWhereTo(const QString& suffix, void (DashboardPanel::*write)(const QString&));
    TimeWindow shownWindow() const;
    const MetricsHistory& shownHistory() const { return m_frozen ? m_frozen->history : m_history; }

    std::function<engine::MetricsSnapshot()> m_source;
    MetricsHistory m_history;
    WorkHistory m_work;
    QTimer m_timer;
    QStringList m_agentNames;
    QHBoxLayout* m_cardsLayout = nullptr;
    QHBoxLayout* m_devices = nullptr;
    QWidget* m_content = nullptr;
    TextLabel* m_noDevice = nullptr;
    std::vector<DeviceCard*> m_cards;
    ThroughputCard* m_throughput = nullptr;
    int m_windowSeconds = 60;
    bool m_paused = false;
    double m_pausedAtSeconds = 0;
    struct Frozen { ///< as it was at the pause: the rings go on and forget
        MetricsHistory history;
        WorkHistory work;
    };
    std::optional<Frozen> m_frozen;
};

} // namespace octavo::ui
