#include "ui/sidebar/list_delegates.h"

#include "agents/values.h"
#include "ui/sidebar/context_model.h"
#include "ui/sidebar/history_model.h"
#include "ui/theme.h"

#include <QPainter>

namespace octavo::ui {
namespace {

constexpr int sidePadding = 8, linePadding = 8;

void paintRow(QPainter* painter, const QStyleOptionViewItem& option)
{
    QColor fill;
    if (option.state & QStyle::State_Selected)
        fill = colors().question;
    else if (option.state & QStyle::State_MouseOver)
        fill = mixed(colors().panel, colors().hover, 0.7);
    painter->setRenderHint(QPainter::Antialiasing);
    if (fill.isValid()) {
        painter->setPen(Qt::NoPen);
        painter->setBrush(fill);
        painter->drawRoundedRect(option.rect, metrics::radius, metrics::radius);
    }
    if ((option.state & QStyle::State_HasFocus) && (option.state & QStyle::State_KeyboardFocusChange)) {
        painter->setPen(colors().accent);
        painter->setBrush(Qt::NoBrush);
        painter->drawRoundedRect(QRectF(option.rect).adjusted(0.5, 0.5, -0.5, -0.5), metrics::radius, metrics::radius);
    }
}

int lineHeight(TextRole role)
{
    return QFontMetrics(font(role)).height() + 2;
}

} // namespace

QSize ContextDelegate::sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const
{
    return {100, lineHeight(TextRole::BodyStrong) + lineHeight(TextRole::Small) + 2 * linePadding};
}

void ContextDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    painter->save();
    paintRow(painter, option);
    const QRect inner = option.rect.adjusted(sidePadding, linePadding, -sidePadding, -linePadding);
    const QRect first(inner.left(), inner.top(), inner.width(), lineHeight(TextRole::BodyStrong));
    const QFont strong = font(TextRole::BodyStrong), small = font(TextRole::Small);
    const QFontMetrics strongMetrics(strong), smallMetrics(small);
    const QString name =
        strongMetrics.elidedText(index.data(ContextModel::NameRole).toString(), Qt::ElideRight, inner.width() * 7 / 10);
    painter->setFont(strong);
    painter->setPen(colors().text);
    painter->drawText(first, Qt::AlignLeft | Qt::AlignVCenter, name);
    // Both texts of the line stand on one baseline.
    const int x = first.left() + strongMetrics.horizontalAdvance(name) + 6;
    const int baseline = first.top() + (first.height() - strongMetrics.height()) / 2 + strongMetrics.ascent();
    painter->setFont(small);
    painter->setPen(colors().muted);
    const QString where =
        smallMetrics.elidedText(index.data(ContextModel::WhereRole).toString(), Qt::ElideRight, inner.right() - x);
    painter->drawText(QPoint(x, baseline), where);
    const auto state = agents::ContextState(index.data(ContextModel::StateRole).toInt());
    if (state == agents::ContextState::Failed)
        painter->setPen(colors().badText);
    const QRect second(inner.left(), first.bottom() + 1, inner.width(), lineHeight(TextRole::Small));
    painter->drawText(
        second, Qt::AlignLeft | Qt::AlignVCenter,
        smallMetrics.elidedText(index.data(ContextModel::FiguresRole).toString(), Qt::ElideRight, second.width()));
    painter->restore();
}

QSize HistoryDelegate::sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const
{
    return {100, lineHeight(TextRole::Body) + 2 * linePadding - 2};
}

void HistoryDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const
{
    painter->save();
    paintRow(painter, option);
    const QRect inner = option.rect.adjusted(sidePadding, 0, -sidePadding, 0);
    const QFont small = font(TextRole::Small), body = font(TextRole::Body);
    const QString age = index.data(HistoryModel::AgeRole).toString();
    const int ageWidth = QFontMetrics(small).horizontalAdvance(age);
    painter->setFont(small);
    painter->setPen(colors().muted);
    painter->drawText(inner, Qt::AlignRight | Qt::AlignVCenter, age);
    painter->setFont(body);
    painter->setPen(colors().text);
    const int room = inner.width() - ageWidth - 8;
    painter->drawText(inner, Qt::AlignLeft | Qt::AlignVCenter,
                      QFontMetrics(body).elidedText(index.data(Qt::DisplayRole).toString(), Qt::ElideRight, room));
    painter->restore();
}

} // namespace octavo::ui
