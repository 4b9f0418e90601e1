/// Frames, panels, buttons and marks.

#include "ui/style/style.h"

#include "ui/controls.h"
#include "ui/style/shapes.h"
#include "ui/theme.h"

namespace octavo::ui {

void Style::drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                          const QWidget* widget) const
{
    const Colors& c = colors();
    const bool enabled = option->state.testFlag(State_Enabled);
    const bool hovered = enabled && option->state.testFlag(State_MouseOver);
    switch (element) {
    case PE_PanelButtonCommand:
    case PE_PanelButtonBevel:
    case PE_PanelButtonTool:
        drawButton(option, painter, widget);
        return;
    case PE_FrameDefaultButton:
    case PE_FrameFocusRect: // drawn by the controls themselves
        return;
    case PE_PanelLineEdit:
    case PE_FrameLineEdit: {
        const auto* frame = qstyleoption_cast<const QStyleOptionFrame*>(option);
        if (frame && frame->lineWidth == 0 && element == PE_PanelLineEdit)
            return;
        const bool focus = option->state.testFlag(State_HasFocus);
        strokedRoundRect(painter, option->rect, metrics::radius, enabled ? c.background : c.panel,
                         focus     ? c.accent
                         : hovered ? mixed(c.line, c.muted, 0.35)
                                   : c.line);
        return;
    }
    case PE_Frame:
        strokedRoundRect(painter, option->rect, metrics::radius, QColor(), c.line);
        return;
    case PE_FrameMenu:
    case PE_PanelScrollAreaCorner:
        return;
    case PE_PanelMenu:
        strokedRoundRect(painter, option->rect, metrics::cardRadius, c.raised, c.line);
        return;
    case PE_PanelTipLabel:
        painter->fillRect(option->rect, c.raised);
        painter->setPen(c.line);
        painter->drawRect(option->rect.adjusted(0, 0, -1, -1));
        return;
    case PE_FrameGroupBox:
        strokedRoundRect(painter, option->rect, metrics::cardRadius, c.panel, c.line);
        return;
    case PE_FrameTabWidget:
    case PE_FrameTabBarBase:
        painter->fillRect(QRect(option->rect.left(), option->rect.bottom(), option->rect.width(), 1), c.line);
        return;
    case PE_FrameDockWidget:
    case PE_FrameStatusBarItem:
        return;
    case PE_IndicatorCheckBox:
    case PE_IndicatorItemViewItemCheck:
        drawCheckMark(option, painter, false);
        return;
    case PE_IndicatorRadioButton:
        drawCheckMark(option, painter, true);
        return;
    case PE_IndicatorArrowDown:
        drawChevron(painter, option->rect, Qt::DownArrow, c.muted);
        return;
    case PE_IndicatorArrowUp:
        drawChevron(painter, option->rect, Qt::UpArrow, c.muted);
        return;
    case PE_IndicatorArrowLeft:
        drawChevron(painter, option->rect, Qt::LeftArrow, c.muted);
        return;
    case PE_IndicatorArrowRight:
        drawChevron(painter, option->rect, Qt::RightArrow, c.muted);
        return;
    case PE_IndicatorBranch:
        if (option->state.testFlag(State_Children))
            drawChevron(painter, option->rect, option->state.testFlag(State_Open) ? Qt::DownArrow : Qt::RightArrow,
                        hovered ? c.text : c.muted);
        return;
    case PE_IndicatorDockWidgetResizeHandle:
        return;
    case PE_PanelItemViewRow: // beside an item: the indentation of a tree
        if (option->state.testFlag(State_Selected))
            painter->fillRect(option->rect, c.question);
        return;
    case PE_PanelItemViewItem: {
        const auto* item = qstyleoption_cast<const QStyleOptionViewItem*>(option);
        if (!item)
            return;
        QColor fill;
        if (item->state.testFlag(State_Selected))
            fill = c.question;
        else if (hovered)
            fill = mixed(c.panel, c.hover, 0.6);
        if (fill.isValid())
            painter->fillRect(item->rect, fill);
        if (item->backgroundBrush.style() != Qt::NoBrush)
            painter->fillRect(item->rect, item->backgroundBrush);
        return;
    }
    default:
        QProxyStyle::drawPrimitive(element, option, painter, widget);
    }
}

void Style::drawButton(const QStyleOption* option, QPainter* painter, const QWidget* widget) const
{
    const Colors& c = colors();
    const ButtonKind kind = buttonKind(widget);
    const bool enabled = option->state.testFlag(State_Enabled);
    const bool down = option->state.testFlag(State_Sunken);
    const bool on = option->state.testFlag(State_On);
    const bool hovered = enabled && option->state.testFlag(State_MouseOver);
    QColor fill, line;
    switch (kind) {
    case ButtonKind::Primary:
        fill = enabled ? c.accent : mixed(c.panel, c.accent, 0.35);
        if (hovered)
            fill = mixed(fill, c.text, 0.12);
        line = fill;
        break;
    case ButtonKind::Danger:
        fill = hovered ? mixed(c.panel, c.bad, 0.16) : c.raised;
        line = c.bad;
        break;
    case ButtonKind::Normal:
        fill = hovered ? c.hover : c.raised;
        line = c.line;
        break;
    case ButtonKind::Quiet:
        fill = hovered || down ? c.hover : QColor();
        break;
    }
    if (on && kind != ButtonKind::Primary) {
        fill = c.question;
        line = kind == ButtonKind::Quiet ? QColor() : mixed(c.line, c.accent, 0.6);
    }
    if (down && fill.isValid())
        fill = mixed(fill, c.background, 0.25);
    if (keyboardFocus(option))
        line = c.accent;
    strokedRoundRect(painter, option->rect, metrics::radius, fill, line);
    if (keyboardFocus(option) && kind == ButtonKind::Primary)
        strokedRoundRect(painter, option->rect.adjusted(2, 2, -2, -2), metrics::radius - 2, QColor(), c.onAccent);
}

void Style::drawCheckMark(const QStyleOption* option, QPainter* painter, bool round) const
{
    const Colors& c = colors();
    const bool enabled = option->state.testFlag(State_Enabled);
    const bool on = option->state.testFlag(State_On);
    const bool partly = option->state.testFlag(State_NoChange);
    const int side = qMin(option->rect.width(), option->rect.height());
    const QRect box(option->rect.left() + (option->rect.width() - side) / 2,
                    option->rect.top() + (option->rect.height() - side) / 2, side, side);
    const QColor accent = enabled ? c.accent : mixed(c.panel, c.accent, 0.4);
    const QColor line = on || partly ? accent : keyboardFocus(option) ? c.accent : mixed(c.line, c.muted, 0.45);
    const qreal radius = round ? side / 2.0 : 4;
    strokedRoundRect(painter, box, radius, on || partly ? accent : c.background, line);
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    const QRectF b(box);
    if (partly) {
        painter->fillRect(QRectF(b.left() + side * 0.28, b.center().y() - 0.75, side * 0.44, 1.8), c.onAccent);
    } else if (on && round) {
        painter->setPen(Qt::NoPen);
        painter->setBrush(c.onAccent);
        painter->drawEllipse(b.center(), side * 0.19, side * 0.19);
    } else if (on) {
        painter->setPen(QPen(c.onAccent, 1.8, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
        painter->drawPolyline(QPolygonF{{b.left() + side * 0.26, b.top() + side * 0.52},
                                        {b.left() + side * 0.43, b.top() + side * 0.68},
                                        {b.left() + side * 0.74, b.top() + side * 0.34}});
    }
    if (keyboardFocus(option) && (on || partly))
        strokedRoundRect(painter, box.adjusted(-2, -2, 2, 2), radius + 2, QColor(), c.accent);
    painter->restore();
}

} // namespace octavo::ui
