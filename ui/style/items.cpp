/// Labels of buttons, bars, menus, tabs and headers.

#include "ui/style/style.h"

#include "ui/controls.h"
#include "ui/style/shapes.h"
#include "ui/theme.h"

namespace octavo::ui {

void Style::drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                        const QWidget* widget) const
{
    const Colors& c = colors();
    switch (element) {
    case CE_PushButtonLabel: {
        const auto* button = qstyleoption_cast<const QStyleOptionButton*>(option);
        if (!button)
            break;
        QStyleOptionButton label(*button);
        const ButtonKind kind = buttonKind(widget);
        if (kind == ButtonKind::Primary)
            label.palette.setColor(QPalette::ButtonText, c.onAccent);
        else if (kind == ButtonKind::Danger)
            label.palette.setColor(QPalette::ButtonText, c.badText);
        else if (kind == ButtonKind::Quiet && !label.state.testFlag(State_MouseOver) && !label.state.testFlag(State_On))
            label.palette.setColor(QPalette::ButtonText, c.muted);
        if (label.features.testFlag(QStyleOptionButton::HasMenu)) {
            label.features &= ~QStyleOptionButton::ButtonFeatures(QStyleOptionButton::HasMenu);
            drawChevron(painter, QRectF(label.rect.right() - 18, label.rect.top(), 12, label.rect.height()),
                        Qt::DownArrow, c.muted);
            label.rect.adjust(0, 0, -metrics::padding, 0);
        }
        QProxyStyle::drawControl(element, &label, painter, widget);
        return;
    }
    case CE_ComboBoxLabel: {
        const auto* box = qstyleoption_cast<const QStyleOptionComboBox*>(option);
        if (!box)
            break;
        QStyleOptionComboBox label(*box);
        const int room = subControlRect(CC_ComboBox, &label, SC_ComboBoxEditField, widget).width() - 2;
        label.currentText = label.fontMetrics.elidedText(label.currentText, Qt::ElideRight, room);
        QProxyStyle::drawControl(element, &label, painter, widget);
        return;
    }
    case CE_PushButtonBevel: // the label draws the arrow of a menu
        drawButton(option, painter, widget);
        return;
    case CE_ProgressBarGroove:
        strokedRoundRect(painter, option->rect, option->rect.height() / 2.0, c.track, QColor());
        return;
    case CE_ProgressBarContents: {
        const auto* bar = qstyleoption_cast<const QStyleOptionProgressBar*>(option);
        if (!bar || bar->maximum <= bar->minimum)
            return;
        QRect r = bar->rect;
        const double part = double(bar->progress - bar->minimum) / double(bar->maximum - bar->minimum);
        r.setWidth(qMax(int(r.width() * part), part > 0 ? r.height() : 0));
        strokedRoundRect(painter, visualRect(bar->direction, bar->rect, r), r.height() / 2.0, c.accent, QColor());
        return;
    }
    case CE_MenuItem:
        drawMenuItem(option, painter, widget);
        return;
    case CE_MenuEmptyArea:
        return;
    case CE_TabBarTabShape:
        drawTab(option, painter);
        return;
    case CE_HeaderSection:
    case CE_HeaderEmptyArea:
        painter->fillRect(option->rect, c.panel);
        painter->fillRect(QRect(option->rect.left(), option->rect.bottom(), option->rect.width(), 1), c.line);
        return;
    case CE_HeaderLabel: {
        const auto* header = qstyleoption_cast<const QStyleOptionHeader*>(option);
        if (!header)
            return;
        painter->setFont(ui::font(TextRole::Small));
        painter->setPen(c.muted);
        const QRect text = subElementRect(SE_HeaderLabel, option, widget);
        painter->drawText(text, int(header->textAlignment) | Qt::AlignVCenter | Qt::TextSingleLine,
                          painter->fontMetrics().elidedText(header->text, Qt::ElideRight, text.width()));
        return;
    }
    case CE_Splitter:
        return;
    case CE_DockWidgetTitle:
        return;
    case CE_SizeGrip:
        return;
    case CE_RubberBand:
        painter->fillRect(option->rect, QColor(c.accent.red(), c.accent.green(), c.accent.blue(), 50));
        return;
    default:
        break;
    }
    QProxyStyle::drawControl(element, option, painter, widget);
}

void Style::drawMenuItem(const QStyleOption* option, QPainter* painter, const QWidget* widget) const
{
    const Colors& c = colors();
    const auto* item = qstyleoption_cast<const QStyleOptionMenuItem*>(option);
    if (!item)
        return;
    const QRect r = item->rect;
    if (item->menuItemType == QStyleOptionMenuItem::Separator) {
        painter->fillRect(QRect(r.left() + metrics::gap, r.center().y(), r.width() - 2 * metrics::gap, 1), c.line);
        return;
    }
    const bool enabled = item->state.testFlag(State_Enabled);
    if (item->state.testFlag(State_Selected) && enabled)
        strokedRoundRect(painter, r.adjusted(metrics::grid, 0, -metrics::grid, 0), metrics::radius - 1, c.hover,
                         QColor());
    const QColor textColor = enabled ? c.text : mixed(c.raised, c.muted, 0.65);
    const int column = int(menuIconColumn * Theme::instance()->textScale());
    const QRect mark(r.left() + menuItemPadding, r.top(), column, r.height());
    if (item->checkType != QStyleOptionMenuItem::NotCheckable && item->checked) {
        painter->save();
        painter->setRenderHint(QPainter::Antialiasing);
        painter->setPen(QPen(c.accentText, 1.8, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
        const QPointF m = QRectF(mark).center() - QPointF(4, 0);
        painter->drawPolyline(QPolygonF{m + QPointF(-4, 0), m + QPointF(-1, 3), m + QPointF(5, -4)});
        painter->restore();
    } else if (!item->icon.isNull()) {
        const int side = 16;
        item->icon.paint(painter, QRect(mark.left(), mark.center().y() - side / 2 + 1, side, side), Qt::AlignCenter,
                         enabled ? QIcon::Normal : QIcon::Disabled);
    }
    const QStringList parts = item->text.split(QLatin1Char('\t'));
    const QRect text(mark.right() + 2, r.top(), r.right() - mark.right() - menuItemPadding - metrics::gap, r.height());
    painter->setFont(item->font);
    painter->setPen(textColor);
    painter->drawText(text, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextHideMnemonic | Qt::TextSingleLine,
                      parts.value(0));
    if (parts.size() > 1) {
        painter->setPen(enabled ? c.muted : textColor);
        painter->drawText(text, Qt::AlignVCenter | Qt::AlignRight | Qt::TextSingleLine, parts.value(1));
    }
    if (item->menuItemType == QStyleOptionMenuItem::SubMenu)
        drawChevron(painter, QRectF(text.right() - 8, r.top(), 12, r.height()), Qt::RightArrow, c.muted);
    Q_UNUSED(widget)
}

void Style::drawTab(const QStyleOption* option, QPainter* painter) const
{
    const Colors& c = colors();
    const bool selected = option->state.testFlag(State_Selected);
    if (option->state.testFlag(State_MouseOver) && !selected)
        strokedRoundRect(painter, option->rect.adjusted(2, 4, -2, -4), metrics::radius, c.hover, QColor());
    if (selected)
        painter->fillRect(QRect(option->rect.left() + metrics::gap, option->rect.bottom() - 1,
                                option->rect.width() - 2 * metrics::gap, 2),
                          c.accent);
    if (keyboardFocus(option))
        strokedRoundRect(painter, option->rect.adjusted(2, 4, -2, -4), metrics::radius, QColor(), c.accent);
}

} // namespace octavo::ui
