#include "ui/charts/segment_bar.h"

#include "ui/theme.h"

#include <QHelpEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>

#include <algorithm>

namespace octavo::ui {

SegmentBar::SegmentBar(std::function<QString(qint64)> format, QWidget* parent)
    : QWidget(parent)
    , m_format(std::move(format))
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    setMouseTracking(true);
}

void SegmentBar::setSegments(const QList<BarSegment>& segments, qint64 total)
{
    if (m_segments == segments && m_total == total)
        return;
    m_segments = segments;
    m_total = total;
    setAccessibleDescription(legend());
    update();
}

void SegmentBar::setBarHeight(int pixels)
{
    m_barHeight = pixels;
    updateGeometry();
}

QString SegmentBar::legend() const
{
    QStringList lines;
    qint64 used = 0;
    for (const BarSegment& segment : m_segments) {
        lines += tr("%1: %2").arg(segment.label, m_format(segment.value));
        used += segment.value;
    }
    if (m_total > used)
        lines += tr("Free: %1 of %2").arg(m_format(m_total - used), m_format(m_total));
    else if (m_total > 0 && used > m_total)
        lines += tr("Over by %1").arg(m_format(used - m_total));
    return lines.join(u'\n');
}

QSize SegmentBar::sizeHint() const
{
    return {120, m_barHeight};
}

void SegmentBar::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const QRectF bar(0, (height() - m_barHeight) / 2.0, width(), m_barHeight);
    QPainterPath outline;
    outline.addRoundedRect(bar, m_barHeight / 2.0, m_barHeight / 2.0);
    painter.fillPath(outline, colors().track);

    qint64 used = 0;
    for (const BarSegment& segment : m_segments)
        used += segment.value;
    const qint64 whole = std::max(m_total, used);
    if (whole <= 0)
        return;
    painter.setClipPath(outline);
    double x = 0;
    for (const BarSegment& segment : m_segments) {
        const double next = x + bar.width() * double(segment.value) / double(whole);
        painter.fillRect(QRectF(x, bar.top(), next - x, bar.height()), segment.color);
        x = next;
    }
    if (m_total > 0 && used > m_total) {
        const double limit = bar.width() * double(m_total) / double(whole);
        painter.fillRect(QRectF(limit, bar.top(), bar.width() - limit, bar.height()), colors().bad);
        painter.fillRect(QRectF(limit - 1, bar.top(), 2, bar.height()), colors().panel);
    }
}

bool SegmentBar::event(QEvent* event)
{
    if (event->type() == QEvent::ToolTip && !m_segments.isEmpty()) {
        QString rows;
        for (const BarSegment& segment : m_segments)
            rows += QStringLiteral("<tr><td style='color:%1'>&#9632;</td><td style='padding-left:6px'>%2</td>"
                                   "<td align='right' style='padding-left:16px'>%3</td></tr>")
                        .arg(segment.color.name(), segment.label.toHtmlEscaped(), m_format(segment.value));
        const QString last = legend().section(u'\n', m_segments.size());
        if (!last.isEmpty())
            rows += QStringLiteral("<tr><td></td><td colspan='2' style='padding-left:6px'>%1</td></tr>")
                        .arg(last.toHtmlEscaped());
        QToolTip::showText(static_cast<QHelpEvent*>(event)->globalPos(),
                           QStringLiteral("<table cellspacing='0'>%1</table>").arg(rows), this);
        return true;
    }
    return QWidget::event(event);
}

} // namespace octavo::ui
