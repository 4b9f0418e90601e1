#include "ui/dashboard/dashboard_panel.h"

#include "ui/problem_text.h"
#include "ui/take_up.h"
#include "ui/write_file.h"

#include "agents/workbench.h"

#include <QBuffer>
#include <QDateTime>
#include <QDir>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QScrollArea>
#include <QShowEvent>
#include <QStandardPaths>

namespace octavo::ui {

namespace {

constexpr int deviceCardWidth = 280;
constexpr int throughputCardWidth = 480;
constexpr int deviceStretch = 5, throughputStretch = 9;

} // namespace

DashboardPanel::DashboardPanel(agents::Workbench* workbench, QWidget* parent)
    : DashboardPanel([workbench] { return workbench->metrics(); }, parent)
{
    const auto takeAgents = [this, workbench] {
        const auto takeNames = [this, workbench] {
            QStringList names;
            for (int i = 0; i < agents::numAgents; ++i)
                names += workbench->agent(i)->name();
            setAgentNames(names);
        };
        for (int i = 0; i < agents::numAgents; ++i)
            connect(workbench->agent(i), &agents::Agent::nameChanged, this, takeNames);
        takeNames();
    };
    if (workbench->isReady())
        takeAgents();
    else
        connect(workbench, &agents::Workbench::ready, this, takeAgents);
}

DashboardPanel::DashboardPanel(std::function<engine::MetricsSnapshot()> source, QWidget* parent)
    : QWidget(parent)
    , m_source(std::move(source))
{
    build();
    m_timer.setInterval(tickMs);
    connect(&m_timer, &QTimer::timeout, this, &DashboardPanel::tick);
    m_timer.start();
}

void DashboardPanel::build()
{
    setAccessibleName(tr("Dashboard"));
    m_content = new QWidget;
    m_devices = new QHBoxLayout;
    m_devices->setSpacing(metrics::padding);
    m_noDevice =
        new TextLabel(tr("No device yet. Figures appear once a model is loaded."), TextRole::Body, Tone::Muted);
    m_noDevice->setAlignment(Qt::AlignCenter);
    m_devices->addWidget(m_noDevice);
    m_throughput = new ThroughputCard;
    m_throughput->setMinimumWidth(throughputCardWidth);

    auto* layout = m_cardsLayout = new QHBoxLayout(m_content);
    layout->setContentsMargins(metrics::gap, metrics::gap, metrics::gap, metrics::gap); // in line with the panes
    layout->setSpacing(metrics::padding);
    layout->addLayout(m_devices, deviceStretch);
    layout->addWidget(m_throughput, throughputStretch);

    auto* scroll = new QScrollArea;
    scroll->setWidget(m_content);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setFocusPolicy(Qt::NoFocus);
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins({});
    outer->addWidget(scroll);

    connect(m_throughput, &ThroughputCard::windowSecondsChosen, this, &DashboardPanel::setWindowSeconds);
    connect(m_throughput, &ThroughputCard::pauseToggled, this, &DashboardPanel::setPaused);
    connect(m_throughput, &ThroughputCard::csvRequested, this,
            [this] { askWhereTo(QStringLiteral("csv"), &DashboardPanel::exportCsv); });
    connect(m_throughput, &ThroughputCard::imageRequested, this,
            [this] { askWhereTo(QStringLiteral("png"), &DashboardPanel::exportImage); });
    connect(Theme::instance(), &Theme::changed, this, [this] { showSnapshot(m_source()); });
    m_content->installEventFilter(this);
}

QSize DashboardPanel::sizeHint() const
{
    return {deviceCardWidth * 2 + throughputCardWidth + 5 * metrics::padding, 230};
}

void DashboardPanel::showEvent(QShowEvent* event)
{
    QWidget::showEvent(event);
    tick();
}

bool DashboardPanel::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_content && event->type() == QEvent::LayoutRequest && isVisible())
        QTimer::singleShot(0, this, &DashboardPanel::showHistory);
    return QWidget::eventFilter(watched, event);
}

void DashboardPanel::setAgentNames(const QStringList& names)
{
    m_agentNames = names;
    m_throughput->setAgentNames(names);
}

TimeWindow DashboardPanel::shownWindow() const
{
    return {m_paused ? m_pausedAtSeconds : m_history.newestSeconds(), double(m_windowSeconds), tickMs / 1000.0};
}

void DashboardPanel::tick()
{
    const engine::MetricsSnapshot snapshot = m_source();
    m_history.add(snapshot);
    m_work.add(snapshot);
    if (!isVisible() || m_paused)
        return;
    showSnapshot(snapshot);
    showHistory();
}

void DashboardPanel::showSnapshot(const engine::MetricsSnapshot& snapshot)
{
    while (m_cards.size() < snapshot.devices.size()) {
        auto* card = new DeviceCard(DeviceCard::titleOf(snapshot.devices[m_cards.size()].device));
        card->setMinimumWidth(deviceCardWidth);
        m_devices->addWidget(card, 1);
        m_cards.push_back(card);
    }
    while (m_cards.size() > snapshot.devices.size()) {
        delete m_cards.back();
        m_cards.pop_back();
    }
    m_noDevice->setVisible(m_cards.empty());
    m_cardsLayout->setStretch(0, deviceStretch * std::max(1, int(m_cards.size())));
    for (std::size_t i = 0; i < m_cards.size(); ++i)
        m_cards[i]->showDevice(snapshot.devices[i]);
}

void DashboardPanel::showHistory()
{
    const TimeWindow window = shownWindow();
    const MetricsHistory& history = shownHistory();
    for (std::size_t i = 0; i < std::min(m_cards.size(), history.devices().size()); ++i)
        m_cards[i]->showHistory(history, i, window);
    m_throughput->showHistory(history, m_frozen ? m_frozen->work : m_work, window);
}

void DashboardPanel::setPaused(bool paused)
{
    if (m_paused == paused)
        return;
    m_paused = paused;
    m_pausedAtSeconds = m_history.newestSeconds();
    m_frozen = paused ? std::optional<Frozen>({m_history, m_work}) : std::nullopt;
    m_throughput->setPaused(paused);
    if (!paused)
        tick();
}

void DashboardPanel::setWindowSeconds(int seconds)
{
    if (m_windowSeconds == seconds)
        return;
    m_windowSeconds = seconds;
    m_throughput->setWindowSeconds(seconds);
    showHistory();
    emit windowSecondsChanged(seconds);
}

void DashboardPanel::exportCsv(const QString& path)
{
    const TimeWindow window = shownWindow();
    const QString csv = shownHistory().toCsv(window.endSeconds - window.seconds, window.endSeconds, m_agentNames);
    takeUp(writeFile(path, csv.toUtf8()), this, [this, path](const Result<void>& written) {
        if (written)
            emit exported(path);
        else
            emit exportFailed(problemText(written.error()));
    });
}

void DashboardPanel::exportImage(const QString& path)
{
    QByteArray png;
    QBuffer buffer(&png);
    buffer.open(QIODevice::WriteOnly);
    m_content->grab().save(&buffer, "PNG");
    takeUp(writeFile(path, png), this, [this, path](const Result<void>& written) {
        if (written)
            emit exported(path);
        else
            emit exportFailed(problemText(written.error()));
    });
}

void DashboardPanel::askWhereTo(const QString& suffix, void (DashboardPanel::*write)(const QString&))
{
    auto* dialog = new QFileDialog(this, tr("Save the dashboard"));
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    dialog->setDefaultSuffix(suffix);
    dialog->setNameFilter(suffix == QStringLiteral("csv") ? tr("Comma-separated values (*.csv)")
                                                          : tr("PNG image (*.png)"));
    dialog->setDirectory(QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation));
    dialog->selectFile(QStringLiteral("octavo-%1.%2")
                           .arg(QDateTime::currentDateTime().toString(QStringLiteral("yyyyMMdd-HHmmss")), suffix));
    connect(dialog, &QFileDialog::fileSelected, this, [this, write](const QString& path) { (this->*write)(path); });
    dialog->open();
}

} // namespace octavo::ui
