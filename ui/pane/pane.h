#pragma once

/// One agent on screen: header, transcript, composer and figures. Shows what the agent says and passes on what is
/// asked.

#include "agents/workbench.h"
#include "ui/controls.h"

#include <functional>

class QMenu;
class QStackedLayout;
class QVBoxLayout;

namespace octavo::ui {

class Composer;
class FindBar;
class PaneHeader;
class StatusCard;
class TranscriptView;

class Pane final : public QWidget
{
    Q_OBJECT

public:
    Pane(agents::Workbench* workbench, agents::Agent* agent, QWidget* parent = nullptr);

    agents::Agent* agent() const { return m_agent; }
    TranscriptView* transcript() const { return m_transcript; }
    Composer* composer() const { return m_composer; }

    /// The pane that keys go to has the accent outline.
    void setCurrent(bool current);
    void setZoomed(bool zoomed);
    /// Saving fails: says so above the composer; empty hides it.
    void setSaveProblem(const QString& problem);

    void focusComposer();
    void stop();
    void regenerate();
    /// Lets an answer that ended early go on.
    void continueAnswer();
    void editLast();
    void copyAnswer();
    void openFind();
    void chooseContext(); ///< opens the list of them
    void rename();
    void newConversation();
    void saveDraft();

signals:
    void pressed();
    void zoomRequested();
    void dragRequested();
    void citationActivated(octavo::agents::ContextId context, const octavo::agents::Citation& citation);
    void addRepositoryRequested();
    void changeContextRequested(octavo::agents::ContextId context);
    void exportRequested();
    /// Something to tell for a moment, at the bottom of the window.
    void noticed(const QString& text);
    /// The same, with something to be done about it.
    void offered(const QString& text, const QString& action, const std::function<void()>& act);

protected:
    void paintEvent(QPaintEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    QSize minimumSizeHint() const override { return {220, 200}; }

private:
    void showStatus();
    void showMessages();
    void showBody();
    void showFooter();
    void fitFooter();
    void fitComposer();
    void send(const QString& question);
    void fillContextMenu(QMenu* menu);
    void fillPaneMenu(QMenu* menu);
    void copyMessage(agents::MessageId id);
    void report(const Result<void>& done);
    void openLink(const QString& target, const QString& shown);
    void leaveEditing();
    void endEditing();
    bool refusesWhileBusy();

    agents::Workbench* m_workbench;
    agents::Agent* m_agent;
    PaneHeader* m_header;
    FindBar* m_find;
    QStackedLayout* m_body;
    TranscriptView* m_transcript;
    QWidget* m_invite;
    TextLabel* m_inviteTitle;
    Meter* m_inviteMeter;
    TextLabel* m_inviteDetail;
    QPushButton* m_inviteButton;
    StatusCard* m_card;
    TextLabel* m_warning;
    QPushButton* m_reload; ///< a device was lost
    Composer* m_composer;
    QVBoxLayout* m_bottom; ///< warning and composer
    QWidget* m_footer;
    TextLabel* m_rate;
    TextLabel* m_hits;
    Meter* m_meter;
    TextLabel* m_used;
    bool m_current = false, m_zoomed = false, m_editing = false;
    bool m_sentTooSoon = false; ///< that is said until the answer has ended
    QString m_saveProblem, m_askProblem;
    QString m_edited; ///< the question that is edited, as it was
};

} // namespace octavo::ui
