#include "ui/sidebar/sidebar.h"

#include "ui/sidebar/commit_watch.h"
#include "ui/sidebar/context_model.h"
#include "ui/sidebar/history_model.h"
#include "ui/sidebar/list_delegates.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLineEdit>
#include <QAbstractItemDelegate>
#include <QListView>
#include <QMenu>
#include <QPainter>
#include <QTimer>
#include <QVBoxLayout>

namespace octavo::ui {
namespace {

/// A list that says, while it is empty, how it fills.
class List final : public QListView
{
public:
    explicit List(const QString& hint)
        : m_hint(hint)
    {
    }

protected:
    void paintEvent(QPaintEvent* event) override
    {
        QListView::paintEvent(event);
        if (model() == nullptr || model()->rowCount() > 0)
            return;
        QPainter painter(viewport());
        painter.setFont(ui::font(TextRole::Small));
        painter.setPen(colors().muted);
        painter.drawText(viewport()->rect().adjusted(8, 6, -8, -6), Qt::AlignTop | Qt::AlignLeft | Qt::TextWordWrap,
                         m_hint);
    }

private:
    QString m_hint;
};

QListView* makeList(const QString& name, const QString& hint)
{
    auto* view = new List(hint);
    view->setFrameShape(QFrame::NoFrame);
    view->setAccessibleName(name);
    view->setMouseTracking(true);
    view->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
    view->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    view->setContextMenuPolicy(Qt::CustomContextMenu);
    view->setResizeMode(QListView::Adjust);
    view->viewport()->setAutoFillBackground(false);
    view->setEditTriggers(QAbstractItemView::NoEditTriggers);
    return view;
}

} // namespace

Sidebar::Sidebar(agents::Workbench* workbench, QWidget* parent)
    : QWidget(parent)
    , m_workbench(workbench)
    , m_watch(new CommitWatch(workbench, this))
    , m_contexts(new ContextModel(workbench, this))
    , m_history(new HistoryModel(workbench, this))
    , m_contextView(makeList(tr("Contexts"), tr("Repositories you add stand here, each at one commit.")))
    , m_historyView(makeList(tr("History"), tr("Conversations stand here, to be searched and opened again.")))
    , m_search(new QLineEdit)
    , m_searchButton(makeIconButton(QStringLiteral("search"), tr("Search the history")))
{
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(10, 10, 10, 10);
    layout->setSpacing(metrics::grid);

    auto* contextsTitle = new QHBoxLayout;
    contextsTitle->setContentsMargins(6, 0, 2, 0);
    contextsTitle->addWidget(new TextLabel(tr("CONTEXTS"), TextRole::Section, Tone::Muted));
    contextsTitle->addStretch();
    QToolButton* add = makeIconButton(QStringLiteral("plus"), tr("Add repository"));
    contextsTitle->addWidget(add);
    layout->addLayout(contextsTitle);
    layout->addWidget(m_contextView, 5);

    auto* historyTitle = new QHBoxLayout;
    historyTitle->setContentsMargins(6, metrics::gap, 2, 0);
    historyTitle->addWidget(new TextLabel(tr("HISTORY"), TextRole::Section, Tone::Muted));
    historyTitle->addStretch();
    m_searchButton->setCheckable(true);
    historyTitle->addWidget(m_searchButton);
    layout->addLayout(historyTitle);
    m_search->setPlaceholderText(tr("Search all conversations"));
    m_search->setAccessibleName(tr("Search all conversations"));
    m_search->setClearButtonEnabled(true);
    m_search->setObjectName(QStringLiteral("historySearch"));
    m_search->installEventFilter(this);
    m_search->hide();
    layout->addWidget(m_search);
    layout->addWidget(m_historyView, 4);

    m_contexts->setCommitWatch(m_watch);
    m_contextView->setModel(m_contexts);
    m_contextView->setItemDelegate(new ContextDelegate(this));
    m_contextView->setObjectName(QStringLiteral("contexts"));
    m_historyView->setModel(m_history);
    m_historyView->setItemDelegate(new HistoryDelegate(this));
    m_historyView->setObjectName(QStringLiteral("history"));
    m_historyView->setUniformItemSizes(true);
    m_historyView->installEventFilter(this);
    m_contextView->installEventFilter(this);

    connect(add, &QToolButton::clicked, this, &Sidebar::addRepositoryRequested);
    connect(m_searchButton, &QToolButton::toggled, this, [this](bool on) {
        m_search->setVisible(on);
        if (on)
            m_search->setFocus(Qt::OtherFocusReason);
        else
            m_search->clear();
    });
    auto* typing = new QTimer(this);
    typing->setSingleShot(true);
    typing->setInterval(120);
    connect(m_search, &QLineEdit::textChanged, typing, qOverload<>(&QTimer::start));
    connect(typing, &QTimer::timeout, this, [this] { m_history->search(m_search->text()); });
    const auto chooseContext = [this](const QModelIndex& index) { emit contextChosen(m_contexts->idAt(index.row())); };
    connect(m_contextView, &QListView::clicked, this, chooseContext);
    connect(m_contextView, &QListView::activated, this, chooseContext);
    const auto openConversation = [this](const QModelIndex& index) {
        emit conversationChosen(m_history->infoAt(index.row()).id);
    };
    connect(m_historyView, &QListView::clicked, this, openConversation);
    connect(m_historyView, &QListView::activated, this, openConversation);
    connect(m_contextView, &QWidget::customContextMenuRequested, this, &Sidebar::showContextMenu);
    connect(m_historyView, &QWidget::customContextMenuRequested, this, &Sidebar::showHistoryMenu);
    // "12 min" grows old by itself.
    auto* minute = new QTimer(this);
    minute->start(60'000);
    connect(minute, &QTimer::timeout, m_historyView->viewport(), qOverload<>(&QWidget::update));
    for (const auto signal : {&QAbstractItemModel::rowsInserted, &QAbstractItemModel::rowsRemoved})
        connect(m_contexts, signal, this, &Sidebar::fitContexts);
    connect(m_contexts, &QAbstractItemModel::modelReset, this, &Sidebar::fitContexts);
    fitContexts();
    connect(Theme::instance(), &Theme::changed, this, [this] {
        fitContexts();
        m_contextView->doItemsLayout();
        m_historyView->doItemsLayout();
        update();
    });
}

/// Contexts take the room they need, up to their share; history begins right below.
void Sidebar::fitContexts()
{
    const int row = m_contextView->itemDelegate()->sizeHint(QStyleOptionViewItem(), QModelIndex()).height();
    const int rows = m_contexts->rowCount() > 0 ? m_contexts->rowCount() : 2; // what it says while it is empty
    m_contextView->setMaximumHeight(rows * row + metrics::gap);
}

void Sidebar::reload()
{
    m_contexts->reload();
    m_history->reload();
}

void Sidebar::setCurrentContext(agents::ContextId context)
{
    const int row = m_contexts->rowOf(context);
    if (row >= 0)
        m_contextView->setCurrentIndex(m_contexts->index(row));
    else
        m_contextView->clearSelection();
}

void Sidebar::focusSearch()
{
    m_searchButton->setChecked(true);
    m_search->setFocus(Qt::ShortcutFocusReason);
    m_search->selectAll();
}

void Sidebar::showContextMenu(const QPoint& at)
{
    const QModelIndex index = m_contextView->indexAt(at);
    if (!index.isValid())
        return;
    const agents::ContextInfo info = m_contexts->infoAt(index.row());
    auto* menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    menu->addAction(tr("Use in this pane"), this, [this, id = info.id] { emit contextChosen(id); });
    menu->addAction(tr("Use in all panes"), this, [this, id = info.id] { emit contextForAllRequested(id); });
    menu->addSeparator();
    if (info.state == agents::ContextState::Reading)
        menu->addAction(tr("Stop reading"), this, [this, id = info.id] { m_workbench->cancelReading(id); });
    if (info.state == agents::ContextState::Ready || info.state == agents::ContextState::Failed)
        menu->addAction(tr("Read now"), this, [this, id = info.id] { m_workbench->readContext(id); });
    const QString newer = index.data(ContextModel::NewerRole).toString();
    menu->addAction(newer.isEmpty() ? tr("Change files\u2026") : tr("Update to %1\u2026").arg(newer), this,
                    [this, id = info.id] { emit changeContextRequested(id); });
    menu->addSeparator();
    menu->addAction(icon(QStringLiteral("delete")), tr("Remove context"), this,
                    [this, id = info.id] { emit removeContextRequested(id); });
    menu->popup(m_contextView->viewport()->mapToGlobal(at));
}

void Sidebar::showHistoryMenu(const QPoint& at)
{
    const QModelIndex index = m_historyView->indexAt(at);
    if (!index.isValid())
        return;
    const agents::ConversationInfo info = m_history->infoAt(index.row());
    auto* menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    menu->addAction(tr("Open in this pane"), this, [this, id = info.id] { emit conversationChosen(id); });
    menu->addAction(icon(QStringLiteral("edit")), tr("Rename"), this,
                    [this, index = QPersistentModelIndex(index)] { m_historyView->edit(index); });
    menu->addSeparator();
    menu->addAction(icon(QStringLiteral("delete")), tr("Delete"), this,
                    [this, info] { emit deleteConversationRequested(info.id, info.title); });
    menu->popup(m_historyView->viewport()->mapToGlobal(at));
}

bool Sidebar::eventFilter(QObject* watched, QEvent* event)
{
    if (event->type() == QEvent::KeyPress) {
        const auto* key = static_cast<QKeyEvent*>(event);
        if (watched == m_historyView && m_historyView->currentIndex().isValid()) {
            const QModelIndex index = m_historyView->currentIndex();
            if (key->key() == Qt::Key_Delete) {
                const agents::ConversationInfo info = m_history->infoAt(index.row());
                emit deleteConversationRequested(info.id, info.title);
                return true;
            }
            if (key->key() == Qt::Key_F2) {
                m_historyView->edit(index);
                return true;
            }
        }
        if (watched == m_contextView && key->key() == Qt::Key_Delete && m_contextView->currentIndex().isValid()) {
            emit removeContextRequested(m_contexts->idAt(m_contextView->currentIndex().row()));
            return true;
        }
        if (watched == m_search && key->key() == Qt::Key_Down) {
            m_historyView->setFocus(Qt::TabFocusReason);
            return true;
        }
    }
    return QWidget::eventFilter(watched, event);
}

/// Esc ends the search, wherever in the bar it is pressed; without one it is the window's.
void Sidebar::keyPressEvent(QKeyEvent* event)
{
    if (event->key() != Qt::Key_Escape || !m_searchButton->isChecked())
        return QWidget::keyPressEvent(event);
    m_searchButton->setChecked(false);
    emit searchLeft();
}

void Sidebar::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.fillRect(rect(), colors().panel);
    painter.fillRect(QRect(width() - 1, 0, 1, height()), colors().line);
}

} // namespace octavo::ui
