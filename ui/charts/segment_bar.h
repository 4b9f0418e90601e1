#pragma once

/// A bar split by use: memory by weights, sequences and hot buffer; a token budget by folder. The legend is its
/// tooltip.

#include <QColor>
#include <QList>
#include <QString>
#include <QWidget>

#include <functional>

namespace octavo::ui {

struct BarSegment {
    QString label;
    qint64 value = 0;
    QColor color;
    bool operator==(const BarSegment&) const = default;
};

class SegmentBar final : public QWidget
{
    Q_OBJECT

public:
    /// `format` puts a value into words for the legend ("4.2 GiB").
    explicit SegmentBar(std::function<QString(qint64)> format, QWidget* parent = nullptr);

    /// `total` is the whole length; 0 where it is not known: then the segments fill the bar. More than `total` fills it
    /// too, and the last part is drawn as a warning.
    void setSegments(const QList<BarSegment>& segments, qint64 total);
    void setBarHeight(int pixels);

    /// The legend as text: one line per segment, then what is free.
    QString legend() const;

    QSize sizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    bool event(QEvent* event) override;

private:
    std::function<QString(qint64)> m_format;
    QList<BarSegment> m_segments;
    qint64 m_total = 0;
    int m_barHeight = 8;
};

} // namespace octavo::ui
