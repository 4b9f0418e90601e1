#pragma once

/// A rectangle cut into tiles whose areas are given, each as near to a square as can be.

#include <QList>
#include <QRectF>

namespace octavo::ui {

/// One tile for each weight, in order, covering `area` together; `weights` are positive and descend. A weight of 0 gets
/// an empty tile. Source   Bruls, Huizing, van Wijk: Squarified Treemaps, 2000.
QList<QRectF> squarified(const QList<double>& weights, QRectF area);

} // namespace octavo::ui
