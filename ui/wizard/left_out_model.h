#pragma once

/// The files that cannot be read, and why, as a list of two columns.

#include "agents/values.h"

#include <QAbstractTableModel>

namespace octavo::ui {

class LeftOutModel final : public QAbstractTableModel
{
    Q_OBJECT

public:
    enum Column { PathColumn, ReasonColumn, numColumns };

    using QAbstractTableModel::QAbstractTableModel;

    void setFiles(const QList<agents::SkippedFile>& files);
    const QList<agents::SkippedFile>& files() const { return m_files; }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;

private:
    QList<agents::SkippedFile> m_files;
};

} // namespace octavo::ui
