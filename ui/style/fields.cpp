/// Controls of several parts: scroll bars, tool buttons, boxes to choose and count in.

#include "ui/style/style.h"

#include "ui/controls.h"
#include "ui/style/shapes.h"
#include "ui/theme.h"

#include <QAbstractSpinBox>
#include <QWidget>

namespace octavo::ui {

void Style::drawComplexControl(ComplexControl control, const QStyleOptionComplex* option, QPainter* painter,
                               const QWidget* widget) const
{
    switch (control) {
    case CC_ScrollBar:
        drawScrollBar(option, painter, widget);
        return;
    case CC_ComboBox:
        drawComboBox(option, painter, widget);
        return;
    case CC_SpinBox:
        drawSpinBox(option, painter, widget);
        return;
    case CC_ToolButton: {
        const auto* button = qstyleoption_cast<const QStyleOptionToolButton*>(option);
        if (!button)
            break;
        QStyleOptionToolButton label(*button);
        drawPrimitive(PE_PanelButtonTool, &label, painter, widget);
        if (label.features.testFlag(QStyleOptionToolButton::HasMenu) &&
            label.toolButtonStyle != Qt::ToolButtonIconOnly && !widget->property("noArrow").toBool()) {
            drawChevron(painter, QRectF(label.rect.right() - 16, label.rect.top(), 12, label.rect.height()),
                        Qt::DownArrow, colors().muted);
            label.rect.adjust(0, 0, -metrics::padding, 0);
        }
        if (!label.state.testFlag(State_MouseOver) && !label.state.testFlag(State_On))
            label.palette.setColor(QPalette::ButtonText, colors().muted);
        drawControl(CE_ToolButtonLabel, &label, painter, widget);
        return;
    }
    default:
        break;
    }
    QProxyStyle::drawComplexControl(control, option, painter, widget);
}

void Style::drawScrollBar(const QStyleOptionComplex* option, QPainter* painter, const QWidget* widget) const
{
    const auto* bar = qstyleoption_cast<const QStyleOptionSlider*>(option);
    if (!bar || bar->maximum <= bar->minimum)
        return;
    const Colors& c = colors();
    const bool hovered = bar->state.testFlag(State_MouseOver) || bar->state.testFlag(State_Sunken);
    QRect slider = subControlRect(CC_ScrollBar, option, SC_ScrollBarSlider, widget);
    const int thickness = hovered ? 6 : 4;
    if (bar->orientation == Qt::Vertical)
        slider = QRect(slider.right() - 1 - thickness, slider.top() + 2, thickness, slider.height() - 4);
    else
        slider = QRect(slider.left() + 2, slider.bottom() - 1 - thickness, slider.width() - 4, thickness);
    strokedRoundRect(painter, slider, thickness / 2.0, mixed(c.panel, c.muted, hovered ? 0.7 : 0.4), QColor());
}

void Style::drawComboBox(const QStyleOptionComplex* option, QPainter* painter, const QWidget* widget) const
{
    const auto* box = qstyleoption_cast<const QStyleOptionComboBox*>(option);
    if (!box)
        return;
    const Colors& c = colors();
    const bool enabled = box->state.testFlag(State_Enabled);
    const bool hovered = enabled && box->state.testFlag(State_MouseOver);
    const bool focus = box->state.testFlag(State_HasFocus) && (box->editable || keyboardFocus(box));
    strokedRoundRect(painter, box->rect, metrics::radius,
                     box->editable ? c.background
                     : hovered     ? c.hover
                                   : c.raised,
                     focus ? c.accent : c.line);
    drawChevron(painter, subControlRect(CC_ComboBox, box, SC_ComboBoxArrow, widget), Qt::DownArrow,
                enabled ? c.muted : c.line);
}

void Style::drawSpinBox(const QStyleOptionComplex* option, QPainter* painter, const QWidget* widget) const
{
    const auto* box = qstyleoption_cast<const QStyleOptionSpinBox*>(option);
    if (!box)
        return;
    const Colors& c = colors();
    const bool enabled = box->state.testFlag(State_Enabled);
    const bool hovered = enabled && box->state.testFlag(State_MouseOver);
    strokedRoundRect(painter, box->rect, metrics::radius, enabled ? c.background : c.panel,
                     box->state.testFlag(State_HasFocus) ? c.accent
                     : hovered                           ? mixed(c.line, c.muted, 0.35)
                                                         : c.line);
    const std::pair<SubControl, QAbstractSpinBox::StepEnabledFlag> steps[] = {
        {SC_SpinBoxUp, QAbstractSpinBox::StepUpEnabled}, {SC_SpinBoxDown, QAbstractSpinBox::StepDownEnabled}};
    for (const auto& [part, flag] : steps) {
        const bool over = hovered && box->activeSubControls == part;
        // The two stand close together, about the middle.
        const QRect rect = subControlRect(CC_SpinBox, box, part, widget).translated(0, part == SC_SpinBoxUp ? 2 : -2);
        drawChevron(painter, rect, part == SC_SpinBoxUp ? Qt::UpArrow : Qt::DownArrow,
                    !enabled || !box->stepEnabled.testFlag(flag) ? c.line
                    : over                                       ? c.text
                                                                 : c.muted);
    }
}

} // namespace octavo::ui
