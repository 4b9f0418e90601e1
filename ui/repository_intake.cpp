#include "ui/repository_intake.h"

namespace octavo::ui {

RepositoryIntake::RepositoryIntake(agents::Workbench* workbench, QObject* parent)
    : QObject(parent)
    , m_workbench(workbench)
{
}

RepositoryIntake::~RepositoryIntake()
{
    delete m_job.data();
}

void RepositoryIntake::add(const QStringList& repositories)
{
    m_waiting += repositories;
    if (!m_job)
        next();
}

void RepositoryIntake::next()
{
    if (m_waiting.isEmpty()) {
        give();
        emit finished();
        return;
    }
    agents::IngestOptions options;
    options.repository = m_waiting.takeFirst();
    m_job = m_workbench->preview(options);
    if (!m_job) {
        next();
        return;
    }
    connect(m_job, &agents::IngestJob::progress, this,
            [this, options](const agents::IngestProgress& at) { emit progress(options.repository, at); });
    connect(m_job, &agents::IngestJob::finished, this, [this, options](const agents::IngestResult& result) {
        m_job->deleteLater();
        m_job = nullptr;
        // The same commit of the same repository, read before, is used again.
        agents::ContextId known{};
        for (const agents::ContextInfo& info : m_workbench->contexts()) {
            if (info.repositoryPath == result.repositoryPath && info.commit == result.commit)
                known = info.id;
        }
        m_added += known != agents::ContextId{} ? known : m_workbench->addContext(options, result);
        next();
    });
    connect(m_job, &agents::IngestJob::failed, this, [this](const Error& error) {
        m_job->deleteLater();
        m_job = nullptr;
        emit failed(QString::fromStdString(error.message));
        next();
    });
}

/// Panes without a context share what was added, in turns.
void RepositoryIntake::give()
{
    int turn = 0;
    for (int i = 0; i < agents::numAgents && !m_added.isEmpty(); ++i) {
        agents::Agent* agent = m_workbench->agent(i);
        if (agent->context().id == agents::ContextId{})
            agent->setContext(m_added[turn++ % m_added.size()]);
    }
    m_added.clear();
}

} // namespace octavo::ui
