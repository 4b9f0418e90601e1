#include "ui/main_window.h"

#include "ui/command_keys.h"
#include "ui/compare_view.h"
#include "ui/conversation_export.h"
#include "ui/header_bar.h"
#include "ui/notice_bar.h"
#include "ui/pane/pane.h"
#include "ui/pane/pane_state.h"
#include "ui/problem_text.h"
#include "ui/setting_keys.h"
#include "ui/sidebar/commit_watch.h"
#include "ui/sidebar/sidebar.h"
#include "ui/start_page.h"
#include "ui/take_up.h"
#include "ui/write_file.h"

#include <QAction>
#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QStackedWidget>

#include <functional>

namespace octavo::ui {

using agents::Activity;

namespace {

/// A title bar of no height. The layout gives it a size; without one Qt warns of a negative height.
QWidget* noTitle(QWidget* dock)
{
    auto* title = new QWidget(dock);
    auto* layout = new QHBoxLayout(title);
    layout->setContentsMargins(0, 0, 0, 0);
    return title;
}

} // namespace

MainWindow::MainWindow(agents::Workbench* workbench, QWidget* parent)
    : QMainWindow(parent)
    , m_workbench(workbench)
    , m_header(new HeaderBar)
    , m_stack(new QStackedWidget)
    , m_start(new StartPage)
    , m_grid(new PaneGrid)
    , m_sideDock(new QDockWidget(tr("Contexts and history")))
    , m_dashboardDock(new QDockWidget(tr("Dashboard")))
{
    setWindowTitle(QStringLiteral("Octavo"));
    setObjectName(QStringLiteral("mainWindow"));
    setMenuWidget(m_header);
    setCentralWidget(m_stack);
    m_stack->addWidget(m_start);
    m_stack->addWidget(m_grid);
    setContextMenuPolicy(Qt::NoContextMenu);
    setDockNestingEnabled(false);
    setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);

    m_sideDock->setObjectName(QStringLiteral("sideDock"));
    m_sideDock->setFeatures(QDockWidget::NoDockWidgetFeatures);
    m_sideDock->setTitleBarWidget(noTitle(m_sideDock));
    addDockWidget(Qt::LeftDockWidgetArea, m_sideDock);
    m_dashboardDock->setObjectName(QStringLiteral("dashboardDock"));
    m_dashboardDock->setAllowedAreas(Qt::BottomDockWidgetArea | Qt::TopDockWidgetArea | Qt::RightDockWidgetArea);
    m_dashboardDock->setTitleBarWidget(noTitle(m_dashboardDock));
    addDockWidget(Qt::BottomDockWidgetArea, m_dashboardDock);
    m_dashboardDock->hide();
    // Floating, it needs a title to be moved by; docked, the title would only take room.
    connect(m_dashboardDock, &QDockWidget::topLevelChanged, this, [this](bool floating) {
        delete m_dashboardDock->titleBarWidget();
        m_dashboardDock->setTitleBarWidget(floating ? nullptr : noTitle(m_dashboardDock));
    });
    m_notices = new NoticeBar(this);

    m_header->setReady(false);
    connect(m_header, &HeaderBar::addRepositoryRequested, this, &MainWindow::addRepositoryRequested);
    connect(m_header, &HeaderBar::settingsRequested, this, &MainWindow::settingsRequested);
    connect(m_header, &HeaderBar::askAllRequested, this, &MainWindow::askAll);
    m_askDraftTimer.setSingleShot(true);
    m_askDraftTimer.setInterval(400);
    connect(m_header->askField(), &QLineEdit::textChanged, this, [this] {
        if (!m_askDraftTimer.isActive())
            m_askDraftTimer.start();
    });
    connect(&m_askDraftTimer, &QTimer::timeout, this,
            [this] { m_workbench->setSetting(setting_keys::askAll, m_header->askField()->text()); });
    connect(m_header, &HeaderBar::shapeChosen, m_grid, &PaneGrid::setShape);
    connect(m_header, &HeaderBar::compareToggled, this, &MainWindow::setCompare);
    connect(m_grid, &PaneGrid::shapeChanged, this, [this](GridShape shape) {
        m_header->setShape(shape);
        if (m_ready)
            m_workbench->setSetting(setting_keys::gridShape, gridShapeName(shape));
    });
    connect(m_grid, &PaneGrid::orderChanged, this,
            [this] { m_workbench->setSetting(setting_keys::paneOrder, m_grid->order()); });
    connect(m_grid, &PaneGrid::currentChanged, this, [this](Pane* pane) {
        if (m_sidebar)
            m_sidebar->setCurrentContext(pane->agent()->context().id);
    });
    connect(m_start, &StartPage::addRepositoryRequested, this, &MainWindow::addRepositoryRequested);
    connect(m_start, &StartPage::openRequested, this, &MainWindow::openRequested);
    connect(m_start, &StartPage::trustRequested, this, [this](const QString& folder) {
        setExpectingContext(true);
        emit trustRequested(folder);
    });
    connect(m_start, &StartPage::chooseFilesRequested, this, &MainWindow::chooseFilesRequested);
    connect(m_start, &StartPage::settingsRequested, this, &MainWindow::settingsRequested);
    connect(m_start, &StartPage::quitRequested, this, &QWidget::close);
    connect(qApp, &QApplication::focusChanged, this, [this](QWidget*, QWidget* now) {
        for (QWidget* at = now; at; at = at->parentWidget()) {
            if (auto* pane = qobject_cast<Pane*>(at)) {
                m_grid->setCurrent(pane);
                return;
            }
        }
    });

    connect(workbench, &agents::Workbench::loadProgress, m_start, &StartPage::showLoading);
    connect(workbench, &agents::Workbench::settingsRead, this, &MainWindow::restoreLook);
    connect(workbench, &agents::Workbench::ready, this, &MainWindow::becomeReady);
    connect(workbench, &agents::Workbench::failed, this, [this](const Error& error) {
        m_start->showFailure(error);
        m_stack->setCurrentWidget(m_start);
    });
    connect(workbench, &agents::Workbench::saveProblem, this, [this](const QString& problem) {
        m_saveProblem = problem.isEmpty() ? QString() : tr("Not saved: %1").arg(problemText(problem));
        for (Pane* pane : m_grid->panes())
            pane->setSaveProblem(m_saveProblem);
    });
    for (const auto signal : {&agents::Workbench::contextAdded, &agents::Workbench::contextChanged})
        connect(workbench, signal, this, [this] { showPage(); });

    makeCommands();
    resize(1440, 900);
    if (workbench->isReady())
        becomeReady();
}

void MainWindow::becomeReady()
{
    if (std::exchange(m_ready, true))
        return;
    const engine::ModelInfo model = m_workbench->model();
    QString line = QString::fromStdString(model.name);
    m_header->setModelLine(line, tr("%1\n%2 parameters \u00b7 %3 tokens of context per agent")
                                     .arg(QString::fromStdString(model.dir.string()), countText(model.parameters),
                                          countText(model.contextLimit > 0 ? model.contextLimit : -1)));
    m_header->setReady(true);

    m_sidebar = new Sidebar(m_workbench);
    m_sideDock->setWidget(m_sidebar);
    m_sidebar->setMinimumWidth(metrics::sideWidth * 3 / 4);
    resizeDocks({m_sideDock}, {metrics::sideWidth}, Qt::Horizontal);
    connect(m_sidebar, &Sidebar::addRepositoryRequested, this, &MainWindow::addRepositoryRequested);
    connect(m_sidebar, &Sidebar::changeContextRequested, this, &MainWindow::changeContextRequested);
    connect(m_sidebar, &Sidebar::removeContextRequested, this, &MainWindow::removeContext);
    connect(m_sidebar, &Sidebar::searchLeft, this, &MainWindow::focusContent);
    connect(m_sidebar, &Sidebar::contextChosen, this, [this](agents::ContextId id) { useContext(id, false); });
    connect(m_sidebar, &Sidebar::contextForAllRequested, this, [this](agents::ContextId id) { useContext(id, true); });
    connect(m_sidebar, &Sidebar::conversationChosen, this, [this](agents::ConversationId id) {
        // Where it is shown already, go there; a pane in mid-answer is left alone.
        for (Pane* pane : m_grid->panes()) {
            if (pane->agent()->conversation() == id) {
                m_grid->setCurrent(pane);
                return pane->focusComposer();
            }
        }
        if (!currentPane() || currentPane()->agent()->status().activity != Activity::Idle)
            return m_notices->tell(tr("This pane is busy: stop it first, or choose another."));
        currentPane()->agent()->openConversation(id);
    });
    connect(m_sidebar, &Sidebar::deleteConversationRequested, this,
            [this](agents::ConversationId id, const QString& title) {
                const QString notice = tr("\u201c%1\u201d deleted").arg(title.left(40));
                m_workbench->deleteConversation(id);
                m_deleted += {id, notice};
                m_notices->offer(notice, tr("Undo"), [this, id] { undoDelete(id); });
            });
    makePanes();
    restoreLook();
    restorePanes();
    showPage();
    // The contexts of earlier sessions are told after this.
    QTimer::singleShot(0, m_sidebar->commitWatch(), &CommitWatch::look);
}

void MainWindow::makePanes()
{
    QList<Pane*> panes;
    for (int i = 0; i < agents::numAgents; ++i) {
        agents::Agent* agent = m_workbench->agent(i);
        auto* pane = new Pane(m_workbench, agent, m_grid);
        panes += pane;
        pane->setSaveProblem(m_saveProblem);
        connect(pane, &Pane::pressed, this, [this, pane] {
            m_grid->setCurrent(pane);
            pane->focusComposer();
        });
        connect(pane, &Pane::zoomRequested, this, [this, pane] {
            m_grid->setCurrent(pane);
            m_grid->setZoomed(!m_grid->isZoomed());
        });
        connect(pane, &Pane::dragRequested, this, [this, pane] { m_grid->startDrag(pane); });
        connect(pane, &Pane::citationActivated, this, &MainWindow::citationActivated);
        connect(pane, &Pane::addRepositoryRequested, this, &MainWindow::addRepositoryRequested);
        connect(pane, &Pane::changeContextRequested, this, &MainWindow::changeContextRequested);
        connect(pane, &Pane::exportRequested, this, [this, pane] {
            m_grid->setCurrent(pane);
            exportConversation();
        });
        connect(pane, &Pane::noticed, m_notices, &NoticeBar::tell);
        connect(pane, &Pane::offered, m_notices, &NoticeBar::offer);
        connect(agent, &agents::Agent::contextChanged, this, [this, pane](const agents::ContextInfo& context) {
            if (pane == currentPane())
                m_sidebar->setCurrentContext(context.id);
        });
    }
    m_grid->setPanes(panes);
}

/// Panes are of use once there is a context; until then the first page says how to get one.
void MainWindow::showPage()
{
    if (!m_ready)
        return;
    m_usedPanes = m_usedPanes || !m_workbench->contexts().isEmpty();
    for (const Pane* pane : m_grid->panes())
        m_usedPanes = m_usedPanes || !pane->agent()->messages().isEmpty();
    if (!m_usedPanes && !m_expecting) {
        m_start->showWelcome(m_workbench->model(), m_demoModel);
        m_stack->setCurrentWidget(m_start);
        return;
    }
    if (m_stack->currentWidget() == m_start) {
        m_stack->setCurrentWidget(m_grid);
        if (currentPane())
            currentPane()->focusComposer();
    }
}

void MainWindow::setDemoModel(bool demo)
{
    m_demoModel = demo;
    showPage();
}

void MainWindow::setExpectingContext(bool expecting)
{
    m_expecting = expecting;
    if (expecting)
        m_start->clearProblems();
    showPage();
    if (!expecting) {
        for (const OpenProblem& problem : std::exchange(m_openProblems, {}))
            showOpenProblem(problem);
    }
}

void MainWindow::showOpenProblem(const OpenProblem& problem)
{
    if (m_expecting)
        m_openProblems += problem;
    else if (!m_usedPanes)
        m_start->addProblem(problem);
    else if (problem.canTrust)
        m_notices->offer(problem.text, tr("Trust for Octavo only"), [this, problem] {
            emit trustRequested(problem.folder);
        });
    else
        m_notices->offer(problem.text, tr("Choose files\u2026"), [this, problem] {
            emit chooseFilesRequested(problem.folder);
        });
}

void MainWindow::setDashboard(QWidget* dashboard)
{
    m_dashboardDock->setWidget(dashboard);
    m_dashboardDock->show();
    resizeDocks({m_dashboardDock}, {230}, Qt::Vertical);
}

void MainWindow::keyPressEvent(QKeyEvent* event)
{
    if (event->key() == Qt::Key_Escape && m_ready) {
        if (m_header->askField()->hasFocus())
            focusContent(); // what was typed stays there
        else if (m_header->compareButton()->isChecked())
            m_header->compareButton()->setChecked(false);
        else if (currentPane())
            currentPane()->stop();
        return;
    }
    QMainWindow::keyPressEvent(event);
}

/// Where keys go when a field above or beside the panes is left.
void MainWindow::focusContent()
{
    if (m_compare)
        m_compare->setFocus(Qt::OtherFocusReason);
    else if (currentPane())
        currentPane()->focusComposer();
}

void MainWindow::focusPane(int place)
{
    Pane* pane = m_grid->panes().value(place);
    if (!pane || m_stack->currentWidget() == m_start)
        return;
    m_header->compareButton()->setChecked(false);
    m_grid->setCurrent(pane);
    pane->focusComposer();
}

void MainWindow::stepPane(int direction)
{
    const int count = int(m_grid->panes().size());
    if (count > 0)
        focusPane((int(m_grid->panes().indexOf(currentPane())) + direction + count) % count);
}

void MainWindow::askAll(const QString& question)
{
    const agents::AskedAll all = m_workbench->askAll(question);
    if (all.asked == 0 && all.refused.isEmpty())
        return m_notices->tell(
            m_workbench->contexts().isEmpty()
                ? tr("No pane has a context yet: add a repository first.")
                : tr("No pane has a context: choose one in a pane's header, or use one in all panes."));
    int busy = 0;
    QStringList why;
    for (const auto& [agent, error] : all.refused) {
        if (error.code == ErrorCode::Busy)
            ++busy;
        else
            why += QStringLiteral("%1: %2").arg(m_workbench->agent(agent)->name(), problemText(error));
    }
    if (all.asked == 0 && why.isEmpty())
        return m_notices->tell(tr("No pane is free: wait for an answer or stop one."));
    QStringList lines{all.asked > 0 ? tr("Sent to %n panes", nullptr, all.asked) : tr("Sent to no pane")};
    if (busy > 0)
        lines += tr("%n panes are busy.", nullptr, busy);
    constexpr qsizetype mostReasons = 3;
    lines += why.mid(0, mostReasons);
    if (why.size() > mostReasons)
        lines += tr("%n more refused it.", nullptr, int(why.size() - mostReasons));
    if (all.asked > 0)
        m_header->askField()->clear();
    m_notices->tell(lines.join(u'\n'));
}

void MainWindow::undoDelete(agents::ConversationId id)
{
    for (qsizetype i = m_deleted.size() - 1; i >= 0; --i) {
        if (m_deleted[i].first == id)
            m_notices->withdraw(m_deleted.takeAt(i).second);
    }
    m_workbench->undoDelete(id);
}

void MainWindow::useContext(agents::ContextId context, bool everywhere)
{
    const QList<Pane*> panes = everywhere ? m_grid->panes() : QList<Pane*>{currentPane()};
    int busy = 0;
    for (Pane* pane : panes) {
        if (!pane || pane->agent()->context().id == context)
            continue;
        if (pane->agent()->status().activity == Activity::Idle)
            pane->agent()->setContext(context);
        else
            ++busy;
    }
    if (busy > 0)
        m_notices->tell(everywhere ? tr("%n panes are busy and keep their context.", nullptr, busy)
                                   : tr("This pane is busy: stop it first, or choose another."));
    if (currentPane()) {
        m_sidebar->setCurrentContext(currentPane()->agent()->context().id);
        currentPane()->focusComposer();
    }
}

void MainWindow::removeContext(agents::ContextId context)
{
    for (const agents::ContextInfo& info : m_workbench->contexts()) {
        if (info.id != context)
            continue;
        m_notices->offer(tr("Remove %1? Conversations about it stay in the history.").arg(contextLabel(info)),
                         tr("Remove"), [this, context] { m_workbench->removeContext(context); });
    }
}

void MainWindow::setCompare(bool on)
{
    if (!m_ready)
        return;
    if (on) {
        QList<agents::Agent*> shown;
        for (Pane* pane : m_grid->panes())
            shown += pane->agent();
        m_compare = new CompareView(shown);
        connect(m_compare, &CompareView::citationActivated, this, &MainWindow::citationActivated);
        connect(m_compare, &CompareView::noticed, m_notices, &NoticeBar::tell);
        connect(m_compare, &CompareView::closed, this, [this] { m_header->compareButton()->setChecked(false); });
        m_stack->addWidget(m_compare);
        m_stack->setCurrentWidget(m_compare);
        m_compare->setFocus();
    } else if (m_compare) {
        m_stack->setCurrentWidget(m_grid);
        m_compare->deleteLater();
        m_compare = nullptr;
        if (currentPane())
            currentPane()->focusComposer();
    }
}

// ---------------------------------------------------------------- export

void MainWindow::exportConversation()
{
    if (!currentPane() || currentPane()->agent()->messages().isEmpty())
        return m_notices->tell(tr("There is no conversation to export in this pane."));
    auto* dialog = new QFileDialog(this, tr("Export conversation"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    dialog->setNameFilters({tr("Markdown (*.md)"), tr("JSON (*.json)")});
    dialog->setDefaultSuffix(QStringLiteral("md"));
    connect(dialog, &QFileDialog::filterSelected, dialog, [dialog](const QString& filter) {
        dialog->setDefaultSuffix(filter.contains(u"json") ? QStringLiteral("json") : QStringLiteral("md"));
    });
    connect(dialog, &QFileDialog::fileSelected, this, &MainWindow::exportTo);
    dialog->open();
}

void MainWindow::exportTo(const QString& path)
{
    if (!currentPane())
        return;
    const agents::Agent& agent = *currentPane()->agent();
    const bool json = path.endsWith(u".json", Qt::CaseInsensitive);
    const QByteArray content = json ? conversationAsJson(agent) : conversationAsMarkdown(agent).toUtf8();
    takeUp(writeFile(path, content), this, [this, path](const Result<void>& written) {
        m_notices->tell(written ? tr("Exported to %1").arg(path) : problemText(written.error()));
    });
}

// ---------------------------------------------------------------- settings and closing

/// Theme, text size, keys and where the window stands, as soon as they are known, and once: what is moved while the
/// model loads stays where it was put.
void MainWindow::restoreLook()
{
    if (std::exchange(m_lookRestored, true))
        return;
    bool ok = false;
    const qreal scale = m_workbench->setting(setting_keys::textScale).toDouble(&ok);
    const SchemeChoice scheme = Theme::choiceFromName(m_workbench->setting(setting_keys::scheme));
    if (scheme != Theme::instance()->choice() || (ok && scale > 0 && scale != Theme::instance()->textScale())) {
        if (!m_workbench->setting(setting_keys::scheme).isEmpty() || ok)
            Theme::instance()->apply(scheme, ok && scale > 0 ? scale : Theme::instance()->textScale());
    }
    loadKeys(m_commands, *m_workbench);
    if (const QString geometry = m_workbench->setting(setting_keys::geometry); !geometry.isEmpty())
        restoreGeometry(QByteArray::fromBase64(geometry.toLatin1()));
}

void MainWindow::restorePanes()
{
    m_grid->setOrder(m_workbench->setting(setting_keys::paneOrder));
    if (const QString shape = m_workbench->setting(setting_keys::gridShape); !shape.isEmpty())
        m_grid->setShape(gridShapeFromName(shape));
    if (const QString state = m_workbench->setting(setting_keys::state); !state.isEmpty())
        restoreState(QByteArray::fromBase64(state.toLatin1()));
    if (m_header->askField()->text().isEmpty())
        m_header->askField()->setText(m_workbench->setting(setting_keys::askAll));
    const int current = m_workbench->setting(setting_keys::currentPane).toInt();
    for (Pane* pane : m_grid->panes()) {
        if (pane->agent()->index() == current)
            m_grid->setCurrent(pane);
    }
}

void MainWindow::saveSettings()
{
    if (!m_ready)
        return;
    m_workbench->setSetting(setting_keys::geometry, QString::fromLatin1(saveGeometry().toBase64()));
    m_workbench->setSetting(setting_keys::state, QString::fromLatin1(saveState().toBase64()));
    if (currentPane())
        m_workbench->setSetting(setting_keys::currentPane, QString::number(currentPane()->agent()->index()));
    for (Pane* pane : m_grid->panes())
        pane->saveDraft();
    m_workbench->setSetting(setting_keys::askAll, m_header->askField()->text());
}

void MainWindow::closeEvent(QCloseEvent* event)
{
    saveSettings();
    QMainWindow::closeEvent(event);
}

void MainWindow::changeEvent(QEvent* event)
{
    if (event->type() == QEvent::ThemeChange)
        QTimer::singleShot(0, Theme::instance(), &Theme::followSystem);
    if (event->type() == QEvent::ActivationChange && isActiveWindow() && m_sidebar)
        m_sidebar->commitWatch()->look(); // who comes back from an editor may have committed
    QMainWindow::changeEvent(event);
}

void MainWindow::raiseWindow()
{
    setWindowState((windowState() & ~Qt::WindowMinimized) | Qt::WindowActive);
    show();
    raise();
    activateWindow();
}

} // namespace octavo::ui
