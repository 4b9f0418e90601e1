#include "agents/saved_contexts.h"

#include "engine/scheduler/context_store.h"
#include "engine/scheduler/saved_context.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace octavo::agents {

namespace fs = std::filesystem;

namespace {

void note(SavedContextFile& context, const Error& error)
{
    context.state = error.code == ErrorCode::FormatInvalid ? SavedContextState::Damaged
                    : error.code == ErrorCode::Unsupported ? SavedContextState::AnotherVersion
                                                           : SavedContextState::Unreadable;
    context.problem = QString::fromStdString(error.message);
}

QDateTime wallTime(fs::file_time_type time)
{
    const auto wall = std::chrono::file_clock::to_sys(time).time_since_epoch();
    return QDateTime::fromMSecsSinceEpoch(std::chrono::duration_cast<std::chrono::milliseconds>(wall).count(), Qt::UTC);
}

SavedContextFile look(const fs::path& path)
{
    SavedContextFile out;
    out.file = path;
    const auto file = engine::SavedContext::open(path);
    if (!file) {
        std::error_code ignored;
        out.id = QString::fromStdString(path.stem().string());
        const std::uintmax_t bytes = fs::file_size(path, ignored);
        out.bytes = ignored ? 0 : qint64(bytes); // a folder has no size
        out.lastUsed = wallTime(fs::last_write_time(path, ignored));
        note(out, file.error());
        return out;
    }
    const engine::SavedContextInfo& info = file->info();
    char id[32];
    std::snprintf(id, sizeof id, "%016llx",
                  static_cast<unsigned long long>(info.resume.back().tokenHash ^ info.modelKey));
    out.id = QLatin1String(id);
    out.name = QString::fromStdString(info.label.name);
    out.commit = QString::fromStdString(info.label.commit);
    out.model = QString::fromStdString(info.model);
    out.tokens = info.tokens();
    out.wantedTokens = info.isPart() ? info.wantedTokens : 0;
    out.bytes = info.bytes;
    out.lastUsed = wallTime(info.lastUsed);
    return out;
}

} // namespace

Result<QList<SavedContextFile>> listSavedContexts(const fs::path& folder)
{
    QList<SavedContextFile> found;
    std::error_code error;
    if (!fs::exists(folder, error) && !error)
        return found; // nothing was ever saved
    fs::directory_iterator at(folder, error);
    for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name.ends_with(".context") && engine::ContextStore::isStoresName(name)) // else it is somebody else's
            found.append(look(at->path()));
    }
    if (error)
        return Error{ErrorCode::FileUnreadable, folder.string() + " cannot be listed: " + error.message()};
    std::ranges::sort(found, std::ranges::greater(), &SavedContextFile::lastUsed);
    return found;
}

SavedContextFile verifySavedContext(SavedContextFile context)
{
    const auto file = engine::SavedContext::open(context.file);
    const Result<void> sound = file ? file->verify() : Result<void>(file.error());
    context.problem.clear();
    if (sound)
        context.state = SavedContextState::Verified;
    else
        note(context, sound.error());
    return context;
}

Result<void> removeSavedContext(const SavedContextFile& context)
{
    std::error_code error;
    if (!fs::remove(context.file, error) && error)
        return Error{ErrorCode::FileUnwritable, context.file.string() + " cannot be removed: " + error.message()};
    return {};
}

} // namespace octavo::agents
