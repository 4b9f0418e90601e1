#pragma once

/// Which keys run the window's commands: what Octavo proposes, and what the user chose instead.
///
/// A command is a QAction whose object name is its id; the choice is kept under that id in the session store.

#include <QAction>
#include <QKeySequence>
#include <QList>

namespace octavo::agents {
class Workbench;
}

namespace octavo::ui {

/// Names `command` and gives it the keys it has until the user chooses others.
void setDefaultKeys(QAction* command, const QString& id, const QList<QKeySequence>& keys);
QList<QKeySequence> defaultKeys(const QAction* command);

/// Gives each command the keys that were kept; what cannot be read leaves the default.
void loadKeys(const QList<QAction*>& commands, const agents::Workbench& workbench);
/// Has `command` run by `keys` (none: by no key) from now on, and keeps that.
void chooseKeys(QAction* command, const QList<QKeySequence>& keys, agents::Workbench& workbench);

/// Another of `commands` that is run by `key`, or by keys that begin with it or that it begins with; null for none.
const QAction* commandWithKey(const QList<QAction*>& commands, const QKeySequence& key, const QAction* except);

/// "Ctrl+K, Ctrl+Shift+P" as the desktop writes keys; a dash for none.
QString keysText(const QAction* command);

} // namespace octavo::ui
