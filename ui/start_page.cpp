#include "ui/start_page.h"

#include <QHBoxLayout>
#include <QPainter>
#include <QVBoxLayout>

namespace octavo::ui {

StartPage::StartPage(QWidget* parent)
    : QWidget(parent)
    , m_title(new TextLabel({}, TextRole::Heading))
    , m_text(new TextLabel({}, TextRole::Body, Tone::Muted))
    , m_meter(new Meter)
    , m_stage(new TextLabel({}, TextRole::Figure, Tone::Muted))
    , m_add(makeButton(tr("Add a repository\u2026"), ButtonKind::Primary))
    , m_settings(makeButton(tr("Choose a model\u2026")))
    , m_quit(makeButton(tr("Quit")))
    , m_note(new TextLabel({}, TextRole::Small, Tone::Muted))
{
    auto* column = new QVBoxLayout;
    column->setSpacing(metrics::padding);
    m_title->setAlignment(Qt::AlignLeft);
    for (TextLabel* label : {m_text, m_note})
        label->setWordWrap(true);
    m_meter->setThickness(8);
    auto* buttons = new QHBoxLayout;
    buttons->addWidget(m_add);
    buttons->addWidget(m_settings);
    buttons->addWidget(m_quit);
    buttons->addStretch();
    column->addStretch(2);
    column->addWidget(m_title);
    column->addWidget(m_text);
    column->addSpacing(metrics::grid);
    column->addWidget(m_meter);
    column->addWidget(m_stage);
    column->addLayout(buttons);
    column->addSpacing(metrics::gap);
    column->addWidget(m_note);
    column->addStretch(3);

    auto* page = new QWidget;
    page->setLayout(column);
    page->setMaximumWidth(560);
    auto* layout = new QHBoxLayout(this);
    layout->addStretch(1);
    layout->addWidget(page, 6);
    layout->addStretch(1);

    connect(m_add, &QPushButton::clicked, this, &StartPage::addRepositoryRequested);
    connect(m_settings, &QPushButton::clicked, this, &StartPage::settingsRequested);
    connect(m_quit, &QPushButton::clicked, this, &StartPage::quitRequested);
    connect(Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
    showLoading({}, 0, 0);
}

void StartPage::show(const QString& title, const QString& text)
{
    m_title->setText(title);
    m_text->setText(text);
    m_text->setVisible(!text.isEmpty());
    for (QWidget* part :
         {static_cast<QWidget*>(m_meter), static_cast<QWidget*>(m_stage), static_cast<QWidget*>(m_add),
          static_cast<QWidget*>(m_settings), static_cast<QWidget*>(m_quit), static_cast<QWidget*>(m_note)})
        part->hide();
}

void StartPage::showLoading(const QString& stage, qint64 done, qint64 total)
{
    show(tr("Loading the model"), {});
    m_meter->setParts({{colors().accent, total > 0 ? double(done) / double(total) : 0.0}});
    m_meter->show();
    QString line = stage.isEmpty() ? tr("Starting\u2026") : stage;
    if (total > 1'000'000)
        line += QStringLiteral(" \u00b7 ") + tr("%1 of %2").arg(bytesText(done), bytesText(total));
    m_stage->setText(line);
    m_stage->show();
}

void StartPage::showFailure(const Error& error)
{
    const std::string_view title = errorTitle(error.code);
    show(QString::fromUtf8(title.data(), qsizetype(title.size())), QString::fromStdString(error.message));
    m_settings->show();
    m_quit->show();
}

void StartPage::showWelcome(const engine::ModelInfo& model, bool demoModel)
{
    show(tr("Eight agents over your code"),
         tr("Add a git repository: Octavo reads one commit of it, on this machine, and eight panes answer questions "
            "about it "
            "side by side. What an answer quotes is looked up in that commit and marked as verified or not."));
    m_add->show();
    m_settings->show();
    m_add->setFocus(Qt::OtherFocusReason);
    const QString name = QString::fromStdString(model.name);
    if (demoModel)
        m_note->setText(
            tr("The demo model is loaded (%1 parameters). It is small: it finds definitions, quotes code and names "
               "files, and it can be wrong about anything beyond that. For real answers choose a folder with a "
               "Qwen3.5 checkpoint from Hugging Face in the settings; it stays on this machine, too.")
                .arg(shortCountText(model.parameters)));
    else
        m_note->setText(
            tr("%1 is loaded, with room for %2 tokens per agent.").arg(name, countText(model.contextLimit)));
    m_note->show();
}

void StartPage::paintEvent(QPaintEvent*)
{
    QPainter(this).fillRect(rect(), colors().background);
}

} // namespace octavo::ui
