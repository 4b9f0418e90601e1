#include "agents/ingest/inspect_repository.h"

#include <QDir>
#include <QFileInfo>
#include <QtConcurrentRun>

namespace octavo::agents {

namespace {

Result<RepositoryInfo> inspect(const QString& path, const QString& ref, bool trusted)
{
    RepositoryInfo info;
    auto repository = Repository::open(path, trusted);
    if (!repository) {
        // One that opens when trusted is refused for its owner only.
        if (trusted || !Repository::open(path, true))
            return repository.error();
        info.path = QDir::cleanPath(path);
        info.name = QFileInfo(info.path).fileName();
        info.needsTrust = true;
        info.notes += QString::fromStdString(repository.error().message);
        return info;
    }
    info.name = repository->name();
    info.path = repository->path();
    info.shallow = repository->isShallow();
    info.hasCommits = repository->hasCommits();
    info.refs = repository->refs();
    if (info.hasCommits || !ref.isEmpty()) {
        OCTAVO_TRY(info.head, repository->resolve(ref));
        info.hasCommits = true;
    } else {
        info.notes += info.refs.isEmpty()
                          ? QStringLiteral("There are no commits yet: commit something, then add it again.")
                          : QStringLiteral("The current branch has no commits yet: choose another one.");
    }
    if (info.shallow)
        info.notes += QStringLiteral("This is a shallow clone: its files can be read, its history ends early.");
    return info;
}

} // namespace

QFuture<Result<RepositoryInfo>> inspectRepository(const QString& path, const QString& ref, bool trusted)
{
    return QtConcurrent::run([path, ref, trusted] { return inspect(path, ref, trusted); });
}

} // namespace octavo::agents
