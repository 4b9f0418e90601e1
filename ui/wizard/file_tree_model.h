#pragma once

/// The files of a commit as a tree with check boxes, token counts and shares.
///
/// A file is packed if the globs let it through and its box is checked. Folders sum up what is in them; a chain of
/// folders with nothing else in it is one row ("core/sched/"). Cost     checking a folder is linear in what it holds
/// plus its depth; setAllowed() linear in all files.

#include "agents/values.h"

#include <QAbstractItemModel>
#include <QSet>

#include <vector>

namespace octavo::ui {

class FileTreeModel final : public QAbstractItemModel
{
    Q_OBJECT

public:
    enum Column { NameColumn, TokensColumn, numColumns };
    enum Role {
        TokensRole = Qt::UserRole + 1, ///< qint64, of all files below, packed or not
        FilesRole,                     ///< int; 0 for a file
        ShareRole,                     ///< double, 0..1: tokens against the largest entry at the top
        PathRole,                      ///< QByteArray, of a file
        AllowedRole,                   ///< bool: the globs leave something of it
    };

    struct Folder {
        QString name;
        qint64 tokens = 0; ///< checked
        int rank = 0;      ///< by all its tokens, 0 the largest: what it is coloured by
    };

    using QAbstractItemModel::QAbstractItemModel;

    void setFiles(const QString& rootName, const QList<agents::PackedFile>& files);
    /// allowed[i] tells whether the globs let file i through.
    void setAllowed(const std::vector<bool>& allowed);
    /// Checks exactly the files whose paths are not in `unchecked`.
    void setUnchecked(const QSet<QByteArray>& unchecked);
    void setAllChecked(bool checked);

    const QList<agents::PackedFile>& files() const { return m_files; }
    bool isPacked(int file) const { return m_allowed[std::size_t(file)] && m_checked[std::size_t(file)]; }
    bool isAllowed(int file) const { return m_allowed[std::size_t(file)]; }
    qint64 packedTokens() const { return m_nodes.empty() ? 0 : m_nodes[0].packedTokens; }
    int packedFiles() const { return m_nodes.empty() ? 0 : m_nodes[0].packedFiles; }
    /// Paths whose boxes are unchecked by hand (globs left aside).
    QList<QByteArray> uncheckedPaths() const;
    /// What is packed of each entry at the top, largest first.
    QList<Folder> topFolders() const;

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& index) const override;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role) override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
    /// By name (folders first) or by tokens.
    void sort(int column, Qt::SortOrder order) override;

signals:
    /// What is packed has changed.
    void selectionChanged();

private:
    struct Node {
        QString name;
        int parent = -1;
        int row = 0;
        int file = -1; ///< index of a file; -1: a folder
        std::vector<int> children;
        qint64 tokens = 0, packedTokens = 0;
        int files = 0, allowedFiles = 0, packedFiles = 0;
    };

    int nodeOf(const QModelIndex& index) const { return int(index.internalId()); }
    QModelIndex indexOf(int node, int column) const;
    void sortChildren();
    void foldChains(int node);
    void sumUp();
    void sumUp(int node);
    void sumUpWithin(int node);
    void check(int node, bool checked);
    void tellChanged();
    void tellChangedBelow(int node);
    Qt::CheckState checkState(const Node& node) const;

    QList<agents::PackedFile> m_files;
    std::vector<bool> m_allowed, m_checked;
    std::vector<Node> m_nodes; ///< 0 is the repository
    qint64 m_largest = 1;
    int m_sortColumn = NameColumn;
    Qt::SortOrder m_sortOrder = Qt::AscendingOrder;
};

} // namespace octavo::ui
