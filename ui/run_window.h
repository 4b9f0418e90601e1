#pragma once

/// The window as the program `octavo` opens it.

#include "agents/workbench.h"

#include <QStringList>

namespace octavo::ui {

/// Opens the window on a workbench made from `options`, has `repositories` read and gives them to the panes that have
/// no context; returns the exit status when the window is closed. The QApplication is there already. Where a window on
/// the same database is open, that one is raised and takes the repositories instead.
/// `tokenBudget`: as RepositoryIntake::setTokenBudget().
int runWindow(const agents::WorkbenchOptions& options, const QStringList& repositories, qint64 tokenBudget = -1);

} // namespace octavo::ui
