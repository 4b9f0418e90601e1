#pragma once

/// A line that appears at the bottom of the window for a few seconds, with one thing to do about it (Undo).
///
/// The newest notice is shown. One that offers something is not lost to those that come after it: it waits below them
/// and comes back for the time it has left. The clock stands still while the pointer or the focus is on the bar.

#include "ui/controls.h"

#include <QTimer>

#include <functional>

namespace octavo::ui {

class NoticeBar final : public Card
{
    Q_OBJECT

public:
    /// Keeps itself at the bottom centre of `host`.
    explicit NoticeBar(QWidget* host);

    void tell(const QString& text);
    void offer(const QString& text, const QString& action, const std::function<void()>& act);
    /// Takes an offer back: what it offers was done in another way.
    void withdraw(const QString& text);
    QString text() const { return m_label->text(); }
    QPushButton* button() const { return m_button; }
    bool isCounting() const { return m_timer.isActive(); } ///< it goes by itself

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void enterEvent(QEnterEvent* event) override;
    void leaveEvent(QEvent* event) override;

private:
    struct Notice {
        QString text, action;
        std::function<void()> act;
        int ms = 0; ///< still to be shown
    };

    void push(Notice notice);
    void showTop();
    void next();
    void place();
    void hold(bool held);

    TextLabel* m_label;
    QPushButton* m_button;
    QList<Notice> m_notices; ///< the last one is shown
    QTimer m_timer;
};

} // namespace octavo::ui
