#include "ui/main_window.h"

#include "ui/command_keys.h"
#include "ui/command_palette.h"
#include "ui/header_bar.h"
#include "ui/notice_bar.h"
#include "ui/pane/pane.h"
#include "ui/sidebar/sidebar.h"

#include <QAction>
#include <QDockWidget>
#include <QLineEdit>
#include <QMenu>

#include <functional>

namespace octavo::ui {

QAction* MainWindow::command(const char* id, const QString& text, const QList<QKeySequence>& keys,
                             std::function<void()> run, const char* iconName)
{
    auto* action = new QAction(text, this);
    setDefaultKeys(action, QString::fromLatin1(id), keys);
    if (*iconName != '\0')
        action->setIcon(icon(QString::fromLatin1(iconName)));
    connect(action, &QAction::triggered, this, std::move(run));
    m_commands += action;
    addAction(action);
    return action;
}

void MainWindow::makeCommands()
{
    const auto withPane = [this](void (Pane::*act)()) {
        return [this, act] {
            if (currentPane())
                (currentPane()->*act)();
        };
    };
    QMenu* menu = m_header->mainMenu();
    const auto add = [&](const char* id, const QString& text, const char* key, std::function<void()> run,
                         const char* iconName = "") {
        QList<QKeySequence> keys;
        if (*key != '\0')
            keys += QKeySequence(QString::fromLatin1(key));
        QAction* action = command(id, text, keys, std::move(run), iconName);
        menu->addAction(action);
        return action;
    };
    // Keys that a list or a field of its own may use are the panes' alone.
    const auto paneOnly = [this](QAction* action) {
        removeAction(action);
        m_grid->addAction(action);
        action->setShortcutContext(Qt::WidgetWithChildrenShortcut);
    };
    const auto movePane = [this](int by) {
        if (currentPane())
            m_grid->movePane(currentPane(), int(m_grid->panes().indexOf(currentPane())) + by);
    };

    add(
        "addRepository", tr("Add repository\u2026"), "Ctrl+O", [this] { emit addRepositoryRequested(); }, "plus");
    QAction* ask = add("askAll", tr("Ask all agents"), "Ctrl+Shift+A", [this] {
        m_header->askField()->setFocus(Qt::ShortcutFocusReason);
        m_header->askField()->selectAll();
    }, "send");
    const auto showAskKey = [this, ask] { m_header->setAskKey(ask->shortcut().toString(QKeySequence::NativeText)); };
    connect(ask, &QAction::changed, this, showAskKey);
    showAskKey();
    const auto stopAll = [this] {
        for (Pane* pane : m_grid->panes())
            pane->stop();
    };
    add("stopAll", tr("Stop all"), "Ctrl+.", stopAll, "stop");
    menu->addSeparator();
    paneOnly(add("newConversation", tr("New conversation"), "Ctrl+N", withPane(&Pane::newConversation), "plus"));
    paneOnly(add("continue", tr("Continue the answer"), "Ctrl+Return", withPane(&Pane::continueAnswer), "play"));
    paneOnly(add("regenerate", tr("Regenerate"), "Ctrl+R", withPane(&Pane::regenerate), "regenerate"));
    paneOnly(add("editLast", tr("Edit last question"), "Ctrl+Shift+E", withPane(&Pane::editLast), "edit"));
    paneOnly(add("copyAnswer", tr("Copy answer as Markdown"), "Ctrl+Shift+C", withPane(&Pane::copyAnswer), "copy"));
    paneOnly(add("find", tr("Find in transcript"), "Ctrl+F", withPane(&Pane::openFind), "search"));
    paneOnly(add("renamePane", tr("Rename pane"), "F2", withPane(&Pane::rename), "edit"));
    add(
        "export", tr("Export conversation\u2026"), "Ctrl+S", [this] { exportConversation(); }, "export");
    const auto searchHistory = [this] {
        if (m_sidebar)
            m_sidebar->focusSearch();
    };
    add("searchHistory", tr("Search the history"), "Ctrl+Shift+F", searchHistory, "history");
    const auto undoDelete = [this] {
        if (m_deleted.isEmpty())
            m_notices->tell(tr("No conversation was deleted since the start."));
        else
            this->undoDelete(m_deleted.back().first);
    };
    add("undoDelete", tr("Bring back the deleted conversation"), "Ctrl+Shift+T", undoDelete, "undo");
    menu->addSeparator();
    add(
        "zoom", tr("Zoom the pane, and back"), "F11", [this] { m_grid->setZoomed(!m_grid->isZoomed()); }, "zoom");
    paneOnly(add("chooseContext", tr("Choose the pane's context"), "Ctrl+L", withPane(&Pane::chooseContext), "folder"));
    add("nextPane", tr("Next pane"), "F6", [this] { stepPane(1); }, "right");
    add("previousPane", tr("Previous pane"), "Shift+F6", [this] { stepPane(-1); }, "left");
    add("movePaneForward", tr("Move pane forward"), "Alt+Shift+Right", [movePane] { movePane(1); }, "right");
    add("movePaneBack", tr("Move pane back"), "Alt+Shift+Left", [movePane] { movePane(-1); }, "left");
    const auto nextGrid = [this] { m_grid->setShape(GridShape((int(m_grid->shape()) + 1) % 5)); };
    add("nextGrid", tr("Next grid"), "Ctrl+G", nextGrid, "grid");
    const auto compare = [this] { m_header->compareButton()->toggle(); };
    add("compare", tr("Compare answers"), "Ctrl+Shift+M", compare, "compare");
    add("toggleDashboard", tr("Show or hide the dashboard"), "Ctrl+Shift+D",
        [this] { m_dashboardDock->setVisible(!m_dashboardDock->isVisible()); }, "dashboard");
    const auto floatDashboard = [this] {
        m_dashboardDock->setFloating(!m_dashboardDock->isFloating());
        m_dashboardDock->show();
    };
    add("floatDashboard", tr("Float or dock the dashboard"), "", floatDashboard, "float");
    add("toggleContexts", tr("Show or hide the contexts"), "Ctrl+B",
        [this] { m_sideDock->setVisible(!m_sideDock->isVisible()); }, "sidebar");
    menu->addSeparator();
    QAction* palette = add(
        "palette", tr("Commands\u2026"), "Ctrl+K", [this] { openPalette(); }, "search");
    setDefaultKeys(palette, palette->objectName(),
                   {QKeySequence(QStringLiteral("Ctrl+K")), QKeySequence(QStringLiteral("Ctrl+Shift+P")),
                    QKeySequence(QStringLiteral("F1"))});
    add("mainMenu", tr("Main menu"), "F10", [this] { m_header->openMainMenu(); }, "more");
    add(
        "settings", tr("Settings"), "Ctrl+,", [this] { emit settingsRequested(); }, "settings");
    add("quit", tr("Quit"), "Ctrl+Q", [this] { close(); }, "quit");
    for (int i = 0; i < agents::numAgents; ++i) {
        const QByteArray id = "pane" + QByteArray::number(i + 1);
        const QKeySequence key(QStringLiteral("Ctrl+%1").arg(i + 1));
        command(
            id.constData(), tr("Go to pane %1").arg(i + 1), {key}, [this, i] { focusPane(i); }, "pane");
    }
}

void MainWindow::openPalette()
{
    auto* palette = new CommandPalette(m_commands, this);
    palette->show();
    palette->field()->setFocus();
}

} // namespace octavo::ui
