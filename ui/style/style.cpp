/// How large things are and how they behave. Where their parts lie stands in geometry.cpp, what they look like in
/// primitives.cpp, items.cpp and fields.cpp.

#include "ui/style/style.h"

#include "ui/controls.h"
#include "ui/style/shapes.h"
#include "ui/theme.h"

#include <QAbstractButton>
#include <QComboBox>
#include <QMenu>
#include <QScrollBar>
#include <QStyleFactory>
#include <QStyleOption>

namespace octavo::ui {
namespace {

constexpr int scrollBarWidth = 10;

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

QIcon Style::standardIcon(StandardPixmap standard, const QStyleOption* option, const QWidget* widget) const
{
    return standard == SP_LineEditClearButton ? icon(QStringLiteral("close"))
                                              : QProxyStyle::standardIcon(standard, option, widget);
}

} // namespace octavo::ui
