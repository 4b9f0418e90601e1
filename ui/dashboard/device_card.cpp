#include "ui/dashboard/device_card.h"

#include "ui/problem_text.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QLocale>
#include <QVBoxLayout>

#include <cmath>

namespace octavo::ui {

namespace {

QString bytesPerSecondText(float value)
{
    const double gigabytes = double(value) / 1e9;
    const QLocale locale;
    return gigabytes >= 0.095
               ? DeviceCard::tr("%1 GB/s").arg(locale.toString(gigabytes, 'f', 1))
               : DeviceCard::tr("%1 MB/s").arg(locale.toString(double(value) / 1e6, 'f', value < 1e6F ? 1 : 0));
}

QString percent(float value)
{
    return DeviceCard::tr("%1%").arg(QLocale().toString(double(value) * 100, 'f', 1));
}

/// "22.3 / 24 GiB"; a dash for what is not known.
QString usedOfText(qint64 used, qint64 total)
{
    constexpr double gibibyte = 1024.0 * 1024.0 * 1024.0;
    const auto inGiB = [](qint64 bytes) {
        const double value = double(bytes) / gibibyte;
        return QLocale().toString(value, 'f', value < 99.5 && std::abs(value - std::round(value)) > 0.05 ? 1 : 0);
    };
    if (used <= 0 && total <= 0)
        return dash();
    return total > 0 ? DeviceCard::tr("%1 / %2 GiB").arg(used > 0 ? inGiB(used) : dash(), inGiB(total))
                     : bytesText(used);
}

void setTextIfNew(TextLabel* label, const QString& text)
{
    if (label->text() != text)
        label->setText(text);
}

} // namespace

DeviceCard::DeviceCard(const QString& title, QWidget* parent)
    : Card(Card::Fill::Raised, parent)
{
    setAccessibleName(title);
    m_title = new TextLabel(title, TextRole::BodyStrong);
    m_description = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_description->setElided(true);
    m_sensors = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_failure = new TextLabel({}, TextRole::Body, Tone::Bad);
    m_failure->setWordWrap(true);
    m_failure->hide();

    auto* header = new QHBoxLayout;
    header->setSpacing(metrics::gap);
    header->addWidget(m_title);
    header->addWidget(m_description, 1);
    header->addWidget(m_sensors);

    m_body = new QWidget;
    auto* memory = new QGridLayout;
    memory->setContentsMargins({});
    memory->setHorizontalSpacing(metrics::padding);
    memory->setVerticalSpacing(metrics::grid);
    memory->setColumnStretch(1, 1);
    m_memory = addMemoryRow(memory, 0);
    m_hostTier = addMemoryRow(memory, 1);
    m_hostTier.name->setText(tr("Host tier"));
    m_hostTier.bar->setAccessibleName(tr("Host tier"));

    m_tierRead = new LineChart(tr("Tier read"), bytesPerSecondText);
    m_tierRead->setShade(LineChart::Shade::Cyan);
    m_tierRead->setObjectName(QStringLiteral("tierRead"));
    m_hits = new LineChart(tr("Hot-buffer hits"), percent);
    m_hits->setMaximum(1.0F);
    m_hits->setObjectName(QStringLiteral("hotBufferHits"));
    auto* charts = new QHBoxLayout;
    charts->setSpacing(metrics::padding);
    charts->addWidget(m_tierRead, 1);
    charts->addWidget(m_hits, 1);

    auto* body = new QVBoxLayout(m_body);
    body->setContentsMargins({});
    body->setSpacing(metrics::gap);
    body->addLayout(memory);
    body->addLayout(charts, 1);

    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(metrics::padding, metrics::gap, metrics::padding, metrics::padding);
    layout->setSpacing(metrics::gap);
    layout->addLayout(header);
    layout->addWidget(m_failure, 1, Qt::AlignTop);
    layout->addWidget(m_body, 1);
}

DeviceCard::MemoryRow DeviceCard::addMemoryRow(QGridLayout* grid, int row)
{
    MemoryRow result{};
    result.name = new TextLabel({}, TextRole::Small, Tone::Muted);
    result.bar = new SegmentBar([](qint64 bytes) { return bytesText(bytes); });
    result.figure = new TextLabel({}, TextRole::Figure);
    grid->addWidget(result.name, row, 0);
    grid->addWidget(result.bar, row, 1);
    grid->addWidget(result.figure, row, 2, Qt::AlignRight);
    return result;
}

QString DeviceCard::titleOf(const std::string& device)
{
    const QString name = QString::fromStdString(device);
    if (name.startsWith(QStringLiteral("cuda")))
        return tr("GPU %1").arg(name.section(u':', 1));
    return name.toUpper();
}

void DeviceCard::showDevice(const engine::DeviceMetrics& metrics)
{
    m_isGpu = metrics.device.starts_with("cuda");
    QStringList description{QString::fromStdString(metrics.description), QString::fromStdString(metrics.link)};
    description.removeAll({});
    setTextIfNew(m_description, description.join(QStringLiteral(" · ")));
    const QString temperature =
        metrics.temperatureC >= 0 ? tr("%1 °C").arg(metrics.temperatureC, 0, 'f', 0) : dash() + QStringLiteral(" °C");
    const QString power =
        metrics.powerW >= 0 ? tr("%1 W").arg(metrics.powerW, 0, 'f', 0) : dash() + QStringLiteral(" W");
    setTextIfNew(m_sensors, temperature + QStringLiteral(" · ") + power);

    if (m_failed != metrics.failed) {
        m_failed = metrics.failed;
        m_failure->setVisible(m_failed);
        m_body->setVisible(!m_failed);
        setOutline(m_failed ? Tone::Bad : Tone::Normal);
    }
    if (m_failed) {
        setTextIfNew(m_failure, problemText(QString::fromStdString(metrics.failure)));
        return;
    }

    const engine::BackendStats& stats = metrics.backend;
    const Colors& c = colors();
    setTextIfNew(m_memory.name, m_isGpu ? tr("VRAM") : tr("RAM"));
    m_memory.bar->setAccessibleName(m_memory.name->text());
    QList<BarSegment> segments;
    const qint64 rest = std::max<qint64>(0, stats.memoryUsedBytes - metrics.weightBytes - stats.hotBufferBytes);
    if (metrics.weightBytes > 0)
        segments += {tr("Weights"), metrics.weightBytes, c.muted};
    if (rest > 0)
        segments += {metrics.weightBytes > 0 ? tr("Sequences, sketch and state") : tr("In use"), rest, c.function};
    if (stats.hotBufferBytes > 0)
        segments += {tr("Hot buffer"), stats.hotBufferBytes, c.accent};
    m_memory.bar->setSegments(segments, stats.memoryTotalBytes);
    setTextIfNew(m_memory.figure, usedOfText(stats.memoryUsedBytes, stats.memoryTotalBytes));

    QList<BarSegment> tier;
    if (stats.hostTierBytes > 0)
        tier += {tr("KV rows"), stats.hostTierBytes, c.keyword};
    // Without a limit of its own it has what the memory above has.
    m_hostTier.bar->setSegments(tier, stats.hostTierLimitBytes > 0 || m_isGpu ? stats.hostTierLimitBytes
                                                                             : stats.memoryTotalBytes);
    setTextIfNew(m_hostTier.figure, usedOfText(stats.hostTierBytes, stats.hostTierLimitBytes));
    m_tierRead->setTitle(m_isGpu ? tr("PCIe read") : tr("Tier read"));
}

void DeviceCard::showHistory(const MetricsHistory& history, std::size_t index, const TimeWindow& window)
{
    const DeviceHistory& device = history.devices()[index];
    const RingBuffer<AgentsSample>& times = history.agents();
    const int numSamples = history.firstAfter(window.endSeconds + 1e-6);
    const auto show = [&](LineChart* chart, float DeviceSample::*value) {
        chart->setCurrent(numSamples > 0 ? device.samples[numSamples - 1].*value : unknownValue);
        if (!chart->isBehind(window))
            return;
        std::vector<float> values = resample(
            window, chart->columns(window), numSamples, [&](double seconds) { return history.firstAfter(seconds); },
            [&](int i) { return times[i].seconds; }, [&](int i) { return device.samples[i].*value; });
        chart->setValues(std::move(values), window);
    };
    show(m_tierRead, &DeviceSample::tierBytesPerSecond);
    show(m_hits, &DeviceSample::hitRate);
}

} // namespace octavo::ui
