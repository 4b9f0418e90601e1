#pragma once

/// The contexts kept on disk as rows: repository and commit, tokens, size, last used, and what is wrong with one.

#include "agents/saved_contexts.h"

#include <QAbstractTableModel>

namespace octavo::ui {

class SavedContextsModel final : public QAbstractTableModel
{
    Q_OBJECT

public:
    enum Column { ContextColumn, TokensColumn, SizeColumn, UsedColumn, StateColumn, numColumns };

    using QAbstractTableModel::QAbstractTableModel;

    void setContexts(const QList<agents::SavedContextFile>& contexts);
    const QList<agents::SavedContextFile>& contexts() const { return m_contexts; }
    /// Shows what verifying found; a context that has left the list meanwhile is passed over.
    void update(const agents::SavedContextFile& context);
    qint64 bytes() const; ///< of all files
    int rowOf(const std::filesystem::path& file) const; ///< -1: not here

    /// "leveldb @ 7ee830d", or the file's name where its head cannot be read.
    static QString title(const agents::SavedContextFile& context);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

private:
    QList<agents::SavedContextFile> m_contexts;
};

} // namespace octavo::ui
