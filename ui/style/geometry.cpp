/// Where the parts of a control lie.

#include "ui/style/style.h"

#include "ui/theme.h"

#include <QStyleOption>

namespace octavo::ui {

QRect Style::subElementRect(SubElement element, const QStyleOption* option, const QWidget* widget) const
{
    if (element == SE_HeaderLabel) { // in line with the text of the rows below
        const int margin = pixelMetric(PM_FocusFrameHMargin, option, widget);
        return option->rect.adjusted(margin, 0, -margin, 0);
    }
    if (element == SE_LineEditContents) {
        const QRect inner = option->rect.adjusted(metrics::gap - 2, 0, -(metrics::gap - 2), 0);
        const auto* frame = qstyleoption_cast<const QStyleOptionFrame*>(option);
        return frame && frame->lineWidth == 0 ? option->rect : inner;
    }
    return QProxyStyle::subElementRect(element, option, widget);
}

QRect Style::subControlRect(ComplexControl control, const QStyleOptionComplex* option, SubControl part,
                            const QWidget* widget) const
{
    if (control == CC_ScrollBar) {
        const auto* bar = qstyleoption_cast<const QStyleOptionSlider*>(option);
        if (!bar)
            return {};
        const bool vertical = bar->orientation == Qt::Vertical;
        const QRect r = bar->rect;
        const int length = vertical ? r.height() : r.width();
        const qint64 range = qint64(bar->maximum) - bar->minimum;
        int slider = length;
        if (range > 0) {
            slider = int(qint64(bar->pageStep) * length / (range + bar->pageStep));
            slider = qBound(qMin(32, length), slider, length);
        }
        const int start =
            sliderPositionFromValue(bar->minimum, bar->maximum, bar->sliderPosition, length - slider, bar->upsideDown);
        const auto span = [&](int from, int size) {
            return vertical ? QRect(r.left(), r.top() + from, r.width(), size)
                            : QRect(r.left() + from, r.top(), size, r.height());
        };
        switch (part) {
        case SC_ScrollBarSlider:
            return span(start, slider);
        case SC_ScrollBarSubPage:
            return span(0, start);
        case SC_ScrollBarAddPage:
            return span(start + slider, length - start - slider);
        case SC_ScrollBarGroove:
            return r;
        default:
            return {};
        }
    }
    if (control == CC_SpinBox) {
        const QRect r = option->rect;
        const int half = r.height() / 2;
        switch (part) {
        case SC_SpinBoxFrame:
            return r;
        case SC_SpinBoxUp:
            return visualRect(option->direction, r, QRect(r.right() - 24, r.top(), 24, half));
        case SC_SpinBoxDown:
            return visualRect(option->direction, r, QRect(r.right() - 24, r.top() + half, 24, r.height() - half));
        case SC_SpinBoxEditField:
            return visualRect(option->direction, r, r.adjusted(metrics::gap - 2, 1, -26, -1));
        default:
            break;
        }
    }
    if (control == CC_ComboBox) {
        const QRect r = option->rect;
        switch (part) {
        case SC_ComboBoxFrame:
        case SC_ComboBoxListBoxPopup:
            return r;
        case SC_ComboBoxArrow:
            return visualRect(option->direction, r, QRect(r.right() - 24, r.top(), 24, r.height()));
        case SC_ComboBoxEditField:
            return visualRect(option->direction, r, r.adjusted(metrics::gap - 1, 1, -26, -1)); // text in line with that of fields
        default:
            break;
        }
    }
    return QProxyStyle::subControlRect(control, option, part, widget);
}

} // namespace octavo::ui
