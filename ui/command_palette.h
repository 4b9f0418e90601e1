#pragma once

/// Every command of the window by its name: type a few letters of it, Enter runs it.

#include <QAction>
#include <QDialog>
#include <QPointer>

class QLabel;
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
    QListView* list() const { return m_list; }

    static constexpr int KeyRole = Qt::UserRole + 1; ///< of the list's rows: the command's keys, as people read them

protected:
    void paintEvent(QPaintEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void filter(const QString& text);
    void run();

    QList<QPointer<QAction>> m_actions;
    QLineEdit* m_field;
    QListView* m_list;
    QStandardItemModel* m_model;
    QLabel* m_none; ///< instead of an empty list
};

/// How well `letters` fit `name` as a subsequence: negative for not at all; word starts and runs count more.
int commandScore(const QString& letters, const QString& name);

} // namespace octavo::ui
