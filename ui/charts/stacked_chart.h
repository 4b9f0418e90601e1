#pragma once

/// Rates of several agents on top of each other over time, each in its colour. Hovering reads a moment's values.

#include "ui/charts/resample.h"

#include <QString>
#include <QStringList>
#include <QWidget>

#include <functional>
#include <vector>

namespace octavo::ui {

class StackedChart final : public QWidget
{
    Q_OBJECT

public:
    StackedChart(QString title, std::function<QString(float)> format, QWidget* parent = nullptr);

    void setNames(const QStringList& names) { m_names = names; }
    int columns(const TimeWindow& window) const { return window.columns(std::max(1, width())); }
    /// Whether `window` has a column that is not drawn yet.
    bool isBehind(const TimeWindow& window) const;
    /// layers[k][column], oldest first; NaN adds nothing. Layer k has agent k's colour. Paints only if something
    /// differs.
    void setLayers(std::vector<std::vector<float>> layers, const TimeWindow& window);

    /// What hovering over column `column` says, one line per agent that has a value, then the sum.
    QString textAt(int column) const;

    QSize sizeHint() const override { return {400, 64}; }
    QSize minimumSizeHint() const override { return {160, 36}; }

protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;

private:
    int columnAt(int x) const;

    std::function<QString(float)> m_format;
    QStringList m_names;
    std::vector<std::vector<float>> m_layers;
    TimeWindow m_window;
    int m_hoverX = -1;
};

} // namespace octavo::ui
