#include "ui/charts/column_canvas.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace octavo::ui {

namespace {

/// `over` with `coverage` (0..255) of its strength on the premultiplied pixel `under`.
QRgb blended(QRgb under, QRgb over, int coverage)
{
    const int alpha = qAlpha(over) * coverage / 255;
    const auto channel = [&](int o, int u) { return o * coverage / 255 + u * (255 - alpha) / 255; };
    return qRgba(channel(qRed(over), qRed(under)), channel(qGreen(over), qGreen(under)),
                 channel(qBlue(over), qBlue(under)), channel(qAlpha(over), qAlpha(under)));
}

} // namespace

ColumnCanvas::ColumnCanvas(const QSizeF& size, qreal devicePixelRatio)
    : m_image((size * devicePixelRatio).toSize().expandedTo({1, 1}), QImage::Format_ARGB32_Premultiplied)
{
    m_image.fill(Qt::transparent);
    m_image.setDevicePixelRatio(devicePixelRatio);
}

void ColumnCanvas::fill(int x, double top, double bottom, const QColor& color)
{
    top = std::max(top, 0.0);
    bottom = std::min(bottom, double(height()));
    if (!(bottom > top))
        return;
    const QRgb over = qPremultiply(color.rgba());
    const qsizetype stride = m_image.bytesPerLine() / qsizetype(sizeof(QRgb));
    auto* pixel = reinterpret_cast<QRgb*>(m_image.bits()) + x;
    const int first = int(top);
    const int last = std::min(height() - 1, int(bottom));
    for (int y = first; y <= last; ++y) {
        const double part = std::min(bottom, y + 1.0) - std::max(top, double(y));
        if (part > 0)
            pixel[y * stride] = blended(pixel[y * stride], over, part >= 1 ? 255 : int(part * 255));
    }
}

void ColumnCanvas::stroke(const std::vector<double>& heights, double thickness, const QColor& color)
{
    const int columns = std::min(width(), int(heights.size()));
    const auto at = [&](int x) {
        return x >= 0 && x < columns ? heights[std::size_t(x)] : std::numeric_limits<double>::quiet_NaN();
    };
    for (int x = 0; x < columns; ++x) {
        const double here = at(x);
        if (std::isnan(here))
            continue;
        // From half-way to the neighbour before to half-way to the one after: steep parts stay joined.
        const double before = std::isnan(at(x - 1)) ? here : (at(x - 1) + here) / 2;
        const double after = std::isnan(at(x + 1)) ? here : (at(x + 1) + here) / 2;
        fill(x, std::min({before, here, after}) - thickness / 2, std::max({before, here, after}) + thickness / 2,
             color);
    }
}

std::vector<float> interpolated(const std::vector<float>& values, int pixels)
{
    std::vector<float> result(std::size_t(pixels), std::numeric_limits<float>::quiet_NaN());
    if (values.empty())
        return result;
    const double scale = double(values.size()) / pixels;
    const int last = int(values.size()) - 1;
    for (int x = 0; x < pixels; ++x) {
        const double position = (x + 0.5) * scale - 0.5;
        const int left = std::clamp(int(std::floor(position)), 0, last);
        const int right = std::min(left + 1, last);
        const float a = values[std::size_t(left)];
        const float b = values[std::size_t(right)];
        const float mix = float(std::clamp(position - left, 0.0, 1.0));
        if (std::isnan(a) || std::isnan(b))
            result[std::size_t(x)] = mix < 0.5F ? a : b;
        else
            result[std::size_t(x)] = a + (b - a) * mix;
    }
    return result;
}

} // namespace octavo::ui
