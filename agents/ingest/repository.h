#pragma once

/// A git repository, read through libgit2: commits, refs, trees and blobs. Nothing is ever written to it.

#include "engine/result.h"

#include <QByteArray>
#include <QDateTime>
#include <QList>
#include <QString>

#include <atomic>
#include <memory>
#include <string_view>

namespace octavo::agents {

struct CommitInfo {
    QString ref; ///< as resolved: "main", "v1.2", or a short id where no name was given
    QString id;  ///< hex
    QString subject;
    QDateTime time;
};

/// A branch or tag, for choosing.
struct RefInfo {
    enum class Kind { Branch, RemoteBranch, Tag };
    Kind kind = Kind::Branch;
    QString name;   ///< "main", "origin/main", "v1.2"
    QString commit; ///< hex
    QDateTime time;
};

/// A leaf of a commit's tree.
struct TreeEntry {
    enum class Kind { File, Link, Submodule };
    Kind kind = Kind::File;
    QByteArray path; ///< bytes, from the root, '/' between folders
    QByteArray id;   ///< hex; a blob's, or with Submodule a commit's
};

/// Thread   one at a time; opening twice is cheap.
/// Errors   RepositoryInvalid and NotFound carry a sentence that names the path.
class Repository
{
public:
    /// Opens the repository at `path` or above it: a work tree, a bare repository, a linked worktree.
    /// One that belongs to another user is refused unless `trusted` or git's safe.directory allows it.
    static Result<Repository> open(const QString& path, bool trusted = false);

    Repository(Repository&&) noexcept;
    Repository& operator=(Repository&&) noexcept;
    ~Repository();

    QString name() const; ///< folder name without ".git"; a linked worktree has its repository's
    QString path() const; ///< of the work tree, or of a bare repository itself
    bool isShallow() const;
    bool hasCommits() const; ///< false: HEAD names a branch without a commit; a damaged HEAD is for resolve() to tell

    /// How an error of resolve() ends where HEAD cannot be followed and another place to read may be named.
    static constexpr std::string_view nameARef = "name a branch, tag or commit";

    /// Branch, tag, remote branch, commit id or any revision git understands; empty: HEAD.
    Result<CommitInfo> resolve(const QString& ref) const;

    QList<RefInfo> refs() const; ///< branches, then remote branches, then tags; newest first in each

    /// All leaves of a commit's tree, in the tree's order. Needs the trees of that commit only, so shallow clones do.
    /// Fails with Unsupported beyond `mostFiles`: the largest known repositories have half a million.
    Result<QList<TreeEntry>> list(const QString& commit, const std::atomic<bool>* cancel = nullptr,
                                  qsizetype mostFiles = 2'000'000) const;

    /// Size in bytes without reading the content. NotFound: the blob is not in this clone; RepositoryInvalid: it is
    /// damaged, and the message says how.
    Result<qint64> blobSize(const QByteArray& id) const;
    Result<QByteArray> blob(const QByteArray& id) const; ///< Fails as blobSize() does.

private:
    struct Private;
    explicit Repository(std::unique_ptr<Private> d);
    std::unique_ptr<Private> d;
};

} // namespace octavo::agents
