#include "app/window_options.h"

#include "agents/ingest/repository.h"
#include "engine/cli/common.h"

#include <QFile>
#include <QFileInfo>
#include <QStandardPaths>

namespace octavo::app {

namespace {

QString dataFolder()
{
    return QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation) + QStringLiteral("/octavo");
}

std::vector<cli::OptionSpec> windowOptions()
{
    std::vector<cli::OptionSpec> options = cli::joined(
        {cli::modelOption(),
         {"--budget", "N", "read at most N tokens of each repository (0: all that fits)"},
         {"--trust", "", "read repositories that belong to another user"}},
        cli::engineOptions());
    for (cli::OptionSpec& option : options) { // the window keeps them in any case
        if (option.name == "--saved-contexts")
            option.help = "keep contexts that were read there, and open them again (default: "
                          + defaultSavedContexts().string() + ")";
    }
    return options;
}

} // namespace

std::filesystem::path defaultSavedContexts()
{
    return QFile::encodeName(dataFolder() + QStringLiteral("/contexts")).toStdString();
}

void printWindowHelp(std::ostream& out)
{
    out << "usage: octavo [options] [REPO...]\n\nOpens the window; repositories named are read.\n\n";
    cli::printOptions(windowOptions(), out);
    out << '\n';
}

Result<WindowOptions> readWindowOptions(const std::vector<std::string>& words)
{
    OCTAVO_TRY(const cli::Arguments arguments, cli::Arguments::parse(windowOptions(), words));
    WindowOptions out;
    OCTAVO_TRY(out.workbench.engine, cli::readEngineOptions(arguments));
    if (arguments.has("--budget")) {
        OCTAVO_TRY(const std::int64_t budget, arguments.integer("--budget", 0, 0));
        out.tokenBudget = budget;
    }
    out.trusted = arguments.has("--trust");
    out.given = {arguments.has("--model"), arguments.has("--device"), arguments.has("--sparse")};
    out.workbench.databasePath = dataFolder() + QStringLiteral("/octavo.db");
    if (out.workbench.engine.savedContexts.empty())
        out.workbench.engine.savedContexts = defaultSavedContexts();
    for (const std::string& word : arguments.positional()) {
        const QFileInfo info(QFile::decodeName(word.c_str()));
        if (!info.exists()) {
            if (info.filePath().contains(QChar::ReplacementCharacter))
                return agents::Repository::open(info.filePath()).error();
            const bool isPath = word.find('/') != std::string::npos;
            return Error{isPath ? ErrorCode::NotFound : ErrorCode::InvalidArgument,
                         isPath ? "there is no repository '" + word + "'"
                                : "there is no command and no repository '" + word + "'"};
        }
        out.repositories.append(info.absoluteFilePath());
    }
    return out;
}

bool hasDisplay()
{
    for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}) {
        if (!qEnvironmentVariableIsEmpty(name))
            return true;
    }
    return false;
}

} // namespace octavo::app
