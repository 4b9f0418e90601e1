#include "ui/pane/find_bar.h"

#include "ui/controls.h"
#include "ui/transcript/transcript_view.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLineEdit>
#include <QPainter>

namespace octavo::ui {

FindBar::FindBar(TranscriptView* view, QWidget* parent)
    : QWidget(parent)
    , m_view(view)
    , m_field(new QLineEdit)
    , m_count(new TextLabel({}, TextRole::Small, Tone::Muted))
{
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(metrics::gap, 5, metrics::gap, 6);
    layout->setSpacing(metrics::grid);
    m_field->setPlaceholderText(tr("Find in this transcript"));
    m_field->setAccessibleName(tr("Find in this transcript"));
    m_field->installEventFilter(this);
    QToolButton* up = makeIconButton(QStringLiteral("up"), tr("Previous match (Shift+Enter)"));
    QToolButton* down = makeIconButton(QStringLiteral("next"), tr("Next match (Enter)"));
    QToolButton* closeButton = makeIconButton(QStringLiteral("close"), tr("Close (Esc)"));
    layout->addWidget(m_field, 1);
    layout->addWidget(m_count);
    layout->addWidget(up);
    layout->addWidget(down);
    layout->addWidget(closeButton);
    connect(m_field, &QLineEdit::textChanged, this, [this](const QString& text) {
        m_view->find(text);
        showCount();
    });
    const auto step = [this](int direction) {
        m_view->findStep(direction);
        showCount();
    };
    connect(up, &QToolButton::clicked, this, [step] { step(-1); });
    connect(down, &QToolButton::clicked, this, [step] { step(1); });
    connect(closeButton, &QToolButton::clicked, this, &FindBar::close);
    hide();
}

void FindBar::open()
{
    show();
    if (m_view->hasSelection() && m_view->selectedText().size() < 80)
        m_field->setText(m_view->selectedText());
    m_field->setFocus(Qt::ShortcutFocusReason);
    m_field->selectAll();
    m_view->find(m_field->text());
    showCount();
}

void FindBar::close()
{
    hide();
    m_view->find({});
    m_view->setFocus(Qt::OtherFocusReason);
}

void FindBar::showCount()
{
    const int count = m_view->foundCount();
    if (m_field->text().isEmpty())
        m_count->setText({});
    else if (count == 0)
        m_count->setText(tr("nothing found"));
    else
        m_count->setText(tr("%1 of %2").arg(m_view->currentFound() + 1).arg(count));
}

bool FindBar::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_field && event->type() == QEvent::KeyPress) {
        const auto* key = static_cast<QKeyEvent*>(event);
        if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
            m_view->findStep(key->modifiers() & Qt::ShiftModifier ? -1 : 1);
            showCount();
            return true;
        }
    }
    return QWidget::eventFilter(watched, event);
}

/// Of the field and of the buttons.
void FindBar::keyPressEvent(QKeyEvent* event)
{
    if (event->key() == Qt::Key_Escape)
        close();
    else
        QWidget::keyPressEvent(event);
}

void FindBar::paintEvent(QPaintEvent*)
{
    QPainter(this).fillRect(QRect(0, height() - 1, width(), 1), colors().line);
}

} // namespace octavo::ui
