#pragma once

/// The commands with their keys, to be found by name and given other keys. A key holds at once and is kept.

#include "ui/controls.h"
#include "ui/settings/key_field.h"

#include <QAction>
#include <QSortFilterProxyModel>
#include <QStandardItemModel>
#include <QTreeView>

namespace octavo::agents {
class Workbench;
}

namespace octavo::ui {

class ShortcutsPage final : public QWidget
{
    Q_OBJECT

public:
    ShortcutsPage(agents::Workbench* workbench, const QList<QAction*>& commands, QWidget* parent = nullptr);

    /// Gives the chosen command this key, unless another has it or it would take a letter from every field.
    void assign(const QKeySequence& key);

private:
    QAction* chosen() const;
    void showChosen();
    void showKeys(QAction* command);
    void say(const QString& text, Tone tone = Tone::Muted);

    agents::Workbench* m_workbench;
    QList<QAction*> m_commands;
    QStandardItemModel* m_model;
    QSortFilterProxyModel* m_shown;
    QTreeView* m_list;
    KeyField* m_key;
    QPushButton* m_none;
    QPushButton* m_default;
    TextLabel* m_says;
};

} // namespace octavo::ui
