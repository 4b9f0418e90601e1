#include "ui/sidebar/context_model.h"

#include "ui/controls.h"
#include "ui/pane/pane_state.h"
#include "ui/problem_text.h"
#include "ui/sidebar/commit_watch.h"

namespace octavo::ui {

QString contextFiguresLine(const agents::ContextInfo& context)
{
    using agents::ContextState;
    if (context.state == ContextState::Failed)
        return context.problem.isEmpty() ? ContextModel::tr("failed") : problemText(context.problem);
    QStringList parts;
    const int files = context.files + context.skipped;
    if (context.state == ContextState::Read && context.files < context.skipped) // most of the repository is not in it
        return ContextModel::tr("%1 tokens").arg(countText(context.tokens)) + QStringLiteral(" \u00b7 ") +
               ContextModel::tr("%1 of %2 files").arg(countText(context.files), countText(files));
    if (context.tokens > 0)
        parts += ContextModel::tr("%1 tokens").arg(countText(context.tokens));
    if (context.state == ContextState::Reading && context.readTotal > 0) {
        parts += ContextModel::tr("reading %1%").arg(context.readDone * 100 / context.readTotal);
    } else if (context.state == ContextState::Reading) {
        parts += ContextModel::tr("reading");
    } else if (context.state == ContextState::Preparing) {
        parts += ContextModel::tr("preparing");
    } else {
        if (context.panes > 0)
            parts += ContextModel::tr("%n panes", nullptr, context.panes);
        if (context.state == ContextState::Read)
            parts += ContextModel::tr("read");
        else if (context.state == ContextState::Ready && context.readDone > 0 && context.readTotal > 0)
            parts += ContextModel::tr("stopped at %1%").arg(context.readDone * 100 / context.readTotal);
    }
    return parts.join(QStringLiteral(" \u00b7 "));
}

ContextModel::ContextModel(agents::Workbench* workbench, QObject* parent)
    : QAbstractListModel(parent)
    , m_workbench(workbench)
{
    connect(workbench, &agents::Workbench::contextAdded, this, [this](const agents::ContextInfo& info) {
        if (rowOf(info.id) >= 0)
            return;
        beginInsertRows({}, int(m_contexts.size()), int(m_contexts.size()));
        m_contexts += info;
        endInsertRows();
    });
    connect(workbench, &agents::Workbench::contextChanged, this, [this](const agents::ContextInfo& info) {
        const int row = rowOf(info.id);
        if (row < 0)
            return;
        m_contexts[row] = info;
        emit dataChanged(index(row), index(row));
    });
    connect(workbench, &agents::Workbench::contextRemoved, this, [this](agents::ContextId id) {
        const int row = rowOf(id);
        if (row < 0)
            return;
        beginRemoveRows({}, row, row);
        m_contexts.removeAt(row);
        endRemoveRows();
    });
    reload();
}

void ContextModel::reload()
{
    beginResetModel();
    m_contexts = m_workbench->contexts();
    endResetModel();
}

void ContextModel::setCommitWatch(const CommitWatch* watch)
{
    m_watch = watch;
    connect(watch, &CommitWatch::changed, this, [this](agents::ContextId id) {
        if (const int row = rowOf(id); row >= 0)
            emit dataChanged(index(row), index(row));
    });
}

int ContextModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : int(m_contexts.size());
}

agents::ContextId ContextModel::idAt(int row) const
{
    return row >= 0 && row < m_contexts.size() ? m_contexts[row].id : agents::ContextId{};
}

int ContextModel::rowOf(agents::ContextId id) const
{
    for (int i = 0; i < m_contexts.size(); ++i) {
        if (m_contexts[i].id == id)
            return i;
    }
    return -1;
}

QVariant ContextModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid() || index.row() >= m_contexts.size())
        return {};
    const agents::ContextInfo& info = m_contexts[index.row()];
    const QString commit = shortCommit(info.commit);
    QString where = commit;
    if (!info.ref.isEmpty() && !info.commit.startsWith(info.ref))
        where = commit.isEmpty() ? info.ref : commit + QStringLiteral(" \u00b7 ") + info.ref;
    const QString newer = m_watch != nullptr ? shortCommit(m_watch->newer(info.id)) : QString();
    QString figures = contextFiguresLine(info);
    if (!newer.isEmpty())
        figures += QStringLiteral(" \u00b7 ") + tr("new commit");
    switch (role) {
    case Qt::DisplayRole:
    case NameRole:
        return info.name;
    case WhereRole:
        return where;
    case FiguresRole:
        return figures;
    case NewerRole:
        return newer;
    case IdRole:
        return qint64(info.id);
    case StateRole:
        return int(info.state);
    case Qt::AccessibleTextRole:
        return QStringList{info.name, where, figures}.join(QStringLiteral(", "));
    case Qt::ToolTipRole:
        return plainTip(
            QStringList{info.repositoryPath, where, figures,
                        tr("%Ln files packed, %1 left out", nullptr, info.files).arg(countText(info.skipped))}
                .join(u'\n'));
    default:
        return {};
    }
}

} // namespace octavo::ui
