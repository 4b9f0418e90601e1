#include "ui/compare_view.h"

#include "ui/pane/pane_state.h"
#include "ui/problem_text.h"
#include "ui/transcript/transcript_view.h"

#include <QClipboard>
#include <QComboBox>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHash>
#include <QPainter>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QVBoxLayout>

#include <algorithm>

namespace octavo::ui {

QStringList comparableQuestions(const QList<agents::Agent*>& agents)
{
    struct Seen {
        QString question;
        int panes = 0;
        qint64 newest = 0;
    };
    QHash<QString, Seen> seen;
    for (const agents::Agent* agent : agents) {
        QStringList mine;
        for (const agents::Message& message : agent->messages()) {
            if (message.role != agents::MessageRole::User)
                continue;
            Seen& entry = seen[message.text];
            entry.question = message.text;
            entry.newest = qMax(entry.newest, qint64(message.id));
            if (!mine.contains(message.text)) {
                mine += message.text;
                ++entry.panes;
            }
        }
    }
    QList<Seen> sorted = seen.values();
    std::sort(sorted.begin(), sorted.end(), [](const Seen& a, const Seen& b) {
        return a.panes != b.panes ? a.panes > b.panes : a.newest > b.newest;
    });
    QStringList questions;
    for (const Seen& entry : sorted)
        questions += entry.question;
    return questions;
}

/// The question that was asked last, of any pane.
QString newestQuestion(const QList<agents::Agent*>& agents)
{
    const agents::Message* newest = nullptr;
    for (const agents::Agent* agent : agents) {
        for (const agents::Message& message : agent->messages()) {
            if (message.role == agents::MessageRole::User && (!newest || qint64(message.id) > qint64(newest->id)))
                newest = &message;
        }
    }
    return newest ? newest->text : QString();
}

const agents::Message* answerTo(const agents::Agent& agent, const QString& question)
{
    const QList<agents::Message>& messages = agent.messages();
    for (qsizetype i = messages.size() - 2; i >= 0; --i) {
        if (messages[i].role == agents::MessageRole::User && messages[i].text == question &&
            messages[i + 1].role == agents::MessageRole::Assistant)
            return &messages[i + 1];
    }
    return nullptr;
}

CompareView::CompareView(const QList<agents::Agent*>& agents, QWidget* parent)
    : QWidget(parent)
    , m_agents(agents)
    , m_questions(new QComboBox)
    , m_row(new QHBoxLayout)
{
    setFocusPolicy(Qt::StrongFocus);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(metrics::gap, metrics::gap, metrics::gap, metrics::gap); // in line with the panes
    layout->setSpacing(metrics::gap);
    auto* top = new QHBoxLayout;
    top->addWidget(new TextLabel(tr("Answers to"), TextRole::BodyStrong));
    m_questions->setAccessibleName(tr("Question to compare"));
    m_questions->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    m_questions->setMinimumContentsLength(20);
    top->addWidget(m_questions, 1);
    QPushButton* back = makeButton(tr("Back to the panes"));
    top->addWidget(back);
    layout->addLayout(top);
    m_row->setSpacing(metrics::gap);
    layout->addLayout(m_row, 1);

    connect(back, &QPushButton::clicked, this, &CompareView::closed);
    for (const QString& question : comparableQuestions(agents))
        m_questions->addItem(question.simplified(), question);
    m_newest = newestQuestion(agents);
    connect(m_questions, &QComboBox::currentIndexChanged, this,
            [this] { showQuestion(m_questions->currentData().toString()); });
    connect(Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    showQuestion(m_questions->currentData().toString());
    for (agents::Agent* agent : m_agents) {
        const auto viewOf = [this](const agents::Agent* of) -> TranscriptView* {
            for (const Column& column : m_columns) {
                if (column.agent == of)
                    return column.view;
            }
            return nullptr;
        };
        connect(agent, &agents::Agent::textAppended, this, [=](agents::MessageId id, const QString& text) {
            if (TranscriptView* view = viewOf(agent))
                view->appendText(id, text); // ignored where the message is not the one shown
        });
        connect(agent, &agents::Agent::messageChanged, this, [=](const agents::Message& message) {
            if (TranscriptView* view = viewOf(agent))
                view->updateMessage(message);
        });
        connect(agent, &agents::Agent::messageAdded, this, &CompareView::refreshSoon);
        connect(agent, &agents::Agent::conversationReset, this, &CompareView::refreshSoon);
        connect(agent, &agents::Agent::contextChanged, this, &CompareView::refreshSoon);
    }
}

/// A question to all brings many signals; what is shown follows once they are through.
void CompareView::refreshSoon()
{
    if (!std::exchange(m_refreshing, true))
        QMetaObject::invokeMethod(this, &CompareView::refresh, Qt::QueuedConnection);
}

/// The list anew. Who looks at the newest question is shown the one asked since; an older one stays.
void CompareView::refresh()
{
    m_refreshing = false;
    const QString shown = m_questions->currentData().toString();
    const QString newest = newestQuestion(m_agents);
    const QString wanted = shown.isEmpty() || shown == m_newest ? newest : shown;
    m_newest = newest;
    {
        const QSignalBlocker quiet(m_questions);
        m_questions->clear();
        for (const QString& question : comparableQuestions(m_agents))
            m_questions->addItem(question.simplified(), question);
        m_questions->setCurrentIndex(qMax(m_questions->findData(wanted), m_questions->count() > 0 ? 0 : -1));
    }
    if (const QString now = m_questions->currentData().toString(); !isShown(now))
        showQuestion(now);
}

/// Whether the columns are those that showQuestion() would make.
bool CompareView::isShown(const QString& question) const
{
    qsizetype at = 0;
    for (const agents::Agent* agent : m_agents) {
        const agents::Message* answer = question.isEmpty() ? nullptr : answerTo(*agent, question);
        if (!answer)
            continue;
        if (at >= m_columns.size() || m_columns[at].agent != agent || m_columns[at].answer != answer->id ||
            m_columns[at].newest != (agent->messages().last().id == answer->id))
            return false;
        ++at;
    }
    return at > 0 && at == m_columns.size();
}

void CompareView::showQuestion(const QString& question)
{
    for (const Column& column : m_columns)
        column.widget->deleteLater();
    m_columns.clear();
    for (agents::Agent* agent : m_agents) {
        const agents::Message* answer = question.isEmpty() ? nullptr : answerTo(*agent, question);
        if (!answer)
            continue;
        auto* card = new Card;
        auto* layout = new QVBoxLayout(card);
        layout->setContentsMargins(1, 1, 1, metrics::grid); // clear of the round corners
        layout->setSpacing(0);
        auto* head = new QHBoxLayout;
        head->setContentsMargins(metrics::padding, metrics::gap, metrics::padding, metrics::gap);
        head->setSpacing(metrics::gap);
        auto* meter = new Meter;
        meter->setFixedWidth(9);
        meter->setThickness(9);
        meter->setParts({{agentColor(agent->index()), 1.0}});
        head->addWidget(meter);
        head->addWidget(new TextLabel(agent->name(), TextRole::BodyStrong));
        auto* context = new TextLabel(contextLabel(agent->context()), TextRole::Figure, Tone::Muted);
        context->setElided(true);
        head->addWidget(context, 1);
        layout->addLayout(head);
        layout->addWidget(new Separator);
        auto* view = new TranscriptView;
        view->setAccessibleName(tr("Answer of %1").arg(agent->name()));
        const bool newest = agent->messages().last().id == answer->id;
        view->setShowsNewest(newest);
        view->setMessages({*answer});
        view->verticalScrollBar()->setValue(0);
        layout->addWidget(view, 1);
        m_row->addWidget(card, 1);
        m_columns += {agent, card, view, answer->id, newest};
        connect(view, &TranscriptView::citationActivated, this, [this, agent](const agents::Citation& citation) {
            emit citationActivated(agent->context().id, citation);
        });
        // Only the newest answer can be written again or go on; an older one offers neither.
        const auto ask = [this, agent, id = answer->id](Result<void> (agents::Agent::*what)()) {
            if (agent->messages().isEmpty() || agent->messages().last().id != id)
                return;
            if (const Result<void> done = (agent->*what)(); !done)
                emit noticed(problemText(done.error()));
        };
        connect(view, &TranscriptView::regenerateRequested, this, [ask] { ask(&agents::Agent::regenerate); });
        connect(view, &TranscriptView::continueRequested, this, [ask] { ask(&agents::Agent::continueAnswer); });
        connect(view, &TranscriptView::copyAnswerRequested, this,
                [view] { QGuiApplication::clipboard()->setText(view->messages().front().text); });
        connect(view->verticalScrollBar(), &QScrollBar::valueChanged, this,
                [this, view](int value) { scrollTogether(view, value); });
    }
    if (m_columns.isEmpty()) {
        auto* none =
            new TextLabel(tr("Nothing to compare yet: ask all agents one question."), TextRole::Body, Tone::Muted);
        none->setAlignment(Qt::AlignCenter);
        m_row->addWidget(none);
        m_columns += {nullptr, none, nullptr, {}, false};
    }
}

/// By share of the way, since the answers differ in length.
void CompareView::scrollTogether(TranscriptView* moved, int value)
{
    if (std::exchange(m_scrolling, true))
        return;
    const int range = moved->verticalScrollBar()->maximum();
    for (const Column& column : m_columns) {
        if (column.view && column.view != moved && range > 0)
            column.view->verticalScrollBar()->setValue(
                int(qint64(column.view->verticalScrollBar()->maximum()) * value / range));
    }
    m_scrolling = false;
}

void CompareView::paintEvent(QPaintEvent*)
{
    QPainter(this).fillRect(rect(), colors().background);
}

} // namespace octavo::ui
