#pragma once

/// Repositories named on the command line become contexts without questions: previewed with the defaults, added, and
/// given to panes that have none.

#include "agents/workbench.h"

#include <QPointer>
#include <QStringList>

namespace octavo::ui {

/// Why a repository was not read, and what can be done about it.
struct OpenProblem {
    QString folder, text;
    bool canTrust = false; ///< it belongs to another user, and that is all
};

class RepositoryIntake final : public QObject
{
    Q_OBJECT

public:
    explicit RepositoryIntake(agents::Workbench* workbench, QObject* parent = nullptr);
    ~RepositoryIntake() override;

    void add(const QStringList& repositories);
    /// Reads a folder though it belongs to another user, now and from now on.
    void trust(const QString& folder);
    /// The command line trusts these, this time.
    void trustAtStart(const QStringList& repositories) { m_trusted += repositories; }

    /// Tokens to read of each repository at most; 0: all that fits. Negative, as at first: all that fits where a GPU
    /// reads, else quickTokens, which a CPU reads in well under a minute; the wizard takes more.
    void setTokenBudget(qint64 tokens) { m_tokenBudget = tokens; }
    static constexpr qint64 quickTokens = 24'000;

signals:
    /// The budget left files out.
    void shortened(const QString& notice);
    void progress(const QString& repository, const octavo::agents::IngestProgress& progress);
    void failed(const octavo::ui::OpenProblem& problem);
    void finished();

private:
    void next();
    void give();
    void take(const agents::IngestOptions& options, const agents::IngestResult& result);
    void tellProblem(const agents::IngestOptions& options, const Error& error);
    bool isTrusted(const QString& folder) const;
    qint64 tokenBudget() const;

    agents::Workbench* m_workbench;
    QStringList m_waiting;
    QList<agents::ContextId> m_added;
    QStringList m_trusted;
    QPointer<agents::IngestJob> m_job;
    bool m_inspecting = false;
    qint64 m_tokenBudget = -1;
};

} // namespace octavo::ui
