#include "ui/settings/saved_contexts_page.h"

#include "ui/problem_text.h"
#include "ui/settings/settings_form.h"
#include "ui/take_up.h"

#include <QFutureWatcher>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QVBoxLayout>
#include <QtConcurrentRun>

namespace octavo::ui {

using agents::SavedContextFile;
using agents::SavedContextState;

namespace {

constexpr int leastListHeight = 150, leastColumnWidth = 92;

} // namespace

SavedContextsPage::SavedContextsPage(const StartupSettings& settings, std::filesystem::path folder, QWidget* parent)
    : QWidget(parent)
    , m_folder(std::move(folder))
    , m_quota(makeSizeField("savedQuota", settings.savedContextsQuota, tr("None")))
    , m_used(new TextLabel({}, TextRole::BodyStrong))
    , m_where(new TextLabel({}, TextRole::Small, Tone::Muted))
    , m_bar(new SegmentBar([](qint64 bytes) { return bytesText(bytes); }))
    , m_list(new QTreeView)
    , m_empty(new TextLabel({}, TextRole::Body, Tone::Muted))
    , m_actions(new QStackedWidget)
    , m_verify(makeButton(tr("Verify all")))
    , m_remove(makeButton(tr("Remove")))
    , m_removeAll(makeButton(tr("Remove all")))
    , m_question(new TextLabel)
    , m_confirm(makeButton(tr("Remove"), ButtonKind::Danger))
    , m_says(new TextLabel({}, TextRole::Small, Tone::Muted))
{
    QVBoxLayout* layout = makeSettingsPage(this, tr("Saved contexts"),
                                           tr("What the CPU has read is kept on disk and opened again without reading. "
                                              "Where room is short, those that were not "
                                              "used for longest go first."));
    SettingsCard* room = addSettingsCard(layout);
    room->addField(tr("Room on disk"), m_quota, tr("Takes effect when Octavo starts next"));
    connect(m_quota, &QDoubleSpinBox::valueChanged, this, [this] {
        showSums();
        emit changed();
    });

    auto* sums = new QHBoxLayout;
    m_used->setObjectName(QStringLiteral("savedUsed"));
    m_where->setElided(true);
    m_where->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    sums->addWidget(m_used);
    sums->addWidget(m_where, 1);
    m_bar->setAccessibleName(tr("Room taken by saved contexts"));
    auto* taken = new QVBoxLayout;
    taken->setSpacing(metrics::gap);
    taken->addLayout(sums);
    taken->addWidget(m_bar);
    room->addRow(taken);
    layout->addWidget(buildList(), 1);
    m_actions->addWidget(new QWidget);
    auto* buttons = new QHBoxLayout(m_actions->widget(0));
    buttons->setContentsMargins({});
    buttons->setSpacing(metrics::gap);
    m_says->setObjectName(QStringLiteral("savedSays"));
    m_says->setWordWrap(true);
    buttons->addWidget(m_says, 1);
    buttons->addWidget(m_verify);
    buttons->addWidget(m_remove);
    buttons->addWidget(m_removeAll);
    m_actions->addWidget(buildQuestion());
    m_actions->setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    layout->addWidget(m_actions);

    m_verify->setObjectName(QStringLiteral("savedVerify"));
    m_remove->setObjectName(QStringLiteral("savedRemove"));
    m_removeAll->setObjectName(QStringLiteral("savedRemoveAll"));
    for (QPushButton* button : {m_verify, m_remove, m_removeAll})
        button->setAutoDefault(false);
    connect(m_verify, &QPushButton::clicked, this, &SavedContextsPage::verifyAll);
    connect(m_remove, &QPushButton::clicked, this, [this] {
        if (m_list->currentIndex().isValid())
            m_asked = {m_model.contexts()[m_list->currentIndex().row()]};
        askToRemove();
    });
    connect(m_removeAll, &QPushButton::clicked, this, [this] {
        m_asked = m_model.contexts();
        askToRemove();
    });
    showSums();
    showButtons();
    refresh();
}

SavedContextsPage::~SavedContextsPage()
{
    m_checks.cancel();
}

QWidget* SavedContextsPage::buildList()
{
    auto* card = new Card(Card::Fill::Panel);
    m_list->setObjectName(QStringLiteral("savedContexts"));
    m_list->setAccessibleName(tr("Saved contexts"));
    m_list->setModel(&m_model);
    m_list->setRootIsDecorated(false);
    m_list->setUniformRowHeights(true);
    m_list->setFrameShape(QFrame::NoFrame);
    m_list->viewport()->setAutoFillBackground(false); // the card's
    m_list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_list->setMinimumHeight(leastListHeight);
    m_list->header()->setStretchLastSection(false);
    m_list->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
    m_list->header()->setMinimumSectionSize(leastColumnWidth);
    m_list->header()->setSectionResizeMode(SavedContextsModel::ContextColumn, QHeaderView::Stretch);
    m_list->installEventFilter(this);
    connect(m_list->selectionModel(), &QItemSelectionModel::currentRowChanged, this, &SavedContextsPage::showButtons);
    m_empty->setAlignment(Qt::AlignCenter);
    m_empty->setWordWrap(true);
    m_empty->setText(
        m_folder.empty()
            ? tr("Contexts are not saved in this run.")
            : tr("Nothing is saved yet.\nA context is written here, in the background, once the CPU has read it."));
    auto* inner = new QVBoxLayout(card);
    inner->setContentsMargins(1, 1, 1, 1);
    inner->addWidget(m_list, 1);
    inner->addWidget(m_empty, 1);
    m_empty->setMinimumHeight(leastListHeight);
    return card;
}

QWidget* SavedContextsPage::buildQuestion()
{
    auto* row = new QWidget;
    auto* layout = new QHBoxLayout(row);
    layout->setContentsMargins({});
    layout->setSpacing(metrics::gap);
    m_question->setObjectName(QStringLiteral("savedQuestion"));
    m_question->setWordWrap(true);
    m_confirm->setObjectName(QStringLiteral("savedConfirm"));
    auto* keep = makeButton(tr("Keep"));
    keep->setObjectName(QStringLiteral("savedKeep"));
    layout->addWidget(m_question, 1);
    layout->addWidget(keep);
    layout->addWidget(m_confirm);
    for (QPushButton* button : {keep, m_confirm})
        button->setAutoDefault(false);
    connect(keep, &QPushButton::clicked, this, [this] {
        m_asked.clear();
        m_actions->setCurrentIndex(0);
        m_list->setFocus();
    });
    connect(m_confirm, &QPushButton::clicked, this, &SavedContextsPage::removeAsked);
    return row;
}

void SavedContextsPage::fill(StartupSettings& settings) const
{
    settings.savedContextsQuota = sizeOf(m_quota);
}

void SavedContextsPage::refresh()
{
    if (m_folder.empty())
        return;
    const int listing = ++m_listings;
    takeUp(QtConcurrent::run(agents::listSavedContexts, m_folder), this,
           [this, listing](const Result<QList<SavedContextFile>>& found) {
            if (listing != m_listings)
                return;
            if (!found) {
                say(problemText(found.error()), Tone::Bad);
                return;
            }
            const int row = m_list->currentIndex().row();
            m_model.setContexts(*found);
            if (!found->isEmpty())
                m_list->setCurrentIndex(m_model.index(qBound(0, row, int(found->size()) - 1), 0));
            showSums();
            showButtons();
        });
}

void SavedContextsPage::showSums()
{
    const qint64 quota = sizeOf(m_quota), used = m_model.bytes();
    m_used->setText(quota > 0 ? tr("%1 of %2").arg(bytesText(used), bytesText(quota)) : bytesText(used));
    m_where->setText(QString::fromStdString(m_folder.string()));
    m_where->setToolTip(plainTip(m_where->text()));
    QList<BarSegment> segments;
    for (const SavedContextFile& context : m_model.contexts())
        segments += {SavedContextsModel::title(context), context.bytes,
                     agentColor(int(segments.size()) % int(colors().agents.size()))};
    m_bar->setSegments(segments, quota);
}

void SavedContextsPage::showButtons()
{
    const bool some = !m_model.contexts().isEmpty();
    m_list->setVisible(some);
    m_empty->setVisible(!some);
    m_verify->setEnabled(some && m_verifying == 0);
    m_remove->setEnabled(some && m_list->currentIndex().isValid());
    m_removeAll->setEnabled(some);
}

/// One file after the other, so that the list tells how far it is and the disk has one reader.
void SavedContextsPage::verifyAll()
{
    const QList<SavedContextFile> all = m_model.contexts();
    m_verifying = int(all.size());
    showButtons();
    say(tr("Reading %Ln files\u2026", nullptr, m_verifying));
    m_checks = QtConcurrent::run(
        [](QPromise<SavedContextFile>& promise, const QList<SavedContextFile>& files) {
            for (qsizetype i = 0; i < files.size() && !promise.isCanceled(); ++i)
                promise.addResult(agents::verifySavedContext(files[i]));
        },
        all);
    auto* watcher = new QFutureWatcher<SavedContextFile>(this);
    connect(watcher, &QFutureWatcher<SavedContextFile>::resultReadyAt, this, [this, watcher](int i) {
        m_model.update(watcher->resultAt(i));
        say(tr("Reading %Ln files\u2026", nullptr, --m_verifying));
    });
    connect(watcher, &QFutureWatcher<SavedContextFile>::finished, this, [this, watcher] {
        watcher->deleteLater();
        m_verifying = 0;
        int bad = 0;
        for (const SavedContextFile& context : m_model.contexts())
            bad += context.problem.isEmpty() ? 0 : 1;
        say(bad == 0 ? tr("Every file is as it was written.")
                     : tr("%Ln files cannot be used. Remove them; those contexts are read again.", nullptr, bad),
            bad == 0 ? Tone::Good : Tone::Bad);
        showButtons();
    });
    watcher->setFuture(m_checks);
}

void SavedContextsPage::askToRemove()
{
    if (m_asked.isEmpty())
        return;
    qint64 bytes = 0;
    for (const SavedContextFile& context : m_asked)
        bytes += context.bytes;
    m_question->setText(m_asked.size() == 1
                            ? tr("Remove %1 (%2)? It is read anew when it is needed next.")
                                  .arg(SavedContextsModel::title(m_asked[0]), bytesText(bytes))
                            : tr("Remove all %Ln contexts (%1)? Each is read anew when it is needed next.", nullptr,
                                 int(m_asked.size()))
                                  .arg(bytesText(bytes)));
    m_actions->setCurrentIndex(1);
    m_confirm->setFocus(Qt::TabFocusReason);
}

void SavedContextsPage::removeAsked()
{
    m_actions->setCurrentIndex(0);
    m_list->setFocus();
    const auto remove = [](const QList<SavedContextFile>& files) -> Result<qsizetype> {
        for (const SavedContextFile& file : files)
            OCTAVO_CHECK(agents::removeSavedContext(file));
        return files.size();
    };
    takeUp(QtConcurrent::run(remove, std::exchange(m_asked, {})), this, [this](const Result<qsizetype>& removed) {
        if (removed)
            say(tr("%Ln contexts removed.", nullptr, int(*removed)));
        else
            say(problemText(removed.error()), Tone::Bad);
        refresh();
    });
}

void SavedContextsPage::say(const QString& text, Tone tone)
{
    m_says->setTone(tone);
    m_says->setText(text);
}

bool SavedContextsPage::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_list && event->type() == QEvent::KeyPress &&
        static_cast<QKeyEvent*>(event)->key() == Qt::Key_Delete && m_remove->isEnabled()) {
        m_remove->click();
        return true;
    }
    return QWidget::eventFilter(watched, event);
}

} // namespace octavo::ui
