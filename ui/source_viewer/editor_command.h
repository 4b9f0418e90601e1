#pragma once

/// How an external editor is told to open a file at a line.

#include <QString>
#include <QStringList>

namespace octavo::ui {

/// Program and arguments for the editor `visual` names (the value of $VISUAL, possibly with arguments of its own), so
/// that it shows `line` of `file`. Empty where `visual` is empty or names an editor that needs a terminal.
QStringList editorCommand(const QString& visual, const QString& file, int line);

} // namespace octavo::ui
