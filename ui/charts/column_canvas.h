#pragma once

/// Curves and areas painted column by column into an image, with smooth edges.
///
/// A path of hundreds of points costs QPainter's general rasteriser milliseconds; curves over time need only vertical
/// runs.

#include <QColor>
#include <QImage>
#include <QSizeF>

#include <vector>

namespace octavo::ui {

class ColumnCanvas
{
public:
    /// `size` in device-independent pixels; transparent.
    ColumnCanvas(const QSizeF& size, qreal devicePixelRatio);

    int width() const { return m_image.width(); } ///< device pixels, as all that follows
    int height() const { return m_image.height(); }

    /// The run [top, bottom) of column `x`; ends that fall inside a pixel cover it in part.
    void fill(int x, double top, double bottom, const QColor& color);
    /// A line through one height per column, NaN where it is interrupted.
    void stroke(const std::vector<double>& heights, double thickness, const QColor& color);

    const QImage& image() const { return m_image; }

private:
    QImage m_image;
};

/// `values` (NaN for gaps) read at the middle of each of `pixels` columns, with straight lines between their middles.
std::vector<float> interpolated(const std::vector<float>& values, int pixels);

} // namespace octavo::ui
