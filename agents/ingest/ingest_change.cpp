#include "agents/ingest/ingest_change.h"

#include <QHash>

namespace octavo::agents {

IngestChange compareIngests(const IngestResult& before, const IngestResult& after)
{
    IngestChange out;
    QHash<QByteArray, QByteArray> known;
    for (const PackedFile& file : before.packed)
        known.insert(file.path, file.blobId);
    qint64 fileTokens = 0;
    for (const PackedFile& file : after.packed) {
        fileTokens += file.tokens;
        const auto old = known.constFind(file.path);
        if (old == known.constEnd())
            out.added.append(file.path);
        else if (*old != file.blobId)
            out.changed.append(file.path);
        known.remove(file.path);
    }
    for (const PackedFile& file : before.packed) {
        if (known.contains(file.path))
            out.removed.append(file.path);
    }
    if (before.repositoryName != after.repositoryName)
        return out; // the name stands at the very beginning
    constexpr qint64 closingTokens = 2; // the end of the system turn comes after the files
    out.reusedTokens = after.tokens - fileTokens - closingTokens;
    for (qsizetype i = 0; i < after.packed.size() && i < before.packed.size(); ++i) {
        if (after.packed[i].path != before.packed[i].path || after.packed[i].blobId != before.packed[i].blobId)
            return out;
        out.reusedTokens += after.packed[i].tokens;
    }
    if (before.packed.size() == after.packed.size())
        out.reusedTokens = after.tokens;
    return out;
}

} // namespace octavo::agents
