#include "ui/style.h"

#include "ui/controls.h"
#include "ui/theme.h"

#include <QAbstractButton>
#include <QAbstractItemView>
#include <QComboBox>
#include <QLineEdit>
#include <QMenu>
#include <QPainter>
#include <QPainterPath>
#include <QScrollBar>
#include <QStyleFactory>
#include <QStyleOption>
#include <QToolButton>

namespace octavo::ui {
namespace {

constexpr int scrollBarWidth = 10;
constexpr int menuItemPadding = 10;
constexpr int menuIconColumn = 22;

void strokedRoundRect(QPainter* painter, const QRect& rect, qreal radius, const QColor& fill, const QColor& line)
{
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(line.isValid() ? QPen(line, 1) : QPen(Qt::NoPen));
    painter->setBrush(fill.isValid() ? QBrush(fill) : QBrush(Qt::NoBrush));
    const QRectF r = line.isValid() ? QRectF(rect).adjusted(0.5, 0.5, -0.5, -0.5) : QRectF(rect);
    painter->drawRoundedRect(r, radius, radius);
    painter->restore();
}

bool keyboardFocus(const QStyleOption* option)
{
    return option->state.testFlag(QStyle::State_HasFocus) && option->state.testFlag(QStyle::State_KeyboardFocusChange);
}

void drawChevron(QPainter* painter, const QRectF& rect, Qt::ArrowType direction, const QColor& color)
{
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(QPen(color, 1.5, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    painter->translate(rect.center());
    switch (direction) {
    case Qt::UpArrow:
        painter->rotate(180);
        break;
    case Qt::LeftArrow:
        painter->rotate(90);
        break;
    case Qt::RightArrow:
        painter->rotate(-90);
        break;
    default:
        break;
    }
    painter->drawPolyline(QPolygonF{{-3.5, -1.75}, {0, 1.75}, {3.5, -1.75}});
    painter->restore();
}

} // namespace

Style::Style()
    : QProxyStyle(QStringLiteral("Fusion"))
{
}

void Style::polish(QWidget* widget)
{
    QProxyStyle::polish(widget);
    if (qobject_cast<QAbstractButton*>(widget) || qobject_cast<QScrollBar*>(widget) || qobject_cast<QComboBox*>(widget))
        widget->setAttribute(Qt::WA_Hover);
    if (qobject_cast<QMenu*>(widget))
        widget->setAttribute(Qt::WA_TranslucentBackground);
}

int Style::pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const
{
    switch (metric) {
    case PM_ScrollBarExtent:
        return scrollBarWidth;
    case PM_ScrollBarSliderMin:
        return 32;
    case PM_ScrollView_ScrollBarSpacing:
        return 0;
    case PM_ButtonMargin:
        return 2 * metrics::padding;
    case PM_ButtonShiftHorizontal:
    case PM_ButtonShiftVertical:
        return 0;
    case PM_ToolBarIconSize:
    case PM_ButtonIconSize:
    case PM_SmallIconSize:
        return qRound(16 * Theme::instance()->textScale());
    case PM_LayoutHorizontalSpacing:
    case PM_LayoutVerticalSpacing:
        return metrics::gap;
    case PM_LayoutLeftMargin:
    case PM_LayoutRightMargin:
    case PM_LayoutTopMargin:
    case PM_LayoutBottomMargin:
        return metrics::padding;
    case PM_FocusFrameHMargin: // beside the text of a list's rows
        return metrics::gap - 1;
    case PM_SplitterWidth:
    case PM_DockWidgetSeparatorExtent:
        return 6;
    case PM_DockWidgetFrameWidth:
        return 0;
    case PM_IndicatorWidth:
    case PM_IndicatorHeight:
    case PM_ExclusiveIndicatorWidth:
    case PM_ExclusiveIndicatorHeight:
        return qRound(16 * Theme::instance()->textScale());
    case PM_CheckBoxLabelSpacing:
    case PM_RadioButtonLabelSpacing:
        return metrics::gap;
    case PM_MenuPanelWidth:
        return 1;
    case PM_MenuHMargin:
    case PM_MenuVMargin:
        return metrics::grid;
    case PM_TabBarTabHSpace:
        return 2 * metrics::padding;
    case PM_TabBarTabVSpace:
        return metrics::padding;
    case PM_TabBarTabShiftVertical:
    case PM_TabBarTabShiftHorizontal:
        return 0;
    case PM_DefaultFrameWidth:
        return qobject_cast<const QComboBox*>(widget) ? 0 : 1;
    case PM_TreeViewIndentation:
        return 18;
    default:
        return QProxyStyle::pixelMetric(metric, option, widget);
    }
}

int Style::styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                     QStyleHintReturn* returned) const
{
    switch (hint) {
    case SH_DialogButtonBox_ButtonsHaveIcons:
        return 0;
    case SH_ScrollBar_Transient:
        return 0;
    case SH_ScrollBar_LeftClickAbsolutePosition:
        return 0;
    case SH_EtchDisabledText:
        return 0;
    case SH_ComboBox_Popup:
        return 0;
    case SH_Menu_SubMenuPopupDelay:
        return 120;
    case SH_ToolTip_WakeUpDelay:
        return 500;
    case SH_Widget_Animate:
    case SH_Widget_Animation_Duration:
        return 0;
    case SH_UnderlineShortcut:
        return 0;
    case SH_ItemView_ShowDecorationSelected:
        return 1;
    case SH_ItemView_ActivateItemOnSingleClick:
        return 0;
    default:
        return QProxyStyle::styleHint(hint, option, widget, returned);
    }
}

QSize Style::sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& contents,
                              const QWidget* widget) const
{
    const int control = qMax(metrics::controlHeight, option ? option->fontMetrics.height() + 10 : 0);
    switch (type) {
    case CT_PushButton: {
        QSize size = contents + QSize(2 * metrics::padding - metrics::grid, 0);
        const auto* button = qstyleoption_cast<const QStyleOptionButton*>(option);
        if (button && button->text.isEmpty())
            size.setWidth(control);
        if (button && button->features.testFlag(QStyleOptionButton::HasMenu))
            size.rwidth() += metrics::padding;
        size.setHeight(control);
        return size;
    }
    case CT_ToolButton: {
        const auto* button = qstyleoption_cast<const QStyleOptionToolButton*>(option);
        QSize size = contents + QSize(metrics::gap, metrics::gap);
        if (button && button->toolButtonStyle != Qt::ToolButtonIconOnly)
            size.rwidth() += metrics::gap;
        return size.expandedTo(QSize(24, 24));
    }
    case CT_LineEdit:
        return QSize(contents.width() + 2 * metrics::gap, control);
    case CT_ComboBox:
        return QSize(contents.width() + 40, control);
    case CT_SpinBox:
        return QSize(contents.width() + 48, control);
    case CT_MenuItem: {
        const auto* item = qstyleoption_cast<const QStyleOptionMenuItem*>(option);
        if (item && item->menuItemType == QStyleOptionMenuItem::Separator)
            return QSize(contents.width(), 2 * metrics::grid + 1);
        QSize size = QProxyStyle::sizeFromContents(type, option, contents, widget);
        return QSize(size.width() + menuIconColumn + menuItemPadding, qMax(control, size.height()));
    }
    case CT_ItemViewItem: {
        QSize size = QProxyStyle::sizeFromContents(type, option, contents, widget);
        return QSize(size.width(), qMax(size.height(), option->fontMetrics.height() + 10));
    }
    case CT_HeaderSection: {
        QSize size = QProxyStyle::sizeFromContents(type, option, contents, widget);
        return QSize(size.width() + metrics::gap, qMax(size.height(), control));
    }
    default:
        return QProxyStyle::sizeFromContents(type, option, contents, widget);
    }
}

QRect Style::subElementRect(SubElement element, const QStyleOption* option, const QWidget* widget) const
{
    if (element == SE_HeaderLabel) // in line with the text of the rows below
        return option->rect.adjusted(metrics::gap, 0, -metrics::gap, 0);
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
            return visualRect(option->direction, r, r.adjusted(metrics::gap + 2, 1, -26, -1));
        default:
            break;
        }
    }
    return QProxyStyle::subControlRect(control, option, part, widget);
}

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

QIcon Style::standardIcon(StandardPixmap standard, const QStyleOption* option, const QWidget* widget) const
{
    return standard == SP_LineEditClearButton ? icon(QStringLiteral("close"))
                                              : QProxyStyle::standardIcon(standard, option, widget);
}

} // namespace octavo::ui
