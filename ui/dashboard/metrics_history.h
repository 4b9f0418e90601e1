#pragma once

/// What the dashboard's charts draw: the last five minutes of metrics, as plain values.
///
/// Unknown  a value that is not known is NaN here, a gap in a chart, a dash in a label and an empty CSV field.
/// Rates    tier traffic and hit rate are differences of counters over the last second.
/// Thread   none of its own; belongs to the GUI thread. add() allocates only when a device appears.

#include "ui/charts/ring_buffer.h"

#include "engine/metrics/metrics.h"

#include <QString>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace octavo::ui {

inline constexpr int numAgentLanes = 8;
inline constexpr int contextLane = numAgentLanes; ///< of the scheduler strip: contexts, read for no agent yet
inline constexpr int numWorkLanes = numAgentLanes + 1;
inline constexpr float unknownValue = std::numeric_limits<float>::quiet_NaN();

/// All agents together at one moment.
struct AgentsSample {
    double seconds = 0;          ///< since the engine's start
    float decode = unknownValue; ///< tokens/s over all devices
    float prefill = unknownValue;
    std::array<float, numAgentLanes> agentDecode{}; ///< tokens/s by agent; NaN while it writes nothing
    float acceptedDrafts = unknownValue;            ///< per round, mean over the agents that draft
    float worstGapMs = unknownValue;                ///< largest over the agents
    float ttftMs = unknownValue;                    ///< median over the agents
};

/// One device at the same moment.
struct DeviceSample {
    float decode = unknownValue, prefill = unknownValue;
    float tierBytesPerSecond = unknownValue;
    float hitRate = unknownValue; ///< 0..1
    float temperatureC = unknownValue, powerW = unknownValue;
    std::int64_t memoryUsedBytes = 0, weightBytes = 0, hotBufferBytes = 0, hostTierBytes = 0;
    std::int64_t hotHits = 0, hotMisses = 0, tierBytesRead = 0; ///< counters the rates are taken from
};

struct DeviceHistory {
    QString device;                   ///< "cpu", "cuda:0"
    RingBuffer<DeviceSample> samples; ///< one for each of agents()
};

class MetricsHistory
{
public:
    static constexpr int capacity = 3000; ///< 300 s at 10 Hz
    static constexpr double rateSeconds = 1.0;

    MetricsHistory();

    /// Takes a snapshot in. One that is not newer than the last is ignored, unless its clock began anew (the engine was
    /// restarted): then the history begins anew too.
    void add(const engine::MetricsSnapshot& snapshot);
    void clear();

    const RingBuffer<AgentsSample>& agents() const { return m_agents; }
    const std::vector<DeviceHistory>& devices() const { return m_devices; }
    double newestSeconds() const { return m_agents.isEmpty() ? 0.0 : m_agents.newest().seconds; }

    /// Index of the first sample later than `seconds`; size() where there is none.
    int firstAfter(double seconds) const;

    /// The samples in (fromSeconds, toSeconds] as CSV, one row each: a header line, '.' as decimal point, CRLF-free,
    /// unknown values empty. `agentNames` heads the agents' columns.
    QString toCsv(double fromSeconds, double toSeconds, const QStringList& agentNames) const;

private:
    /// Place of the `occurrence`-th device of that name ("cpu" may be named twice); made, and filled with unknown
    /// samples up to now, where it is new.
    std::size_t indexOf(const std::string& device, int occurrence);
    DeviceSample sampleOf(const engine::DeviceMetrics& metrics, double seconds, const DeviceHistory& history) const;

    RingBuffer<AgentsSample> m_agents;
    std::vector<DeviceHistory> m_devices;
};

} // namespace octavo::ui
