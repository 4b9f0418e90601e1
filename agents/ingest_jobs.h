#pragma once

#include "agents/ingest/ingest.h"
#include "agents/poster.h"
#include "agents/workbench.h"

#include <QThreadPool>

namespace octavo::agents {

/// An IngestJob whose work is a function on a pool's thread. Deleting it cancels and hears nothing more.
class PooledIngestJob final : public IngestJob
{
    Q_OBJECT

public:
    using Report = std::function<void(const IngestProgress&)>;
    using Work = std::function<Result<IngestResult>(const Report& report, const std::atomic<bool>& cancel)>;

    PooledIngestJob(QThreadPool& pool, Work work, QObject* parent = nullptr);
    ~PooledIngestJob() override;
    void cancel() override;

private:
    Poster m_poster;
    std::shared_ptr<std::atomic<bool>> m_cancel = std::make_shared<std::atomic<bool>>(false);
};

} // namespace octavo::agents
