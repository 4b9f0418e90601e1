#include "ui/wizard/source_page.h"
#include "ui/problem_text.h"
#include "ui/shown_text.h"

#include "ui/stage_text.h"
#include "ui/take_up.h"
#include "ui/wizard/selection.h"

#include "agents/ingest/clone_job.h"

#include <QCompleter>
#include <QDir>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QMimeData>
#include <QStandardPaths>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

constexpr int inspectDelayMs = 250;
constexpr int recentShown = 4;

} // namespace

SourcePage::SourcePage(QWidget* parent)
    : QWidget(parent)
{
    m_cloneParent = QDir::home().filePath(QStringLiteral("repositories"));
    setAcceptDrops(true);
    auto* heading = new TextLabel(tr("Where is the repository?"), TextRole::Heading);
    auto* hint =
        new TextLabel(tr("Octavo reads one commit and never writes to a repository. Nothing leaves this machine."),
                      TextRole::Small, Tone::Muted);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins({});
    layout->setSpacing(metrics::padding);
    layout->addWidget(heading);
    layout->addWidget(hint);
    layout->addWidget(buildFolderCard());
    layout->addWidget(buildCloneCard());
    layout->addWidget(buildVerdictCard());
    layout->addStretch(1);

    m_inspectTimer.setSingleShot(true);
    m_inspectTimer.setInterval(inspectDelayMs);
    connect(&m_inspectTimer, &QTimer::timeout, this, &SourcePage::inspect);
    setFocusProxy(m_path);
}

SourcePage::~SourcePage() = default;

QWidget* SourcePage::buildFolderCard()
{
    auto* card = new Card(Card::Fill::Background);
    m_path = new QLineEdit;
    m_path->setObjectName(QStringLiteral("folder"));
    m_path->setAccessibleName(tr("Folder of the repository"));
    m_path->setPlaceholderText(tr("Path of a folder, or drop one here"));
    m_path->setClearButtonEnabled(true);
    connect(m_path, &QLineEdit::textChanged, this, [this] {
        m_trusted = false;
        m_info.reset();
        ++m_round; // an inspection under way is of the old path
        m_inspectTimer.start();
        emit completeChanged();
    });
    connect(m_path, &QLineEdit::returnPressed, this, [this] {
        if (isComplete())
            emit accepted();
        else
            inspect();
    });
    auto* browseButton = makeButton(tr("Browse…"));
    connect(browseButton, &QPushButton::clicked, this, &SourcePage::browse);
    auto* row = new QHBoxLayout;
    row->addWidget(m_path, 1);
    row->addWidget(browseButton);

    m_recent = new QWidget;
    m_recentLayout = new QVBoxLayout(m_recent);
    m_recentLayout->setContentsMargins({});
    m_recentLayout->setSpacing(0);
    m_recent->hide();

    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(16, metrics::padding, 16, metrics::padding);
    layout->addWidget(new TextLabel(tr("A folder on this machine"), TextRole::BodyStrong));
    layout->addLayout(row);
    layout->addWidget(m_recent);
    return card;
}

QWidget* SourcePage::buildCloneCard()
{
    auto* card = new Card(Card::Fill::Background);
    m_url = new QLineEdit;
    m_url->setObjectName(QStringLiteral("url"));
    m_url->setAccessibleName(tr("URL to clone"));
    m_url->setPlaceholderText(QStringLiteral("https://…   git@…"));
    m_cloneButton = makeButton(tr("Clone"));
    m_cloneButton->setObjectName(QStringLiteral("clone"));
    m_cloneButton->setEnabled(false);
    m_target = new TextLabel(tr("Through https, or ssh with the keys of your agent."), TextRole::Small, Tone::Muted);
    m_target->setElided(true);
    connect(m_url, &QLineEdit::textChanged, this, [this] {
        m_cloneButton->setEnabled(isCloning() || !cloneTarget().isEmpty());
        m_target->setTone(Tone::Muted);
        m_target->setText(cloneTarget().isEmpty() ? tr("Through https, or ssh with the keys of your agent.")
                                                  : tr("Goes into %1").arg(cloneTarget()));
    });
    connect(m_url, &QLineEdit::returnPressed, m_cloneButton, &QPushButton::click);
    connect(m_cloneButton, &QPushButton::clicked, this, [this] {
        if (m_clone != nullptr)
            m_clone->cancel();
        else
            startClone();
    });
    m_cloneProgress = new QProgressBar;
    m_cloneProgress->setAccessibleName(tr("Progress of the clone"));
    m_cloneProgress->setTextVisible(false);
    m_cloneProgress->setFixedHeight(8);
    m_cloneProgress->hide();
    m_cloneStage = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_cloneStage->setObjectName(QStringLiteral("cloneStage"));
    m_cloneStage->hide();

    auto* row = new QHBoxLayout;
    row->addWidget(m_url, 1);
    row->addWidget(m_cloneButton);
    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(16, metrics::padding, 16, metrics::padding);
    layout->addWidget(new TextLabel(tr("Clone from a URL"), TextRole::BodyStrong));
    layout->addLayout(row);
    layout->addWidget(m_target);
    layout->addWidget(m_cloneProgress);
    layout->addWidget(m_cloneStage);
    return card;
}

QWidget* SourcePage::buildVerdictCard()
{
    m_verdict = new Card(Card::Fill::Background);
    m_name = new TextLabel({}, TextRole::Title);
    m_name->setObjectName(QStringLiteral("foundName"));
    m_commit = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_commit->setElided(true);
    m_notes = new TextLabel({}, TextRole::Body);
    m_notes->setObjectName(QStringLiteral("notes"));
    m_notes->setWordWrap(true);
    m_refLabel = new TextLabel(tr("Branch, tag or commit"), TextRole::Small, Tone::Muted);
    m_refs = new QComboBox;
    m_refs->setObjectName(QStringLiteral("refs"));
    m_refs->setAccessibleName(m_refLabel->text());
    m_refs->setEditable(true);
    m_refs->setInsertPolicy(QComboBox::NoInsert);
    m_refs->completer()->setFilterMode(Qt::MatchContains);
    m_refs->completer()->setCompletionMode(QCompleter::PopupCompletion);
    m_refs->setMinimumWidth(240);
    connect(m_refs, &QComboBox::activated, this, &SourcePage::chooseRef);
    connect(m_refs->lineEdit(), &QLineEdit::editingFinished, this, &SourcePage::chooseRef);
    m_trust = makeButton(tr("Trust for Octavo only"));
    m_trust->setObjectName(QStringLiteral("trust"));
    connect(m_trust, &QPushButton::clicked, this, [this] {
        m_trusted = true;
        inspect();
    });
    auto* head = new QHBoxLayout;
    head->addWidget(m_name);
    head->addWidget(m_commit, 1);
    auto* refRow = new QHBoxLayout;
    refRow->addWidget(m_refLabel);
    refRow->addWidget(m_refs);
    refRow->addStretch(1);
    auto* layout = new QVBoxLayout(m_verdict);
    layout->setContentsMargins(16, metrics::padding, 16, metrics::padding);
    layout->addLayout(head);
    layout->addWidget(m_notes);
    layout->addLayout(refRow);
    layout->addWidget(m_trust, 0, Qt::AlignLeft);
    m_verdict->hide();
    return m_verdict;
}

void SourcePage::setRecent(const QStringList& paths)
{
    qDeleteAll(m_recent->findChildren<QPushButton*>());
    for (const QString& path : paths.mid(0, recentShown)) {
        auto* button = makeButton(literalText(path), ButtonKind::Quiet);
        button->setIcon(icon(QStringLiteral("folder")));
        button->setAccessibleName(tr("Use %1").arg(path));
        button->setAutoDefault(false);
        connect(button, &QPushButton::clicked, this, [this, path] { setFolder(path); });
        m_recentLayout->addWidget(button, 0, Qt::AlignLeft);
    }
    m_recent->setVisible(!paths.isEmpty());
}

void SourcePage::setFolder(const QString& path, const QString& ref)
{
    m_path->setText(path);
    if (!ref.isEmpty()) {
        m_inspectedPath = path;
        m_refs->setEditText(ref);
    }
    inspect();
}

void SourcePage::setUrl(const QString& url)
{
    m_url->setText(url);
}

QString SourcePage::ref() const
{
    return m_refs->currentText().trimmed();
}

bool SourcePage::isComplete() const
{
    return m_info && m_info->hasCommits && !m_info->needsTrust && !isCloning();
}

void SourcePage::browse()
{
    auto* dialog = new QFileDialog(this, tr("Choose a repository"), m_path->text());
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(QFileDialog::Directory);
    connect(dialog, &QFileDialog::fileSelected, this, [this](const QString& path) { setFolder(path); });
    dialog->open();
}

void SourcePage::dragEnterEvent(QDragEnterEvent* event)
{
    if (event->mimeData()->hasUrls() || event->mimeData()->hasText())
        event->acceptProposedAction();
}

void SourcePage::dropEvent(QDropEvent* event)
{
    const QList<QUrl> urls = event->mimeData()->urls();
    if (!urls.isEmpty() && urls.first().isLocalFile())
        setFolder(urls.first().toLocalFile());
    else
        setUrl(urls.isEmpty() ? event->mimeData()->text().trimmed() : urls.first().toString());
    event->acceptProposedAction();
}

void SourcePage::inspect()
{
    m_inspectTimer.stop();
    const int round = ++m_round;
    const QString path = m_path->text().trimmed();
    m_info.reset();
    emit completeChanged();
    if (path.isEmpty()) {
        m_verdict->hide();
        return;
    }
    const QString ref = path == m_inspectedPath ? this->ref() : QString();
    m_inspectedPath = path;
    takeUp(agents::inspectRepository(path, ref, m_trusted), this,
           [this, round](const Result<agents::RepositoryInfo>& info) {
               if (round == m_round)
                   showInfo(info);
           });
}

void SourcePage::showInfo(const Result<agents::RepositoryInfo>& info)
{
    m_verdict->show();
    const bool good = info && !info->needsTrust;
    m_verdict->setOutline(good ? (info->hasCommits ? Tone::Good : Tone::Warning) : Tone::Warning);
    m_refs->setVisible(good && !info->refs.isEmpty());
    m_refLabel->setVisible(m_refs->isVisibleTo(m_verdict));
    m_trust->setVisible(info && info->needsTrust);
    if (!info) {
        m_name->setText(tr("This cannot be read"));
        m_commit->clear();
        m_notes->setText(problemText(info.error()));
        m_notes->show();
        // A ref that does not exist leaves the choice open.
        m_refs->setVisible(info.error().code == ErrorCode::NotFound && m_refs->count() > 0);
        m_refLabel->setVisible(m_refs->isVisibleTo(m_verdict));
        emit completeChanged();
        return;
    }
    m_info = *info;
    m_name->setText(info->name);
    QStringList notes;
    for (const QString& note : info->notes)
        notes += problemText(note);
    m_notes->setText(notes.join(u'\n'));
    m_notes->setVisible(!info->notes.isEmpty());
    const QSignalBlocker quiet(m_refs);
    m_refs->clear();
    for (const agents::RefInfo& ref : info->refs)
        m_refs->addItem(ref.name);
    m_refs->setEditText(info->head.ref);
    showCommit();
    emit completeChanged();
}

void SourcePage::showCommit()
{
    const agents::CommitInfo& head = m_info->head;
    m_commit->setText(head.id.isEmpty() ? m_info->path
                                        : QStringList{head.id.left(7), tr("“%1”").arg(head.subject),
                                                      agoText(head.time, QDateTime::currentDateTime()), m_info->path}
                                              .join(QStringLiteral(" · ")));
}

void SourcePage::chooseRef()
{
    if (m_refs->isVisibleTo(m_verdict) && (!m_info || ref() != m_info->head.ref))
        inspect();
}

QString SourcePage::cloneTarget() const
{
    const QString name = agents::folderOfUrl(m_url->text());
    return name.isEmpty() ? QString() : QDir(m_cloneParent).filePath(name);
}

void SourcePage::startClone()
{
    m_clone = agents::cloneRepository(m_url->text().trimmed(), cloneTarget(), this);
    m_cloneButton->setText(tr("Cancel"));
    m_cloneButton->setAccessibleName(tr("Cancel the clone"));
    m_url->setEnabled(false);
    m_cloneProgress->setRange(0, 0);
    m_cloneProgress->show();
    m_cloneStage->setTone(Tone::Muted);
    m_cloneStage->setText(tr("Connecting"));
    m_cloneStage->show();
    emit completeChanged();
    connect(m_clone, &agents::IngestJob::progress, this, [this](const agents::IngestProgress& progress) {
        m_cloneProgress->setRange(0, int(progress.total));
        m_cloneProgress->setValue(int(progress.done));
        QStringList parts{stageText(progress.stage), progress.current};
        if (progress.total > 0)
            parts += tr("%1 of %2").arg(countText(progress.done), countText(progress.total));
        if (progress.secondsLeft >= 0)
            parts += tr("%1 left").arg(durationText(progress.secondsLeft));
        m_cloneStage->setText(parts.join(QStringLiteral(" · ")));
    });
    connect(m_clone, &agents::IngestJob::finished, this, [this](const agents::IngestResult& result) {
        endClone();
        m_cloneStage->hide();
        setFolder(result.repositoryPath);
    });
    connect(m_clone, &agents::IngestJob::failed, this, [this](const Error& error) {
        endClone();
        m_cloneStage->setTone(error.code == ErrorCode::Cancelled ? Tone::Muted : Tone::Bad);
        m_cloneStage->setText(problemText(error));
    });
}

void SourcePage::endClone()
{
    m_clone->deleteLater();
    m_clone = nullptr;
    m_cloneButton->setText(tr("Clone"));
    m_cloneButton->setAccessibleName(m_cloneButton->text());
    m_url->setEnabled(true);
    m_cloneProgress->hide();
    emit completeChanged();
}

} // namespace octavo::ui
