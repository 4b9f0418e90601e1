#include "ui/dashboard/throughput_card.h"

#include <QActionGroup>
#include <QHBoxLayout>
#include <QLocale>
#include <QMenu>
#include <QVBoxLayout>

#include <cmath>

namespace octavo::ui {

namespace {

constexpr int windowChoices[] = {15, 60, 300};

QString rateWithUnit(float rate)
{
    return ThroughputCard::tr("%1 tok/s").arg(double(rate), 0, 'f', rate < 99.5F && rate != std::round(rate) ? 1 : 0);
}

QString windowText(int seconds)
{
    return seconds < 120 ? ThroughputCard::tr("%1 s").arg(seconds) : ThroughputCard::tr("%1 min").arg(seconds / 60);
}

QString figuresText(const AgentsSample& sample)
{
    const QString drafts =
        std::isnan(sample.acceptedDrafts) ? dash() : QLocale().toString(double(sample.acceptedDrafts), 'f', 1);
    const QString gap =
        std::isnan(sample.worstGapMs) ? dash() : ThroughputCard::tr("%1 ms").arg(double(sample.worstGapMs), 0, 'f', 0);
    const QString ttft =
        std::isnan(sample.ttftMs)
            ? dash()
            : ThroughputCard::tr("%1 s").arg(QLocale().toString(double(sample.ttftMs) / 1000, 'f', 1));
    const QString figures =
        ThroughputCard::tr("drafts %1 · worst gap %2 · TTFT %3").arg(drafts, gap, ttft);
    return sample.prefill >= 1 ? ThroughputCard::tr("reading %1 tok/s · %2")
                                     .arg(QLocale().toString(std::lround(sample.prefill)), figures)
                               : figures;
}

} // namespace

ThroughputCard::ThroughputCard(QWidget* parent)
    : Card(Card::Fill::Raised, parent)
{
    setAccessibleName(tr("All agents"));
    m_rate = new TextLabel(dash() + tr(" tok/s"), TextRole::BigFigure);
    m_rate->setObjectName(QStringLiteral("combinedRate"));
    m_figures = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_figures->setObjectName(QStringLiteral("figures"));
    m_figures->setElided(true);
    m_figures->setToolTip(
        tr("Drafts accepted per round, mean over the agents · longest wait for a token in an answer · "
           "time to first token, median over the agents"));
    m_figures->setText(figuresText({}));

    m_window = makeButton(windowText(60));
    m_window->setObjectName(QStringLiteral("timeWindow"));
    m_window->setAccessibleName(tr("Time window"));
    auto* menu = new QMenu(m_window);
    auto* group = new QActionGroup(menu);
    for (int seconds : windowChoices) {
        QAction* action = menu->addAction(windowText(seconds));
        action->setCheckable(true);
        action->setData(seconds);
        group->addAction(action);
        connect(action, &QAction::triggered, this, [this, seconds] { emit windowSecondsChosen(seconds); });
    }
    m_window->setMenu(menu);

    m_pause = makeButton(tr("Pause"));
    m_pause->setObjectName(QStringLiteral("pause"));
    m_pause->setCheckable(true);
    m_pause->setToolTip(tr("Hold the charts still; recording goes on"));
    connect(m_pause, &QPushButton::toggled, this, &ThroughputCard::pauseToggled);
    auto* csv = makeButton(tr("CSV"));
    csv->setObjectName(QStringLiteral("exportCsv"));
    csv->setAccessibleName(tr("Export as CSV"));
    csv->setToolTip(tr("Save the figures of the shown time as CSV"));
    connect(csv, &QPushButton::clicked, this, &ThroughputCard::csvRequested);
    auto* image = makeButton(tr("PNG"));
    image->setObjectName(QStringLiteral("exportImage"));
    image->setAccessibleName(tr("Export as PNG"));
    image->setToolTip(tr("Save a picture of the dashboard"));
    connect(image, &QPushButton::clicked, this, &ThroughputCard::imageRequested);

    auto* header = new QHBoxLayout;
    header->setSpacing(metrics::gap);
    header->addWidget(m_rate);
    header->addSpacing(metrics::grid);
    header->addWidget(m_figures, 1);
    for (QPushButton* button : {m_window, m_pause, csv, image})
        header->addWidget(button);

    m_rates = new StackedChart(tr("Tokens per second by agent"), rateWithUnit);
    m_strip = new SchedulerStrip;
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(metrics::padding, metrics::gap, metrics::padding, metrics::padding);
    layout->setSpacing(metrics::gap);
    layout->addLayout(header);
    layout->addWidget(m_rates, 1);
    layout->addWidget(m_strip);
    setWindowSeconds(60);
}

void ThroughputCard::setAgentNames(const QStringList& names)
{
    m_rates->setNames(names);
    m_strip->setNames(names);
}

void ThroughputCard::setPaused(bool paused)
{
    m_pause->setChecked(paused);
    m_pause->setText(paused ? tr("Resume") : tr("Pause"));
    m_pause->setAccessibleName(m_pause->text());
}

void ThroughputCard::setWindowSeconds(int seconds)
{
    m_window->setText(windowText(seconds));
    for (QAction* action : m_window->menu()->actions())
        action->setChecked(action->data().toInt() == seconds);
}

void ThroughputCard::showHistory(const MetricsHistory& history, WorkHistory& work, const TimeWindow& window)
{
    const RingBuffer<AgentsSample>& samples = history.agents();
    const int numSamples = history.firstAfter(window.endSeconds + 1e-6);
    const AgentsSample now = numSamples > 0 ? samples[numSamples - 1] : AgentsSample{};
    const QString rate =
        std::isnan(now.decode) ? dash() + tr(" tok/s") : tr("%1 tok/s").arg(double(now.decode), 0, 'f', 0);
    if (m_rate->text() != rate)
        m_rate->setText(rate);
    if (const QString figures = figuresText(now); m_figures->text() != figures)
        m_figures->setText(figures);

    if (m_rates->isBehind(window)) {
        std::vector<std::vector<float>> layers;
        for (std::size_t lane = 0; lane < numAgentLanes; ++lane) {
            layers.push_back(resample(
                window, m_rates->columns(window), numSamples,
                [&](double seconds) { return history.firstAfter(seconds); }, [&](int i) { return samples[i].seconds; },
                [&](int i) { return samples[i].agentDecode[lane]; }));
        }
        m_rates->setLayers(std::move(layers), window);
    }
    m_strip->setCoverage(work.coverage(window, m_strip->columns(window), numWorkLanes), window);
}

} // namespace octavo::ui
