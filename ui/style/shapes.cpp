#include "ui/style/shapes.h"

#include "ui/theme.h"

namespace octavo::ui {

void strokedRoundRect(QPainter* painter, const QRect& rect, qreal radius, const QColor& fill, const QColor& line)
{
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(line.isValid() ? QPen(line, 1) : QPen(Qt::NoPen));
    painter->setBrush(fill.isValid() ? QBrush(fill) : QBrush(Qt::NoBrush));
    const QRectF r = line.isValid() ? QRectF(rect).adjusted(0.5, 0.5, -0.5, -0.5) : QRectF(rect);
    painter->drawRoundedRect(r, radius, radius);
    painter->restore();
}

bool keyboardFocus(const QStyleOption* option)
{
    return option->state.testFlag(QStyle::State_HasFocus) && option->state.testFlag(QStyle::State_KeyboardFocusChange);
}

void drawChevron(QPainter* painter, const QRectF& rect, Qt::ArrowType direction, const QColor& color)
{
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(QPen(color, 1.5, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter->translate(rect.center());
    painter->scale(Theme::instance()->textScale(), Theme::instance()->textScale());
    switch (direction) {
    case Qt::UpArrow:
        painter->rotate(180);
        break;
    case Qt::LeftArrow:
        painter->rotate(90);
        break;
    case Qt::RightArrow:
        painter->rotate(-90);
        break;
    default:
        break;
    }
    painter->drawPolyline(QPolygonF{{-3.5, -1.75}, {0, 1.75}, {3.5, -1.75}});
    painter->restore();
}

} // namespace octavo::ui
