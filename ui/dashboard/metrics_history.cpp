#include "ui/dashboard/metrics_history.h"

#include <QStringList>
#include <QTextStream>

#include <algorithm>
#include <cmath>

namespace octavo::ui {

namespace {

float known(double value)
{
    return value < 0 ? unknownValue : float(value);
}

float median(std::vector<float> values)
{
    if (values.empty())
        return unknownValue;
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

AgentsSample summarize(const engine::MetricsSnapshot& snapshot)
{
    AgentsSample sample;
    sample.seconds = double(snapshot.timeUs) / 1e6;
    sample.agentDecode.fill(unknownValue);
    std::vector<float> firstTokenTimes;
    float drafts = 0;
    int drafting = 0;
    for (const engine::DeviceMetrics& device : snapshot.devices) {
        if (device.failed)
            continue;
        sample.decode = (std::isnan(sample.decode) ? 0.0F : sample.decode) + float(device.decodeTokensPerSecond);
        sample.prefill = (std::isnan(sample.prefill) ? 0.0F : sample.prefill) + float(device.prefillTokensPerSecond);
        for (const engine::AgentMetrics& agent : device.agents) {
            const auto lane = std::size_t(agent.agent);
            if (lane < sample.agentDecode.size() && agent.decodeTokensPerSecond >= 0)
                sample.agentDecode[lane] = float(agent.decodeTokensPerSecond);
            if (agent.acceptedDraftsPerRound >= 0) {
                drafts += float(agent.acceptedDraftsPerRound);
                ++drafting;
            }
            if (agent.worstGapMs >= 0)
                sample.worstGapMs = std::fmax(sample.worstGapMs, float(agent.worstGapMs));
            if (agent.ttftMs >= 0)
                firstTokenTimes.push_back(float(agent.ttftMs));
        }
    }
    if (drafting > 0)
        sample.acceptedDrafts = drafts / float(drafting);
    sample.ttftMs = median(std::move(firstTokenTimes));
    return sample;
}

void field(QTextStream& out, double value)
{
    out << ',';
    if (!std::isnan(value))
        out << QString::number(value, 'g', 7);
}

QString quoted(QString text)
{
    return u'"' + text.replace(u'"', QStringLiteral("\"\"")) + u'"';
}

} // namespace

MetricsHistory::MetricsHistory()
    : m_agents(capacity)
{
}

void MetricsHistory::clear()
{
    m_agents.clear();
    m_devices.clear();
}

void MetricsHistory::add(const engine::MetricsSnapshot& snapshot)
{
    const double seconds = double(snapshot.timeUs) / 1e6;
    if (snapshot.devices.empty() || (!m_agents.isEmpty() && seconds == newestSeconds()))
        return;
    if (!m_agents.isEmpty() && seconds < newestSeconds())
        clear();

    std::vector<DeviceSample> samples(m_devices.size());
    for (std::size_t i = 0; i < snapshot.devices.size(); ++i) {
        const engine::DeviceMetrics& metrics = snapshot.devices[i];
        const auto sameName = [&](const engine::DeviceMetrics& other) { return other.device == metrics.device; };
        const auto end = snapshot.devices.begin() + std::ptrdiff_t(i);
        const std::size_t index = indexOf(metrics.device, int(std::count_if(snapshot.devices.begin(), end, sameName)));
        samples.resize(m_devices.size());
        samples[index] = sampleOf(metrics, seconds, m_devices[index]);
    }
    m_agents.push(summarize(snapshot));
    for (std::size_t i = 0; i < m_devices.size(); ++i)
        m_devices[i].samples.push(samples[i]);
}

std::size_t MetricsHistory::indexOf(const std::string& device, int occurrence)
{
    const QString name = QString::fromStdString(device);
    for (std::size_t i = 0; i < m_devices.size(); ++i) {
        if (m_devices[i].device == name && occurrence-- == 0)
            return i;
    }
    m_devices.push_back({name, RingBuffer<DeviceSample>(capacity)});
    for (int i = 0; i < m_agents.size(); ++i)
        m_devices.back().samples.push({});
    return m_devices.size() - 1;
}

DeviceSample MetricsHistory::sampleOf(const engine::DeviceMetrics& metrics, double seconds,
                                      const DeviceHistory& history) const
{
    const engine::BackendStats& stats = metrics.backend;
    DeviceSample sample;
    if (metrics.failed)
        return sample;
    sample.decode = known(metrics.decodeTokensPerSecond);
    sample.prefill = known(metrics.prefillTokensPerSecond);
    sample.temperatureC = known(metrics.temperatureC);
    sample.powerW = known(metrics.powerW);
    sample.memoryUsedBytes = stats.memoryUsedBytes;
    sample.weightBytes = metrics.weightBytes;
    sample.hotBufferBytes = stats.hotBufferBytes;
    sample.hostTierBytes = stats.hostTierBytes;
    sample.hotHits = stats.hotHits;
    sample.hotMisses = stats.hotMisses;
    sample.tierBytesRead = stats.tierBytesRead;

    const int base = firstAfter(seconds - rateSeconds - 0.001);
    const bool tierInUse = stats.hostTierBytes > 0 || stats.tierBytesRead > 0;
    if (!tierInUse || base >= m_agents.size())
        return sample;
    const DeviceSample& before = history.samples[base];
    const double elapsed = seconds - m_agents[base].seconds;
    if (elapsed <= 0 || stats.tierBytesRead < before.tierBytesRead || stats.hotHits < before.hotHits ||
        stats.hotMisses < before.hotMisses)
        return sample;
    sample.tierBytesPerSecond = float(double(stats.tierBytesRead - before.tierBytesRead) / elapsed);
    const std::int64_t hits = stats.hotHits - before.hotHits;
    const std::int64_t looked = hits + stats.hotMisses - before.hotMisses;
    if (looked > 0)
        sample.hitRate = float(double(hits) / double(looked));
    return sample;
}

int MetricsHistory::firstAfter(double seconds) const
{
    int low = 0;
    int high = m_agents.size();
    while (low < high) {
        const int middle = (low + high) / 2;
        if (m_agents[middle].seconds > seconds)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

QString MetricsHistory::toCsv(double fromSeconds, double toSeconds, const QStringList& agentNames) const
{
    QString text;
    QTextStream out(&text);
    out << "time_s,decode_tokens_per_s,prefill_tokens_per_s";
    for (int lane = 0; lane < numAgentLanes; ++lane)
        out << ',' << quoted(agentNames.value(lane, QStringLiteral("agent %1").arg(lane + 1)) + u" tokens_per_s");
    out << ",accepted_drafts_per_round,worst_gap_ms,ttft_ms";
    for (const DeviceHistory& device : m_devices) {
        for (const char* column :
             {"decode_tokens_per_s", "prefill_tokens_per_s", "memory_used_bytes", "weight_bytes", "hot_buffer_bytes",
              "host_tier_bytes", "tier_bytes_per_s", "hit_rate", "temperature_c", "power_w"})
            out << ',' << device.device << ' ' << column;
    }
    out << '\n';

    for (int i = firstAfter(fromSeconds); i < m_agents.size() && m_agents[i].seconds <= toSeconds; ++i) {
        const AgentsSample& sample = m_agents[i];
        out << QString::number(sample.seconds, 'f', 3);
        field(out, double(sample.decode));
        field(out, double(sample.prefill));
        for (float rate : sample.agentDecode)
            field(out, double(rate));
        field(out, double(sample.acceptedDrafts));
        field(out, double(sample.worstGapMs));
        field(out, double(sample.ttftMs));
        for (const DeviceHistory& device : m_devices) {
            const DeviceSample& own = device.samples[i];
            field(out, double(own.decode));
            field(out, double(own.prefill));
            for (std::int64_t bytes : {own.memoryUsedBytes, own.weightBytes, own.hotBufferBytes, own.hostTierBytes})
                out << ',' << (bytes > 0 ? QString::number(bytes) : QString());
            field(out, double(own.tierBytesPerSecond));
            field(out, double(own.hitRate));
            field(out, double(own.temperatureC));
            field(out, double(own.powerW));
        }
        out << '\n';
    }
    return text;
}

} // namespace octavo::ui
