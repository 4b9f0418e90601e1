#include "ui/charts/line_chart.h"

#include "ui/charts/column_canvas.h"
#include "ui/controls.h"

#include <QFontMetrics>
#include <QMouseEvent>
#include <QPainter>

#include <cmath>
#include <cstring>

namespace octavo::ui {

namespace {

bool sameValues(const std::vector<float>& a, const std::vector<float>& b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace

LineChart::LineChart(QString title, std::function<QString(float)> format, QWidget* parent)
    : QWidget(parent)
    , m_title(std::move(title))
    , m_format(std::move(format))
    , m_current(std::nanf(""))
{
    setMouseTracking(true);
    setAccessibleName(m_title);
    connect(Theme::instance(), &Theme::changed, this, [this] { update(); });
}

void LineChart::setTitle(const QString& title)
{
    if (m_title == title)
        return;
    m_title = title;
    setAccessibleName(title);
    update(captionRect());
}

bool LineChart::isBehind(const TimeWindow& window) const
{
    const int count = columns(window);
    return count != int(m_values.size()) || window.seconds != m_window.seconds ||
           window.lastColumn(count) != m_window.lastColumn(count);
}

void LineChart::setCurrent(float value)
{
    const QString before = valueText();
    m_current = value;
    if (const QString now = valueText(); now != before) {
        update(captionRect());
        setAccessibleDescription(now);
    }
}

void LineChart::setValues(std::vector<float> values, const TimeWindow& window)
{
    m_window = window;
    if (sameValues(values, m_values))
        return;
    m_values = std::move(values);
    update(plotRect().toAlignedRect());
    if (m_hoverX >= 0)
        update(captionRect());
}

QString LineChart::valueText() const
{
    return std::isnan(m_current) ? dash() : m_format(m_current);
}

QSize LineChart::sizeHint() const
{
    return {160, QFontMetrics(ui::font(TextRole::Small)).height() + 4 + 40};
}

QSize LineChart::minimumSizeHint() const
{
    return {90, QFontMetrics(ui::font(TextRole::Small)).height() + 4 + 20};
}

QRect LineChart::captionRect() const
{
    return {0, 0, width(), QFontMetrics(ui::font(TextRole::Small)).height()};
}

QRectF LineChart::plotRect() const
{
    const int top = captionRect().bottom() + 5;
    return {0.0, double(top), double(width()), double(std::max(1, height() - top))};
}

int LineChart::hoveredColumn() const
{
    if (m_hoverX < 0 || m_values.empty())
        return -1;
    return std::min(int(m_values.size()) - 1, m_hoverX * int(m_values.size()) / std::max(1, width()));
}

void LineChart::paintEvent(QPaintEvent* event)
{
    QPainter painter(this);
    const Colors& c = colors();
    const int hovered = hoveredColumn();

    if (event->rect().intersects(captionRect())) {
        QString title = m_title;
        QString value = valueText();
        if (hovered >= 0) {
            const float v = m_values[std::size_t(hovered)];
            title = tr("%1 s ago").arg(m_window.secondsAgo(hovered, int(m_values.size())), 0, 'f', 0);
            value = std::isnan(v) ? dash() : m_format(v);
        }
        painter.setFont(ui::font(TextRole::Small));
        const QFontMetrics small = painter.fontMetrics();
        const QFontMetrics strong(ui::font(TextRole::SmallStrong));
        title = small.elidedText(title, Qt::ElideRight, width() - strong.horizontalAdvance(value) - 6);
        painter.setPen(c.muted);
        painter.drawText(QPoint(0, small.ascent()), title);
        painter.setFont(ui::font(TextRole::SmallStrong));
        painter.setPen(c.text);
        painter.drawText(QPoint(small.horizontalAdvance(title + u' ') + 1, small.ascent()), value);
    }

    const QRectF plot = plotRect();
    if (!event->rect().intersects(plot.toAlignedRect()))
        return;
    painter.setClipRect(plot);
    painter.fillRect(QRectF(plot.left(), plot.bottom() - 1, plot.width(), 1), c.line);
    float top = m_maximum;
    if (top <= 0) {
        float largest = 0;
        for (float value : m_values)
            largest = std::fmax(largest, value);
        top = niceCeiling(largest * 1.1F);
    }

    const QColor color = m_shade == Shade::Accent ? c.accent : c.type;
    QColor fill = color;
    fill.setAlphaF(0.18F);
    ColumnCanvas canvas(plot.size(), devicePixelRatioF());
    const double thickness = 1.4 * devicePixelRatioF();
    std::vector<double> heights;
    for (float value : interpolated(m_values, canvas.width()))
        heights.push_back(canvas.height() - 1 - double(value / top) * (canvas.height() - 2 * thickness));
    for (int x = 0; x < canvas.width(); ++x)
        canvas.fill(x, heights[std::size_t(x)], canvas.height(), fill);
    canvas.stroke(heights, thickness, color);
    painter.drawImage(plot.topLeft(), canvas.image());

    if (hovered >= 0) {
        painter.fillRect(QRectF((hovered + 0.5) * plot.width() / double(m_values.size()), plot.top(), 1, plot.height()),
                         c.muted);
    }
}

void LineChart::mouseMoveEvent(QMouseEvent* event)
{
    m_hoverX = std::clamp(int(event->position().x()), 0, std::max(0, width() - 1));
    update();
}

void LineChart::leaveEvent(QEvent*)
{
    m_hoverX = -1;
    update();
}

} // namespace octavo::ui
