#include "ui/charts/squarify.h"

#include <algorithm>
#include <numeric>

namespace octavo::ui {

namespace {

/// The worst side ratio in a row of tiles along `side` whose areas sum up to `sum`, between `least` and `most` each.
double worstRatio(double side, double sum, double least, double most)
{
    const double s2 = sum * sum, w2 = side * side;
    return std::max(w2 * most / s2, s2 / (w2 * least));
}

} // namespace

QList<QRectF> squarified(const QList<double>& weights, QRectF area)
{
    QList<QRectF> tiles;
    tiles.reserve(weights.size());
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const double scale = total > 0 ? area.width() * area.height() / total : 0.0;
    qsizetype next = 0;
    while (next < weights.size() && weights[next] > 0 && scale > 0) {
        const double side = std::min(area.width(), area.height());
        if (side <= 0)
            break;
        // A row along the shorter side takes tiles as long as that makes its worst one squarer.
        const double first = weights[next] * scale;
        double sum = first, worst = worstRatio(side, sum, first, first);
        qsizetype end = next + 1;
        for (; end < weights.size() && weights[end] > 0; ++end) {
            const double tile = weights[end] * scale;
            const double ratio = worstRatio(side, sum + tile, tile, first);
            if (ratio > worst)
                break;
            worst = ratio;
            sum += tile;
        }
        const bool upright = area.width() >= area.height(); // the row is a column at the left
        const double depth = sum / side;
        double at = upright ? area.top() : area.left();
        for (; next < end; ++next) {
            const double length = weights[next] * scale / depth;
            tiles += upright ? QRectF(area.left(), at, depth, length) : QRectF(at, area.top(), length, depth);
            at += length;
        }
        if (upright)
            area.setLeft(std::min(area.right(), area.left() + depth));
        else
            area.setTop(std::min(area.bottom(), area.top() + depth));
    }
    while (tiles.size() < weights.size())
        tiles += QRectF(area.topLeft(), QSizeF(0, 0));
    return tiles;
}

} // namespace octavo::ui
