#pragma once

/// The shapes that Style draws everything with.

#include <QColor>
#include <QPainter>
#include <QStyleOption>

namespace octavo::ui {

/// Filled and outlined with a line of 1 px; an invalid colour leaves out what it is for.
void strokedRoundRect(QPainter* painter, const QRect& rect, qreal radius, const QColor& fill, const QColor& line);

void drawChevron(QPainter* painter, const QRectF& rect, Qt::ArrowType direction, const QColor& color);

/// Whether the focus is to be seen: it came by key.
bool keyboardFocus(const QStyleOption* option);

/// Menu items: before the text, and what an icon or mark takes.
inline constexpr int menuItemPadding = 10, menuIconColumn = 22;

} // namespace octavo::ui
