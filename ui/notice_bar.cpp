#include "ui/notice_bar.h"

#include <QAccessible>
#include <QEvent>
#include <QHBoxLayout>

#include <algorithm>
#include <utility>

namespace octavo::ui {
namespace {

constexpr int leastMs = 3000, offerMs = 8000, msPerCharacter = 60;
constexpr int widest = 640; ///< pixels at 100% text; longer notices wrap

} // namespace

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
    connect(&m_timer, &QTimer::timeout, this, &NoticeBar::next);
    connect(m_button, &QPushButton::clicked, this, [this] {
        const auto act = m_notices.isEmpty() ? std::function<void()>() : m_notices.back().act;
        next();
        if (act)
            act();
    });
    host->installEventFilter(this);
    m_button->installEventFilter(this);
    hide();
}

void NoticeBar::tell(const QString& text)
{
    push({text, {}, {}, std::max(leastMs, int(text.size()) * msPerCharacter)});
}

void NoticeBar::offer(const QString& text, const QString& action, const std::function<void()>& act)
{
    push({text, action, act, std::max(offerMs, int(text.size()) * msPerCharacter)});
}

void NoticeBar::push(Notice notice)
{
    if (!m_notices.isEmpty()) {
        if (m_notices.back().action.isEmpty())
            m_notices.removeLast();
        else if (m_timer.isActive())
            m_notices.back().ms = std::max(1, m_timer.remainingTime());
        m_timer.stop();
    }
    m_notices += std::move(notice);
    showTop();
}

void NoticeBar::withdraw(const QString& text)
{
    for (qsizetype i = m_notices.size() - 1; i >= 0; --i) {
        if (m_notices[i].text != text || m_notices[i].action.isEmpty())
            continue;
        if (i + 1 == m_notices.size())
            next();
        else
            m_notices.removeAt(i);
        return;
    }
}

void NoticeBar::next()
{
    m_timer.stop();
    if (!m_notices.isEmpty())
        m_notices.removeLast();
    if (m_notices.isEmpty())
        hide();
    else
        showTop();
}

void NoticeBar::showTop()
{
    const Notice& notice = m_notices.back();
    m_label->setText(notice.text);
    m_button->setText(notice.action);
    m_button->setAccessibleName(notice.action.isEmpty() ? tr("Dismiss") : notice.action);
    m_button->setVisible(!notice.action.isEmpty());
    setAccessibleName(notice.text);
    place(); // before it is seen: the pointer is not taken to be on it where it only passes
    show();
    raise();
    hold(underMouse() || m_button->hasFocus());
    QAccessibleEvent event(this, QAccessible::Alert);
    QAccessible::updateAccessibility(&event);
}

/// Stops the clock, or lets it run for what is left.
void NoticeBar::hold(bool held)
{
    if (m_notices.isEmpty())
        return;
    Notice& notice = m_notices.back();
    if (held && m_timer.isActive()) {
        notice.ms = std::max(leastMs, m_timer.remainingTime()); // time to read on when the pointer leaves
        m_timer.stop();
    } else if (!held) {
        m_timer.start(notice.ms);
    } else {
        m_timer.stop();
    }
}

void NoticeBar::place()
{
    const QWidget* host = parentWidget();
    const int room = std::min(int(widest * Theme::instance()->textScale()), host->width() - 60);
    m_label->setWordWrap(false);
    m_label->setMinimumWidth(0);
    const int button = m_button->isHidden() ? 0 : m_button->sizeHint().width() + metrics::gap;
    if (m_label->sizeHint().width() + button > room) {
        m_label->setWordWrap(true);
        m_label->setMinimumWidth(std::max(80, room - button));
    }
    adjustSize();
    move((host->width() - width()) / 2, host->height() - height() - 20);
}

bool NoticeBar::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_button) {
        if (event->type() == QEvent::FocusIn)
            hold(true);
        else if (event->type() == QEvent::FocusOut)
            hold(underMouse());
    } else if (event->type() == QEvent::Resize && isVisible()) {
        place();
    }
    return Card::eventFilter(watched, event);
}

void NoticeBar::enterEvent(QEnterEvent* event)
{
    hold(true);
    Card::enterEvent(event);
}

void NoticeBar::leaveEvent(QEvent* event)
{
    hold(m_button->hasFocus());
    Card::leaveEvent(event);
}

} // namespace octavo::ui
