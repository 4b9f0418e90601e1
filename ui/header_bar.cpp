#include "ui/header_bar.h"

#include "ui/controls.h"

#include <QFontMetricsF>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QMenu>
#include <QPainter>

namespace octavo::ui {
namespace {

/// The name of the program, its last letters in the accent colour.
class Wordmark final : public QWidget
{
public:
    Wordmark()
    {
        setAccessibleName(QStringLiteral("Octavo"));
        QObject::connect(Theme::instance(), &Theme::changed, this, [this] {
            updateGeometry();
            update();
        });
    }

    QSize sizeHint() const override
    {
        const QFontMetricsF fm(wordFont());
        return QSizeF(fm.horizontalAdvance(QStringLiteral("Octavo")) + 2, fm.height()).toSize();
    }

protected:
    void paintEvent(QPaintEvent*) override
    {
        QPainter painter(this);
        const QFont f = wordFont();
        painter.setFont(f);
        painter.setPen(colors().text);
        painter.drawText(rect(), Qt::AlignVCenter | Qt::AlignLeft, QStringLiteral("Octa"));
        painter.setPen(colors().accentText);
        const int x = int(QFontMetricsF(f).horizontalAdvance(QStringLiteral("Octa")));
        painter.drawText(rect().adjusted(x, 0, 0, 0), Qt::AlignVCenter | Qt::AlignLeft, QStringLiteral("vo"));
    }

private:
    static QFont wordFont()
    {
        QFont f = ui::font(TextRole::Title);
        f.setWeight(QFont::Bold);
        return f;
    }
};

} // namespace

HeaderBar::HeaderBar(QWidget* parent)
    : QWidget(parent)
    , m_add(makeButton(tr("+ Add repository")))
    , m_ask(new QLineEdit)
    , m_askKey(new Chip)
    , m_shape(makeButton(gridShapeLabel(GridShape::EightWide)))
    , m_compare(makeButton(tr("Compare")))
    , m_model(new TextLabel({}, TextRole::Small, Tone::Muted))
    , m_settings(makeButton(tr("Settings")))
    , m_more(makeIconButton(QStringLiteral("more"), tr("Main menu")))
    , m_menu(new QMenu(this))
{
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins(14, 7, metrics::gap, 8);
    layout->setSpacing(metrics::gap);
    layout->addWidget(new Wordmark);
    layout->addSpacing(2);
    layout->addWidget(m_add);
    layout->addSpacing(2);
    layout->addWidget(m_ask, 3);
    layout->addStretch(1);
    layout->addWidget(m_model);
    layout->addSpacing(metrics::grid);
    layout->addWidget(m_shape);
    layout->addWidget(m_compare);
    layout->addWidget(m_settings);
    layout->addWidget(m_more);

    m_ask->setPlaceholderText(tr("Ask all eight agents\u2026"));
    m_ask->setAccessibleName(tr("Ask all eight agents"));
    m_ask->setMaximumWidth(650);
    m_ask->setObjectName(QStringLiteral("askAll"));
    m_askKey->setParent(m_ask);
    m_askKey->setAttribute(Qt::WA_TransparentForMouseEvents);
    auto* inside = new QHBoxLayout(m_ask);
    inside->setContentsMargins(0, 0, 6, 0);
    inside->addStretch();
    inside->addWidget(m_askKey, 0, Qt::AlignVCenter);
    connect(m_ask, &QLineEdit::textChanged, this,
            [this](const QString& text) { m_askKey->setVisible(text.isEmpty() && !m_askKey->text().isEmpty()); });
    connect(m_ask, &QLineEdit::returnPressed, this, [this] {
        const QString question = m_ask->text().trimmed();
        if (!question.isEmpty())
            emit askAllRequested(question);
    });

    m_shape->setAccessibleName(tr("Grid"));
    m_shape->setToolTip(tr("How many panes to show"));
    auto* shapes = new QMenu(m_shape);
    for (const GridShape shape :
         {GridShape::One, GridShape::Two, GridShape::Four, GridShape::EightWide, GridShape::EightTall}) {
        QAction* action = shapes->addAction(gridShapeLabel(shape));
        connect(action, &QAction::triggered, this, [this, shape] { emit shapeChosen(shape); });
    }
    connect(m_shape, &QPushButton::clicked, this,
            [this, shapes] { shapes->popup(m_shape->mapToGlobal(QPoint(0, m_shape->height() + 4))); });
    m_compare->setCheckable(true);
    m_compare->setToolTip(tr("The panes' answers side by side"));
    m_more->setMenu(m_menu);
    m_more->setPopupMode(QToolButton::InstantPopup);
    connect(m_add, &QPushButton::clicked, this, &HeaderBar::addRepositoryRequested);
    connect(m_compare, &QPushButton::toggled, this, &HeaderBar::compareToggled);
    connect(m_settings, &QPushButton::clicked, this, &HeaderBar::settingsRequested);
    connect(Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void HeaderBar::setShape(GridShape shape)
{
    m_shape->setText(gridShapeLabel(shape));
}

void HeaderBar::setModelLine(const QString& text, const QString& tip)
{
    m_model->setText(text);
    m_model->setToolTip(plainTip(tip));
}

void HeaderBar::setAskKey(const QString& key)
{
    m_askKey->setText(key);
    m_askKey->setVisible(!key.isEmpty() && m_ask->text().isEmpty());
}

void HeaderBar::openMainMenu()
{
    m_more->showMenu();
}

void HeaderBar::setReady(bool ready)
{
    m_ask->setEnabled(ready);
    m_add->setEnabled(ready);
    m_compare->setEnabled(ready);
}

void HeaderBar::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    m_model->setVisible(width() > 1000); // the first thing a narrow window can do without
}

void HeaderBar::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.fillRect(rect(), colors().panel);
    painter.fillRect(QRect(0, height() - 1, width(), 1), colors().line);
}

} // namespace octavo::ui
