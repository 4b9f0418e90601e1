#pragma once

/// The left side of the window: contexts, and the history of conversations with its search.

#include "agents/workbench.h"
#include "ui/controls.h"

class QLineEdit;
class QListView;

namespace octavo::ui {

class CommitWatch;
class ContextModel;
class HistoryModel;

class Sidebar final : public QWidget
{
    Q_OBJECT

public:
    explicit Sidebar(agents::Workbench* workbench, QWidget* parent = nullptr);

    /// The context of the current pane is the chosen row.
    void setCurrentContext(agents::ContextId context);
    void focusSearch();
    void reload();
    CommitWatch* commitWatch() const { return m_watch; }
    QListView* contextView() const { return m_contextView; }
    QListView* historyView() const { return m_historyView; }
    QSize sizeHint() const override { return {metrics::sideWidth, 400}; }

signals:
    void addRepositoryRequested();
    void searchLeft(); ///< with Esc
    void contextChosen(octavo::agents::ContextId context); ///< for the current pane
    void contextForAllRequested(octavo::agents::ContextId context);
    void changeContextRequested(octavo::agents::ContextId context);
    void removeContextRequested(octavo::agents::ContextId context);
    void conversationChosen(octavo::agents::ConversationId conversation);
    void deleteConversationRequested(octavo::agents::ConversationId conversation, const QString& title);

protected:
    void paintEvent(QPaintEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    void fitContexts();
    void showContextMenu(const QPoint& at);
    void showHistoryMenu(const QPoint& at);

    agents::Workbench* m_workbench;
    CommitWatch* m_watch;
    ContextModel* m_contexts;
    HistoryModel* m_history;
    QListView* m_contextView;
    QListView* m_historyView;
    QLineEdit* m_search;
    QToolButton* m_searchButton;
};

} // namespace octavo::ui
