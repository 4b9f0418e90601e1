#pragma once

/// The contexts of a workbench as a list, kept up with its signals.

#include "agents/workbench.h"

#include <QAbstractListModel>

namespace octavo::ui {

class CommitWatch;

class ContextModel final : public QAbstractListModel
{
    Q_OBJECT

public:
    enum Role { IdRole = Qt::UserRole, NameRole, WhereRole, FiguresRole, StateRole, NewerRole };

    explicit ContextModel(agents::Workbench* workbench, QObject* parent = nullptr);

    int rowCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    agents::ContextId idAt(int row) const;
    int rowOf(agents::ContextId id) const;
    const agents::ContextInfo& infoAt(int row) const { return m_contexts[row]; }
    void reload();
    /// Whose commits NewerRole tells; not owned.
    void setCommitWatch(const CommitWatch* watch);

private:
    agents::Workbench* m_workbench;
    QList<agents::ContextInfo> m_contexts;
    const CommitWatch* m_watch = nullptr;
};

/// "243,812 tokens · 2 panes · saved", or how far reading is, or what is wrong.
QString contextFiguresLine(const agents::ContextInfo& context);

} // namespace octavo::ui
