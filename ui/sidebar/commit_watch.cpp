#include "ui/sidebar/commit_watch.h"

#include "ui/take_up.h"

#include "agents/ingest/inspect_repository.h"

#include <utility>

namespace octavo::ui {

CommitWatch::CommitWatch(agents::Workbench* workbench, QObject* parent)
    : QObject(parent)
    , m_workbench(workbench)
{
    connect(workbench, &agents::Workbench::contextRemoved, this,
            [this](agents::ContextId context) { m_newer.remove(context); });
}

void CommitWatch::look()
{
    if (m_sinceLook.isValid() && m_sinceLook.elapsed() < m_leastPauseMs)
        return;
    m_sinceLook.start();
    for (const agents::ContextInfo& context : m_workbench->contexts()) {
        const agents::IngestOptions options = m_workbench->ingestOptions(context.id);
        takeUp(agents::inspectRepository(options.repository, options.ref, options.trusted), this,
               [this, id = context.id, read = context.commit](const Result<agents::RepositoryInfo>& repository) {
                   // One that is gone or cannot be opened now says so when it is needed.
                   if (repository && !repository->head.id.isEmpty()) {
                       const QString newer = repository->head.id == read ? QString() : repository->head.id;
                       if (newer != std::exchange(m_newer[id], newer))
                           emit changed(id);
                   }
                   emit looked(id);
               });
    }
}

} // namespace octavo::ui
