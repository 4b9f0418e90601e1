#pragma once

#include "agents/ingest/ingest.h"
#include "agents/store/store_thread.h"

namespace octavo::agents {

/// Token counts in the session store, for the ingestion threads.
class StoredTokenCounts final : public TokenCountCache
{
public:
    StoredTokenCounts(StoreThread& store, quint64 tokenizer)
        : m_store(store)
        , m_tokenizer(tokenizer)
    {
    }
    QHash<QByteArray, qint64> find(const QList<QByteArray>& blobIds) override;
    void keep(const QHash<QByteArray, qint64>& counts) override;

private:
    StoreThread& m_store;
    quint64 m_tokenizer;
};

} // namespace octavo::agents
