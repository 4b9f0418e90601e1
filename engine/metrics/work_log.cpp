#include "engine/metrics/work_log.h"

namespace octavo::engine {
namespace {

constexpr std::int64_t keptUs = 60'000'000;
constexpr std::int64_t longestMergedUs = 100'000;
constexpr std::int64_t gapMergedUs = 2'000;
constexpr std::size_t mostSpans = 4096;

bool continues(const WorkSpan& last, const WorkSpan& next)
{
    const std::int64_t lastEnd = last.startUs + last.durationUs;
    return next.kind != WorkSpan::Kind::Prefill && next.kind == last.kind && next.agentMask == last.agentMask
           && next.startUs - lastEnd <= gapMergedUs
           && next.startUs + next.durationUs - last.startUs <= longestMergedUs;
}

} // namespace

void WorkLog::add(const WorkSpan& span)
{
    if (!m_spans.empty() && continues(m_spans.back(), span)) {
        WorkSpan& last = m_spans.back();
        last.durationUs = std::int32_t(span.startUs + span.durationUs - last.startUs);
        last.rows += span.rows;
        return;
    }
    if (m_spans.size() == mostSpans)
        m_spans.pop_front();
    m_spans.push_back(span);
}

std::vector<WorkSpan> WorkLog::recent(std::int64_t nowUs)
{
    while (!m_spans.empty() && m_spans.front().startUs + m_spans.front().durationUs < nowUs - keptUs)
        m_spans.pop_front();
    return {m_spans.begin(), m_spans.end()};
}

std::uint32_t agentBit(AgentId agent)
{
    const auto index = std::uint32_t(agent);
    return index < 32 ? std::uint32_t{1} << index : 0;
}

} // namespace octavo::engine
