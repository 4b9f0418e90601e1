#pragma once

/// What the dashboard shows: plain values, copied out at once, never blocking a step.

#include "engine/backend/backend.h"
#include "engine/types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::engine {

enum class SequenceState { Idle, Queued, Reading, Writing };

/// One agent on a device. Rates are over the last second; negative means "not known" and is shown as a dash.
struct AgentMetrics {
    AgentId agent{};
    SequenceState state = SequenceState::Idle;
    std::int64_t contextTokens = 0;   ///< positions in use
    std::int64_t contextLimit = 0;
    std::int64_t readDone = 0, readTotal = 0;
    double decodeTokensPerSecond = -1.0;
    double prefillTokensPerSecond = -1.0;
    double acceptedDraftsPerRound = -1.0;
    double worstGapMs = -1.0;         ///< longest wait between two tokens of this agent's current answer
    double ttftMs = -1.0;             ///< time to first token of the current or last answer
    std::int64_t totalDecodeTokens = 0;
    std::int64_t tierBytesRead = -1;  ///< from the host tier (over PCIe on a GPU) for the current or last answer
};

/// One stretch of work of a device, for the scheduler strip.
struct WorkSpan {
    enum class Kind { Prefill, Decode, Verify };
    Kind kind = Kind::Decode;
    std::uint32_t agentMask = 0;      ///< bit i: AgentId{i} took part (agents above 31 are left out)
    std::int64_t startUs = 0;         ///< since the Engine's start, steady clock
    std::int32_t durationUs = 0;
    std::int32_t rows = 0;
};

struct DeviceMetrics {
    std::string device;               ///< "cpu", "cuda:0"
    std::string description;
    bool failed = false;
    std::string failure;
    BackendStats backend;
    std::int64_t weightBytes = 0;     ///< of backend.memoryUsedBytes; 0 where not known
    std::vector<AgentMetrics> agents;
    std::vector<WorkSpan> recentWork; ///< oldest first, about the last 60 s, at most a few thousand
    double decodeTokensPerSecond = 0.0;
    double prefillTokensPerSecond = 0.0;
    double temperatureC = -1.0, powerW = -1.0;
    double computeClockMHz = -1.0, memoryClockMHz = -1.0;
    std::string link;                 ///< "PCIe 4 x16", empty when not known
    double linkReadBytesPerSecond = -1.0, linkWriteBytesPerSecond = -1.0; ///< as the driver sees it, all programs
};

struct MetricsSnapshot {
    std::int64_t timeUs = 0;          ///< since the Engine's start
    std::vector<DeviceMetrics> devices;
    std::int64_t processResidentBytes = 0;
};

} // namespace octavo::engine
