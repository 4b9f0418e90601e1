#pragma once

/// Decides how many drafted tokens are worth checking: what a further row of a step costs, measured, against how often
/// drafts like it were right.

#include <array>
#include <cstdint>

namespace octavo::engine {

/// How often one agent's drafts are right, by how long a stretch they had in common with their source. Drifts back to
/// its start while unused, so that an agent that turns from prose to code is tried again.
class DraftAcceptance
{
public:
    double chance(int matched) const { return m_chance[std::size_t(bucket(matched))]; }
    void record(int matched, int accepted, bool rejected);
    void recordUnused(int matched);

private:
    static int bucket(int matched) { return matched < 6 ? 0 : matched < 12 ? 1 : 2; }
    static constexpr std::array<double, 3> start{0.5, 0.7, 0.9};

    std::array<double, 3> m_chance = start;
};

/// What a step of a number of rows takes: a base and a cost per row, fitted to recent steps.
class StepCost
{
public:
    void record(int rows, std::int64_t durationUs);

    /// The cost of one more row as a share of a step of one row.
    double rowShare() const { return m_rowShare; }

private:
    double m_weight = 0.0, m_rows = 0.0, m_us = 0.0, m_rowsRows = 0.0, m_rowsUs = 0.0; // decaying sums
    double m_rowShare = 0.15; // until steps of different sizes have been seen
};

/// Rows of a step so far, for rowPays().
struct StepPlan {
    int rows = 0;               ///< of all agents
    double expectedTokens = 0;  ///< of all agents
};

/// Whether a further row that is right with `chance` makes more tokens per time than the step as planned.
bool rowPays(const StepPlan& plan, double chance, const StepCost& cost);

} // namespace octavo::engine
