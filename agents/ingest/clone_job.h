#pragma once

/// Clones a repository through libgit2, with progress and cancel.

#include "agents/ingest_job.h"

namespace octavo::agents {

/// The folder name that git would choose for `url` ("https://host/a/fmt.git" gives "fmt"); empty where there is none.
QString folderOfUrl(const QString& url);

/// Clones `url` (https, ssh through the agent, git, file, or a path) into the new folder `folder`, at full depth.
///
/// finished() carries repositoryPath, repositoryName and nothing else. failed(): RepositoryInvalid (the remote could
/// not be read; the sentence says why), FileUnwritable (the folder exists and is not empty, or cannot be made),
/// Cancelled. What was fetched until then is removed.
IngestJob* cloneRepository(const QString& url, const QString& folder, QObject* parent);

} // namespace octavo::agents
