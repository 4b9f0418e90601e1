#include "ui/source_viewer/editor_command.h"

#include <QFileInfo>
#include <QProcess>

namespace octavo::ui {

QStringList editorCommand(const QString& visual, const QString& file, int line)
{
    QStringList command = QProcess::splitCommand(visual);
    if (command.isEmpty())
        return {};
    const QString program = QFileInfo(command.first()).fileName();
    const QString atLine = QStringLiteral("%1:%2").arg(file).arg(line);
    const auto isOneOf = [&](std::initializer_list<const char*> names) {
        return std::any_of(names.begin(), names.end(),
                           [&](const char* name) { return program == QLatin1String(name); });
    };
    const bool inTerminal = isOneOf({"vi", "vim", "nvim", "nano", "pico", "micro", "helix", "hx", "joe", "ne", "ed"}) ||
                            (isOneOf({"emacs", "emacsclient"}) &&
                             (command.contains(QStringLiteral("-nw")) || command.contains(QStringLiteral("-t"))));
    if (inTerminal)
        return {};
    if (line <= 0)
        return command << file;
    if (isOneOf({"code", "codium", "code-insiders", "cursor", "windsurf"}))
        return command << QStringLiteral("--goto") << atLine;
    if (isOneOf({"kate", "kwrite", "kdevelop"}))
        return command << QStringLiteral("--line") << QString::number(line) << file;
    if (isOneOf({"zed", "zeditor", "subl", "sublime_text", "qtcreator", "lapce"}))
        return command << atLine;
    if (isOneOf({"gvim", "gedit", "gnome-text-editor", "emacs", "emacsclient", "mousepad", "geany", "xed", "pluma"}))
        return command << QStringLiteral("+%1").arg(line) << file;
    return command << file;
}

} // namespace octavo::ui
