#include "agents/ingest/repository.h"

#include "agents/ingest/loose_objects.h"
#include "agents/ingest/path_text.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>

#include <git2.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <pwd.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace octavo::agents {

namespace {

template <auto Free>
struct Deleter {
    template <typename T>
    void operator()(T* p) const
    {
        Free(p);
    }
};
using CommitPtr = std::unique_ptr<git_commit, Deleter<git_commit_free>>;
using ObjectPtr = std::unique_ptr<git_object, Deleter<git_object_free>>;
using ReferencePtr = std::unique_ptr<git_reference, Deleter<git_reference_free>>;
using TreePtr = std::unique_ptr<git_tree, Deleter<git_tree_free>>;
using BlobPtr = std::unique_ptr<git_blob, Deleter<git_blob_free>>;
using OdbPtr = std::unique_ptr<git_odb, Deleter<git_odb_free>>;
using RepositoryPtr = std::unique_ptr<git_repository, Deleter<git_repository_free>>;

/// Trees nest no deeper than this; a made-up object graph may.
constexpr int maxTreeDepth = 512;

void initialiseLibrary()
{
    static const int count = [] {
        const int rc = git_libgit2_init();
        // Partial clones and per-worktree settings change nothing about reading what is there.
        const char* extensions[] = {"partialclone", "worktreeconfig", "preciousobjects"};
        git_libgit2_opts(GIT_OPT_SET_EXTENSIONS, extensions, std::size(extensions));
        return rc;
    }();
    Q_UNUSED(count);
}

std::string gitMessage()
{
    const git_error* error = git_error_last();
    std::string text = error != nullptr && error->message != nullptr ? error->message : "no reason given";
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
}

std::string userName(uid_t uid)
{
    char buffer[4096];
    passwd entry{};
    passwd* found = nullptr;
    if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr)
        return found->pw_name;
    return "user " + std::to_string(uid);
}

Error notOwned(const QString& path)
{
    struct stat info {
    };
    std::string owner = "another user";
    if (::stat(QFile::encodeName(path).constData(), &info) == 0)
        owner = userName(info.st_uid);
    return Error{ErrorCode::RepositoryInvalid, path.toStdString() + " belongs to " + owner + " and you are " +
                                                   userName(geteuid()) +
                                                   ": trust it for Octavo if you know where it comes from"};
}

/// A settings file of the user's that cannot be read or parsed says nothing about the repository: libgit2 would open
/// none at all, so it goes on without that file. Under the lock of openValidated(): where libgit2 looks is one setting
/// of the whole process.
void leaveOutUnreadableSettings()
{
    struct Level {
        git_config_level_t level;
        int (*find)(git_buf*);
    };
    for (const Level& level : {Level{GIT_CONFIG_LEVEL_GLOBAL, &git_config_find_global},
                               Level{GIT_CONFIG_LEVEL_XDG, &git_config_find_xdg},
                               Level{GIT_CONFIG_LEVEL_SYSTEM, &git_config_find_system}}) {
        git_buf path{};
        if (level.find(&path) == 0) {
            git_config* settings = nullptr;
            if (git_config_open_ondisk(&settings, path.ptr) < 0) {
                spdlog::warn("{} cannot be used ({}); git's settings in it are left out", path.ptr, gitMessage());
                git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, level.level, "");
            }
            git_config_free(settings);
        }
        git_buf_dispose(&path);
    }
}

/// Owner validation is a switch of the whole process, so it is turned off under a lock, round one open.
int openValidated(git_repository** out, const QByteArray& path, bool trusted)
{
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    leaveOutUnreadableSettings();
    if (trusted)
        git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
    const int rc = git_repository_open_ext(out, path.constData(), 0, nullptr);
    if (trusted)
        git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 1);
    return rc;
}

QString hex(const git_oid* id)
{
    char text[GIT_OID_HEXSZ + 1];
    git_oid_tostr(text, sizeof text, id);
    return QString::fromLatin1(text);
}

QDateTime commitTime(const git_commit* commit)
{
    return QDateTime::fromSecsSinceEpoch(git_commit_time(commit), Qt::OffsetFromUTC,
                                         git_commit_time_offset(commit) * 60);
}

} // namespace

struct Repository::Private {
    RepositoryPtr repository;
    OdbPtr odb;
    QString given;

    std::string label() const { return given.toStdString(); }

    /// Whether there is a branch, tag or other reference of that name, wherever it leads.
    bool hasReference(const QByteArray& name) const
    {
        git_reference* raw = nullptr;
        const bool found = git_reference_dwim(&raw, repository.get(), name.constData()) == 0;
        git_reference_free(raw);
        return found;
    }

    /// libgit2 takes objects that it may not read for objects that are not there.
    std::optional<std::string> unreadableObjects() const
    {
        const std::string folder = std::string(git_repository_commondir(repository.get())) + "objects";
        if (::access(folder.c_str(), R_OK | X_OK) == 0)
            return std::nullopt;
        return folder + ": " + std::generic_category().message(errno);
    }
};

Repository::Repository(std::unique_ptr<Private> p)
    : d(std::move(p))
{
}
Repository::Repository(Repository&&) noexcept = default;
Repository& Repository::operator=(Repository&&) noexcept = default;
Repository::~Repository() = default;

Result<Repository> Repository::open(const QString& path, bool trusted)
{
    initialiseLibrary();
    const QFileInfo info(path);
    if (!info.exists() && path.contains(QChar::ReplacementCharacter)) // what Qt makes of bytes that are no characters
        return Error{ErrorCode::RepositoryInvalid,
                     "\"" + path.toStdString() +
                         "\" has bytes in its name that are not UTF-8, which Octavo cannot open: " +
                         "rename the folder, or name a link to it"};
    if (path.isEmpty() || !info.exists())
        return Error{ErrorCode::RepositoryInvalid,
                     "\"" + path.toStdString() + "\" does not exist: name a folder that holds a git repository"};
    if (info.isDir() && !QDir(path).isReadable())
        return Error{ErrorCode::FileUnreadable, path.toStdString() + " cannot be read: permission denied"};
    auto d = std::make_unique<Private>();
    d->given = path;
    git_repository* raw = nullptr;
    const int rc = openValidated(&raw, QFile::encodeName(path), trusted);
    d->repository.reset(raw);
    // libgit2 before 1.6 blames a missing setting where the owner is the matter, so the matter is found by trying.
    if (rc < 0 && !trusted) {
        git_repository* owned = nullptr;
        if (openValidated(&owned, QFile::encodeName(path), true) == 0) {
            const RepositoryPtr held(owned);
            return notOwned(QFile::decodeName(git_repository_commondir(owned)));
        }
    }
    if (rc == GIT_ENOTFOUND)
        return Error{ErrorCode::RepositoryInvalid,
                     path.toStdString() + " is not a git repository, nor is a folder above it"};
    if (rc < 0)
        return Error{ErrorCode::RepositoryInvalid,
                     path.toStdString() + " cannot be opened as a git repository: " + gitMessage()};
    git_odb* odb = nullptr;
    if (git_repository_odb(&odb, d->repository.get()) < 0)
        return Error{ErrorCode::RepositoryInvalid, path.toStdString() + " has no object store: " + gitMessage()};
    d->odb.reset(odb);
    OCTAVO_CHECK(refuseCutObjects(odb, d->repository.get()));
    return Repository(std::move(d));
}

QString Repository::path() const
{
    const char* folder = git_repository_workdir(d->repository.get());
    // A bare repository without a config is taken for one with a work tree around it.
    if (folder == nullptr || !QFileInfo::exists(QFile::decodeName(folder) + QStringLiteral("/.git")))
        folder = git_repository_path(d->repository.get());
    const QString decoded = QFile::decodeName(folder);
    if (QFile::encodeName(decoded) != folder) // not UTF-8: opened by a link, which opens it again
        return QDir::cleanPath(QFileInfo(d->given).absoluteFilePath());
    return QDir::cleanPath(decoded);
}

QString Repository::name() const
{
    QByteArray folder = git_repository_commondir(d->repository.get()); // bytes, whatever they are
    while (folder.endsWith('/'))
        folder.chop(1);
    if (folder.endsWith("/.git"))
        folder.chop(5);
    QByteArray base = folder.mid(folder.lastIndexOf('/') + 1);
    if (base.endsWith(".git"))
        base.chop(4);
    if (base.isEmpty())
        base = QFile::encodeName(QFileInfo(path()).fileName());
    return displayPath(base.isEmpty() ? QByteArrayLiteral("repository") : base);
}

bool Repository::isShallow() const
{
    // git_repository_is_shallow() looks into a linked worktree's own folder, where there is no such file.
    return QFileInfo(QFile::decodeName(git_repository_commondir(d->repository.get())) + QStringLiteral("/shallow"))
               .size() > 0;
}

bool Repository::hasCommits() const
{
    return git_repository_head_unborn(d->repository.get()) != 1;
}

Result<CommitInfo> Repository::resolve(const QString& ref) const
{
    git_repository* repository = d->repository.get();
    if (ref.isEmpty()) {
        const int unborn = git_repository_head_unborn(repository);
        if (unborn == 1)
            return Error{ErrorCode::NotFound, d->label() + " has no commits yet"};
        if (unborn < 0)
            return Error{ErrorCode::RepositoryInvalid, d->label() + ": its HEAD is damaged (" + gitMessage() +
                                                           "): " + std::string(nameARef)};
    }
    const QByteArray spec = ref.isEmpty() ? QByteArray("HEAD") : ref.toUtf8();
    git_object* object = nullptr;
    git_reference* reference = nullptr;
    int rc = git_revparse_ext(&object, &reference, repository, spec.constData());
    const std::string why = rc < 0 ? gitMessage() : std::string();
    const bool isKnown = ref.isEmpty() || d->hasReference(spec);
    if (rc < 0 && !isKnown) // a branch that only the remote has, as `git switch` would find it
        rc = git_revparse_ext(&object, &reference, repository, QByteArray("refs/remotes/origin/" + spec).constData());
    const ObjectPtr heldObject(object);
    ReferencePtr heldReference(reference);
    if (rc < 0 && isKnown) {
        const auto unreadable = d->unreadableObjects();
        const std::string advice =
            unreadable ? "check its permissions" : "clone the repository again, or " + std::string(nameARef);
        return Error{ErrorCode::RepositoryInvalid, d->label() + ": the commit of " + spec.toStdString() +
                                                       " cannot be read (" + unreadable.value_or(why) + "): " + advice};
    }
    if (rc < 0)
        return Error{ErrorCode::NotFound, d->label() + " has no branch, tag or commit \"" + ref.toStdString() + "\"" +
                                              (isShallow() ? " (it is a shallow clone)" : "")};
    git_object* peeled = nullptr;
    if (git_object_peel(&peeled, object, GIT_OBJECT_COMMIT) < 0)
        return Error{ErrorCode::NotFound, d->label() + ": \"" + spec.toStdString() + "\" does not lead to a commit"};
    const CommitPtr commit(reinterpret_cast<git_commit*>(peeled));

    CommitInfo out;
    out.id = hex(git_commit_id(commit.get()));
    out.subject = QString::fromUtf8(git_commit_summary(commit.get()));
    out.time = commitTime(commit.get());
    if (heldReference && ref.isEmpty()) { // HEAD itself: name the branch it stands for
        git_reference* resolved = nullptr;
        if (git_reference_resolve(&resolved, heldReference.get()) == 0)
            heldReference.reset(resolved);
    }
    if (heldReference && git_reference_is_branch(heldReference.get()) + git_reference_is_tag(heldReference.get()) +
                                 git_reference_is_remote(heldReference.get()) >
                             0)
        out.ref = QString::fromUtf8(git_reference_shorthand(heldReference.get()));
    else if (ref.isEmpty() || out.id.startsWith(ref))
        out.ref = out.id.left(8);
    else
        out.ref = ref;
    return out;
}

QList<RefInfo> Repository::refs() const
{
    QList<RefInfo> out;
    git_reference_iterator* raw = nullptr;
    if (git_reference_iterator_new(&raw, d->repository.get()) < 0)
        return out;
    const std::unique_ptr<git_reference_iterator, Deleter<git_reference_iterator_free>> iterator(raw);
    git_reference* next = nullptr;
    while (git_reference_next(&next, iterator.get()) == 0) {
        const ReferencePtr reference(next);
        RefInfo info;
        if (git_reference_is_branch(next) == 1)
            info.kind = RefInfo::Kind::Branch;
        else if (git_reference_is_remote(next) == 1)
            info.kind = RefInfo::Kind::RemoteBranch;
        else if (git_reference_is_tag(next) == 1)
            info.kind = RefInfo::Kind::Tag;
        else
            continue;
        git_object* object = nullptr;
        if (git_reference_peel(&object, next, GIT_OBJECT_COMMIT) < 0)
            continue; // a tag of a tree or blob, or a broken ref
        const CommitPtr commit(reinterpret_cast<git_commit*>(object));
        info.name = QString::fromUtf8(git_reference_shorthand(next));
        if (info.name.endsWith(QLatin1String("/HEAD")))
            continue;
        info.commit = hex(git_commit_id(commit.get()));
        info.time = commitTime(commit.get());
        out.append(info);
    }
    std::sort(out.begin(), out.end(), [](const RefInfo& a, const RefInfo& b) {
        if (a.kind != b.kind)
            return a.kind < b.kind;
        return a.time != b.time ? a.time > b.time : a.name < b.name;
    });
    return out;
}

namespace {

/// Whether libgit2 failed for want of memory or of the system's help (a map, a handle): nothing is wrong with the
/// object.
bool isShortage()
{
    const git_error* error = git_error_last();
    return error != nullptr && (error->klass == GIT_ERROR_NOMEMORY || error->klass == GIT_ERROR_OS);
}

/// What stopped a tree or blob from being read. `what` begins the sentence.
Error unreadable(const std::string& what, int rc)
{
    if (rc == GIT_ENOTFOUND)
        return Error{ErrorCode::RepositoryInvalid, what + " is missing in this repository: " + gitMessage()};
    if (isShortage())
        return Error{ErrorCode::OutOfMemory, what + " could not be read: " + gitMessage()
                                                 + "; close other programs and read the repository again"};
    return Error{ErrorCode::RepositoryInvalid, what + " is damaged in this repository: " + gitMessage()};
}

constexpr qint64 mostPathBytes = qint64{256} << 20;

struct TreeWalk {
    git_repository* repository;
    const std::atomic<bool>* cancel;
    qsizetype mostFiles;
    QList<TreeEntry> out;
    qint64 pathBytes = 0;

    Result<void> walk(const git_tree* tree, const QByteArray& prefix, int depth)
    {
        if (depth > maxTreeDepth)
            return Error{ErrorCode::RepositoryInvalid, displayPath(prefix).toStdString() + " is nested too deeply"};
        for (std::size_t i = 0; i < git_tree_entrycount(tree); ++i) {
            if (cancel != nullptr && cancel->load(std::memory_order_relaxed))
                return Error{ErrorCode::Cancelled, "listing the files was cancelled"};
            const git_tree_entry* entry = git_tree_entry_byindex(tree, i);
            TreeEntry leaf;
            leaf.path = prefix + git_tree_entry_name(entry);
            leaf.id = hex(git_tree_entry_id(entry)).toLatin1();
            switch (git_tree_entry_filemode(entry)) {
            case GIT_FILEMODE_TREE: {
                git_tree* child = nullptr;
                if (const int rc = git_tree_lookup(&child, repository, git_tree_entry_id(entry)); rc < 0)
                    return unreadable("folder " + displayPath(leaf.path).toStdString(), rc);
                const TreePtr held(child);
                OCTAVO_CHECK(walk(child, leaf.path + '/', depth + 1));
                continue;
            }
            case GIT_FILEMODE_LINK:
                leaf.kind = TreeEntry::Kind::Link;
                break;
            case GIT_FILEMODE_COMMIT:
                leaf.kind = TreeEntry::Kind::Submodule;
                break;
            default:
                leaf.kind = TreeEntry::Kind::File;
            }
            out.append(leaf);
            pathBytes += leaf.path.size();
            if (out.size() > mostFiles || pathBytes > mostPathBytes) // a few objects can name each other's folders without end
                return Error{ErrorCode::Unsupported, "the commit holds more than " + std::to_string(out.size() - 1) +
                                                         " files; octavo reads up to " + std::to_string(mostFiles)};
        }
        return {};
    }
};

Error unreadableBlob(const QByteArray& id, int rc)
{
    if (rc == GIT_ENOTFOUND)
        return Error{ErrorCode::NotFound, "blob " + id.toStdString() + " is not in this clone"};
    return unreadable("blob " + id.toStdString(), rc);
}

Result<git_oid> parseId(const QByteArray& id)
{
    git_oid out;
    if (id.size() != GIT_OID_HEXSZ || git_oid_fromstr(&out, id.constData()) < 0)
        return Error{ErrorCode::InvalidArgument, "\"" + id.toStdString() + "\" is not an object id"};
    return out;
}

} // namespace

Result<QList<TreeEntry>> Repository::list(const QString& commit, const std::atomic<bool>* cancel,
                                          qsizetype mostFiles) const
{
    OCTAVO_TRY(const git_oid id, parseId(commit.toLatin1()));
    git_commit* rawCommit = nullptr;
    if (git_commit_lookup(&rawCommit, d->repository.get(), &id) < 0)
        return Error{ErrorCode::NotFound, d->label() + " has no commit " + commit.toStdString()};
    const CommitPtr heldCommit(rawCommit);
    git_tree* rawTree = nullptr;
    if (git_commit_tree(&rawTree, rawCommit) < 0)
        return Error{ErrorCode::RepositoryInvalid,
                     d->label() + ": the files of commit " + commit.toStdString() + " are missing: " + gitMessage()};
    const TreePtr tree(rawTree);
    TreeWalk walk{d->repository.get(), cancel, mostFiles, {}};
    OCTAVO_CHECK(walk.walk(rawTree, QByteArray(), 0));
    return walk.out;
}

Result<qint64> Repository::blobSize(const QByteArray& id) const
{
    OCTAVO_TRY(const git_oid oid, parseId(id));
    std::size_t size = 0;
    git_object_t type = GIT_OBJECT_INVALID;
    if (const int rc = git_odb_read_header(&size, &type, d->odb.get(), &oid); rc < 0)
        return unreadableBlob(id, rc);
    return qint64(size);
}

Result<QByteArray> Repository::blob(const QByteArray& id) const
{
    OCTAVO_TRY(const git_oid oid, parseId(id));
    git_blob* raw = nullptr;
    if (const int rc = git_blob_lookup(&raw, d->repository.get(), &oid); rc < 0)
        return unreadableBlob(id, rc);
    const BlobPtr held(raw);
    return QByteArray(static_cast<const char*>(git_blob_rawcontent(raw)), qsizetype(git_blob_rawsize(raw)));
}

} // namespace octavo::agents
