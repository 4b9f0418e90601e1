#include "ui/wizard/file_tree_model.h"

#include "ui/controls.h"

#include <QHash>

#include <algorithm>

namespace octavo::ui {

void FileTreeModel::setFiles(const QString& rootName, const QList<agents::PackedFile>& files)
{
    beginResetModel();
    m_files = files;
    m_allowed.assign(std::size_t(files.size()), true);
    m_checked.assign(std::size_t(files.size()), true);
    m_nodes.clear();
    m_nodes.push_back({});
    m_nodes[0].name = rootName + u'/';

    QHash<QByteArray, int> folders{{QByteArray(), 0}};
    // Paths are bytes, and so is what folders are told apart by; names are taken from the escaped form.
    for (int i = 0; i < files.size(); ++i) {
        const agents::PackedFile& file = files[i];
        const QStringList names = file.displayPath.split(u'/');
        int parent = 0;
        qsizetype from = 0;
        for (int depth = 0;; ++depth) {
            const qsizetype slash = file.path.indexOf('/', from);
            const bool isFile = slash < 0;
            const QByteArray key = isFile ? QByteArray() : file.path.left(slash);
            const auto known = isFile ? folders.constEnd() : folders.constFind(key);
            if (known != folders.constEnd()) {
                parent = *known;
            } else {
                const int node = int(m_nodes.size());
                Node added;
                added.name = isFile ? names.value(depth) : names.value(depth) + u'/';
                added.parent = parent;
                added.file = isFile ? i : -1;
                m_nodes.push_back(std::move(added));
                m_nodes[std::size_t(parent)].children.push_back(node);
                if (isFile)
                    break;
                folders.insert(key, node);
                parent = node;
            }
            from = slash + 1;
        }
    }
    foldChains(0);
    sumUp();
    m_largest = 1;
    for (int child : m_nodes[0].children)
        m_largest = std::max(m_largest, m_nodes[std::size_t(child)].tokens);
    sortChildren();
    endResetModel();
    emit selectionChanged();
}

void FileTreeModel::foldChains(int node)
{
    for (int& child : m_nodes[std::size_t(node)].children) {
        while (m_nodes[std::size_t(child)].children.size() == 1) {
            const int only = m_nodes[std::size_t(child)].children[0];
            if (m_nodes[std::size_t(only)].file >= 0)
                break;
            m_nodes[std::size_t(only)].name.prepend(m_nodes[std::size_t(child)].name);
            m_nodes[std::size_t(only)].parent = node;
            m_nodes[std::size_t(child)].children.clear();
            child = only;
        }
        foldChains(child);
    }
}

void FileTreeModel::sumUp(int node)
{
    Node& n = m_nodes[std::size_t(node)];
    n.tokens = n.packedTokens = 0;
    n.files = n.allowedFiles = n.packedFiles = 0;
    if (n.file >= 0) {
        n.tokens = m_files[n.file].tokens;
        n.files = 1;
        n.allowedFiles = m_allowed[std::size_t(n.file)];
        n.packedFiles = isPacked(n.file);
        n.packedTokens = n.packedFiles ? n.tokens : 0;
        return;
    }
    for (int child : n.children) {
        const Node& c = m_nodes[std::size_t(child)];
        n.tokens += c.tokens;
        n.packedTokens += c.packedTokens;
        n.files += c.files;
        n.allowedFiles += c.allowedFiles;
        n.packedFiles += c.packedFiles;
    }
}

void FileTreeModel::sumUpWithin(int node)
{
    for (int child : m_nodes[std::size_t(node)].children)
        sumUpWithin(child);
    sumUp(node);
}

void FileTreeModel::sumUp()
{
    sumUpWithin(0);
}

void FileTreeModel::setAllowed(const std::vector<bool>& allowed)
{
    if (allowed.size() != m_allowed.size() || allowed == m_allowed)
        return;
    m_allowed = allowed;
    sumUp();
    tellChanged();
}

void FileTreeModel::setUnchecked(const QSet<QByteArray>& unchecked)
{
    for (int i = 0; i < m_files.size(); ++i)
        m_checked[std::size_t(i)] = !unchecked.contains(m_files[i].path);
    sumUp();
    tellChanged();
}

void FileTreeModel::setAllChecked(bool checked)
{
    m_checked.assign(m_checked.size(), checked);
    sumUp();
    tellChanged();
}

void FileTreeModel::tellChanged()
{
    if (m_nodes.empty())
        return;
    emit dataChanged(indexOf(0, NameColumn), indexOf(0, TokensColumn));
    tellChangedBelow(0);
    emit selectionChanged();
}

void FileTreeModel::tellChangedBelow(int node)
{
    const std::vector<int>& children = m_nodes[std::size_t(node)].children;
    if (children.empty())
        return;
    emit dataChanged(indexOf(children.front(), NameColumn), indexOf(children.back(), TokensColumn));
    for (int child : children)
        tellChangedBelow(child);
}

QList<QByteArray> FileTreeModel::uncheckedPaths() const
{
    QList<QByteArray> paths;
    for (int i = 0; i < m_files.size(); ++i) {
        if (!m_checked[std::size_t(i)])
            paths += m_files[i].path;
    }
    return paths;
}

QList<FileTreeModel::Folder> FileTreeModel::topFolders() const
{
    QList<Folder> folders;
    if (!m_nodes.empty()) {
        std::vector<int> children = m_nodes[0].children;
        std::stable_sort(children.begin(), children.end(), [this](int a, int b) {
            return m_nodes[std::size_t(a)].tokens > m_nodes[std::size_t(b)].tokens;
        });
        for (std::size_t rank = 0; rank < children.size(); ++rank) {
            const Node& node = m_nodes[std::size_t(children[rank])];
            if (node.packedTokens > 0)
                folders += {node.name, node.packedTokens, int(rank)};
        }
    }
    std::stable_sort(folders.begin(), folders.end(),
                     [](const Folder& a, const Folder& b) { return a.tokens > b.tokens; });
    return folders;
}

QModelIndex FileTreeModel::indexOf(int node, int column) const
{
    return createIndex(m_nodes[std::size_t(node)].row, column, quintptr(node));
}

QModelIndex FileTreeModel::index(int row, int column, const QModelIndex& parent) const
{
    if (!hasIndex(row, column, parent))
        return {};
    return createIndex(
        row, column, quintptr(parent.isValid() ? m_nodes[std::size_t(nodeOf(parent))].children[std::size_t(row)] : 0));
}

QModelIndex FileTreeModel::parent(const QModelIndex& index) const
{
    if (!index.isValid() || nodeOf(index) == 0)
        return {};
    return indexOf(m_nodes[std::size_t(nodeOf(index))].parent, NameColumn);
}

int FileTreeModel::rowCount(const QModelIndex& parent) const
{
    if (parent.column() > 0)
        return 0;
    if (!parent.isValid())
        return m_nodes.empty() ? 0 : 1;
    return int(m_nodes[std::size_t(nodeOf(parent))].children.size());
}

int FileTreeModel::columnCount(const QModelIndex&) const
{
    return numColumns;
}

Qt::CheckState FileTreeModel::checkState(const Node& node) const
{
    if (node.packedFiles == 0)
        return Qt::Unchecked;
    // Of what the patterns let through: a box that never counts as full could not be unticked.
    return node.packedFiles == node.allowedFiles ? Qt::Checked : Qt::PartiallyChecked;
}

QVariant FileTreeModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    const Node& node = m_nodes[std::size_t(nodeOf(index))];
    switch (role) {
    case Qt::DisplayRole:
        return index.column() == NameColumn ? node.name : countText(node.tokens);
    case Qt::CheckStateRole:
        return index.column() == NameColumn ? QVariant(int(checkState(node))) : QVariant();
    case Qt::TextAlignmentRole:
        return index.column() == TokensColumn ? QVariant(int(Qt::AlignRight | Qt::AlignVCenter)) : QVariant();
    case Qt::ToolTipRole:
        if (node.allowedFiles == 0)
            return plainTip(tr("%1 is left out by the patterns above").arg(node.name));
        return node.file >= 0 ? plainTip(m_files[node.file].displayPath) : QVariant();
    case Qt::AccessibleTextRole:
        return node.file >= 0
                   ? tr("%1, %2 tokens").arg(node.name, countText(node.tokens))
                   : tr("%1, %2 files, %3 tokens").arg(node.name).arg(node.files).arg(countText(node.tokens));
    case TokensRole:
        return node.tokens;
    case FilesRole:
        return node.file >= 0 ? 0 : node.files;
    case ShareRole:
        return std::min(1.0, double(node.tokens) / double(m_largest));
    case PathRole:
        return node.file >= 0 ? QVariant(m_files[node.file].path) : QVariant();
    case AllowedRole:
        return node.allowedFiles > 0;
    default:
        return {};
    }
}

void FileTreeModel::check(int node, bool checked)
{
    const Node& n = m_nodes[std::size_t(node)];
    if (n.file >= 0) {
        if (m_allowed[std::size_t(n.file)])
            m_checked[std::size_t(n.file)] = checked;
    } else {
        for (int child : n.children)
            check(child, checked);
    }
    sumUp(node);
}

bool FileTreeModel::setData(const QModelIndex& index, const QVariant& value, int role)
{
    if (!index.isValid() || role != Qt::CheckStateRole || index.column() != NameColumn)
        return false;
    const int node = nodeOf(index);
    check(node, value.toInt() != Qt::Unchecked);
    emit dataChanged(indexOf(node, NameColumn), indexOf(node, TokensColumn), {Qt::CheckStateRole});
    tellChangedBelow(node);
    for (int up = m_nodes[std::size_t(node)].parent; up >= 0; up = m_nodes[std::size_t(up)].parent) {
        sumUp(up);
        emit dataChanged(indexOf(up, NameColumn), indexOf(up, TokensColumn), {Qt::CheckStateRole});
    }
    emit selectionChanged();
    return true;
}

Qt::ItemFlags FileTreeModel::flags(const QModelIndex& index) const
{
    if (!index.isValid())
        return Qt::NoItemFlags;
    const Node& node = m_nodes[std::size_t(nodeOf(index))];
    Qt::ItemFlags flags = Qt::ItemIsEnabled | Qt::ItemIsSelectable;
    if (index.column() == NameColumn && node.allowedFiles > 0)
        flags |= Qt::ItemIsUserCheckable;
    if (node.file >= 0)
        flags |= Qt::ItemNeverHasChildren;
    return flags;
}

QVariant FileTreeModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole)
        return {};
    return section == NameColumn ? tr("Files") : tr("Tokens");
}

void FileTreeModel::sortChildren()
{
    const auto before = [&](int a, int b) {
        const Node& x = m_nodes[std::size_t(a)];
        const Node& y = m_nodes[std::size_t(b)];
        if (m_sortColumn == TokensColumn && x.tokens != y.tokens)
            return m_sortOrder == Qt::AscendingOrder ? x.tokens < y.tokens : x.tokens > y.tokens;
        if ((x.file < 0) != (y.file < 0))
            return x.file < 0;
        return m_sortColumn == NameColumn && m_sortOrder == Qt::DescendingOrder ? y.name < x.name : x.name < y.name;
    };
    for (Node& node : m_nodes) {
        std::sort(node.children.begin(), node.children.end(), before);
        for (std::size_t row = 0; row < node.children.size(); ++row)
            m_nodes[std::size_t(node.children[row])].row = int(row);
    }
}

void FileTreeModel::sort(int column, Qt::SortOrder order)
{
    m_sortColumn = column;
    m_sortOrder = order;
    if (m_nodes.empty())
        return;
    emit layoutAboutToBeChanged({}, QAbstractItemModel::VerticalSortHint);
    sortChildren();
    const QModelIndexList old = persistentIndexList();
    QModelIndexList now;
    for (const QModelIndex& index : old)
        now += indexOf(nodeOf(index), index.column());
    changePersistentIndexList(old, now);
    emit layoutChanged({}, QAbstractItemModel::VerticalSortHint);
}

} // namespace octavo::ui
