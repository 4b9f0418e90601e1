#pragma once

/// Keys of the interface's own settings, as kept by Workbench::setting().

#include <QString>

namespace octavo::ui::setting_keys {

inline const QString geometry = QStringLiteral("window/geometry");   ///< base64 of QMainWindow::saveGeometry()
inline const QString state = QStringLiteral("window/state");         ///< base64 of QMainWindow::saveState()
inline const QString gridShape = QStringLiteral("grid/shape");       ///< gridShapeName()
inline const QString paneOrder = QStringLiteral("grid/order");       ///< PaneGrid::order()
inline const QString currentPane = QStringLiteral("grid/current");   ///< index of an agent
inline const QString askAll = QStringLiteral("draft/ask-all");       ///< what is typed for all agents
inline const QString scheme = QStringLiteral("theme/scheme");        ///< Theme::name()
inline const QString textScale = QStringLiteral("theme/text-scale"); ///< "1", "1.25", "2"
inline const QString editor = QStringLiteral("editor/command");      ///< how to open a file at a line

/// + a folder: its repository is read though it belongs to another user.
inline const QString trustedPrefix = QStringLiteral("trusted/");
inline const QString shortcutPrefix = QStringLiteral("shortcuts/"); ///< + a command's id; see command_keys.h

} // namespace octavo::ui::setting_keys
