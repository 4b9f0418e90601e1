#include "ui/pane/status_card.h"

#include "ui/pane/pane_state.h"
#include "ui/problem_text.h"

#include <QHBoxLayout>
#include <QVBoxLayout>

namespace octavo::ui {

StatusCard::StatusCard(int agent, QWidget* parent)
    : Card(Fill::Panel, parent)
    , m_agent(agent)
    , m_title(new TextLabel({}, TextRole::BodyStrong))
    , m_detail(new TextLabel({}, TextRole::Small, Tone::Muted))
    , m_meter(new Meter)
    , m_buttons(new QWidget)
{
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(metrics::padding, 10, metrics::padding, metrics::padding);
    layout->setSpacing(metrics::gap);
    m_title->setWordWrap(true);
    m_detail->setWordWrap(true);
    m_meter->setThickness(8);
    layout->addWidget(m_title);
    layout->addWidget(m_meter);
    layout->addWidget(m_detail);
    layout->addWidget(m_buttons);

    m_row = new QBoxLayout(QBoxLayout::LeftToRight, m_buttons);
    m_row->setContentsMargins(0, 2, 0, 0);
    m_row->setSpacing(metrics::gap);
    QPushButton* retry = makeButton(tr("Try again"));
    QPushButton* change = makeButton(tr("Change context\u2026"));
    for (QPushButton* button : {retry, change})
        m_row->addWidget(button);
    m_row->addStretch();
    connect(retry, &QPushButton::clicked, this, &StatusCard::retryRequested);
    connect(change, &QPushButton::clicked, this, &StatusCard::changeContextRequested);
}

/// Large text in a narrow pane: one button below the other.
void StatusCard::resizeEvent(QResizeEvent* event)
{
    Card::resizeEvent(event);
    int needed = 2 * metrics::padding;
    for (const QPushButton* button : m_buttons->findChildren<QPushButton*>())
        needed += button->sizeHint().width() + metrics::gap;
    m_row->setDirection(needed > width() ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
}

bool StatusCard::show(const agents::AgentStatus& status, const agents::ContextInfo& context)
{
    using agents::Activity;
    const bool failed = status.activity == Activity::Idle && status.outcome == agents::Outcome::Failed;
    const bool reading = status.activity == Activity::Reading;
    const bool queued = status.activity == Activity::Queued;
    m_meter->setVisible(reading);
    m_buttons->setVisible(failed);
    m_detail->setTone(failed ? Tone::Normal : Tone::Muted);
    m_detail->setRole(failed ? TextRole::Body : TextRole::Small);
    setOutline(failed ? Tone::Bad : Tone::Normal);
    if (failed) {
        const ProblemWords words = splitProblem(problemText(status.problem));
        m_title->setText(words.title.isEmpty() ? tr("This answer failed.") : words.title);
        m_detail->setText(words.detail);
    } else if (reading) {
        const QString what = contextLabel(context);
        m_title->setText(what.isEmpty() ? tr("Reading the question") : tr("Reading %1").arg(what));
        const double share = status.readTotal > 0 ? double(status.readDone) / double(status.readTotal) : 0;
        m_meter->setParts({{agentColor(m_agent), share}});
        m_detail->setText(readingLine(status));
    } else if (queued) {
        m_title->setText(tr("Waiting for its turn"));
        m_detail->setText(status.device.isEmpty()
                              ? tr("The question is saved and runs as soon as there is room.")
                              : tr("The question is saved and runs as soon as %1 has room.").arg(status.device));
    } else {
        return false;
    }
    m_detail->setVisible(!m_detail->text().isEmpty());
    return true;
}

} // namespace octavo::ui
