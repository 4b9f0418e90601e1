#pragma once

/// Repositories named on the command line become contexts without questions: previewed with the defaults, added, and
/// given to panes that have none.

#include "agents/workbench.h"

#include <QPointer>
#include <QStringList>

namespace octavo::ui {

class RepositoryIntake final : public QObject
{
    Q_OBJECT

public:
    explicit RepositoryIntake(agents::Workbench* workbench, QObject* parent = nullptr);
    ~RepositoryIntake() override;

    void add(const QStringList& repositories);

signals:
    void progress(const QString& repository, const octavo::agents::IngestProgress& progress);
    void failed(const QString& problem);
    void finished();

private:
    void next();
    void give();

    agents::Workbench* m_workbench;
    QStringList m_waiting;
    QList<agents::ContextId> m_added;
    QPointer<agents::IngestJob> m_job;
};

} // namespace octavo::ui
