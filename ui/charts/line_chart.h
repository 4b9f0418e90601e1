#pragma once

/// One quantity over time: a caption with the current value above a filled line. Hovering reads a moment's value.

#include "ui/charts/resample.h"

#include <QString>
#include <QWidget>

#include <functional>
#include <vector>

namespace octavo::ui {

class LineChart final : public QWidget
{
    Q_OBJECT

public:
    enum class Shade { Accent, Cyan };

    /// `format` puts a value into words; unknown values are shown as a dash without asking it.
    LineChart(QString title, std::function<QString(float)> format, QWidget* parent = nullptr);

    void setTitle(const QString& title);
    void setShade(Shade shade) { m_shade = shade; }
    /// Upper end of the axis; 0 (the default) fits it to the values.
    void setMaximum(float maximum) { m_maximum = maximum; }

    /// How many values setValues() should get for `window`.
    int columns(const TimeWindow& window) const { return window.columns(std::max(1, width())); }
    /// Whether `window` has a column that is not drawn yet.
    bool isBehind(const TimeWindow& window) const;
    /// One value per column, oldest first, NaN for unknown. Paints only if something differs.
    void setValues(std::vector<float> values, const TimeWindow& window);
    /// The value of the caption.
    void setCurrent(float value);

    /// The caption's value as shown.
    QString valueText() const;

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;

private:
    QRect captionRect() const;
    QRectF plotRect() const;
    int hoveredColumn() const;

    QString m_title;
    std::function<QString(float)> m_format;
    std::vector<float> m_values;
    float m_current;
    float m_maximum = 0;
    TimeWindow m_window;
    Shade m_shade = Shade::Accent;
    int m_hoverX = -1;
};

} // namespace octavo::ui
