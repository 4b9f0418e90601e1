#pragma once

#include "engine/metrics/metrics.h"

#include <cstdint>
#include <deque>
#include <vector>

namespace octavo::engine {

/// What a device did in the last 60 s. Steps that follow each other closely with the same agents become one span, so
/// that a minute of fast decoding stays a few hundred entries. Thread: one owner.
class WorkLog
{
public:
    void add(const WorkSpan& span);
    std::vector<WorkSpan> recent(std::int64_t nowUs);

private:
    std::deque<WorkSpan> m_spans;
};

/// The mask bit of an agent; none for those above 31.
std::uint32_t agentBit(AgentId agent);

} // namespace octavo::engine
