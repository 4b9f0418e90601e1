#include "ui/settings/saved_contexts_model.h"

#include "ui/controls.h"
#include "ui/problem_text.h"
#include "ui/wizard/selection.h"

namespace octavo::ui {

using agents::SavedContextFile;
using agents::SavedContextState;

namespace {

QString stateText(SavedContextState state)
{
    switch (state) {
    case SavedContextState::Saved:
        return SavedContextsModel::tr("saved");
    case SavedContextState::Verified:
        return SavedContextsModel::tr("verified");
    case SavedContextState::Damaged:
        return SavedContextsModel::tr("damaged");
    case SavedContextState::AnotherVersion:
        return SavedContextsModel::tr("another version");
    case SavedContextState::Unreadable:
        break;
    }
    return SavedContextsModel::tr("unreadable");
}

Tone stateTone(SavedContextState state)
{
    switch (state) {
    case SavedContextState::Saved:
        return Tone::Muted;
    case SavedContextState::Verified:
        return Tone::Good;
    case SavedContextState::AnotherVersion:
        return Tone::Warning;
    case SavedContextState::Damaged:
    case SavedContextState::Unreadable:
        break;
    }
    return Tone::Bad;
}

} // namespace

void SavedContextsModel::setContexts(const QList<SavedContextFile>& contexts)
{
    beginResetModel();
    m_contexts = contexts;
    endResetModel();
}

void SavedContextsModel::update(const SavedContextFile& context)
{
    const int row = rowOf(context.file);
    if (row < 0)
        return;
    m_contexts[row] = context;
    emit dataChanged(index(row, 0), index(row, numColumns - 1));
}

qint64 SavedContextsModel::bytes() const
{
    qint64 sum = 0;
    for (const SavedContextFile& context : m_contexts)
        sum += context.bytes;
    return sum;
}

int SavedContextsModel::rowOf(const std::filesystem::path& file) const
{
    for (int row = 0; row < m_contexts.size(); ++row) {
        if (m_contexts[row].file == file)
            return row;
    }
    return -1;
}

QString SavedContextsModel::title(const SavedContextFile& context)
{
    if (context.name.isEmpty() && context.commit.isEmpty())
        return QString::fromStdString(context.file.filename().string());
    return QStringLiteral("%1 @ %2").arg(context.name.isEmpty() ? tr("no name") : context.name,
                                         context.commit.left(7));
}

int SavedContextsModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : int(m_contexts.size());
}

int SavedContextsModel::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : numColumns;
}

QVariant SavedContextsModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid())
        return {};
    const SavedContextFile& context = m_contexts[index.row()];
    switch (role) {
    case Qt::DisplayRole:
        switch (index.column()) {
        case ContextColumn:
            return title(context);
        case TokensColumn:
            if (context.wantedTokens > context.tokens)
                return tr("%1 of %2").arg(countText(context.tokens), countText(context.wantedTokens));
            return context.tokens > 0 ? countText(context.tokens) : dash();
        case SizeColumn:
            return bytesText(context.bytes);
        case UsedColumn:
            return agoText(context.lastUsed, QDateTime::currentDateTimeUtc());
        default:
            return stateText(context.state);
        }
    case Qt::TextAlignmentRole:
        return int(Qt::AlignVCenter | (index.column() == TokensColumn || index.column() == SizeColumn
                                           ? Qt::AlignRight
                                           : Qt::AlignLeft));
    case Qt::ForegroundRole:
        return index.column() == ContextColumn ? colors().text
               : index.column() == StateColumn ? Theme::instance()->color(stateTone(context.state))
                                               : colors().muted;
    case Qt::ToolTipRole:
        return plainTip(context.problem.isEmpty()
                            ? tr("Read by %1, kept in %2")
                                  .arg(context.model, QString::fromStdString(context.file.filename().string()))
                            : problemText(context.problem));
    default:
        return {};
    }
}

QVariant SavedContextsModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal)
        return {};
    if (role == Qt::TextAlignmentRole)
        return int(Qt::AlignVCenter |
                   (section == TokensColumn || section == SizeColumn ? Qt::AlignRight : Qt::AlignLeft));
    if (role != Qt::DisplayRole)
        return {};
    const QString names[] = {tr("Context"), tr("Tokens"), tr("Size"), tr("Last used"), tr("State")};
    return names[section];
}

} // namespace octavo::ui
