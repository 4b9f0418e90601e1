#include "agents/ingest/loose_objects.h"

#include <git2/sys/odb_backend.h>
#if __has_include(<git2/sys/errors.h>) // git_error_set_str() stands there from 1.8 on
#include <git2/sys/errors.h>
#endif

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>
#include <zlib.h>

namespace octavo::agents {

namespace {

namespace fs = std::filesystem;

/// Before the backends of libgit2, which count from 1.
constexpr int firstOfAll = 1000;
/// Alternates of alternates; git itself goes no further.
constexpr int deepestAlternate = 5;

/// Asked before all others; answers only where an object must not be read.
struct CutObjects : git_odb_backend {
    std::vector<fs::path> folders; ///< "objects" of the repository and of those it borrows from
};

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

/// Whether the zlib stream in `path` ends before it is complete. Not so where it is garbage: libgit2 tells.
bool isCut(const fs::path& path)
{
    const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
    if (!file)
        return false;
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK)
        return false;
    std::array<Bytef, 16384> in{}, out{};
    int state = Z_OK;
    while (state == Z_OK) {
        if (stream.avail_in == 0) {
            stream.next_in = in.data();
            stream.avail_in = uInt(std::fread(in.data(), 1, in.size(), file.get()));
            if (stream.avail_in == 0)
                break;
        }
        stream.next_out = out.data();
        stream.avail_out = uInt(out.size());
        state = inflate(&stream, Z_NO_FLUSH);
    }
    inflateEnd(&stream);
    return state == Z_OK;
}

/// Whether a pack below these folders has the object too: libgit2 looks there first.
bool isPacked(const std::vector<fs::path>& folders, const std::string& name)
{
    git_oid id;
    git_odb* created = nullptr;
    if (git_oid_fromstr(&id, name.c_str()) < 0 || git_odb_new(&created) < 0)
        return false;
    const std::unique_ptr<git_odb, decltype(&git_odb_free)> packs(created, git_odb_free);
    for (const fs::path& folder : folders) {
        git_odb_backend* backend = nullptr;
        if (git_odb_backend_pack(&backend, folder.c_str()) == 0 && git_odb_add_backend(packs.get(), backend, 1) < 0)
            backend->free(backend);
    }
    return git_odb_exists(packs.get(), &id) == 1;
}

/// GIT_PASSTHROUGH, or an error with its message where one of the loose objects that begin with `name` is cut. By a
/// beginning libgit2 reads it even if a pack has given it already.
int look(const CutObjects& backend, const std::string& name)
{
    const std::string rest = name.substr(2);
    const bool isWhole = name.size() == GIT_OID_HEXSZ;
    for (const fs::path& folder : backend.folders) {
        const fs::path fan = folder / name.substr(0, 2);
        bool cut = isWhole && isCut(fan / rest) && !isPacked(backend.folders, name);
        std::error_code gone;
        if (!isWhole) {
            for (fs::directory_iterator at(fan, gone), end; !gone && at != end && !cut; at.increment(gone))
                cut = at->path().filename().native().starts_with(rest) && isCut(at->path());
        }
        if (cut) {
            git_error_set_str(GIT_ERROR_ODB, "the file of a loose object is cut short");
            return GIT_ERROR;
        }
    }
    return GIT_PASSTHROUGH;
}

int read(void** /*data*/, std::size_t* /*size*/, git_object_t* /*type*/, git_odb_backend* backend, const git_oid* id)
{
    std::string name(GIT_OID_HEXSZ, '0');
    git_oid_fmt(name.data(), id);
    return look(*static_cast<CutObjects*>(backend), name);
}

int readPrefix(git_oid* /*found*/, void** /*data*/, std::size_t* /*size*/, git_object_t* /*type*/,
               git_odb_backend* backend, const git_oid* id, std::size_t digits)
{
    std::string name(GIT_OID_HEXSZ, '0');
    git_oid_fmt(name.data(), id);
    return look(*static_cast<CutObjects*>(backend), name.substr(0, digits));
}

/// The folders of `objects` and of its alternates, each once, whichever way they lead to each other.
void gather(const fs::path& objects, int depth, std::vector<fs::path>& out)
{
    if (depth > deepestAlternate || std::ranges::find(out, objects) != out.end())
        return;
    out.push_back(objects);
    std::ifstream alternates(objects / "info" / "alternates");
    for (std::string line; std::getline(alternates, line);) {
        if (!line.empty() && line[0] != '#')
            gather((objects / line).lexically_normal(), depth + 1, out);
    }
}

} // namespace

Result<void> refuseCutObjects(git_odb* odb, git_repository* repository)
{
    auto backend = std::make_unique<CutObjects>();
    git_odb_init_backend(backend.get(), GIT_ODB_BACKEND_VERSION);
    backend->read = read;
    backend->read_prefix = readPrefix;
    backend->free = [](git_odb_backend* b) { delete static_cast<CutObjects*>(b); };
    gather(fs::path(git_repository_commondir(repository)) / "objects", 0, backend->folders);
    if (git_odb_add_backend(odb, backend.get(), firstOfAll) < 0)
        return Error{ErrorCode::OutOfMemory, "the repository's object store cannot be opened: close other programs"};
    static_cast<void>(backend.release()); // the odb's now
    return {};
}

} // namespace octavo::agents
