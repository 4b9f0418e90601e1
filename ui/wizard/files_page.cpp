#include "ui/wizard/files_page.h"

#include "ui/problem_text.h"
#include "ui/stage_text.h"
#include "ui/take_up.h"
#include "ui/wizard/file_tree_view.h"
#include "ui/wizard/selection.h"
#include "ui/wizard/treemap.h"

#include "agents/ingest/glob.h"

#include <QApplication>
#include <QButtonGroup>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>
#include <QtConcurrentRun>

#include <optional>

namespace octavo::ui {

namespace {

constexpr int globDelayMs = 150;

/// What the globs let through, or why they cannot be used. Runs on a pool thread.
Result<std::vector<bool>> allowedBy(const QStringList& include, const QStringList& exclude,
                                    const QList<agents::PackedFile>& files)
{
    OCTAVO_TRY(const agents::GlobFilter filter, agents::GlobFilter::create(include, exclude));
    std::vector<bool> allowed(std::size_t(files.size()));
    for (int i = 0; i < files.size(); ++i)
        allowed[std::size_t(i)] = filter.rejection(files[i].path).isEmpty();
    return allowed;
}

/// A path, and below it in small print why it is left out or how it changed.
class LeftOutDelegate final : public QStyledItemDelegate
{
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override
    {
        return {40, pathHeight() + QFontMetrics(ui::font(TextRole::Small)).height() + 2 * padding};
    }
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override
    {
        QStyleOptionViewItem item = option;
        initStyleOption(&item, index);
        item.text.clear();
        const QStyle* style = item.widget ? item.widget->style() : QApplication::style();
        style->drawControl(QStyle::CE_ItemViewItem, &item, painter, item.widget);
        const QRect text = option.rect.adjusted(metrics::padding, padding, -metrics::padding, -padding);
        painter->setFont(ui::font(TextRole::Code));
        painter->setPen(colors().text);
        painter->drawText(text, Qt::AlignTop | Qt::TextSingleLine,
                          painter->fontMetrics().elidedText(index.data().toString(), Qt::ElideMiddle, text.width()));
        painter->setFont(ui::font(TextRole::Small));
        painter->setPen(colors().muted);
        const QString reason = index.siblingAtColumn(LeftOutModel::ReasonColumn).data().toString();
        painter->drawText(text, Qt::AlignBottom | Qt::TextSingleLine,
                          painter->fontMetrics().elidedText(reason, Qt::ElideRight, text.width()));
        painter->fillRect(QRect(option.rect.left(), option.rect.bottom(), option.rect.width(), 1),
                          mixed(colors().background, colors().line, 0.6));
    }

private:
    static constexpr int padding = 6;
    static int pathHeight() { return QFontMetrics(ui::font(TextRole::Code)).height() + 2; }
};

QWidget* cardHeader(const QList<QWidget*>& left, TextLabel* right)
{
    auto* header = new QWidget;
    auto* layout = new QHBoxLayout(header);
    layout->setContentsMargins(metrics::padding, metrics::grid, metrics::padding, metrics::grid);
    for (QWidget* widget : left)
        layout->addWidget(widget);
    layout->addWidget(right, 1, Qt::AlignRight);
    header->setMinimumHeight(metrics::controlHeight + 2 * metrics::grid);
    return header;
}

/// One of several views of a card: a word that stands out while it is the one shown.
QPushButton* makeTab(const QString& text, const char* name, QButtonGroup* group)
{
    QPushButton* tab = makeButton(text, ButtonKind::Quiet);
    tab->setObjectName(QLatin1String(name));
    tab->setCheckable(true);
    tab->setAutoDefault(false);
    group->addButton(tab);
    return tab;
}

} // namespace

FilesPage::FilesPage(QWidget* parent)
    : QWidget(parent)
{
    build();
    m_globTimer.setSingleShot(true);
    m_globTimer.setInterval(globDelayMs);
    connect(&m_globTimer, &QTimer::timeout, this, &FilesPage::applyGlobs);
    connect(&m_tree, &FileTreeModel::selectionChanged, this, &FilesPage::showChoice);
}

QLineEdit* FilesPage::globEdit(const QString& name, const QString& placeholder)
{
    auto* edit = new QLineEdit;
    edit->setAccessibleName(tr("%1 patterns").arg(name));
    edit->setPlaceholderText(placeholder);
    edit->setFont(ui::font(TextRole::Code));
    auto* label = new TextLabel(name, TextRole::Code, Tone::Muted, edit);
    label->move(10, 0);
    label->setBuddy(edit);
    const int width = QFontMetrics(ui::font(TextRole::Code)).horizontalAdvance(name);
    edit->setTextMargins(width + 16, 0, 0, 0);
    auto* layout = new QHBoxLayout(edit);
    layout->setContentsMargins(10, 0, 10, 0);
    layout->addWidget(label, 0, Qt::AlignLeft | Qt::AlignVCenter);
    label->setAttribute(Qt::WA_TransparentForMouseEvents);
    connect(edit, &QLineEdit::textChanged, this, [this] {
        m_globsPending = true; // Enter right after a key must not read what the patterns no longer say
        m_globTimer.start();
        emit choiceChanged();
    });
    return edit;
}

QWidget* FilesPage::buildHeader()
{
    auto* header = new QWidget;
    m_name = new TextLabel({}, TextRole::Heading);
    m_name->setObjectName(QStringLiteral("repositoryName"));
    m_commit = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_commit->setElided(true);
    m_commit->setContentsMargins(0, 0, 0, 3); // on the name's base line
    auto* layout = new QHBoxLayout(header);
    layout->setContentsMargins({});
    layout->addWidget(m_name);
    layout->addWidget(m_commit, 1, Qt::AlignBottom);
    return header;
}

QWidget* FilesPage::buildFilesCard()
{
    auto* card = new Card(Card::Fill::Background);
    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(1, 1, 1, 1);
    layout->setSpacing(0);
    m_countedBy = new TextLabel({}, TextRole::Small, Tone::Muted);
    auto* orders = new QButtonGroup(card);
    QPushButton* byName = makeTab(tr("By name"), "byName", orders);
    QPushButton* bySize = makeTab(tr("Largest first"), "bySize", orders);
    byName->setChecked(true);
    connect(bySize, &QPushButton::toggled, this, [this](bool on) {
        m_tree.sort(on ? FileTreeModel::TokensColumn : FileTreeModel::NameColumn,
                    on ? Qt::DescendingOrder : Qt::AscendingOrder);
    });
    QPushButton* asMap = makeTab(tr("Map"), "asMap", orders);
    layout->addWidget(
        cardHeader({new TextLabel(tr("Files"), TextRole::BodyStrong), byName, bySize, asMap}, m_countedBy));
    layout->addWidget(new Separator);
    m_view = new FileTreeView;
    m_view->setModel(&m_tree);
    auto* views = new QStackedWidget;
    views->addWidget(m_view);
    views->addWidget(buildMap());
    connect(asMap, &QPushButton::toggled, views, &QStackedWidget::setCurrentIndex);
    layout->addWidget(views, 1);
    return card;
}

QWidget* FilesPage::buildMap()
{
    auto* page = new QWidget;
    auto* keys =
        new TextLabel(tr("Space or Ctrl+click: read or not \u00b7 Enter: this folder alone \u00b7 Backspace: back"),
                      TextRole::Small, Tone::Muted);
    keys->setElided(true);
    auto* layout = new QVBoxLayout(page);
    layout->setContentsMargins(metrics::gap, metrics::gap, metrics::gap, metrics::gap);
    layout->addWidget(new Treemap(&m_tree), 1);
    layout->addWidget(keys);
    return page;
}

QWidget* FilesPage::buildLeftOutCard()
{
    auto* card = new Card(Card::Fill::Background);
    auto* layout = new QVBoxLayout(card);
    layout->setContentsMargins(1, 1, 1, 1);
    layout->setSpacing(0);
    m_leftOutSummary = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_leftOutSummary->setObjectName(QStringLiteral("leftOutSummary"));
    auto* lists = new QButtonGroup(card);
    m_showLeftOut = makeTab(tr("Left out"), "showLeftOut", lists);
    m_showChanges = makeTab(tr("Changed"), "showChanges", lists);
    m_showLeftOut->setChecked(true);
    auto* title = new TextLabel(m_showLeftOut->text(), TextRole::BodyStrong); // while there is no other list
    title->setObjectName(QStringLiteral("leftOutTitle"));
    m_showLeftOut->hide();
    m_showChanges->hide();
    connect(m_showChanges, &QPushButton::toggled, this, &FilesPage::showList);
    layout->addWidget(cardHeader({title, m_showLeftOut, m_showChanges}, m_leftOutSummary));
    layout->addWidget(new Separator);
    m_leftOutView = new QTreeView;
    m_leftOutView->setObjectName(QStringLiteral("leftOutOrChanged"));
    m_leftOutView->setModel(&m_leftOut);
    m_leftOutView->setItemDelegate(new LeftOutDelegate(m_leftOutView));
    m_leftOutView->setRootIsDecorated(false);
    m_leftOutView->setUniformRowHeights(true);
    m_leftOutView->setHeaderHidden(true);
    m_leftOutView->setFrameShape(QFrame::NoFrame);
    m_leftOutView->viewport()->setAutoFillBackground(false); // the card's
    layout->addWidget(m_leftOutView, 1);
    m_rule = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_rule->setWordWrap(true);
    m_rule->setContentsMargins(metrics::padding, metrics::gap, metrics::padding, metrics::padding);
    layout->addWidget(m_rule);
    showList();
    return card;
}

QWidget* FilesPage::buildCounting()
{
    auto* page = new QWidget;
    auto* card = new Card(Card::Fill::Background);
    m_stage = new TextLabel({}, TextRole::BodyStrong);
    m_stage->setWordWrap(true);
    m_stage->setObjectName(QStringLiteral("countingStage"));
    m_progress = new QProgressBar;
    m_progress->setAccessibleName(tr("Progress"));
    m_progress->setTextVisible(false);
    m_progress->setFixedHeight(8);
    m_current = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_current->setElided(true);
    m_retry = makeButton(tr("Try again"));
    m_retry->hide();
    connect(m_retry, &QPushButton::clicked, this, &FilesPage::retryRequested);
    auto* inner = new QVBoxLayout(card);
    inner->setContentsMargins(16, 16, 16, 16);
    inner->setSpacing(metrics::padding);
    inner->addWidget(m_stage);
    inner->addWidget(m_progress);
    inner->addWidget(m_current);
    inner->addWidget(m_retry, 0, Qt::AlignLeft);
    auto* layout = new QVBoxLayout(page);
    layout->setContentsMargins({});
    layout->addWidget(card);
    layout->addStretch(1);
    return page;
}

void FilesPage::build()
{
    m_include = globEdit(tr("include"), tr("everything"));
    m_include->setObjectName(QStringLiteral("include"));
    m_exclude = globEdit(tr("exclude"), tr("nothing"));
    m_exclude->setObjectName(QStringLiteral("exclude"));
    auto* globs = new QHBoxLayout;
    globs->addWidget(m_include);
    globs->addWidget(m_exclude);

    auto* cards = new QHBoxLayout;
    cards->setSpacing(metrics::padding);
    cards->addWidget(buildFilesCard(), 14);
    cards->addWidget(buildLeftOutCard(), 9);

    m_tokens = new TextLabel({}, TextRole::BodyStrong);
    m_tokens->setObjectName(QStringLiteral("chosenTokens"));
    m_room = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_room->setObjectName(QStringLiteral("room"));
    m_room->setToolTip(tr("An answer with its question is taken to need %1 tokens").arg(tokensPerAnswer));
    m_cost = new TextLabel({}, TextRole::Small, Tone::Muted);
    auto* sums = new QHBoxLayout;
    sums->addWidget(m_tokens);
    sums->addWidget(m_room, 1);
    sums->addWidget(m_cost);
    m_budget = new SegmentBar([](qint64 tokens) { return tr("%1 tokens").arg(countText(tokens)); });
    m_budget->setAccessibleName(tr("Token budget"));
    m_budget->setBarHeight(12);
    m_note = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_note->setObjectName(QStringLiteral("note"));
    m_fit = makeButton(tr("Choose what fits"), ButtonKind::Quiet);
    m_fit->setObjectName(QStringLiteral("fit"));
    m_fit->setToolTip(tr("Keep README and sources, leave out tests, then what is vendored or generated"));
    connect(m_fit, &QPushButton::clicked, this, &FilesPage::fitToBudget);
    auto* notes = new QHBoxLayout;
    notes->addWidget(m_note, 1);
    notes->addWidget(m_fit);

    auto* content = new QWidget;
    auto* layout = new QVBoxLayout(content);
    layout->setContentsMargins({});
    layout->setSpacing(metrics::padding);
    layout->addWidget(buildHeader());
    layout->addLayout(globs);
    layout->addLayout(cards, 1);
    layout->addLayout(sums);
    layout->addWidget(m_budget);
    layout->addLayout(notes);

    m_stack = new QStackedWidget;
    m_stack->addWidget(buildCounting());
    m_stack->addWidget(content);
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins({});
    outer->addWidget(m_stack);
}

void FilesPage::setModelFigures(const QString& modelName, qint64 contextLimit, double tokensPerSecond,
                                qint64 bytesPerToken)
{
    m_modelName = modelName;
    m_contextLimit = contextLimit;
    m_tokensPerSecond = tokensPerSecond;
    m_bytesPerToken = bytesPerToken;
    m_countedBy->setText(tr("tokens, counted by %1").arg(modelName));
    if (hasFiles())
        showChoice();
}

void FilesPage::setPreset(const agents::IngestOptions& options)
{
    m_include->setText(options.include.join(QStringLiteral(", ")));
    m_exclude->setText(options.exclude.join(QStringLiteral(", ")));
    m_preset = QSet<QByteArray>(options.unchecked.begin(), options.unchecked.end());
}

void FilesPage::setChanges(const QList<agents::SkippedFile>& changes)
{
    m_changes.setFiles(changes);
    const bool first = m_showChanges->isHidden();
    m_showChanges->setText(tr("Changed %1").arg(countText(changes.size())));
    m_showChanges->setAccessibleName(m_showChanges->text());
    findChild<QLabel*>(QStringLiteral("leftOutTitle"))->hide();
    m_showLeftOut->show();
    m_showChanges->show();
    if (first && !changes.isEmpty())
        m_showChanges->setChecked(true);
}

void FilesPage::showList()
{
    const bool changes = m_showChanges->isChecked();
    m_leftOutView->setModel(changes ? &m_changes : &m_leftOut);
    m_leftOutView->setAccessibleName(changes ? tr("Files that changed") : tr("Files left out"));
    m_leftOutView->setColumnHidden(LeftOutModel::ReasonColumn, true); // stands below the path
    m_leftOutSummary->setVisible(!changes);
    m_rule->setText(changes
                        ? tr("Reading goes on from the first file that differs; what comes before it is used as it is.")
                        : tr("Every file is either packed, unchecked or listed here with a reason."));
}

void FilesPage::setRemark(const QString& remark)
{
    m_remark = remark;
    if (problem().isEmpty() && !remark.isEmpty())
        m_note->setText(remark);
}

void FilesPage::showCounting(const QString& repository, const agents::IngestProgress& progress)
{
    m_stack->setCurrentIndex(0);
    m_retry->hide();
    m_progress->show();
    m_stage->setTone(Tone::Normal);
    const QString stage = progress.stage.isEmpty() ? tr("Looking at %1").arg(repository)
                                                   : tr("%1: %2").arg(repository, stageText(progress.stage));
    m_stage->setText(stage);
    m_progress->setRange(0, int(progress.total));
    m_progress->setValue(int(progress.done));
    QStringList parts;
    if (progress.total > 0)
        parts += tr("%1 of %2").arg(countText(progress.done), countText(progress.total));
    if (progress.secondsLeft >= 0)
        parts += tr("%1 left").arg(durationText(progress.secondsLeft));
    if (!progress.current.isEmpty())
        parts += progress.current;
    m_current->setText(parts.join(QStringLiteral(" · ")));
    emit choiceChanged();
}

bool FilesPage::isCounting() const
{
    return !hasFiles() && !m_retry->isVisibleTo(this);
}

void FilesPage::showFailure(const QString& problem)
{
    m_stack->setCurrentIndex(0);
    m_stage->setTone(Tone::Bad);
    m_stage->setText(problem);
    m_current->clear();
    m_progress->hide();
    m_retry->show();
    emit choiceChanged();
}

void FilesPage::showFiles(const agents::IngestResult& all)
{
    m_all = all;
    m_scaffoldTokens = all.tokens;
    for (const agents::PackedFile& file : all.packed)
        m_scaffoldTokens -= file.tokens;
    m_name->setText(all.repositoryName);
    m_commit->setText(QStringList{all.ref, all.commit.left(7), tr("“%1”").arg(all.commitSubject),
                                  agoText(all.commitTime, QDateTime::currentDateTime())}
                          .join(QStringLiteral(" · ")));
    m_leftOut.setFiles(all.skipped);
    m_tree.setFiles(all.repositoryName, all.packed);
    m_stack->setCurrentIndex(1);
    if (m_preset)
        m_tree.setUnchecked(*m_preset);
    else if (m_contextLimit > 0 && all.tokens + leastAnswerRoom() > m_contextLimit)
        fitToBudget();
    applyGlobs();
    m_view->expandLargest();
    m_view->setFocus();
    showChoice();
}

qint64 FilesPage::leastAnswerRoom() const
{
    return std::min(2 * tokensPerAnswer, m_contextLimit / 8);
}

void FilesPage::fitToBudget()
{
    // Room for a dozen answers is kept, or what a context of this size can spare.
    const qint64 room = std::min(12 * tokensPerAnswer, m_contextLimit / 8);
    QList<agents::PackedFile> allowed;
    for (int i = 0; i < m_tree.files().size(); ++i) {
        if (m_tree.isAllowed(i))
            allowed += m_tree.files()[i];
    }
    m_tree.setUnchecked(uncheckedToFit(allowed, m_contextLimit - m_scaffoldTokens - room));
}

void FilesPage::applyGlobs()
{
    const QStringList include = splitGlobs(m_include->text());
    const QStringList exclude = splitGlobs(m_exclude->text());
    const int round = ++m_globRound;
    takeUp(QtConcurrent::run(allowedBy, include, exclude, m_tree.files()), this,
           [this, round](const Result<std::vector<bool>>& allowed) {
               if (round != m_globRound)
                   return;
               m_globsPending = m_globTimer.isActive();
               m_globProblem = allowed ? QString() : problemText(allowed.error());
               if (allowed)
                   m_tree.setAllowed(*allowed);
               showChoice();
           });
}

qint64 FilesPage::chosenTokens() const
{
    return m_tree.packedFiles() > 0 ? m_scaffoldTokens + m_tree.packedTokens() : 0;
}

QString FilesPage::problem() const
{
    if (!hasFiles())
        return tr("Nothing is counted yet.");
    if (m_globsPending)
        return tr("The patterns are being applied.");
    if (!m_globProblem.isEmpty())
        return m_globProblem;
    if (m_tree.packedFiles() == 0)
        return tr("No file is chosen.");
    if (m_contextLimit > 0 && chosenTokens() + leastAnswerRoom() > m_contextLimit)
        return tr("Too much by %1 tokens: leave files out, or let Octavo choose.")
            .arg(countText(chosenTokens() + leastAnswerRoom() - m_contextLimit));
    return {};
}

void FilesPage::showChoice()
{
    const qint64 tokens = chosenTokens();
    m_tokens->setText(countText(tokens));
    const qint64 answers = std::max<qint64>(0, m_contextLimit - tokens) / tokensPerAnswer;
    m_room->setText(
        tr("of %1 tokens · room for about %Ln answers", nullptr, int(answers)).arg(countText(m_contextLimit)));
    m_cost->setText(costText(tokens, m_tokensPerSecond, m_bytesPerToken));

    QList<BarSegment> segments;
    const QList<FileTreeModel::Folder> folders = m_tree.topFolders();
    qint64 rest = tokens;
    const QList<QColor> hues = Treemap::hues();
    for (const FileTreeModel::Folder& folder : folders) {
        if (folder.rank >= hues.size())
            continue;
        segments += {folder.name, folder.tokens, hues[folder.rank]};
        rest -= folder.tokens;
    }
    if (rest > 0)
        segments += {tr("All else"), rest, colors().muted};
    m_budget->setSegments(segments, m_contextLimit);

    const int unchecked = int(m_tree.files().size()) - m_tree.packedFiles();
    m_leftOutSummary->setText(tr("%1 of %2 · packed %3 · unchecked %4")
                                  .arg(countText(m_all.skipped.size()), countText(m_all.filesTotal),
                                       countText(m_tree.packedFiles()), countText(unchecked)));
    const QString wrong = problem();
    m_note->setTone(wrong.isEmpty() ? Tone::Muted : Tone::Warning);
    if (!wrong.isEmpty())
        m_note->setText(wrong);
    else if (!m_remark.isEmpty())
        m_note->setText(m_remark);
    else if (m_all.filesWithSpecialText > 0)
        m_note->setText(
            tr("Special-token text found in %Ln files is read as plain text.", nullptr, m_all.filesWithSpecialText));
    else
        m_note->clear();
    m_fit->setVisible(m_contextLimit > 0 && m_all.tokens + leastAnswerRoom() > m_contextLimit);
    emit choiceChanged();
}

agents::IngestResult FilesPage::chosen() const
{
    return packedOf(m_all, m_tree);
}

agents::IngestOptions FilesPage::chosenOptions() const
{
    agents::IngestOptions options;
    options.repository = m_all.repositoryPath;
    options.ref = m_all.ref;
    options.include = splitGlobs(m_include->text());
    options.exclude = splitGlobs(m_exclude->text());
    options.unchecked = m_tree.uncheckedPaths();
    return options;
}

} // namespace octavo::ui
