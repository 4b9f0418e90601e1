#include "ui/compare_view.h"

#include "ui/pane/pane_state.h"
#include "ui/transcript/transcript_view.h"

#include <QClipboard>
#include <QComboBox>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHash>
#include <QPainter>
#include <QScrollBar>
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
    layout->setContentsMargins(metrics::padding, metrics::padding, metrics::padding, metrics::gap);
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
    const QStringList questions = comparableQuestions(agents);
    for (const QString& question : questions)
        m_questions->addItem(question.simplified(), question);
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
    }
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
        view->setShowsNewest(agent->messages().last().id == answer->id);
        view->setMessages({*answer});
        view->verticalScrollBar()->setValue(0);
        layout->addWidget(view, 1);
        m_row->addWidget(card, 1);
        m_columns += {agent, card, view};
        connect(view, &TranscriptView::citationActivated, this, [this, agent](const agents::Citation& citation) {
            emit citationActivated(agent->context().id, citation);
        });
        connect(view, &TranscriptView::regenerateRequested, this, [this, agent, question, id = answer->id] {
            // Only the newest answer can be written again; an older one stays as it is.
            if (agent->messages().isEmpty() || agent->messages().last().id != id || !agent->regenerate())
                return;
            QMetaObject::invokeMethod(this, [this, question] { showQuestion(question); }, Qt::QueuedConnection);
        });
        connect(view, &TranscriptView::continueRequested, this, [agent, id = answer->id] {
            if (!agent->messages().isEmpty() && agent->messages().last().id == id)
                static_cast<void>(agent->continueAnswer()); // what it adds arrives as text; refused, nothing changes
        });
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
        m_columns += {nullptr, none, nullptr};
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
