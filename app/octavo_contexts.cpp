#include "app/octavo_contexts.h"

#include "agents/saved_contexts.h"
#include "app/repository_options.h"
#include "app/window_options.h"
#include "engine/cli/common.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace octavo::app {

namespace {

namespace fs = std::filesystem;
using agents::SavedContextFile;
using agents::SavedContextState;

const char* textOf(SavedContextState state)
{
    switch (state) {
    case SavedContextState::Saved:
        return "saved";
    case SavedContextState::Verified:
        return "verified";
    case SavedContextState::Damaged:
        return "damaged";
    case SavedContextState::AnotherVersion:
        return "another version";
    case SavedContextState::Unreadable:
        break;
    }
    return "unreadable";
}

void print(const SavedContextFile& context, const std::string& state, bool json, std::ostream& out)
{
    const std::string used = context.lastUsed.toString(Qt::ISODate).toStdString();
    if (json) {
        nlohmann::ordered_json line{{"id", context.id.toStdString()},
                                    {"name", context.name.toStdString()},
                                    {"commit", context.commit.toStdString()},
                                    {"model", context.model.toStdString()},
                                    {"tokens", context.tokens},
                                    {"bytes", context.bytes},
                                    {"last_used", used},
                                    {"file", context.file.string()},
                                    {"state", state}};
        if (context.wantedTokens > 0)
            line["wanted_tokens"] = context.wantedTokens; // reading was left on the way
        if (!context.problem.isEmpty())
            line["problem"] = context.problem.toStdString();
        out << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
        return;
    }
    char sizes[64];
    std::snprintf(sizes, sizeof sizes, "%10lld tokens %8.1f MiB  ", static_cast<long long>(context.tokens),
                  double(context.bytes) / double(1 << 20));
    const QString name = context.name.isEmpty() ? QStringLiteral("(no name)") : context.name;
    const std::string commit = context.commit.isEmpty() ? "" : " @ " + terminalText(context.commit).substr(0, 8);
    out << context.id.left(16).toStdString() << sizes << used << "  " << terminalText(name) << commit
        << (context.wantedTokens > 0 ? "  of " + std::to_string(context.wantedTokens) + " tokens, the rest unread" : "")
        << (state == "saved" || state == "verified" ? "" : "  " + state) << '\n';
}

/// Those that the words name: an id, its beginning, or a repository's name; all where there are no words.
Result<QList<SavedContextFile>> chosen(const QList<SavedContextFile>& all, std::span<const std::string> words)
{
    if (words.empty())
        return all;
    QList<SavedContextFile> found;
    for (const std::string& text : words) {
        const QString word = QString::fromStdString(text);
        const qsizetype before = found.size();
        for (const SavedContextFile& context : all) {
            const bool fits = context.name == word || (word.size() >= 4 && context.id.startsWith(word));
            if (fits && std::ranges::find(found, context.id, &SavedContextFile::id) == found.end())
                found.append(context);
        }
        if (found.size() == before)
            return Error{ErrorCode::NotFound,
                         "no saved context is called '" + text + "'; octavo contexts list shows ids and names"};
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
    std::error_code looked;
    if (arguments.has("--saved-contexts") && !fs::is_directory(folder, looked))
        return Error{ErrorCode::NotFound, "--saved-contexts: " + folder.string() + " is no folder" +
                                              (looked ? ": " + looked.message() : std::string())};
    auto all = agents::listSavedContexts(folder);
    if (!all) {
        Error error = all.error();
        error.message += "; name another with --saved-contexts";
        return error;
    }
    OCTAVO_TRY(QList<SavedContextFile> found, chosen(*all, words.subspan(1)));
    const bool json = arguments.has("--json");
    if (found.isEmpty() && !json)
        streams.err << "no contexts are saved in " << terminalText(QString::fromStdString(folder.string())) << '\n';
    int bad = 0;
    for (SavedContextFile& context : found) {
        std::string state;
        if (action == "remove") {
            OCTAVO_CHECK(agents::removeSavedContext(context));
            state = "removed";
            context.problem.clear();
        } else if (action == "verify" && context.problem.isEmpty()) {
            context = agents::verifySavedContext(context);
        }
        bad += context.problem.isEmpty() ? 0 : 1;
        print(context, state.empty() ? textOf(context.state) : state, json, streams.out);
        if (!context.problem.isEmpty() && !json)
            streams.err << context.problem.toStdString() << '\n';
    }
    if (action == "verify" && bad > 0)
        return Error{ErrorCode::FormatInvalid,
                     std::to_string(bad) + " of " + std::to_string(found.size()) +
                         " saved contexts cannot be used; octavo contexts remove deletes them"};
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
