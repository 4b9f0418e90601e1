#pragma once

/// A machine that is made up: two GPUs with eight agents, or one CPU. For tests and pictures of the dashboard.

#include "engine/metrics/metrics.h"

#include <cmath>
#include <random>

namespace octavo::testing {

class SimulatedMachine
{
public:
    enum class Kind { TwoGpus, Cpu };
    explicit SimulatedMachine(Kind kind)
        : m_kind(kind)
    {
    }

    /// Goes on by `seconds` and gives the state then. Equal calls give equal states.
    engine::MetricsSnapshot advance(double seconds)
    {
        m_timeUs += std::int64_t(seconds * 1e6);
        engine::MetricsSnapshot snapshot;
        snapshot.timeUs = m_timeUs;
        snapshot.processResidentBytes = 9LL << 30;
        const int devices = m_kind == Kind::TwoGpus ? 2 : 1;
        m_devices.resize(std::size_t(devices));
        for (int d = 0; d < devices; ++d)
            snapshot.devices.push_back(device(d, seconds));
        return snapshot;
    }

private:
    static constexpr double gib = 1024.0 * 1024.0 * 1024.0;

    double noise(double spread) { return std::uniform_real_distribution<double>(-spread, spread)(m_random); }

    engine::DeviceMetrics device(int d, double seconds)
    {
        const bool gpu = m_kind == Kind::TwoGpus;
        engine::DeviceMetrics& metrics = m_devices[std::size_t(d)];
        metrics.device = gpu ? "cuda:" + std::to_string(d) : "cpu";
        metrics.description = gpu ? (d == 0 ? "RTX 3090 Ti" : "RTX 3090") : "2 threads, AVX-512 VNNI";
        metrics.link = gpu ? (d == 0 ? "PCIe 4 x16" : "PCIe 4 x4") : "";
        metrics.temperatureC = gpu ? 61 + 5 * d : -1;
        metrics.powerW = gpu ? 248 + 2 * d : -1;
        metrics.weightBytes = std::int64_t((gpu ? 10.9 : 0.4) * gib);
        engine::BackendStats& stats = metrics.backend;
        stats.memoryTotalBytes = std::int64_t(24 * gib);
        stats.memoryUsedBytes = std::int64_t((gpu ? 22.3 - 1.2 * d : 2.9) * gib);
        stats.hotBufferBytes = std::int64_t((gpu ? 9.2 : 0.8) * gib);
        stats.hostTierBytes = std::int64_t((gpu ? 18.4 - 5.2 * d : 1.2) * gib);
        stats.hostTierLimitBytes = std::int64_t((gpu ? 40 : 12) * gib);
        m_traffic[d] = std::max(0.3, m_traffic[d] + noise(0.35) + 0.05 * ((gpu ? 6.0 - 3 * d : 0.9) - m_traffic[d]));
        stats.tierBytesRead += std::int64_t(m_traffic[d] * 1e9 * seconds);
        const auto looked = std::int64_t(20000 * seconds * 10);
        const double rate = 0.87 - 0.03 * d + noise(0.02);
        stats.hotHits += std::int64_t(double(looked) * rate);
        stats.hotMisses += std::int64_t(double(looked) * (1 - rate));

        metrics.agents.clear();
        metrics.decodeTokensPerSecond = 0;
        const int first = gpu ? d * 4 : 0;
        const int last = gpu ? first + 4 : 8;
        std::uint32_t writing = 0;
        for (int a = first; a < last; ++a) {
            engine::AgentMetrics agent;
            agent.agent = engine::AgentId{std::uint32_t(a)};
            agent.contextLimit = 250000;
            agent.contextTokens = 40000 + a * 26000;
            const bool reads = a == 2;
            const bool idle = a == 7 || a == 3;
            agent.state = reads  ? engine::SequenceState::Reading
                          : idle ? engine::SequenceState::Idle
                                 : engine::SequenceState::Writing;
            if (!reads && !idle) {
                writing |= 1U << a;
                agent.decodeTokensPerSecond = (gpu ? 66 + 3 * (a % 3) : 6) + noise(gpu ? 3 : 0.4);
                agent.acceptedDraftsPerRound = 4.1 + noise(0.1);
                agent.worstGapMs = 60 + a * 6;
                agent.ttftMs = 700 + a * 50;
                metrics.decodeTokensPerSecond += agent.decodeTokensPerSecond;
            }
            metrics.agents.push_back(agent);
        }
        if (d == 0)
            metrics.prefillTokensPerSecond = gpu ? 3910 : 240;

        const std::int64_t begin = m_timeUs - std::int64_t(seconds * 1e6);
        for (std::int64_t at = begin; at < m_timeUs; at += 50000) {
            const bool bothAtOnce = d == 0;
            std::uint32_t checking = writing & m_random();
            metrics.recentWork.push_back({engine::WorkSpan::Kind::Verify, checking, at, 24000, 20});
            metrics.recentWork.push_back({engine::WorkSpan::Kind::Decode, writing & ~checking, at + 24000, 12000, 4});
            if (bothAtOnce)
                metrics.recentWork.push_back({engine::WorkSpan::Kind::Prefill, 4U, at + 36000, 14000, 1024});
        }
        if (metrics.recentWork.size() > 4000)
            metrics.recentWork.erase(metrics.recentWork.begin(), metrics.recentWork.end() - 3000);
        return metrics;
    }

    Kind m_kind;
    std::int64_t m_timeUs = 0;
    std::mt19937 m_random{7};
    double m_traffic[2] = {5.5, 3.0};
    std::vector<engine::DeviceMetrics> m_devices;
};

} // namespace octavo::testing
