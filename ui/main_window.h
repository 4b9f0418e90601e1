#pragma once

/// The window: header, contexts and history on the left, the grid of panes, the dashboard below.
///
/// Opens at once; panes appear when the workbench is ready. What this class does not draw itself (wizard, settings,
/// source viewer) is asked for by signals, so that it can be tested without them.
/// Keys are listed by the command palette (Ctrl+K) and changed in the settings.

#include "agents/workbench.h"
#include "ui/pane_grid.h"
#include "ui/repository_intake.h"

#include <QKeySequence>
#include <QMainWindow>
#include <QTimer>

class QDockWidget;
class QStackedWidget;

namespace octavo::ui {

class CompareView;
class HeaderBar;
class NoticeBar;
class Pane;
class Sidebar;
class StartPage;

class MainWindow final : public QMainWindow
{
    Q_OBJECT

public:
    explicit MainWindow(agents::Workbench* workbench, QWidget* parent = nullptr);

    agents::Workbench* workbench() const { return m_workbench; }
    PaneGrid* grid() const { return m_grid; }
    Pane* currentPane() const { return m_grid->current(); }
    HeaderBar* header() const { return m_header; }
    Sidebar* sidebar() const { return m_sidebar; }
    NoticeBar* notices() const { return m_notices; }
    QDockWidget* dashboardDock() const { return m_dashboardDock; }
    QList<QAction*> commands() const { return m_commands; }

    /// What the dock below shows. Takes it over.
    void setDashboard(QWidget* dashboard);
    /// The demo model is honest about itself on the first page.
    void setDemoModel(bool demo);
    /// While repositories are on their way in, the first page waits.
    void setExpectingContext(bool expecting);
    /// A repository that could not be opened: on the first page, or as a notice once panes are in use.
    void showOpenProblem(const OpenProblem& problem);

    /// To the front, from wherever it is.
    void raiseWindow();
    void openPalette();
    void exportConversation();
    /// As exportConversation() does it once the file is chosen; JSON where it ends in .json.
    void exportTo(const QString& path);

signals:
    /// These folders are to be read with what is read soon, without questions.
    void openRequested(const QStringList& folders);
    void addRepositoryRequested();
    /// The wizard, with this folder in it.
    void chooseFilesRequested(const QString& folder);
    /// This folder is to be read though it belongs to another user.
    void trustRequested(const QString& folder);
    void settingsRequested();
    /// Another choice of files for a context.
    void changeContextRequested(octavo::agents::ContextId context);
    void citationActivated(octavo::agents::ContextId context, const octavo::agents::Citation& citation);

protected:
    void closeEvent(QCloseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void becomeReady();
    void makeCommands();
    QAction* command(const char* id, const QString& text, const QList<QKeySequence>& keys, std::function<void()> run,
                     const char* iconName);
    void makePanes();
    void restoreLook();
    void restorePanes();
    void saveSettings();
    void showPage();
    void askAll(const QString& question);
    void undoDelete(agents::ConversationId id);
    void focusContent();
    void focusPane(int place);
    void stepPane(int direction);
    void useContext(agents::ContextId context, bool everywhere);
    void removeContext(agents::ContextId context);
    void setCompare(bool on);

    agents::Workbench* m_workbench;
    HeaderBar* m_header;
    Sidebar* m_sidebar = nullptr;
    QStackedWidget* m_stack;
    StartPage* m_start;
    PaneGrid* m_grid;
    CompareView* m_compare = nullptr;
    NoticeBar* m_notices;
    QDockWidget* m_sideDock;
    QDockWidget* m_dashboardDock;
    QList<QAction*> m_commands;
    QList<std::pair<agents::ConversationId, QString>> m_deleted; ///< since the start, with what was said of it
    QTimer m_askDraftTimer; ///< what is typed for all agents is kept as the panes' drafts are
    bool m_ready = false, m_lookRestored = false, m_demoModel = false, m_expecting = false, m_usedPanes = false;
    QList<OpenProblem> m_openProblems; ///< to be told once it is known which page stays
    QString m_saveProblem; ///< may be known before there are panes
};

} // namespace octavo::ui
