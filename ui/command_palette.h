#pragma once

/// Every command of the window by its name: type a few letters of it, Enter runs it.

#include <QAction>
#include <QDialog>
#include <QPointer>

class QLineEdit;
class QListView;
class QStandardItemModel;

namespace octavo::ui {

class CommandPalette final : public QDialog
{
    Q_OBJECT

public:
    explicit CommandPalette(const QList<QAction*>& actions, QWidget* parent);

    QLineEdit* field() const { return m_field; }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void filter(const QString& text);
    void run();

    QList<QPointer<QAction>> m_actions;
    QLineEdit* m_field;
    QListView* m_list;
    QStandardItemModel* m_model;
};

/// How well `letters` fit `name` as a subsequence: negative for not at all; word starts and runs count more.
int commandScore(const QString& letters, const QString& name);

} // namespace octavo::ui
