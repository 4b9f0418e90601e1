#include "ui/wizard/left_out_model.h"

#include "ui/controls.h"
#include "ui/problem_text.h"

namespace octavo::ui {

void LeftOutModel::setFiles(const QList<agents::SkippedFile>& files)
{
    beginResetModel();
    m_files = files;
    endResetModel();
}

int LeftOutModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : int(m_files.size());
}

int LeftOutModel::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : int(numColumns);
}

QVariant LeftOutModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    const agents::SkippedFile& file = m_files[index.row()];
    switch (role) {
    case Qt::DisplayRole:
        return index.column() == PathColumn ? file.displayPath : problemText(file.reason);
    case Qt::AccessibleTextRole:
        return tr("%1: %2").arg(file.displayPath, problemText(file.reason));
    case Qt::ToolTipRole:
        return plainTip(tr("%1: %2").arg(file.displayPath, problemText(file.reason)));
    default:
        return {};
    }
}

} // namespace octavo::ui
