#pragma once

/// A line that appears at the bottom of the window for a few seconds, with one thing to do about it (Undo).

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
    void offer(const QString& text, const QString& action, std::function<void()> act);
    QString text() const { return m_label->text(); }
    QPushButton* button() const { return m_button; }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void place();

    TextLabel* m_label;
    QPushButton* m_button;
    std::function<void()> m_act;
    QTimer m_timer;
};

} // namespace octavo::ui
