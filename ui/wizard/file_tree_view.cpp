#include "ui/wizard/file_tree_view.h"

#include "ui/controls.h"
#include "ui/wizard/file_tree_model.h"

#include <QApplication>
#include <QHeaderView>
#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>

namespace octavo::ui {

namespace {

constexpr int barWidth = 90;
constexpr int barHeight = 5;

class FileDelegate final : public QStyledItemDelegate
{
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override
    {
        QSize size = QStyledItemDelegate::sizeHint(option, index);
        size.setHeight(QFontMetrics(ui::font(TextRole::Body)).height() + 12);
        return size;
    }

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override
    {
        QStyleOptionViewItem item = option;
        initStyleOption(&item, index);
        const bool allowed = index.data(FileTreeModel::AllowedRole).toBool();
        const QStyle* style = item.widget ? item.widget->style() : QApplication::style();
        const Colors& c = colors();
        if (index.column() == FileTreeModel::NameColumn) {
            item.font = ui::font(TextRole::Body);
            item.palette.setColor(QPalette::Text, allowed ? c.text : c.muted);
            const QString name = item.text;
            item.text.clear();
            style->drawControl(QStyle::CE_ItemViewItem, &item, painter, item.widget);
            item.text = name;
            const QRect text =
                style->subElementRect(QStyle::SE_ItemViewItemText, &item, item.widget);
            painter->setFont(item.font);
            painter->setPen(allowed ? c.text : c.muted);
            const QFontMetrics body = painter->fontMetrics();
            const QString shown = body.elidedText(name, Qt::ElideMiddle, text.width());
            painter->drawText(text, Qt::AlignLeft | Qt::AlignVCenter, shown);
            if (const int files = index.data(FileTreeModel::FilesRole).toInt(); files > 0) {
                painter->setFont(ui::font(TextRole::Small));
                painter->setPen(c.muted);
                painter->drawText(text.adjusted(body.horizontalAdvance(shown) + 12, 0, 0, 0),
                                  Qt::AlignLeft | Qt::AlignVCenter, FileTreeModel::tr("%Ln files", nullptr, files));
            }
        } else {
            item.text.clear();
            style->drawControl(QStyle::CE_ItemViewItem, &item, painter, item.widget);
            painter->setFont(ui::font(TextRole::Figure));
            painter->setPen(allowed ? c.text : c.muted);
            const QRect cell = option.rect.adjusted(0, 0, -metrics::padding, 0);
            painter->drawText(cell, Qt::AlignRight | Qt::AlignVCenter, index.data().toString());
            const QRectF bar(option.rect.left(), option.rect.center().y() - barHeight / 2.0 + 1, barWidth, barHeight);
            painter->save();
            painter->setRenderHint(QPainter::Antialiasing);
            painter->setPen(Qt::NoPen);
            painter->setBrush(c.track);
            painter->drawRoundedRect(bar, barHeight / 2.0, barHeight / 2.0);
            const double share = index.data(FileTreeModel::ShareRole).toDouble();
            if (share > 0) {
                painter->setBrush(allowed ? c.function : c.muted);
                painter->drawRoundedRect(QRectF(bar.topLeft(), QSizeF(std::max(2.0, share * barWidth), barHeight)),
                                         std::min(barHeight / 2.0, share * barWidth / 2), barHeight / 2.0);
            }
            painter->restore();
        }
        painter->fillRect(QRect(option.rect.left(), option.rect.bottom(), option.rect.width(), 1),
                          mixed(c.background, c.line, 0.6));
    }
};

} // namespace

FileTreeView::FileTreeView(QWidget* parent)
    : QTreeView(parent)
{
    setAccessibleName(tr("Files"));
    setItemDelegate(new FileDelegate(this));
    setUniformRowHeights(true);
    setHeaderHidden(true);
    setFrameShape(QFrame::NoFrame);
    viewport()->setAutoFillBackground(false); // the card's
    setSelectionMode(QAbstractItemView::SingleSelection);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    header()->setStretchLastSection(false);
    header()->setMinimumSectionSize(40);
}

void FileTreeView::setModel(QAbstractItemModel* model)
{
    QTreeView::setModel(model);
    fitColumns();
}

void FileTreeView::fitColumns()
{
    if (!model())
        return;
    const int tokens = barWidth +
                       QFontMetrics(ui::font(TextRole::Figure)).horizontalAdvance(QStringLiteral(" 10,000,000")) +
                       metrics::padding;
    setColumnWidth(FileTreeModel::TokensColumn, tokens);
    setColumnWidth(FileTreeModel::NameColumn, std::max(120, viewport()->width() - tokens));
}

void FileTreeView::resizeEvent(QResizeEvent* event)
{
    QTreeView::resizeEvent(event);
    fitColumns();
}

void FileTreeView::expandLargest()
{
    const QModelIndex root = model()->index(0, 0);
    if (!root.isValid())
        return;
    expand(root);
    int room = viewport()->height() / std::max(1, sizeHintForRow(0)) - 1 - model()->rowCount(root);
    for (int row = 0; row < model()->rowCount(root); ++row) {
        const QModelIndex folder = model()->index(row, 0, root);
        const int rows = model()->rowCount(folder);
        if (rows > 0 && rows <= room && folder.data(FileTreeModel::ShareRole).toDouble() > 0.2) {
            expand(folder);
            room -= rows;
        }
    }
    setCurrentIndex(root);
}

void FileTreeView::keyPressEvent(QKeyEvent* event)
{
    // Space on any column checks the row's box.
    if (event->key() == Qt::Key_Space && currentIndex().isValid()) {
        const QModelIndex box = currentIndex().siblingAtColumn(FileTreeModel::NameColumn);
        if (model()->flags(box) & Qt::ItemIsUserCheckable) {
            const bool checked = box.data(Qt::CheckStateRole).toInt() == Qt::Checked;
            model()->setData(box, checked ? Qt::Unchecked : Qt::Checked, Qt::CheckStateRole);
        }
        return;
    }
    QTreeView::keyPressEvent(event);
}

} // namespace octavo::ui
