#pragma once

/// The bar at the top of the window: add a repository, ask all agents, the grid's shape, compare, model, settings.

#include "ui/controls.h"
#include "ui/pane_grid.h"

class QLineEdit;
class QMenu;

namespace octavo::ui {

class HeaderBar final : public QWidget
{
    Q_OBJECT

public:
    explicit HeaderBar(QWidget* parent = nullptr);

    void setShape(GridShape shape);
    void setModelLine(const QString& text, const QString& tip);
    void setReady(bool ready); ///< asking needs a loaded model
    QLineEdit* askField() const { return m_ask; }
    QMenu* mainMenu() const { return m_menu; }
    void openMainMenu();
    /// The key that leads to the field, as it is shown in it.
    void setAskKey(const QString& key);
    QPushButton* compareButton() const { return m_compare; }

signals:
    void addRepositoryRequested();
    void askAllRequested(const QString& question);
    void shapeChosen(octavo::ui::GridShape shape);
    void compareToggled(bool on);
    void settingsRequested();

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    QPushButton* m_add;
    QLineEdit* m_ask;
    Chip* m_askKey;
    QPushButton* m_shape;
    QPushButton* m_compare;
    TextLabel* m_model;
    QPushButton* m_settings;
    QToolButton* m_more;
    QMenu* m_menu;
};

} // namespace octavo::ui
