#include "ui/pane/pane_header.h"

#include "ui/controls.h"
#include "ui/shown_text.h"

#include <QApplication>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLineEdit>
#include <QMouseEvent>
#include <QPainter>
#include <QTimer>

namespace octavo::ui {
namespace {

/// The dot that identifies the agent.
class Dot final : public QWidget
{
public:
    explicit Dot(int agent)
        : m_agent(agent)
    {
        setFixedSize(9, 9);
        setAttribute(Qt::WA_TransparentForMouseEvents);
    }

protected:
    void paintEvent(QPaintEvent*) override
    {
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(Qt::NoPen);
        painter.setBrush(agentColor(m_agent));
        painter.drawEllipse(QRectF(0.5, 0.5, 8, 8));
    }

private:
    int m_agent;
};

constexpr int leastContextWidth = 84; ///< before the device makes way

} // namespace

PaneHeader::PaneHeader(int agent, QWidget* parent)
    : QWidget(parent)
    , m_agent(agent)
    , m_dot(new Dot(agent))
    , m_name(new TextLabel({}, TextRole::BodyStrong))
    , m_edit(new QLineEdit)
    , m_context(new QToolButton)
    , m_state(new TextLabel({}, TextRole::SmallStrong))
    , m_device(new Chip)
    , m_menu(makeIconButton(QStringLiteral("more"), tr("Pane menu")))
{
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(metrics::padding, 5, 5, 5);
    layout->setSpacing(metrics::gap);
    layout->addWidget(m_dot);
    layout->addWidget(m_name);
    layout->addWidget(m_edit);
    layout->addSpacing(-metrics::gap / 2); // the button has padding of its own, and an outline when it has the focus
    layout->addWidget(m_context);
    layout->addStretch(1);
    layout->addWidget(m_state);
    layout->addWidget(m_device);
    layout->addWidget(m_menu);
    layout->setSpacing(metrics::gap);

    m_name->installEventFilter(this);
    m_name->setToolTip(tr("Click to rename"));
    m_edit->hide();
    m_edit->installEventFilter(this);
    m_edit->setAccessibleName(tr("Name of this pane"));
    m_edit->setMaxLength(60);
    m_edit->setMaximumWidth(180);
    m_context->setToolButtonStyle(Qt::ToolButtonTextOnly);
    m_context->setPopupMode(QToolButton::InstantPopup);
    m_context->setFocusPolicy(Qt::TabFocus);
    m_context->setSizePolicy(QSizePolicy::Maximum, QSizePolicy::Preferred);
    m_context->setMinimumWidth(40);
    m_context->setProperty("noArrow", true); // the room is the label's
    setButtonKind(m_context, ButtonKind::Quiet);
    m_device->hide();
    m_menu->setPopupMode(QToolButton::InstantPopup);

    const auto restyle = [this] {
        m_context->setFont(ui::font(TextRole::Figure));
        QTimer::singleShot(0, this, &PaneHeader::fitContext); // once the other labels have their new fonts
    };
    connect(Theme::instance(), &Theme::changed, this, restyle);
    restyle();
    connect(m_edit, &QLineEdit::returnPressed, this, [this] { finishRename(true); });
}

void PaneHeader::setName(const QString& name)
{
    m_name->setText(name);
    m_menu->setAccessibleName(tr("Menu of %1").arg(name));
    fitContext();
}

void PaneHeader::setContext(const agents::ContextInfo& context)
{
    m_contextText = contextLabel(context);
    QString tip = tr("No context yet: choose one");
    if (!m_contextText.isEmpty()) {
        tip = context.repositoryPath;
        if (!context.ref.isEmpty())
            tip += u'\n' + context.ref;
        tip += u'\n' + tr("%1 tokens in %2 files").arg(countText(context.tokens), countText(context.files));
    }
    m_context->setToolTip(plainTip(tip));
    m_context->setAccessibleName(m_contextText.isEmpty() ? tr("Choose a context")
                                                         : tr("Context: %1").arg(m_contextText));
    fitContext();
}

/// The label takes what the rest leaves, and is cut in the middle where that is too little: name and commit both count.
/// The device makes way for it first, then what is more than the state's name.
void PaneHeader::fitContext()
{
    const QString text = m_contextText.isEmpty() ? tr("choose a context") : m_contextText;
    const QFontMetrics fm(m_context->font());
    int room = width() - (metrics::padding + 5 + m_dot->width() + m_menu->sizeHint().width() + 4 * metrics::gap);
    room -= m_name->isHidden() ? 0 : m_name->sizeHint().width();
    room -= 2 * metrics::gap + metrics::gap / 2 - metrics::grid; // the button's own padding, and what keeps it off the name
    const QFontMetrics state(m_state->font());
    const int wanted = qMin(fm.horizontalAdvance(text), leastContextWidth);
    const QString all =
        m_shown.detail.isEmpty() ? m_shown.words : m_shown.words + QStringLiteral(", ") + m_shown.detail;
    const bool hasDetail = room - state.horizontalAdvance(all) >= wanted;
    const int fittedFor = width();
    m_state->setText(hasDetail ? all : m_shown.words);
    if (width() != fittedFor) // it made the layouts above settle, and that has fitted all anew
        return;
    room -= state.horizontalAdvance(m_state->text());
    const int device = m_device->sizeHint().width();
    const bool hasRoom = room - device >= wanted;
    m_device->setVisible(!m_device->text().isEmpty() && hasRoom);
    if (width() != fittedFor)
        return;
    if (!m_device->isHidden())
        room -= device;
    m_context->setText(literalText(fm.elidedText(text, Qt::ElideMiddle, qMax(40, room))));
}

void PaneHeader::setState(const PaneState& state)
{
    m_shown = state;
    m_state->setTone(state.tone);
    const QString all = state.detail.isEmpty() ? state.words : state.words + QStringLiteral(", ") + state.detail;
    m_state->setAccessibleName(tr("State: %1").arg(all));
    showTip();
    fitContext();
}

void PaneHeader::setDevice(const QString& device)
{
    m_device->setText(device);
    m_device->setAccessibleName(tr("Device: %1").arg(device));
    showTip();
    fitContext();
}

/// What may have no room in the line.
void PaneHeader::showTip()
{
    QStringList lines;
    if (!m_shown.detail.isEmpty())
        lines += m_shown.words + QStringLiteral(", ") + m_shown.detail;
    if (!m_device->text().isEmpty())
        lines += m_device->accessibleName();
    m_state->setToolTip(lines.join(u'\n'));
}

void PaneHeader::editName()
{
    m_edit->setText(m_name->text());
    m_name->hide();
    m_edit->show();
    m_edit->setFocus(Qt::ShortcutFocusReason);
    m_edit->selectAll();
}

void PaneHeader::finishRename(bool keep)
{
    if (m_edit->isHidden())
        return;
    m_edit->hide();
    m_name->show();
    const QString name = m_edit->text().simplified();
    if (keep && !name.isEmpty() && name != m_name->text())
        emit renamed(name);
}

bool PaneHeader::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_edit) {
        if (event->type() == QEvent::FocusOut)
            finishRename(true);
        if (event->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(event)->key() == Qt::Key_Escape) {
            finishRename(false);
            return true;
        }
    }
    if (watched == m_name && event->type() == QEvent::MouseButtonRelease) {
        const auto* mouse = static_cast<QMouseEvent*>(event);
        if (mouse->button() == Qt::LeftButton &&
            (mapFromGlobal(mouse->globalPosition().toPoint()) - m_pressed).manhattanLength() < 4) {
            editName();
            return true;
        }
    }
    return QWidget::eventFilter(watched, event);
}

void PaneHeader::mousePressEvent(QMouseEvent* event)
{
    m_pressed = event->position().toPoint();
    emit pressed();
}

void PaneHeader::mouseMoveEvent(QMouseEvent* event)
{
    if ((event->buttons() & Qt::LeftButton) &&
        (event->position().toPoint() - m_pressed).manhattanLength() >= QApplication::startDragDistance())
        emit dragStarted();
}

void PaneHeader::mouseDoubleClickEvent(QMouseEvent* event)
{
    if (event->button() == Qt::LeftButton)
        emit zoomRequested();
}

void PaneHeader::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    fitContext();
}

void PaneHeader::paintEvent(QPaintEvent*)
{
    QPainter(this).fillRect(QRect(0, height() - 1, width(), 1), colors().line);
}

} // namespace octavo::ui
