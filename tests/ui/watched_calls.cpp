#include "tests/ui/watched_calls.h"

// No header that declares the watched functions: some declare them as macros or inline.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <dlfcn.h>
#include <mutex>
#include <thread>

namespace octavo::ui::test {

namespace {

std::atomic<bool> watching = false;
std::atomic<int> held = 0, delay = 0, firstDelay = 0;
std::thread::id watched;
std::mutex mutex;
std::vector<std::string> watchedFolders, noted, seen;
thread_local bool inside = false; // what a watched call calls itself is not another

bool isBelow(const char* path)
{
    return path != nullptr && std::ranges::any_of(watchedFolders, [path](const std::string& folder) {
               return std::string_view(path).starts_with(folder);
           });
}

/// Stands at the head of every watched function; `path` is null where the call has none.
class Passing
{
public:
    explicit Passing(const char* call, const char* path = nullptr, bool hasPath = false)
        : m_counts(watching && !inside && (!hasPath || isBelow(path)))
    {
        if (!m_counts)
            return;
        inside = true;
        if (std::this_thread::get_id() == watched) {
            const std::scoped_lock lock(mutex);
            const std::string what = path != nullptr ? std::string(call) + ' ' + path : std::string(call);
            if (std::ranges::find(noted, what) == noted.end())
                noted.push_back(what);
        } else {
            ++held;
            std::this_thread::sleep_for(std::chrono::milliseconds(isFirst(call) ? firstDelay : delay));
        }
    }
    ~Passing()
    {
        if (m_counts)
            inside = false;
    }
    Passing(const Passing&) = delete;
    Passing& operator=(const Passing&) = delete;

private:
    static bool isFirst(const char* call)
    {
        const std::scoped_lock lock(mutex);
        const bool first = std::ranges::find(seen, call) == seen.end();
        if (first)
            seen.emplace_back(call);
        return first;
    }

    bool m_counts;
};

template <typename Function>
Function* real(const char* name)
{
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

constexpr int createFlag = 0100, temporaryFlag = 020000000; // O_CREAT, O_TMPFILE: a mode follows

} // namespace

void watchCalls(std::vector<std::string> folders, int delayMs, int firstDelayMs)
{
    const std::scoped_lock lock(mutex);
    watchedFolders = std::move(folders);
    noted.clear();
    seen.clear();
    held = 0;
    delay = delayMs;
    firstDelay = firstDelayMs;
    watched = std::this_thread::get_id();
    watching = true;
}

void stopWatching()
{
    watching = false;
}

std::vector<std::string> offences()
{
    const std::scoped_lock lock(mutex);
    return noted;
}

int heldCalls()
{
    return held;
}

} // namespace octavo::ui::test

using octavo::ui::test::Passing;
using octavo::ui::test::real;

extern "C" {

// SQLite: one call that begins a statement, one that runs it.
int sqlite3_prepare_v2(void* db, const char* sql, int size, void** statement, const char** tail)
{
    const Passing passing("sqlite3_prepare_v2");
    static auto* const next = real<int(void*, const char*, int, void**, const char**)>("sqlite3_prepare_v2");
    return next(db, sql, size, statement, tail);
}

int sqlite3_exec(void* db, const char* sql, int (*row)(void*, int, char**, char**), void* data, char** error)
{
    const Passing passing("sqlite3_exec");
    static auto* const next =
        real<int(void*, const char*, int (*)(void*, int, char**, char**), void*, char**)>("sqlite3_exec");
    return next(db, sql, row, data, error);
}

// libgit2: what opens a repository, looks up a commit, reads a file.
int git_repository_open_ext(void** out, const char* path, unsigned flags, const char* ceiling)
{
    const Passing passing("git_repository_open_ext");
    static auto* const next = real<int(void**, const char*, unsigned, const char*)>("git_repository_open_ext");
    return next(out, path, flags, ceiling);
}

int git_commit_lookup(void** commit, void* repository, const void* id)
{
    const Passing passing("git_commit_lookup");
    static auto* const next = real<int(void**, void*, const void*)>("git_commit_lookup");
    return next(commit, repository, id);
}

int git_blob_lookup(void** blob, void* repository, const void* id)
{
    const Passing passing("git_blob_lookup");
    static auto* const next = real<int(void**, void*, const void*)>("git_blob_lookup");
    return next(blob, repository, id);
}

int git_clone(void** out, const char* url, const char* path, const void* options)
{
    const Passing passing("git_clone");
    static auto* const next = real<int(void**, const char*, const char*, const void*)>("git_clone");
    return next(out, url, path, options);
}

// Files.
int open(const char* path, int flags, ...)
{
    const Passing passing("open", path, true);
    static auto* const next = real<int(const char*, int, ...)>("open");
    unsigned mode = 0;
    if (flags & (octavo::ui::test::createFlag | octavo::ui::test::temporaryFlag)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, unsigned);
        va_end(rest);
    }
    return next(path, flags, mode);
}

int open64(const char* path, int flags, ...)
{
    const Passing passing("open", path, true);
    static auto* const next = real<int(const char*, int, ...)>("open64");
    unsigned mode = 0;
    if (flags & (octavo::ui::test::createFlag | octavo::ui::test::temporaryFlag)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, unsigned);
        va_end(rest);
    }
    return next(path, flags, mode);
}

int statx(int folder, const char* path, int flags, unsigned mask, void* out)
{
    const Passing passing("statx", path, true);
    static auto* const next = real<int(int, const char*, int, unsigned, void*)>("statx");
    return next(folder, path, flags, mask, out);
}

int rename(const char* from, const char* to)
{
    const Passing passing("rename", to, true);
    static auto* const next = real<int(const char*, const char*)>("rename");
    return next(from, to);
}

int unlink(const char* path)
{
    const Passing passing("unlink", path, true);
    static auto* const next = real<int(const char*)>("unlink");
    return next(path);
}

} // extern "C"
