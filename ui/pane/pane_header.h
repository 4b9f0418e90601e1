#pragma once

/// The line above a pane: who (colour, name), about what (context @ commit), what now (state), where (device).
///
/// Dragging it moves the pane; a double click zooms; the name is edited in place (F2 or a click on it).

#include "agents/values.h"
#include "ui/controls.h"
#include "ui/pane/pane_state.h"

class QLineEdit;
class QMenu;

namespace octavo::ui {

class PaneHeader final : public QWidget
{
    Q_OBJECT

public:
    explicit PaneHeader(int agent, QWidget* parent = nullptr);

    void setName(const QString& name);
    void setContext(const agents::ContextInfo& context);
    void setState(const PaneState& state);
    void setDevice(const QString& device);
    void editName();
    QToolButton* contextButton() const { return m_context; }
    QToolButton* menuButton() const { return m_menu; }
    QLineEdit* nameEdit() const { return m_edit; }

signals:
    void renamed(const QString& name);
    void zoomRequested();
    void dragStarted();
    void pressed();

protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void finishRename(bool keep);
    void fitContext();
    void showTip();

    int m_agent;
    QWidget* m_dot;
    TextLabel* m_name;
    QLineEdit* m_edit;
    QToolButton* m_context;
    QString m_contextText;
    TextLabel* m_state;
    PaneState m_shown;
    Chip* m_device;
    QToolButton* m_menu;
    QPoint m_pressed;
};

} // namespace octavo::ui
