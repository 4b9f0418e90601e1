#include "ui/pane/pane.h"

#include "ui/pane/composer.h"
#include "ui/pane/find_bar.h"
#include "ui/pane/pane_header.h"
#include "ui/pane/pane_state.h"
#include "ui/pane/status_card.h"
#include "ui/problem_text.h"
#include "ui/shown_text.h"
#include "ui/transcript/transcript_view.h"

#include <QClipboard>
#include <QDesktopServices>
#include <QGuiApplication>
#include <QKeyEvent>
#include <QLineEdit>
#include <QMenu>
#include <QPainter>
#include <QScrollBar>
#include <QStackedLayout>
#include <QUrl>
#include <QVBoxLayout>

namespace octavo::ui {

using agents::Activity;

namespace {

constexpr int composerMargin = 10, composerInside = 20; ///< from the pane's edge to the field, and to the text in it

} // namespace

Pane::Pane(agents::Workbench* workbench, agents::Agent* agent, QWidget* parent)
    : QWidget(parent)
    , m_workbench(workbench)
    , m_agent(agent)
    , m_header(new PaneHeader(agent->index()))
    , m_body(new QStackedLayout)
    , m_transcript(new TranscriptView)
    , m_invite(new QWidget)
    , m_inviteTitle(new TextLabel({}, TextRole::Body))
    , m_inviteMeter(new Meter)
    , m_inviteDetail(new TextLabel({}, TextRole::Small, Tone::Muted))
    , m_inviteButton(makeButton(tr("Add repository\u2026")))
    , m_card(new StatusCard(agent->index(), this))
    , m_warning(new TextLabel({}, TextRole::Small, Tone::Warning))
    , m_reload(makeButton(tr("Reload the model")))
    , m_composer(new Composer)
    , m_bottom(new QVBoxLayout)
    , m_footer(new QWidget)
    , m_rate(new TextLabel({}, TextRole::Figure, Tone::Muted))
    , m_hits(new TextLabel({}, TextRole::Figure, Tone::Muted))
    , m_meter(new Meter)
    , m_used(new TextLabel({}, TextRole::Figure, Tone::Muted))
{
    m_find = new FindBar(m_transcript);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(2, 2, 2, 2); // the outline of the current pane is 2 px
    layout->setSpacing(0);
    layout->addWidget(m_header);
    layout->addWidget(m_find);
    layout->addLayout(m_body, 1);
    m_body->addWidget(m_transcript);
    m_body->addWidget(m_invite);

    auto* invite = new QVBoxLayout(m_invite);
    invite->setSpacing(6);
    invite->addStretch(1);
    for (TextLabel* label : {m_inviteTitle, m_inviteDetail}) {
        label->setAlignment(Qt::AlignCenter);
        label->setWordWrap(true);
    }
    invite->addWidget(m_inviteTitle);
    m_inviteMeter->setFixedWidth(160);
    m_inviteMeter->setThickness(6);
    invite->addWidget(m_inviteMeter, 0, Qt::AlignCenter);
    invite->addWidget(m_inviteDetail);
    invite->addSpacing(metrics::grid);
    invite->addWidget(m_inviteButton, 0, Qt::AlignCenter);
    invite->addStretch(1);

    m_bottom->setContentsMargins(composerMargin, 0, composerMargin, 8);
    m_bottom->setSpacing(6);
    m_warning->setWordWrap(true);
    m_warning->hide();
    m_bottom->addWidget(m_warning);
    m_reload->setObjectName(QStringLiteral("reload"));
    m_reload->hide();
    m_bottom->addWidget(m_reload, 0, Qt::AlignLeft);
    m_bottom->addWidget(m_composer);
    layout->addLayout(m_bottom);

    layout->addWidget(new Separator);
    auto* footer = new QHBoxLayout(m_footer);
    footer->setContentsMargins(metrics::padding, 5, metrics::padding, 5);
    footer->setSpacing(metrics::padding);
    footer->addWidget(m_rate);
    footer->addWidget(m_hits);
    footer->addStretch(1);
    m_meter->setFixedWidth(64);
    m_meter->setThickness(6);
    footer->addWidget(m_meter);
    footer->addWidget(m_used);
    layout->addWidget(m_footer);

    m_card->hide();
    setFocusProxy(m_composer);
    setObjectName(QStringLiteral("pane%1").arg(agent->index()));
    m_composer->setText(agent->draft());

    auto* contextMenu = new QMenu(this);
    m_header->contextButton()->setMenu(contextMenu);
    connect(contextMenu, &QMenu::aboutToShow, this, [this, contextMenu] { fillContextMenu(contextMenu); });
    auto* paneMenu = new QMenu(this);
    m_header->menuButton()->setMenu(paneMenu);
    connect(paneMenu, &QMenu::aboutToShow, this, [this, paneMenu] { fillPaneMenu(paneMenu); });

    connect(m_header, &PaneHeader::renamed, m_agent, &agents::Agent::setName);
    connect(m_header, &PaneHeader::zoomRequested, this, &Pane::zoomRequested);
    connect(m_header, &PaneHeader::dragStarted, this, &Pane::dragRequested);
    connect(m_header, &PaneHeader::pressed, this, &Pane::pressed);
    connect(m_composer, &Composer::sent, this, &Pane::send);
    connect(m_composer, &Composer::sentTooSoon, this, [this] {
        m_sentTooSoon = true;
        showBody();
    });
    connect(m_composer, &Composer::pageRequested, this, [this](int step) {
        m_transcript->verticalScrollBar()->triggerAction(step < 0 ? QAbstractSlider::SliderPageStepSub
                                                                  : QAbstractSlider::SliderPageStepAdd);
    });
    connect(m_composer, &Composer::stopRequested, this, &Pane::stop);
    connect(m_composer, &Composer::draftEdited, this, &Pane::saveDraft);
    connect(m_inviteButton, &QPushButton::clicked, this, &Pane::addRepositoryRequested);
    connect(m_card, &StatusCard::retryRequested, this, &Pane::regenerate);
    connect(m_card, &StatusCard::changeContextRequested, this,
            [this] { emit changeContextRequested(m_agent->context().id); });
    connect(m_transcript, &TranscriptView::citationActivated, this,
            [this](const agents::Citation& citation) { emit citationActivated(m_agent->context().id, citation); });
    connect(m_transcript, &TranscriptView::copyAnswerRequested, this, &Pane::copyMessage);
    connect(m_transcript, &TranscriptView::regenerateRequested, this, &Pane::regenerate);
    connect(m_transcript, &TranscriptView::continueRequested, this, &Pane::continueAnswer);
    connect(m_transcript, &TranscriptView::linkActivated, this, &Pane::openLink);

    connect(m_agent, &agents::Agent::nameChanged, this, [this](const QString& name) {
        m_header->setName(name);
        showStatus();
    });
    connect(m_agent, &agents::Agent::contextChanged, this, [this](const agents::ContextInfo& context) {
        m_header->setContext(context);
        showStatus();
    });
    connect(m_agent, &agents::Agent::statusChanged, this, [this] { showStatus(); });
    connect(m_reload, &QPushButton::clicked, m_workbench, &agents::Workbench::reload);
    connect(m_workbench, &agents::Workbench::deviceChanged, this, &Pane::showBody);
    connect(m_agent, &agents::Agent::questionRefused, this, [this](const QString& question, const Error& error) {
        m_askProblem = error.code == ErrorCode::Cancelled ? QString() : problemText(error);
        const QString typed = m_composer->text(); // meanwhile
        if (typed != question)
            m_composer->setText(typed.isEmpty() ? question : question + QStringLiteral("\n\n") + typed);
        m_agent->setDraft(m_composer->text());
        showBody();
    });
    connect(m_agent, &agents::Agent::conversationReset, this, &Pane::showMessages);
    connect(m_agent, &agents::Agent::messageAdded, this, [this](const agents::Message& message) {
        if (message.role == agents::MessageRole::User)
            endEditing();
        m_transcript->addMessage(message);
        showStatus();
    });
    connect(m_agent, &agents::Agent::textAppended, m_transcript, &TranscriptView::appendText);
    connect(m_agent, &agents::Agent::messageChanged, m_transcript, &TranscriptView::updateMessage);
    connect(m_agent, &agents::Agent::draftChanged, this, [this](const QString& text) {
        if (!m_editing && !m_composer->edit()->hasFocus() && m_composer->draft() != text)
            m_composer->setText(text);
    });
    connect(Theme::instance(), &Theme::changed, this, [this] {
        fitComposer();
        showFooter();
        update();
    });

    m_header->setName(m_agent->name());
    m_header->setContext(m_agent->context());
    showMessages();
}

// ---------------------------------------------------------------- showing

void Pane::showMessages()
{
    m_transcript->setMessages(m_agent->messages());
    m_askProblem.clear();
    leaveEditing();
    showStatus();
}

void Pane::showStatus()
{
    const agents::AgentStatus status = m_agent->status();
    const agents::ContextInfo context = m_agent->context();
    const QString name = m_agent->name();
    setAccessibleName(name);
    m_transcript->setAccessibleName(tr("Transcript of %1").arg(name));
    m_composer->setName(name);
    m_header->setState(paneState(status, context));
    m_header->setDevice(status.device);

    const bool card = m_card->show(status, context);
    m_transcript->setTrailer(card ? m_card : nullptr);
    m_transcript->setWriting(status.activity == Activity::Writing);
    switch (status.activity) {
    case Activity::Idle:
        m_composer->setMode(Composer::Mode::Send);
        break;
    case Activity::Stopping:
        m_composer->setMode(Composer::Mode::Stopping);
        break;
    default:
        m_composer->setMode(Composer::Mode::Stop);
        break;
    }
    QStringList asked;
    for (const agents::Message& message : m_agent->messages()) {
        if (message.role == agents::MessageRole::User)
            asked += message.text;
    }
    m_composer->setPlaceholder(asked.isEmpty() ? tr("Ask\u2026") : tr("Ask a follow-up\u2026"));
    m_composer->setHistory(asked);
    showBody();
    showFooter();
}

void Pane::showBody()
{
    const agents::ContextInfo context = m_agent->context();
    const bool busy = m_agent->status().activity != Activity::Idle;
    const bool invite = m_agent->messages().isEmpty() && !busy;
    m_sentTooSoon = m_sentTooSoon && busy;
    m_body->setCurrentWidget(invite ? m_invite : static_cast<QWidget*>(m_transcript));
    if (invite) {
        const bool none = context.name.isEmpty();
        m_inviteTitle->setText(none ? tr("No context yet") : tr("Ask about %1").arg(context.name));
        m_inviteTitle->setRole(TextRole::BodyStrong);
        QString detail;
        if (none)
            detail = tr("Choose one above, or add a repository");
        else if (context.state == agents::ContextState::Read)
            detail = tr("%1 tokens loaded \u00b7 Enter to send").arg(countText(context.tokens));
        else if (context.state == agents::ContextState::Failed)
            detail = problemText(context.problem);
        else if (context.state == agents::ContextState::Reading && context.readTotal > 0)
            detail = readingLine(context) + u'\n' + tr("Ask already: the answer follows.");
        else
            detail = tr("%1 tokens \u00b7 Enter to send").arg(countText(context.tokens));
        m_inviteDetail->setText(detail);
        const bool reading = context.state == agents::ContextState::Reading && context.readTotal > 0;
        m_inviteMeter->setVisible(reading);
        if (reading)
            m_inviteMeter->setParts(
                {{agentColor(m_agent->index()), double(context.readDone) / double(context.readTotal)}});
        m_inviteButton->setVisible(none);
    }
    const qint64 used = m_agent->status().contextTokens, limit = m_agent->status().contextLimit;
    QString warning = m_saveProblem;
    Tone tone = Tone::Warning;
    const QString lost = m_workbench->deviceProblem();
    if (!m_askProblem.isEmpty()) {
        warning = m_askProblem;
        tone = Tone::Bad;
    } else if (m_workbench->isReloading()) {
        warning = tr("The model is loaded again…");
        tone = Tone::Muted;
    } else if (!lost.isEmpty()) {
        warning = problemText(lost);
        tone = Tone::Bad;
    } else if (m_sentTooSoon && warning.isEmpty()) {
        warning = tr("Still answering: Enter sends this once the answer has ended, Esc stops the answer.");
        tone = Tone::Muted;
    } else if (m_editing && warning.isEmpty()) {
        warning = tr("Editing the last question: Enter replaces it and its answer, Esc leaves it as it is.");
        tone = Tone::Muted;
    } else if (warning.isEmpty() && contextTone(used, limit) != Tone::Normal) {
        warning = tr("The context is nearly full: %1 tokens are left. Start a new conversation to go on.")
                      .arg(countText(qMax<qint64>(0, limit - used)));
        tone = contextTone(used, limit);
    }
    m_warning->setText(warning);
    m_warning->setTone(tone);
    m_warning->setVisible(!warning.isEmpty());
    m_reload->setVisible(!lost.isEmpty());
    m_reload->setEnabled(!m_workbench->isReloading());
}

void Pane::showFooter()
{
    const agents::AgentStatus status = m_agent->status();
    // Between two answers that of the last one, as long as it is to be seen.
    const bool writes = status.activity == Activity::Writing;
    const bool answered = status.activity == Activity::Idle && !m_agent->messages().isEmpty();
    const double rate = answered ? m_agent->messages().back().figures.tokensPerSecond : status.tokensPerSecond;
    m_rate->setText(tr("%1 tok/s").arg(rateText(rate)));
    m_rate->setAccessibleName(tr("Speed: %1").arg(m_rate->text()));
    m_rate->setToolTip(writes ? tr("Over the last second") : answered ? tr("Of the last answer") : QString());
    m_hits->setText(tr("hit %1").arg(percentText(status.hitRate)));
    m_hits->setToolTip(tr("Rows found in the hot buffer"));
    m_hits->setAccessibleName(tr("Hot buffer hits: %1").arg(percentText(status.hitRate)));
    const Tone tone = contextTone(status.contextTokens, status.contextLimit);
    const double share = status.contextLimit > 0 ? double(status.contextTokens) / double(status.contextLimit) : 0;
    m_meter->setParts({{tone == Tone::Normal ? agentColor(m_agent->index()) : Theme::instance()->color(tone), share}});
    m_used->setText(contextFigures(status.contextTokens, status.contextLimit));
    m_used->setTone(tone == Tone::Normal ? Tone::Muted : tone);
    m_used->setAccessibleName(tr("Context used: %1").arg(m_used->text()));
    m_footer->setToolTip(
        status.contextLimit > 0
            ? tr("%1 of %2 tokens of context used").arg(countText(status.contextTokens), countText(status.contextLimit))
            : QString());
    fitFooter();
}

/// Where text is large and the pane narrow, what matters least goes first.
void Pane::fitFooter()
{
    m_meter->show();
    m_hits->show();
    for (QWidget* part : {static_cast<QWidget*>(m_meter), static_cast<QWidget*>(m_hits)}) {
        m_footer->layout()->activate();
        if (m_footer->layout()->sizeHint().width() <= width())
            return;
        part->hide();
    }
}

void Pane::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    fitFooter();
    fitComposer();
}

/// As wide as the text above, and below it.
void Pane::fitComposer()
{
    const int widest = TranscriptView::widestContent() + 2 * (composerInside - composerMargin);
    const int side = qMax(composerMargin, (width() - widest) / 2);
    m_bottom->setContentsMargins(side, 0, side, 8);
}

void Pane::setSaveProblem(const QString& problem)
{
    m_saveProblem = problem;
    showBody();
}

void Pane::setCurrent(bool current)
{
    m_current = current;
    update();
}

void Pane::setZoomed(bool zoomed)
{
    m_zoomed = zoomed;
}

void Pane::paintEvent(QPaintEvent*)
{
    const Colors& c = colors();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setBrush(c.panel);
    painter.setPen(QPen(m_current ? c.accent : c.line, m_current ? 2 : 1));
    const qreal inset = m_current ? 1 : 0.5;
    painter.drawRoundedRect(QRectF(rect()).adjusted(inset, inset, -inset, -inset), metrics::cardRadius,
                            metrics::cardRadius);
}

/// Who types while a button or the transcript has the focus goes on with the question.
void Pane::keyPressEvent(QKeyEvent* event)
{
    const bool types = !event->text().isEmpty() && event->text().at(0).isPrint() &&
                       !event->text().at(0).isSpace() && // a blank scrolls
                       !(event->modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier));
    if (!types || m_composer->edit()->hasFocus())
        return QWidget::keyPressEvent(event);
    focusComposer();
    QCoreApplication::sendEvent(m_composer->edit(), event);
}

void Pane::mousePressEvent(QMouseEvent* event)
{
    emit pressed();
    QWidget::mousePressEvent(event);
}

// ---------------------------------------------------------------- doing

void Pane::focusComposer()
{
    m_composer->edit()->setFocus(Qt::ShortcutFocusReason);
}

void Pane::send(const QString& question)
{
    const bool edited = m_editing;
    const Result<void> sent = edited ? m_agent->editLast(question) : m_agent->ask(question);
    if (!sent) {
        m_askProblem = problemText(sent.error());
        showBody();
        return;
    }
    m_askProblem.clear();
    m_editing = false;
    if (!edited)
        m_agent->setDraft(m_composer->typedBefore());
    m_composer->setText(m_agent->draft()); // after an edit, what was being written before it
    showBody();
}

void Pane::stop()
{
    if (m_editing) {
        leaveEditing();
        showBody();
        return;
    }
    if (m_agent->status().activity != Activity::Idle)
        m_agent->stop();
}

/// What stands in the composer while an old question is edited is no draft.
void Pane::saveDraft()
{
    if (!m_editing)
        m_agent->setDraft(m_composer->draft());
}

/// Another question came: what was edited is no longer the last one. The draft is back; what was changed of the old
/// question is a follow-up now, below the draft.
void Pane::endEditing()
{
    if (!m_editing)
        return;
    m_editing = false;
    QString text = m_agent->draft();
    if (const QString edited = m_composer->text(); edited != m_edited)
        text += (text.isEmpty() ? QString() : QStringLiteral("\n\n")) + edited;
    m_composer->setText(text);
    m_agent->setDraft(text);
}

void Pane::leaveEditing()
{
    if (!m_editing)
        return;
    m_editing = false;
    m_composer->setText(m_agent->draft());
}

/// Only what leads to a web page: a link in an answer never opens a file or starts a program. Where the words do not
/// say where it leads, the address is shown and asked about: a repository can have the model write any link.
void Pane::openLink(const QString& target, const QString& shown)
{
    const QUrl url(target, QUrl::StrictMode);
    if (!url.isValid() || (url.scheme() != u"https" && url.scheme() != u"http")) {
        emit noticed(tr("Not a web address: %1").arg(target));
        return;
    }
    if (shown == target || (!url.host().isEmpty() && (QUrl(shown).host() == url.host() || shown == url.host()))) {
        QDesktopServices::openUrl(url);
        return;
    }
    constexpr qsizetype longest = 300;
    emit offered(tr("This link leads to %1").arg(target.left(longest)), tr("Open"),
                 [url] { QDesktopServices::openUrl(url); });
}

void Pane::regenerate()
{
    report(m_agent->regenerate());
}

void Pane::continueAnswer()
{
    report(m_agent->continueAnswer());
}

/// Says above the composer why something was refused; what works clears what was said before.
void Pane::report(const Result<void>& done)
{
    m_askProblem = done ? QString() : problemText(done.error());
    showBody();
}

void Pane::editLast()
{
    const QList<agents::Message>& messages = m_agent->messages();
    for (qsizetype i = messages.size() - 1; i >= 0; --i) {
        if (messages[i].role != agents::MessageRole::User)
            continue;
        saveDraft();
        m_editing = true;
        m_edited = messages[i].text;
        m_composer->setText(m_edited);
        focusComposer();
        showBody();
        return;
    }
}

void Pane::copyMessage(agents::MessageId id)
{
    for (const agents::Message& message : m_agent->messages()) {
        if (message.id == id) {
            QGuiApplication::clipboard()->setText(message.text);
            emit noticed(tr("Answer copied as Markdown"));
        }
    }
}

void Pane::copyAnswer()
{
    const QList<agents::Message>& messages = m_agent->messages();
    for (qsizetype i = messages.size() - 1; i >= 0; --i) {
        if (messages[i].role == agents::MessageRole::Assistant) {
            copyMessage(messages[i].id);
            return;
        }
    }
}

void Pane::openFind()
{
    m_find->open();
}

void Pane::chooseContext()
{
    m_header->contextButton()->showMenu();
}

void Pane::rename()
{
    m_header->editName();
}

/// Says so where it is busy: what it is doing is not to be ended by the way.
bool Pane::refusesWhileBusy()
{
    if (m_agent->status().activity == Activity::Idle)
        return false;
    emit noticed(tr("This pane is busy: stop it first, or choose another."));
    return true;
}

void Pane::newConversation()
{
    if (refusesWhileBusy())
        return;
    m_agent->newConversation();
    focusComposer();
}

// ---------------------------------------------------------------- menus

void Pane::fillContextMenu(QMenu* menu)
{
    menu->clear();
    const agents::ContextId now = m_agent->context().id;
    for (const agents::ContextInfo& context : m_workbench->contexts()) {
        QAction* action = menu->addAction(literalText(contextLabel(context)) + u'\t' + shortCountText(context.tokens));
        action->setCheckable(true);
        action->setChecked(context.id == now);
        connect(action, &QAction::triggered, this, [this, id = context.id] {
            if (id != m_agent->context().id && !refusesWhileBusy())
                m_agent->setContext(id);
        });
    }
    if (!menu->isEmpty())
        menu->addSeparator();
    menu->addAction(icon(QStringLiteral("plus")), tr("Add repository\u2026"), this, &Pane::addRepositoryRequested);
}

void Pane::fillPaneMenu(QMenu* menu)
{
    menu->clear();
    const bool busy = m_agent->status().activity != Activity::Idle;
    const bool any = !m_agent->messages().isEmpty();
    const auto add = [&](const char* iconName, const QString& text, const char* command, auto slot,
                         bool enabled = true) {
        QAction* action = menu->addAction(icon(QLatin1String(iconName)), text, this, slot);
        if (const auto* known = window()->findChild<QAction*>(QLatin1String(command)))
            action->setShortcut(known->shortcut());
        action->setShortcutVisibleInContextMenu(true);
        action->setEnabled(enabled);
        action->setShortcutContext(Qt::WidgetShortcut); // shown here, acted on by the window
    };
    const bool early = any && agents::endedEarly(m_agent->messages().back().state);
    add("plus", tr("New conversation"), "newConversation", &Pane::newConversation, any && !busy);
    add("play", tr("Continue the answer"), "continue", &Pane::continueAnswer, early && !busy);
    add("regenerate", tr("Regenerate"), "regenerate", &Pane::regenerate, any && !busy);
    add("edit", tr("Edit last question"), "editLast", &Pane::editLast, any && !busy);
    add("copy", tr("Copy answer as Markdown"), "copyAnswer", &Pane::copyAnswer, any);
    menu->addSeparator();
    add("search", tr("Find in transcript"), "find", &Pane::openFind, any);
    add("export", tr("Export conversation\u2026"), "export", &Pane::exportRequested, any);
    menu->addSeparator();
    add("edit", tr("Rename pane"), "renamePane", &Pane::rename);
    add(m_zoomed ? "unzoom" : "zoom", m_zoomed ? tr("Back to the grid") : tr("Zoom"), "zoom", &Pane::zoomRequested);
}

} // namespace octavo::ui
