#include "engine/speculation/draft_planner.h"

#include <algorithm>

namespace octavo::engine {

void DraftAcceptance::record(int matched, int accepted, bool rejected)
{
    constexpr double pace = 0.1;
    double& chance = m_chance[std::size_t(bucket(matched))];
    for (int i = 0; i < accepted; ++i)
        chance += pace * (1.0 - chance);
    if (rejected)
        chance -= pace * chance;
}

void DraftAcceptance::recordUnused(int matched)
{
    constexpr double pace = 0.01;
    const int at = bucket(matched);
    m_chance[std::size_t(at)] += pace * (start[std::size_t(at)] - m_chance[std::size_t(at)]);
}

void StepCost::record(int rows, std::int64_t durationUs)
{
    constexpr double memory = 0.98;
    const double x = rows, y = double(durationUs);
    m_weight = memory * m_weight + 1.0;
    m_rows = memory * m_rows + x;
    m_us = memory * m_us + y;
    m_rowsRows = memory * m_rowsRows + x * x;
    m_rowsUs = memory * m_rowsUs + x * y;
    const double spread = m_rowsRows - m_rows * m_rows / m_weight;
    if (spread < 0.5) // all steps alike: keep what was known
        return;
    const double perRow = (m_rowsUs - m_rows * m_us / m_weight) / spread;
    const double ofOne = m_us / m_weight + perRow * (1.0 - m_rows / m_weight);
    if (ofOne > 0.0)
        m_rowShare = std::clamp(perRow / ofOne, 0.01, 1.0);
}

bool rowPays(const StepPlan& plan, double chance, const StepCost& cost)
{
    const double step = 1.0 + cost.rowShare() * (plan.rows - 1);
    return chance * step > cost.rowShare() * plan.expectedTokens;
}

} // namespace octavo::engine
