#include "agents/stored_token_counts.h"

#include <future>

namespace octavo::agents {

QHash<QByteArray, qint64> StoredTokenCounts::find(const QList<QByteArray>& blobIds)
{
    std::promise<QHash<QByteArray, qint64>> found;
    m_store.read([&](SessionStore& store) {
        auto counts = store.tokenCounts(m_tokenizer, blobIds);
        found.set_value(counts ? *std::move(counts) : QHash<QByteArray, qint64>());
    });
    return found.get_future().get();
}

void StoredTokenCounts::keep(const QHash<QByteArray, qint64>& counts)
{
    m_store.write([tokenizer = m_tokenizer, counts](SessionStore& s) { return s.keepTokenCounts(tokenizer, counts); });
}

} // namespace octavo::agents
