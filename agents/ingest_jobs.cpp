#include "agents/ingest_jobs.h"

namespace octavo::agents {

PooledIngestJob::PooledIngestJob(QThreadPool& pool, Work work, QObject* parent)
    : IngestJob(parent)
    , m_poster(this)
{
    pool.start([this, poster = m_poster, cancel = m_cancel, work = std::move(work)] {
        const auto report = [this, poster](const IngestProgress& now) {
            poster.post([this, now] { emit progress(now); });
        };
        auto result = work(report, *cancel);
        poster.post([this, result = std::move(result)] {
            if (result)
                emit finished(*result);
            else
                emit failed(result.error());
        });
    });
}

PooledIngestJob::~PooledIngestJob()
{
    m_cancel->store(true);
    m_poster.close();
}

void PooledIngestJob::cancel()
{
    m_cancel->store(true);
}

} // namespace octavo::agents
