#pragma once

/// Who was served when: one lane per agent in its colour, and a grey one for contexts that are read for all. Reading
/// (prefill) is a full, pale block; writing (decode) a thin line; checking drafts (verify) a full, strong block: told
/// apart by height and strength, not by hue.

#include "ui/dashboard/metrics_history.h"
#include "ui/dashboard/work_history.h"

#include <QImage>
#include <QStringList>
#include <QWidget>

namespace octavo::ui {

class SchedulerStrip final : public QWidget
{
    Q_OBJECT

public:
    explicit SchedulerStrip(QWidget* parent = nullptr);

    void setNames(const QStringList& names) { m_names = names; }
    int columns(const TimeWindow& window) const;
    /// Paints only if something differs.
    void setCoverage(const LaneCoverage& coverage, const TimeWindow& window);

    /// "Docs, 12.3 s ago: reading 80% of the time"; empty where there is no lane.
    QString textAt(const QPoint& position) const;

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;

private:
    int captionHeight() const;
    int numLanes() const { return m_coverage.lanes > 0 ? m_coverage.lanes : numWorkLanes; }
    double laneHeight() const;
    QImage lanesImage(const QSize& pixels) const;

    QStringList m_names;
    LaneCoverage m_coverage;
    TimeWindow m_window;
};

} // namespace octavo::ui
