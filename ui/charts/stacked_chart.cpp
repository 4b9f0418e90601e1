#include "ui/charts/stacked_chart.h"

#include "ui/charts/column_canvas.h"
#include "ui/controls.h"

#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <cmath>
#include <cstring>

namespace octavo::ui {

namespace {

bool sameLayers(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b)
{
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
               return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
           });
}

} // namespace

StackedChart::StackedChart(QString title, std::function<QString(float)> format, QWidget* parent)
    : QWidget(parent)
    , m_format(std::move(format))
{
    setMouseTracking(true);
    setAccessibleName(title);
    connect(Theme::instance(), &Theme::changed, this, [this] { update(); });
}

bool StackedChart::isBehind(const TimeWindow& window) const
{
    const int count = columns(window);
    return m_layers.empty() || count != int(m_layers[0].size()) || window.seconds != m_window.seconds ||
           window.lastColumn(count) != m_window.lastColumn(count);
}

void StackedChart::setLayers(std::vector<std::vector<float>> layers, const TimeWindow& window)
{
    m_window = window;
    if (sameLayers(layers, m_layers))
        return;
    m_layers = std::move(layers);
    update();
}

int StackedChart::columnAt(int x) const
{
    if (x < 0 || m_layers.empty() || m_layers[0].empty())
        return -1;
    const int columns = int(m_layers[0].size());
    return std::clamp(x * columns / std::max(1, width()), 0, columns - 1);
}

QString StackedChart::textAt(int column) const
{
    QStringList lines;
    float sum = 0;
    for (std::size_t k = 0; k < m_layers.size(); ++k) {
        const float value = m_layers[k][std::size_t(column)];
        if (std::isnan(value))
            continue;
        lines += tr("%1: %2").arg(m_names.value(int(k)), m_format(value));
        sum += value;
    }
    if (lines.size() != 1)
        lines += tr("All: %1").arg(lines.isEmpty() ? dash() : m_format(sum));
    return lines.join(u'\n');
}

void StackedChart::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    const Colors& c = colors();
    painter.fillRect(QRectF(0, 0, width(), 1), c.line);
    painter.fillRect(QRectF(0, height() - 1, width(), 1), c.line);
    if (m_layers.empty() || m_layers[0].empty())
        return;

    const std::size_t columns = m_layers[0].size();
    std::vector<float> sums(columns, 0.0F);
    for (const auto& layer : m_layers) {
        for (std::size_t i = 0; i < columns; ++i)
            sums[i] += std::isnan(layer[i]) ? 0.0F : layer[i];
    }
    const float largest = *std::max_element(sums.begin(), sums.end());
    const float top = niceCeiling(largest * 1.05F);

    ColumnCanvas canvas(size(), devicePixelRatioF());
    const double pixelsPerUnit = (canvas.height() - 2 * devicePixelRatioF()) / double(top);
    std::vector<double> bases(std::size_t(canvas.width()), canvas.height() - devicePixelRatioF());
    for (std::size_t k = 0; k < m_layers.size(); ++k) {
        const QColor color = mixed(c.raised, c.agents[k % c.agents.size()], 0.72);
        const std::vector<float> values = interpolated(m_layers[k], canvas.width());
        for (int x = 0; x < canvas.width(); ++x) {
            const float value = values[std::size_t(x)];
            if (std::isnan(value) || value <= 0)
                continue;
            double& base = bases[std::size_t(x)];
            canvas.fill(x, base - double(value) * pixelsPerUnit, base, color);
            base -= double(value) * pixelsPerUnit;
        }
    }
    painter.drawImage(QPointF(0, 0), canvas.image());

    painter.setFont(ui::font(TextRole::Small));
    const QString end = largest > 0 ? m_format(top) : QString(); // an axis of nothing has no end
    const QFontMetrics small = painter.fontMetrics();
    const QRect label(width() - small.horizontalAdvance(end) - 8, 1, small.horizontalAdvance(end) + 8, small.height());
    QColor behind = c.raised;
    behind.setAlphaF(0.8F);
    if (!end.isEmpty())
        painter.fillRect(label, behind);
    painter.setPen(c.muted);
    painter.drawText(label, Qt::AlignCenter, end);
    if (const int hovered = columnAt(m_hoverX); hovered >= 0)
        painter.fillRect(QRectF((hovered + 0.5) * width() / double(columns), 0, 1, height()), c.text);
}

void StackedChart::mouseMoveEvent(QMouseEvent* event)
{
    m_hoverX = int(event->position().x());
    update();
    if (const int column = columnAt(m_hoverX); column >= 0) {
        const double ago = m_window.secondsAgo(column, int(m_layers[0].size()));
        QToolTip::showText(event->globalPosition().toPoint(),
                           tr("%1 s ago").arg(QLocale().toString(ago, 'f', 1)) + u'\n' + textAt(column), this);
    }
}

void StackedChart::leaveEvent(QEvent*)
{
    m_hoverX = -1;
    update();
}

} // namespace octavo::ui
