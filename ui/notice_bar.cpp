#include "ui/notice_bar.h"

#include <QAccessible>
#include <QEvent>
#include <QHBoxLayout>

namespace octavo::ui {

NoticeBar::NoticeBar(QWidget* host)
    : Card(Fill::Raised, host)
    , m_label(new TextLabel)
    , m_button(makeButton({}))
{
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(14, 6, metrics::gap, 6);
    layout->addWidget(m_label);
    layout->addWidget(m_button);
    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &QWidget::hide);
    connect(m_button, &QPushButton::clicked, this, [this] {
        hide();
        if (const auto act = std::exchange(m_act, {}))
            act();
    });
    host->installEventFilter(this);
    hide();
}

void NoticeBar::tell(const QString& text)
{
    offer(text, {}, {});
    m_timer.start(3000);
}

void NoticeBar::offer(const QString& text, const QString& action, std::function<void()> act)
{
    m_act = std::move(act);
    m_label->setText(text);
    m_button->setText(action);
    m_button->setAccessibleName(action.isEmpty() ? tr("Dismiss") : action);
    m_button->setVisible(!action.isEmpty());
    setAccessibleName(text);
    show();
    place();
    raise();
    m_timer.start(8000);
    QAccessibleEvent event(this, QAccessible::Alert);
    QAccessible::updateAccessibility(&event);
}

void NoticeBar::place()
{
    adjustSize();
    const QWidget* host = parentWidget();
    move((host->width() - width()) / 2, host->height() - height() - 20);
}

bool NoticeBar::eventFilter(QObject* watched, QEvent* event)
{
    if (event->type() == QEvent::Resize && isVisible())
        place();
    return Card::eventFilter(watched, event);
}

} // namespace octavo::ui
