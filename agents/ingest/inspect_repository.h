#pragma once

/// What a folder holds, before anything is counted: for choosing a repository and a commit.
///
/// Thread   returns at once; the work runs on a pool thread and only reads.

#include "agents/ingest/repository.h"

#include <QFuture>
#include <QStringList>

namespace octavo::agents {

struct RepositoryInfo {
    QString name, path;
    bool needsTrust = false; ///< belongs to another user: nothing but `name`, `path` and `notes` is known
    bool hasCommits = false;
    bool shallow = false;
    CommitInfo head; ///< of `ref` as asked; empty without commits
    QList<RefInfo> refs;
    QStringList notes; ///< what a user should know, one plain sentence each
};

/// Looks at the repository at `path` or above it and resolves `ref` (empty: HEAD).
/// Fails with RepositoryInvalid, FileUnreadable or NotFound (no such ref).
QFuture<Result<RepositoryInfo>> inspectRepository(const QString& path, const QString& ref = {}, bool trusted = false);

} // namespace octavo::agents
