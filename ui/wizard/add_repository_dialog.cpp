#include "ui/wizard/add_repository_dialog.h"

#include "ui/problem_text.h"

#include "agents/ingest/path_text.h"
#include "agents/workbench.h"

#include <QDir>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QPainter>
#include <QSet>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

constexpr int stepsWidth = 196;
constexpr int numSteps = 4;
const QString rateSetting = QStringLiteral("wizard/prefillTokensPerSecond");

} // namespace

/// The four steps at the left: where one is, what is behind.
class AddRepositoryDialog::StepList final : public QWidget
{
public:
    explicit StepList(QWidget* parent)
        : QWidget(parent)
    {
        setAccessibleName(AddRepositoryDialog::tr("Steps"));
        const auto fit = [this] {
            const QFontMetrics name(ui::font(TextRole::BodyStrong));
            int widest = 0;
            for (const QString& step : names())
                widest = qMax(widest, name.horizontalAdvance(step));
            setFixedWidth(qMax(stepsWidth, widest + nameLeft() + 40));
            update();
        };
        connect(Theme::instance(), &Theme::changed, this, fit);
        fit();
    }

    void setCurrent(int step)
    {
        m_current = step;
        setAccessibleDescription(
            AddRepositoryDialog::tr("Step %1 of %2: %3").arg(step + 1).arg(numSteps).arg(names()[step]));
        update();
    }

protected:
    void paintEvent(QPaintEvent*) override
    {
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        const Colors& c = colors();
        painter.fillRect(rect(), c.background);
        painter.fillRect(QRect(width() - 1, 0, 1, height()), c.line);
        painter.setFont(ui::font(TextRole::Title));
        painter.setPen(c.text);
        const int top = 16 + qMax(32, painter.fontMetrics().height());
        painter.drawText(QRect(16, 16, width() - 20, top - 16), Qt::AlignVCenter,
                         painter.fontMetrics().elidedText(AddRepositoryDialog::tr("Add repository"), Qt::ElideRight,
                                                          width() - 20));
        const int pitch = rowHeight() + 2, circle = markSize();
        for (int i = 0; i < numSteps; ++i) {
            const QRect row(14, top + 14 + i * pitch, width() - 28, rowHeight());
            if (i == m_current) {
                painter.setPen(Qt::NoPen);
                painter.setBrush(c.question);
                painter.drawRoundedRect(row, metrics::radius, metrics::radius);
            }
            const QRectF mark(row.left() + 10, row.top() + (row.height() - circle) / 2.0, circle, circle);
            painter.setPen(i == m_current ? QPen(Qt::NoPen) : QPen(i < m_current ? c.accent : c.line));
            painter.setBrush(Qt::NoBrush);
            painter.drawEllipse(mark);
            painter.setFont(ui::font(TextRole::Small));
            painter.setPen(i < m_current ? c.accentText : i == m_current ? c.text : c.muted);
            painter.drawText(mark, Qt::AlignCenter, i < m_current ? QStringLiteral("✓") : QString::number(i + 1));
            painter.setFont(ui::font(i == m_current ? TextRole::BodyStrong : TextRole::Body));
            painter.setPen(i == m_current ? c.text : c.muted);
            painter.drawText(row.adjusted(nameLeft(), 0, 0, 0), Qt::AlignVCenter, names()[i]);
        }
    }

private:
    static int rowHeight() { return qMax(34, QFontMetrics(ui::font(TextRole::BodyStrong)).height() + 12); }
    static int markSize() { return qMax(19, QFontMetrics(ui::font(TextRole::Small)).height() + 5); }
    static int nameLeft() { return 10 + markSize() + 10; } ///< in a row

    static QStringList names()
    {
        return {AddRepositoryDialog::tr("Source"), AddRepositoryDialog::tr("Files and budget"),
                AddRepositoryDialog::tr("Read"), AddRepositoryDialog::tr("Panes")};
    }

    int m_current = 0;
};

AddRepositoryDialog::AddRepositoryDialog(agents::Workbench* workbench, QWidget* parent)
    : QDialog(parent)
    , m_workbench(workbench)
{
    build();
    QStringList recent;
    const QList<agents::ContextInfo> contexts = workbench->contexts();
    for (auto context = contexts.rbegin(); context != contexts.rend(); ++context) {
        if (!recent.contains(context->repositoryPath))
            recent += context->repositoryPath;
    }
    m_source->setRecent(recent);
    connect(workbench, &agents::Workbench::contextChanged, this, [this](const agents::ContextInfo& context) {
        if (m_added && context.id == m_context)
            showContext(context);
    });
    goTo(Source);
}

AddRepositoryDialog::~AddRepositoryDialog() = default;

void AddRepositoryDialog::build()
{
    setWindowTitle(tr("Add repository"));
    sizeByText(this, {1180, 760});
    m_steps = new StepList(this);
    m_source = new SourcePage;
    m_files = new FilesPage;
    m_read = new ReadPage;
    m_panes = new PanesPage;
    m_pages = new QStackedWidget;
    for (QWidget* page : {static_cast<QWidget*>(m_source), static_cast<QWidget*>(m_files),
                          static_cast<QWidget*>(m_read), static_cast<QWidget*>(m_panes)})
        m_pages->addWidget(page);

    m_back = makeButton(tr("Back"));
    m_back->setObjectName(QStringLiteral("back"));
    m_cancel = makeButton(tr("Cancel"));
    m_cancel->setObjectName(QStringLiteral("cancel"));
    m_next = makeButton(tr("Next"), ButtonKind::Primary);
    m_next->setObjectName(QStringLiteral("next"));
    connect(m_back, &QPushButton::clicked, this, &AddRepositoryDialog::goBack);
    connect(m_cancel, &QPushButton::clicked, this, &AddRepositoryDialog::reject);
    connect(m_next, &QPushButton::clicked, this, &AddRepositoryDialog::goOn);
    auto* buttons = new QHBoxLayout;
    buttons->addStretch(1);
    for (QPushButton* button : {m_back, m_cancel, m_next})
        buttons->addWidget(button);

    auto* right = new QWidget;
    auto* rightLayout = new QVBoxLayout(right);
    rightLayout->setContentsMargins(24, 20, 24, 20);
    rightLayout->setSpacing(metrics::padding);
    rightLayout->addWidget(m_pages, 1);
    rightLayout->addLayout(buttons);
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins({});
    layout->setSpacing(0);
    layout->addWidget(m_steps);
    layout->addWidget(right, 1);
    // Return goes on, whichever page is seen: a default button must know its dialog when it is made one.
    for (QPushButton* button : findChildren<QPushButton*>())
        button->setAutoDefault(false);
    m_next->setDefault(true);

    connect(m_source, &SourcePage::completeChanged, this, &AddRepositoryDialog::showButtons);
    connect(m_source, &SourcePage::accepted, this, &AddRepositoryDialog::goOn);
    connect(m_files, &FilesPage::choiceChanged, this, [this] {
        showButtons();
        showChange();
    });
    connect(m_files, &FilesPage::retryRequested, this, &AddRepositoryDialog::startPreview);
    connect(m_read, &ReadPage::stopRequested, this, [this] { m_workbench->cancelReading(m_context); });
    connect(m_read, &ReadPage::resumeRequested, this, [this] { m_workbench->readContext(m_context); });
    connect(m_panes, &PanesPage::choiceChanged, this, &AddRepositoryDialog::showButtons);
}

void AddRepositoryDialog::setFolder(const QString& path)
{
    m_source->setFolder(path);
}

void AddRepositoryDialog::startFrom(agents::ContextId context)
{
    m_basis = context;
    const agents::IngestOptions options = m_workbench->ingestOptions(context);
    m_files->setPreset(options);
    m_source->setFolder(options.repository, options.ref);
}

void AddRepositoryDialog::showChange()
{
    if (!m_basis || !m_files->hasFiles())
        return;
    const agents::IngestResult chosen = m_files->chosen();
    const agents::IngestChange change = m_workbench->changeSince(*m_basis, chosen);
    QList<agents::SkippedFile> differences;
    const auto list = [&](const QList<QByteArray>& paths, const QString& how) {
        for (const QByteArray& path : paths)
            differences += {path, agents::displayPath(path), how};
    };
    list(change.changed, tr("changed"));
    list(change.added, tr("added"));
    list(change.removed, tr("removed"));
    m_files->setChanges(differences);
    if (differences.isEmpty())
        m_files->setRemark(tr("The same files and contents as in the context before."));
    else
        m_files->setRemark(
            tr("Against the context before: %1 changed, %2 added, %3 removed \u00b7 %4 of %5 tokens are read already.")
                .arg(countText(change.changed.size()), countText(change.added.size()), countText(change.removed.size()),
                     countText(change.reusedTokens), countText(chosen.tokens)));
}

AddRepositoryDialog::Page AddRepositoryDialog::page() const
{
    return Page(m_pages->currentIndex());
}

void AddRepositoryDialog::goTo(Page page)
{
    m_pages->setCurrentIndex(page);
    m_steps->setCurrent(page);
    showButtons();
    if (page == Source)
        m_source->setFocus();
    else if (page != Files)
        m_next->setFocus();
}

void AddRepositoryDialog::showButtons()
{
    const Page now = page();
    m_back->setVisible(now == Files || now == Panes);
    m_cancel->setText(m_added ? tr("Close") : tr("Cancel"));
    m_cancel->setAccessibleName(m_cancel->text());
    QString text = tr("Next");
    bool enabled = true;
    switch (now) {
    case Source:
        enabled = m_source->isComplete();
        break;
    case Files:
        if (m_files->hasFiles())
            text = tr("Read %1 tokens").arg(countText(m_files->chosenTokens()));
        else if (m_files->isCounting())
            text = tr("Counting…");
        enabled = m_files->problem().isEmpty();
        break;
    case Read:
        text = tr("Choose panes");
        break;
    case Panes: {
        const int panes = int(m_panes->chosen().size());
        text = panes == 0 ? tr("Finish") : tr("Give it to %n panes", nullptr, panes);
        break;
    }
    }
    m_next->setText(text);
    m_next->setAccessibleName(text);
    m_next->setEnabled(enabled);
}

void AddRepositoryDialog::goOn()
{
    switch (page()) {
    case Source:
        if (m_source->isComplete()) {
            goTo(Files);
            startPreview();
        }
        break;
    case Files:
        if (m_files->problem().isEmpty())
            read();
        break;
    case Read:
        fillPanes();
        goTo(Panes);
        break;
    case Panes:
        finish();
        break;
    }
}

void AddRepositoryDialog::goBack()
{
    if (page() == Files) {
        stopPreview();
        goTo(Source);
    } else if (page() == Panes) {
        goTo(Read);
    }
}

void AddRepositoryDialog::keyPressEvent(QKeyEvent* event)
{
    if (event->key() == Qt::Key_Left && event->modifiers() == Qt::AltModifier) {
        if (m_back->isVisible())
            goBack();
        return;
    }
    QDialog::keyPressEvent(event);
}

double AddRepositoryDialog::tokensPerSecond() const
{
    // What this machine read the last context at.
    return m_workbench->setting(rateSetting).toDouble();
}

void AddRepositoryDialog::startPreview()
{
    stopPreview();
    const engine::ModelInfo model = m_workbench->model();
    m_files->setModelFigures(QString::fromStdString(model.name), model.contextLimit, tokensPerSecond(),
                             model.bytesPerToken);
    const agents::RepositoryInfo& repository = *m_source->repository();
    m_files->showCounting(repository.name, {});
    agents::IngestOptions options;
    options.repository = repository.path;
    options.ref = m_source->ref();
    options.trusted = m_source->trusted();
    options.uncut = true; // what fits is chosen on the page
    m_preview = m_workbench->preview(options);
    connect(m_preview, &agents::IngestJob::progress, this,
            [this, name = repository.name](const agents::IngestProgress& progress) {
                m_files->showCounting(name, progress);
            });
    connect(m_preview, &agents::IngestJob::finished, this, [this](const agents::IngestResult& result) {
        stopPreview();
        m_files->showFiles(result);
    });
    connect(m_preview, &agents::IngestJob::failed, this, [this](const Error& error) {
        stopPreview();
        if (error.code != ErrorCode::Cancelled)
            m_files->showFailure(problemText(error));
    });
}

void AddRepositoryDialog::stopPreview()
{
    if (m_preview == nullptr)
        return;
    m_preview->disconnect(this);
    m_preview->cancel();
    m_preview->deleteLater();
    m_preview = nullptr;
}

void AddRepositoryDialog::read()
{
    agents::IngestOptions options = m_files->chosenOptions();
    options.trusted = m_source->trusted();
    options.ref = m_source->ref();
    m_context = m_workbench->addContext(options, m_files->chosen());
    m_added = true;
    for (const agents::ContextInfo& context : m_workbench->contexts()) {
        if (context.id == m_context)
            showContext(context);
    }
    goTo(Read);
}

void AddRepositoryDialog::showContext(const agents::ContextInfo& context)
{
    m_contextInfo = context;
    m_read->showContext(context);
    if (context.state != agents::ContextState::Reading)
        return;
    for (const engine::DeviceMetrics& device : m_workbench->metrics().devices) {
        if (device.prefillTokensPerSecond > 0)
            m_workbench->setSetting(rateSetting, QString::number(device.prefillTokensPerSecond, 'f', 1));
    }
}

void AddRepositoryDialog::fillPanes()
{
    QList<PaneChoice> panes;
    bool anyFree = false;
    for (int i = 0; i < agents::numAgents; ++i) {
        const agents::Agent* agent = m_workbench->agent(i);
        const agents::ContextInfo about = agent->context();
        PaneChoice pane;
        pane.name = agent->name();
        pane.about = about.name.isEmpty() ? tr("no context yet") : tr("%1 @ %2").arg(about.name, about.commit.left(7));
        pane.chosen = m_basis ? about.id == *m_basis : about.name.isEmpty(); // an update goes where the old one was
        pane.busy = agent->status().activity != agents::Activity::Idle;
        anyFree = anyFree || pane.chosen;
        panes += pane;
    }
    if (!anyFree)
        panes[0].chosen = true;
    m_panes->setPanes(m_contextInfo.name, panes);
}

void AddRepositoryDialog::finish()
{
    const QList<int> panes = m_panes->chosen();
    for (int pane : panes)
        m_workbench->agent(pane)->setContext(m_context);
    emit contextAssigned(m_context, panes);
    accept();
}

} // namespace octavo::ui
