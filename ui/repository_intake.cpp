#include "ui/repository_intake.h"

#include <algorithm>

namespace octavo::ui {

namespace {

bool leftOutByBudget(const agents::IngestResult& result)
{
    return std::any_of(result.skipped.begin(), result.skipped.end(), [](const agents::SkippedFile& file) {
        return file.reason.startsWith(QStringLiteral("over the budget"));
    });
}

} // namespace

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
    options.tokenBudget = tokenBudget();
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
        if (options.tokenBudget > 0 && leftOutByBudget(result)) {
            emit shortened(tr("%1: the first %L2 of %L3 files (%L4 tokens), so that answers come soon. "
                              "Add repository chooses what else is read.")
                               .arg(result.repositoryName)
                               .arg(result.packed.size())
                               .arg(result.filesTotal)
                               .arg(result.tokens));
        }
        next();
    });
    connect(m_job, &agents::IngestJob::failed, this, [this](const Error& error) {
        m_job->deleteLater();
        m_job = nullptr;
        emit failed(QString::fromStdString(error.message));
        next();
    });
}

qint64 RepositoryIntake::tokenBudget() const
{
    if (m_tokenBudget >= 0)
        return m_tokenBudget;
    const engine::MetricsSnapshot metrics = m_workbench->metrics();
    const bool readsOnGpu = std::any_of(metrics.devices.begin(), metrics.devices.end(), [](const auto& device) {
        return device.device.rfind("cpu", 0) != 0;
    });
    return readsOnGpu ? 0 : quickTokens;
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
