#pragma once

/// On or off: a check box that looks like a switch. For settings that hold at once.

#include <QCheckBox>

namespace octavo::ui {

class Switch final : public QCheckBox
{
    Q_OBJECT

public:
    explicit Switch(bool on, QWidget* parent = nullptr);

    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }

protected:
    void paintEvent(QPaintEvent* event) override;
    bool hitButton(const QPoint& point) const override { return rect().contains(point); }
};

} // namespace octavo::ui
