#include "ui/pane/composer.h"

#include "ui/controls.h"

#include <QHBoxLayout>
#include <QInputMethodEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QPushButton>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextLayout>

#include <cmath>

namespace octavo::ui {
namespace {

constexpr int mostLines = 6, verticalPadding = 6;
constexpr int iconSide = 14; ///< pixels at 100% text

} // namespace

ComposerEdit::ComposerEdit(QWidget* parent)
    : QPlainTextEdit(parent)
{
    setFrameShape(QFrame::NoFrame);
    setTabChangesFocus(true);
    setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setLineWrapMode(QPlainTextEdit::WidgetWidth);
    viewport()->setAutoFillBackground(false);
    document()->setDocumentMargin(0);
}

void ComposerEdit::keyPressEvent(QKeyEvent* event)
{
    const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
    if (enter && !m_composing) {
        if (event->modifiers() & Qt::ShiftModifier) {
            insertPlainText(QStringLiteral("\n"));
            ensureCursorVisible();
        } else if (!(event->modifiers() & (Qt::ControlModifier | Qt::AltModifier))) {
            emit sendRequested();
        } else {
            event->ignore();
        }
        return;
    }
    if (!m_composing && event->modifiers() == Qt::NoModifier) {
        QTextCursor cursor = textCursor();
        if (event->key() == Qt::Key_Up && !cursor.movePosition(QTextCursor::Up)) {
            emit historyRequested(-1);
            return;
        }
        if (event->key() == Qt::Key_Down && !cursor.movePosition(QTextCursor::Down)) {
            emit historyRequested(1);
            return;
        }
    }
    if (!m_composing && event->modifiers() == Qt::NoModifier &&
        (event->key() == Qt::Key_PageUp || event->key() == Qt::Key_PageDown)) {
        emit pageRequested(event->key() == Qt::Key_PageUp ? -1 : 1);
        return;
    }
    if (event->key() == Qt::Key_Escape) { // Stop is the window's
        event->ignore();
        return;
    }
    QPlainTextEdit::keyPressEvent(event);
}

void ComposerEdit::inputMethodEvent(QInputMethodEvent* event)
{
    m_composing = !event->preeditString().isEmpty();
    QPlainTextEdit::inputMethodEvent(event);
}

Composer::Composer(QWidget* parent)
    : QWidget(parent)
    , m_edit(new ComposerEdit(this))
    , m_button(new QPushButton(this))
{
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(10, verticalPadding, 6, verticalPadding);
    layout->setSpacing(metrics::gap);
    layout->addWidget(m_edit, 1);
    layout->addWidget(m_button, 0, Qt::AlignBottom);
    setFocusProxy(m_edit);
    m_button->setFocusPolicy(Qt::TabFocus);
    m_edit->installEventFilter(this);
    m_draftTimer.setSingleShot(true);
    m_draftTimer.setInterval(400);

    connect(m_edit, &ComposerEdit::sendRequested, this, &Composer::send);
    connect(m_edit, &ComposerEdit::historyRequested, this, &Composer::walkHistory);
    connect(m_edit, &ComposerEdit::pageRequested, this, &Composer::pageRequested);
    connect(m_edit, &QPlainTextEdit::textChanged, this, [this] {
        fitHeight();
        if (!m_draftTimer.isActive()) // not put off by every key: who types without a pause is saved too
            m_draftTimer.start();
    });
    connect(&m_draftTimer, &QTimer::timeout, this, [this] { emit draftEdited(draft()); });
    connect(m_button, &QPushButton::clicked, this, [this] {
        if (m_mode == Mode::Stop)
            emit stopRequested();
        else
            send();
    });
    connect(Theme::instance(), &Theme::changed, this, &Composer::restyle);
    restyle();
    setMode(Mode::Send);
}

void Composer::restyle()
{
    m_edit->setFont(ui::font(TextRole::Body));
    m_button->setFont(ui::font(TextRole::Small));
    const int icon = qRound(iconSide * Theme::instance()->textScale());
    m_button->setIconSize(QSize(icon, icon));
    QPalette p = m_edit->palette();
    p.setColor(QPalette::Base, Qt::transparent);
    m_edit->setPalette(p);
    fitHeight();
    update();
}

void Composer::setName(const QString& name)
{
    m_edit->setAccessibleName(tr("Question for %1").arg(name));
}

void Composer::setPlaceholder(const QString& text)
{
    m_edit->setPlaceholderText(text);
}

void Composer::setMode(Mode mode)
{
    m_mode = mode;
    const bool stop = mode == Mode::Stop || mode == Mode::Stopping;
    m_button->setText(stop ? tr("Stop") : QString());
    m_button->setIcon(icon(stop ? QStringLiteral("stop") : QStringLiteral("send")));
    m_button->setToolTip(stop ? tr("Stop this answer (Esc)") : tr("Send (Enter)"));
    m_button->setAccessibleName(stop ? tr("Stop") : tr("Send"));
    m_button->setEnabled(mode == Mode::Send || mode == Mode::Stop);
    m_edit->setEnabled(true);
    update();
}

QString Composer::text() const
{
    return m_edit->toPlainText();
}

void Composer::setText(const QString& text)
{
    m_historyAt = -1;
    showText(text);
}

void Composer::showText(const QString& text)
{
    if (text == m_edit->toPlainText())
        return;
    m_edit->setPlainText(text);
    m_edit->moveCursor(QTextCursor::End);
}

QString Composer::draft() const
{
    // An old question that was changed is being written.
    return m_historyAt >= 0 && text() == m_history[m_historyAt] ? m_typed : text();
}

void Composer::setHistory(const QStringList& questions)
{
    if (questions == m_history)
        return;
    if (m_historyAt >= 0 && questions.value(m_historyAt) != m_history[m_historyAt])
        setText(draft());
    m_history = questions;
}

void Composer::send()
{
    const QString question = text().trimmed();
    if (m_edit->isComposing() || question.isEmpty())
        return;
    if (m_mode == Mode::Send)
        emit sent(question);
    else if (m_mode != Mode::Disabled)
        emit sentTooSoon();
}

void Composer::walkHistory(int step)
{
    if (m_history.isEmpty() || (m_historyAt < 0 && step > 0))
        return;
    if (m_historyAt < 0) {
        m_typed = text();
        m_historyAt = int(m_history.size());
    }
    m_historyAt += step;
    if (m_historyAt < 0) {
        m_historyAt = 0;
        return;
    }
    if (m_historyAt >= m_history.size()) {
        setText(m_typed);
        return;
    }
    showText(m_history[m_historyAt]);
    // So that the next Up is on the first line again.
    m_edit->moveCursor(step < 0 ? QTextCursor::Start : QTextCursor::End);
}

void Composer::fitHeight()
{
    int lines = 0;
    for (QTextBlock block = m_edit->document()->begin(); block.isValid(); block = block.next())
        lines += qMax(1, block.layout() ? block.layout()->lineCount() : 1);
    lines = qBound(1, lines, mostLines);
    const int pitch = int(std::ceil(QFontMetricsF(m_edit->font()).lineSpacing()));
    const int edit = lines * pitch + 2;
    m_edit->setFixedHeight(edit);
    // One line is centred against the button.
    const int button = qMax(22, QFontMetrics(m_button->font()).height() + 8);
    m_button->setFixedHeight(button);
    const int spare = qMax(0, button - edit);
    layout()->setContentsMargins(10, verticalPadding, 6, verticalPadding);
    layout()->setAlignment(m_edit, spare > 0 ? Qt::AlignVCenter : Qt::AlignTop);
    setFixedHeight(qMax(edit, button) + 2 * verticalPadding);
    if (lines < mostLines)
        m_edit->verticalScrollBar()->setValue(0);
}

void Composer::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    fitHeight();
}

void Composer::mousePressEvent(QMouseEvent*)
{
    m_edit->setFocus(Qt::MouseFocusReason);
}

bool Composer::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_edit && (event->type() == QEvent::FocusIn || event->type() == QEvent::FocusOut))
        update();
    return QWidget::eventFilter(watched, event);
}

void Composer::paintEvent(QPaintEvent*)
{
    const Colors& c = colors();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(m_edit->hasFocus() ? mixed(c.line, c.accent, 0.7) : c.line);
    painter.setBrush(Theme::instance()->scheme() == ColorScheme::Light ? c.background : c.codeBlock);
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), metrics::radius + 1, metrics::radius + 1);
}

} // namespace octavo::ui
