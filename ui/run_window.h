#pragma once

/// The window as the program `octavo` opens it.

#include "agents/workbench.h"
#include "ui/settings/startup_settings.h"

#include <QStringList>

namespace octavo::ui {

/// What the command line says beside the workbench's options.
struct WindowStart {
    QStringList repositories;
    qint64 tokenBudget = -1; ///< as RepositoryIntake::setTokenBudget()
    bool trusted = false;    ///< `repositories` are read though they belong to another user
    GivenOptions given;
};

/// Opens the window on a workbench made from `options`, has the repositories read and gives them to the panes that have
/// no context; returns the exit status when the window is closed. The QApplication is there already. Where a window on
/// the same database is open, that one is raised and takes the repositories instead; where it does not answer, the user
/// is told and no second one opens.
int runWindow(const agents::WorkbenchOptions& options, const WindowStart& start);

} // namespace octavo::ui
