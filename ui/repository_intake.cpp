#include "ui/repository_intake.h"

#include "ui/problem_text.h"
#include "ui/setting_keys.h"
#include "ui/take_up.h"

#include "agents/ingest/inspect_repository.h"

#include <QDir>

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
    if (!m_job && !m_inspecting)
        next();
}

void RepositoryIntake::trust(const QString& folder)
{
    m_workbench->setSetting(setting_keys::trustedPrefix + QDir::cleanPath(folder), QStringLiteral("1"));
    add({folder});
}

/// By the command line, by the button here, or in the wizard for a context that is still there.
bool RepositoryIntake::isTrusted(const QString& folder) const
{
    const QString path = QDir::cleanPath(folder);
    if (m_trusted.contains(folder) || !m_workbench->setting(setting_keys::trustedPrefix + path).isEmpty())
        return true;
    for (const agents::ContextInfo& info : m_workbench->contexts()) {
        if (QDir::cleanPath(info.repositoryPath) == path && m_workbench->ingestOptions(info.id).trusted)
            return true;
    }
    return false;
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
    options.trusted = isTrusted(options.repository);
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
        take(options, result);
        next();
    });
    connect(m_job, &agents::IngestJob::failed, this, [this, options](const Error& error) {
        m_job->deleteLater();
        m_job = nullptr;
        tellProblem(options, error);
    });
}

void RepositoryIntake::take(const agents::IngestOptions& options, const agents::IngestResult& result)
{
    if (result.packed.isEmpty()) { // nothing could be asked about it
        emit failed({options.repository,
                     tr("%1 holds nothing that can be read: all of its %L2 files are left out.")
                         .arg(result.repositoryName)
                         .arg(result.filesTotal)});
        return;
    }
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
}

/// Whether trust would help is looked up first; the next repository waits for that.
void RepositoryIntake::tellProblem(const agents::IngestOptions& options, const Error& error)
{
    const OpenProblem problem{options.repository, problemText(error), false};
    if (options.trusted || error.code != ErrorCode::RepositoryInvalid) {
        emit failed(problem);
        next();
        return;
    }
    m_inspecting = true;
    takeUp(agents::inspectRepository(options.repository), this,
           [this, problem](const Result<agents::RepositoryInfo>& info) {
               m_inspecting = false;
               emit failed({problem.folder, problem.text, info && info->needsTrust});
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
