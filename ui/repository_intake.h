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

    /// Tokens to read of each repository at most; 0: all that fits. Negative, as at first: all that fits where a GPU
    /// reads, else quickTokens, which a CPU reads in well under a minute; the wizard takes more.
    void setTokenBudget(qint64 tokens) { m_tokenBudget = tokens; }
    static constexpr qint64 quickTokens = 24'000;

signals:
    /// The budget left files out.
    void shortened(const QString& notice);
    void progress(const QString& repository, const octavo::agents::IngestProgress& progress);
    void failed(const QString& problem);
    void finished();

private:
    void next();
    void give();
    qint64 tokenBudget() const;

    agents::Workbench* m_workbench;
    QStringList m_waiting;
    QList<agents::ContextId> m_added;
    QPointer<agents::IngestJob> m_job;
    qint64 m_tokenBudget = -1;
};

} // namespace octavo::ui
