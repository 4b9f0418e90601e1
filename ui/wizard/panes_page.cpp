#include "ui/wizard/panes_page.h"
#include "ui/shown_text.h"

#include <QGridLayout>
#include <QPainter>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

constexpr int columns = 2;

class Dot final : public QWidget
{
public:
    explicit Dot(int agent)
        : m_agent(agent)
    {
        setFixedSize(10, 10);
    }

protected:
    void paintEvent(QPaintEvent*) override
    {
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(Qt::NoPen);
        painter.setBrush(agentColor(m_agent));
        painter.drawEllipse(QRectF(1, 1, 8, 8));
    }

private:
    int m_agent;
};

} // namespace

PanesPage::PanesPage(QWidget* parent)
    : QWidget(parent)
{
    m_heading = new TextLabel({}, TextRole::Heading);
    auto* hint = new TextLabel(
        tr("A pane that changes its context starts a new conversation; the old one stays in the history."),
        TextRole::Small, Tone::Muted);
    m_grid = new QGridLayout;
    m_grid->setSpacing(metrics::padding);
    auto* all = makeButton(tr("All panes"), ButtonKind::Quiet);
    auto* none = makeButton(tr("None"), ButtonKind::Quiet);
    const auto setAll = [this](bool chosen) {
        for (QCheckBox* box : std::as_const(m_boxes)) {
            if (box->isEnabled())
                box->setChecked(chosen);
        }
    };
    connect(all, &QPushButton::clicked, this, [setAll] { setAll(true); });
    connect(none, &QPushButton::clicked, this, [setAll] { setAll(false); });
    auto* buttons = new QHBoxLayout;
    buttons->addWidget(all);
    buttons->addWidget(none);
    buttons->addStretch(1);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins({});
    layout->setSpacing(metrics::padding);
    layout->addWidget(m_heading);
    layout->addWidget(hint);
    layout->addLayout(m_grid);
    layout->addLayout(buttons);
    layout->addStretch(1);
}

void PanesPage::setPanes(const QString& context, const QList<PaneChoice>& panes)
{
    m_heading->setText(tr("Who asks about %1?").arg(context));
    while (QLayoutItem* item = m_grid->takeAt(0)) {
        delete item->widget();
        delete item;
    }
    m_boxes.clear();
    for (int i = 0; i < panes.size(); ++i) {
        const PaneChoice& pane = panes[i];
        auto* card = new Card(Card::Fill::Background);
        auto* box = new QCheckBox(literalText(pane.name));
        box->setObjectName(QStringLiteral("pane%1").arg(i));
        box->setAccessibleName(tr("%1, now %2").arg(pane.name, pane.about));
        box->setFont(ui::font(TextRole::BodyStrong));
        box->setChecked(pane.chosen && !pane.busy);
        box->setEnabled(!pane.busy);
        connect(box, &QCheckBox::toggled, this, &PanesPage::choiceChanged);
        auto* about =
            new TextLabel(pane.busy ? tr("%1 · answering").arg(pane.about) : pane.about, TextRole::Code, Tone::Muted);
        about->setElided(true);
        auto* row = new QHBoxLayout(card);
        row->setContentsMargins(metrics::padding, metrics::padding, metrics::padding, metrics::padding);
        row->addWidget(new Dot(i));
        row->addWidget(box);
        row->addWidget(about, 1);
        m_grid->addWidget(card, i / columns, i % columns);
        m_boxes += box;
    }
    emit choiceChanged();
}

QList<int> PanesPage::chosen() const
{
    QList<int> result;
    for (int i = 0; i < m_boxes.size(); ++i) {
        if (m_boxes[i]->isChecked())
            result += i;
    }
    return result;
}

} // namespace octavo::ui
