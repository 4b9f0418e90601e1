#include "ui/switch.h"

#include "ui/theme.h"

#include <QPainter>

namespace octavo::ui {

namespace {

constexpr int trackWidth = 34, trackHeight = 20, outline = 3; // the last: room for the mark of the focus

} // namespace

Switch::Switch(bool on, QWidget* parent)
    : QCheckBox(parent)
{
    setChecked(on);
    setAttribute(Qt::WA_Hover);
    setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
    connect(Theme::instance(), &Theme::changed, this, &QWidget::updateGeometry);
}

QSize Switch::sizeHint() const
{
    const qreal scale = Theme::instance()->textScale();
    return {qRound(trackWidth * scale) + 2 * outline, qRound(trackHeight * scale) + 2 * outline};
}

void Switch::paintEvent(QPaintEvent*)
{
    const Colors& c = colors();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const QRectF track = QRectF(rect()).adjusted(outline, outline, -outline, -outline);
    const qreal radius = track.height() / 2;
    QColor ground = isChecked() ? c.accent : c.track;
    if (underMouse() && isEnabled())
        ground = mixed(ground, c.text, 0.1);
    if (!isEnabled())
        ground = mixed(c.panel, ground, 0.5);
    painter.setPen(isChecked() ? QPen(Qt::NoPen) : QPen(mixed(c.line, c.muted, 0.5)));
    painter.setBrush(ground);
    painter.drawRoundedRect(track.adjusted(0.5, 0.5, -0.5, -0.5), radius, radius);
    const qreal knob = track.height() - 6;
    const qreal x = isChecked() != isRightToLeft() ? track.right() - 3 - knob : track.left() + 3;
    painter.setPen(Qt::NoPen);
    painter.setBrush(isChecked() ? c.onAccent : c.muted);
    painter.drawEllipse(QRectF(x, track.top() + 3, knob, knob));
    if (hasFocus() && window()->testAttribute(Qt::WA_KeyboardFocusChange)) {
        painter.setPen(QPen(c.accent, 1.5));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), radius + 2, radius + 2);
    }
}

} // namespace octavo::ui
