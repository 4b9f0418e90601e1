#include "ui/start_page.h"

#include "ui/problem_text.h"
#include "ui/stage_text.h"

#include <QDragEnterEvent>
#include <QFileDialog>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QIcon>
#include <QMimeData>
#include <QPainter>
#include <QScrollArea>
#include <QUrl>
#include <QVBoxLayout>

namespace octavo::ui {

StartPage::StartPage(QWidget* parent)
    : QWidget(parent)
    , m_title(new TextLabel({}, TextRole::Heading))
    , m_text(new TextLabel({}, TextRole::Body, Tone::Muted))
    , m_meter(new Meter)
    , m_stage(new TextLabel({}, TextRole::Figure, Tone::Muted))
    , m_open(makeButton(tr("Open a repository\u2026"), ButtonKind::Primary))
    , m_add(makeButton(tr("Choose what is read\u2026")))
    , m_settings(makeButton(tr("Choose a model\u2026")))
    , m_quit(makeButton(tr("Quit")))
    , m_drop(new TextLabel(tr("or drop a folder here"), TextRole::Small, Tone::Muted))
{
    m_problems = new QWidget;
    m_problemRows = new QVBoxLayout(m_problems);
    m_problemRows->setContentsMargins({});
    m_card = buildModelCard();
    setAcceptDrops(true);
    auto* column = new QVBoxLayout;
    column->setSpacing(metrics::padding);
    m_text->setWordWrap(true);
    m_meter->setThickness(8);
    m_open->setObjectName(QStringLiteral("open"));
    auto* first = new QHBoxLayout;
    first->setSpacing(metrics::padding);
    first->addWidget(m_open);
    first->addWidget(m_drop);
    first->addStretch();
    auto* buttons = new QHBoxLayout;
    buttons->setSpacing(metrics::gap);
    for (QWidget* part :
         {static_cast<QWidget*>(m_add), static_cast<QWidget*>(m_settings), static_cast<QWidget*>(m_quit)})
        buttons->addWidget(part);
    buttons->addStretch();
    column->addStretch(2);
    auto* mark = new QLabel;
    mark->setPixmap(QIcon(QStringLiteral(":/icons/octavo.svg")).pixmap(QSize(44, 44), devicePixelRatioF()));
    mark->setAccessibleName(QStringLiteral("Octavo"));
    column->addWidget(mark);
    column->addWidget(m_title);
    column->addWidget(m_text);
    column->addSpacing(metrics::grid);
    column->addWidget(m_meter);
    column->addWidget(m_stage);
    column->addLayout(first);
    column->addLayout(buttons);
    column->addWidget(m_problems);
    column->addSpacing(metrics::padding);
    column->addWidget(m_card);
    column->addStretch(3);

    auto* page = new QWidget;
    page->setLayout(column);
    page->setMaximumWidth(int(600 * Theme::instance()->textScale()));
    auto* centred = new QWidget;
    auto* row = new QHBoxLayout(centred);
    row->addStretch(1);
    row->addWidget(page, 1000);
    row->addStretch(1);
    auto* area = new QScrollArea; // for large text in a small window
    area->setFrameShape(QFrame::NoFrame);
    area->setWidgetResizable(true);
    area->setFocusPolicy(Qt::NoFocus);
    area->viewport()->setAutoFillBackground(false);
    centred->setAutoFillBackground(false);
    area->setWidget(centred);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins({});
    layout->addWidget(area);

    connect(m_open, &QPushButton::clicked, this, &StartPage::browse);
    connect(m_add, &QPushButton::clicked, this, &StartPage::addRepositoryRequested);
    connect(m_settings, &QPushButton::clicked, this, &StartPage::settingsRequested);
    connect(m_quit, &QPushButton::clicked, this, &StartPage::quitRequested);
    connect(Theme::instance(), &Theme::changed, this, [this, page] {
        page->setMaximumWidth(int(600 * Theme::instance()->textScale()));
        update();
    });
    showLoading({}, 0, 0);
}

/// What the loaded model can and cannot do, and how to get a better one.
QWidget* StartPage::buildModelCard()
{
    auto* card = new Card(Card::Fill::Panel);
    m_cardTitle = new TextLabel({}, TextRole::BodyStrong);
    m_cardTitle->setWordWrap(true);
    m_factRows = new QWidget;
    auto* grid = new QGridLayout(m_factRows);
    grid->setContentsMargins({});
    grid->setHorizontalSpacing(16);
    grid->setVerticalSpacing(metrics::gap);
    grid->setColumnStretch(1, 1);
    const std::pair<QString, Tone> names[] = {
        {tr("It can"), Tone::Good}, {tr("It cannot"), Tone::Warning}, {tr("For more"), Tone::Accent}};
    for (const auto& [name, tone] : names) {
        const int row = int(m_facts.size());
        grid->addWidget(new TextLabel(name, TextRole::SmallStrong, tone), row, 0, Qt::AlignTop);
        auto* fact = new TextLabel({}, TextRole::Small, Tone::Muted);
        fact->setWordWrap(true);
        grid->addWidget(fact, row, 1);
        m_facts += fact;
    }
    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(16, 14, 16, 14);
    layout->setSpacing(10);
    layout->addWidget(m_cardTitle);
    layout->addWidget(m_factRows);
    return card;
}

void StartPage::browse()
{
    auto* dialog = new QFileDialog(this, tr("Open a repository"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(QFileDialog::Directory);
    connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& folder) { emit openRequested({folder}); });
    dialog->open();
}

void StartPage::dragEnterEvent(QDragEnterEvent* event)
{
    if (!m_open->isHidden() && event->mimeData()->hasUrls())
        event->acceptProposedAction();
}

void StartPage::dropEvent(QDropEvent* event)
{
    QStringList folders;
    for (const QUrl& url : event->mimeData()->urls()) {
        if (url.isLocalFile())
            folders += url.toLocalFile();
    }
    if (!folders.isEmpty())
        emit openRequested(folders);
    event->acceptProposedAction();
}

void StartPage::show(const QString& title, const QString& text)
{
    m_title->setText(title);
    m_text->setText(text);
    m_text->setVisible(!text.isEmpty());
    for (QWidget* part : {static_cast<QWidget*>(m_meter), static_cast<QWidget*>(m_stage), static_cast<QWidget*>(m_open),
                          static_cast<QWidget*>(m_add), static_cast<QWidget*>(m_settings),
                          static_cast<QWidget*>(m_quit), static_cast<QWidget*>(m_drop), m_problems, m_card})
        part->hide();
}

void StartPage::addProblem(const OpenProblem& problem)
{
    auto* card = new Card(Card::Fill::Panel);
    card->setOutline(Tone::Warning);
    auto* folder = new TextLabel(problem.folder, TextRole::Code);
    auto* text = new TextLabel(problem.text, TextRole::Small, Tone::Muted);
    folder->setElided(true);
    folder->setToolTip(plainTip(problem.folder));
    text->setWordWrap(true);
    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(16, metrics::padding, 16, metrics::padding);
    layout->addWidget(folder);
    layout->addWidget(text);
    auto* buttons = new QHBoxLayout;
    const auto add = [&](const QString& words, void (StartPage::*request)(const QString&)) {
        QPushButton* button = makeButton(words);
        button->setAccessibleName(tr("%1: %2").arg(words, problem.folder));
        connect(button, &QPushButton::clicked, this,
                [this, request, at = problem.folder] { emit(this->*request)(at); });
        buttons->addWidget(button);
    };
    if (problem.canTrust)
        add(tr("Trust for Octavo only"), &StartPage::trustRequested);
    add(tr("Choose files\u2026"), &StartPage::chooseFilesRequested);
    buttons->addStretch();
    layout->addLayout(buttons);
    m_problemRows->addWidget(card);
    m_problems->show();
}

void StartPage::clearProblems()
{
    qDeleteAll(m_problems->findChildren<Card*>(QString(), Qt::FindDirectChildrenOnly));
    m_problems->hide();
}

void StartPage::showLoading(const QString& stage, qint64 done, qint64 total)
{
    show(tr("Loading the model"), {});
    m_meter->setParts({{colors().accent, total > 0 ? double(done) / double(total) : 0.0}});
    m_meter->show();
    QString line = stage.isEmpty() ? tr("Starting\u2026") : stageText(stage);
    if (total > 1'000'000)
        line += QStringLiteral(" \u00b7 ") + tr("%1 of %2").arg(bytesText(done), bytesText(total));
    m_stage->setText(line);
    m_stage->show();
}

void StartPage::showFailure(const Error& error)
{
    show(problemTitle(error.code), problemText(error));
    m_settings->show();
    m_quit->show();
}

void StartPage::showWelcome(const engine::ModelInfo& model, bool demoModel)
{
    show(tr("Eight agents over your code"),
         tr("Octavo reads one commit of a git repository, on this machine, and eight panes answer questions about it "
            "side by side. What an answer quotes is looked up in that commit and marked as verified or not."));
    for (QWidget* part : {static_cast<QWidget*>(m_open), static_cast<QWidget*>(m_add),
                          static_cast<QWidget*>(m_settings), static_cast<QWidget*>(m_drop), m_card})
        part->show();
    m_problems->setVisible(m_problemRows->count() > 0);
    m_open->setFocus(Qt::OtherFocusReason);
    m_factRows->setVisible(demoModel);
    if (!demoModel) {
        m_cardTitle->setText(tr("%1 is loaded, with room for %2 tokens per agent.")
                                 .arg(QString::fromStdString(model.name), countText(model.contextLimit)));
        return;
    }
    m_cardTitle->setText(tr("The demo model is loaded: %1 parameters").arg(shortCountText(model.parameters)));
    m_facts[0]->setText(tr("Find definitions, quote code and name files, within seconds of reading. On a CPU the first "
                           "24,000 tokens of a repository are read to begin with."));
    m_facts[1]->setText(
        tr("Explain, judge or write code. Now and then it names the wrong file: the marks on an answer say "
           "what stands where."));
    m_facts[2]->setText(
        tr("Octavo is made for Qwen3.8-27B in int4 from Hugging Face, on one or two GPUs of 24 GB. Download it into a "
           "folder and choose that folder in the settings; they say whether it fits before anything is loaded."));
}

void StartPage::paintEvent(QPaintEvent*)
{
    QPainter(this).fillRect(rect(), colors().background);
}

} // namespace octavo::ui
