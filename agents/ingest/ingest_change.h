#pragma once

/// What a new commit changes in a context, and how much of it need not be read again.

#include "agents/values.h"

namespace octavo::agents {

struct IngestChange {
    QList<QByteArray> added, changed, removed; ///< paths of packed files
    qint64 reusedTokens = 0;                   ///< from the start up to the first file that differs
};

/// Compares two results of the same repository by path and blob id; cheap.
IngestChange compareIngests(const IngestResult& before, const IngestResult& after);

} // namespace octavo::agents
