#include "app/octavo_contexts.h"

#include "app/repository_options.h"
#include "app/window_options.h"
#include "engine/cli/common.h"
#include "engine/scheduler/context_store.h"
#include "engine/scheduler/saved_context.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <functional>

namespace octavo::app {

namespace {

namespace fs = std::filesystem;
using engine::SavedContext;
using engine::SavedContextInfo;

/// A file of the folder, and what is the matter with it where something is.
struct Listed {
    SavedContextInfo info;
    std::string id;
    std::string state = "saved", problem;
};

const char* stateOf(ErrorCode code)
{
    switch (code) {
    case ErrorCode::FormatInvalid:
        return "damaged";
    case ErrorCode::Unsupported:
        return "another version";
    default:
        return "unreadable";
    }
}

void note(Listed& listed, const Error& error)
{
    listed.state = stateOf(error.code);
    listed.problem = error.message;
}

/// Oldest use last.
Result<std::vector<Listed>> list(const fs::path& folder)
{
    std::vector<Listed> found;
    std::error_code error;
    if (!fs::exists(folder, error) && !error)
        return found; // nothing was ever saved
    fs::directory_iterator at(folder, error);
    for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (!name.ends_with(".context") || !engine::ContextStore::isStoresName(name))
            continue; // somebody else's
        Listed listed;
        if (const auto file = SavedContext::open(at->path())) {
            listed.info = file->info();
            char id[32];
            std::snprintf(id, sizeof id, "%016llx",
                          static_cast<unsigned long long>(file->info().resume.back().tokenHash ^ file->info().modelKey));
            listed.id = id;
        } else {
            std::error_code ignored;
            listed.info.file = at->path();
            listed.info.bytes = std::int64_t(at->file_size(ignored));
            listed.info.lastUsed = at->last_write_time(ignored);
            listed.id = at->path().stem().string();
            note(listed, file.error());
        }
        found.push_back(std::move(listed));
    }
    if (error)
        return Error{ErrorCode::FileUnreadable,
                     folder.string() + " cannot be listed: " + error.message() + "; name another with --saved-contexts"};
    std::ranges::sort(found, std::ranges::greater(), [](const Listed& listed) { return listed.info.lastUsed; });
    return found;
}

std::string timeText(fs::file_time_type time)
{
    const auto wall = std::chrono::file_clock::to_sys(time);
    const std::time_t seconds = std::chrono::system_clock::to_time_t(
        std::chrono::time_point_cast<std::chrono::system_clock::duration>(wall));
    std::tm broken{};
    char text[32] = "";
    if (gmtime_r(&seconds, &broken))
        std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &broken);
    return text;
}

void print(const Listed& listed, bool json, std::ostream& out)
{
    const SavedContextInfo& info = listed.info;
    if (json) {
        nlohmann::ordered_json line{{"id", listed.id},
                                    {"name", info.label.name},
                                    {"commit", info.label.commit},
                                    {"model", info.model},
                                    {"tokens", info.tokens()},
                                    {"bytes", info.bytes},
                                    {"last_used", timeText(info.lastUsed)},
                                    {"file", info.file.string()},
                                    {"state", listed.state}};
        if (!listed.problem.empty())
            line["problem"] = listed.problem;
        out << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
        return;
    }
    char sizes[64];
    std::snprintf(sizes, sizeof sizes, "%10lld tokens %8.1f MiB  ", static_cast<long long>(info.tokens()),
                  double(info.bytes) / double(1 << 20));
    const std::string name = info.label.name.empty() ? "(no name)" : info.label.name;
    out << listed.id.substr(0, 16) << sizes << timeText(info.lastUsed) << "  "
        << terminalText(QString::fromStdString(name)) << " @ " << terminalText(QString::fromStdString(info.label.commit)).substr(0, 8)
        << (listed.state == "saved" || listed.state == "verified" ? "" : "  " + listed.state) << '\n';
}

/// Those that the words name: an id, its beginning, or a repository's name; all where there are no words.
Result<std::vector<Listed>> chosen(std::vector<Listed> all, std::span<const std::string> words)
{
    if (words.empty())
        return all;
    std::vector<Listed> found;
    for (const std::string& word : words) {
        const std::size_t before = found.size();
        for (const Listed& listed : all) {
            const bool fits = listed.info.label.name == word || (word.size() >= 4 && listed.id.starts_with(word));
            if (fits && std::ranges::find(found, listed.id, &Listed::id) == found.end())
                found.push_back(listed);
        }
        if (found.size() == before)
            return Error{ErrorCode::NotFound,
                         "no saved context is called '" + word + "'; octavo contexts list shows ids and names"};
    }
    return found;
}

Result<void> runContexts(const cli::Arguments& arguments, cli::Streams& streams)
{
    const std::span<const std::string> words = arguments.positional();
    const std::string action = words.empty() ? "" : words.front();
    if (action != "list" && action != "remove" && action != "verify")
        return Error{ErrorCode::InvalidArgument, "name one of list, remove and verify"};
    if (action == "remove" && (words.size() == 1) != arguments.has("--all"))
        return Error{ErrorCode::InvalidArgument, "remove takes ids or names of saved contexts, or --all"};
    const fs::path folder = arguments.has("--saved-contexts") ? fs::path(arguments.text("--saved-contexts"))
                                                              : defaultSavedContexts();
    OCTAVO_TRY(std::vector<Listed> all, list(folder));
    OCTAVO_TRY(std::vector<Listed> found, chosen(std::move(all), words.subspan(1)));
    const bool json = arguments.has("--json");
    int bad = 0;
    for (Listed& listed : found) {
        if (action == "remove") {
            std::error_code error;
            if (!fs::remove(listed.info.file, error) && error)
                return Error{ErrorCode::FileUnwritable,
                             listed.info.file.string() + " cannot be removed: " + error.message()};
            listed.state = "removed";
            listed.problem.clear();
        } else if (action == "verify" && listed.problem.empty()) {
            const auto file = SavedContext::open(listed.info.file);
            const auto sound = file ? file->verify() : Result<void>(file.error());
            if (sound)
                listed.state = "verified";
            else
                note(listed, sound.error());
        }
        bad += listed.problem.empty() ? 0 : 1;
        print(listed, json, streams.out);
        if (!listed.problem.empty() && !json)
            streams.err << listed.problem << '\n';
    }
    if (action == "verify" && bad > 0)
        return Error{ErrorCode::FormatInvalid, std::to_string(bad) + " of " + std::to_string(found.size())
                                                   + " saved contexts cannot be used; octavo contexts remove deletes them"};
    return {};
}

} // namespace

cli::Command contextsCommand()
{
    cli::Command out;
    out.name = "contexts";
    out.summary = "lists, removes or verifies the contexts that were read and saved";
    out.positional = "list|remove|verify [ID|NAME...]";
    out.options = {{"--saved-contexts", "DIR", "where they are (default: where the window keeps them)"},
                   {"--all", "", "remove: every one"},
                   cli::jsonOption()};
    out.run = runContexts;
    return out;
}

} // namespace octavo::app
