#include "app/window_options.h"

#include "engine/cli/common.h"

#include <QFile>
#include <QFileInfo>
#include <QStandardPaths>

namespace octavo::app {

Result<WindowOptions> readWindowOptions(const std::vector<std::string>& words)
{
    const auto specs = cli::joined(
        {cli::modelOption(), {"--budget", "N", "read at most N tokens of each repository (0: all that fits)"}},
        cli::engineOptions());
    OCTAVO_TRY(const cli::Arguments arguments, cli::Arguments::parse(specs, words));
    WindowOptions out;
    OCTAVO_TRY(out.workbench.engine, cli::readEngineOptions(arguments));
    if (arguments.has("--budget")) {
        OCTAVO_TRY(const std::int64_t budget, arguments.integer("--budget", 0, 0));
        out.tokenBudget = budget;
    }
    const QString data = QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation) + QStringLiteral("/octavo");
    out.workbench.databasePath = data + QStringLiteral("/octavo.db");
    if (out.workbench.engine.savedContexts.empty())
        out.workbench.engine.savedContexts = QFile::encodeName(data + QStringLiteral("/contexts")).toStdString();
    for (const std::string& word : arguments.positional()) {
        const QFileInfo info(QFile::decodeName(word.c_str()));
        if (!info.exists())
            return Error{ErrorCode::NotFound, "there is no command and no repository '" + word + "'"};
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
