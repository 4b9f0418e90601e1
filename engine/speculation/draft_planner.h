#pragma once

/// Decides how many drafted tokens are worth having and checking: what a further row of a step and a further pass of
/// the MTP layer cost, measured, against how often drafts like it were right.

#include <array>
#include <cstdint>
#include <span>

namespace octavo::engine {

/// How often one agent's copies are right, by how long a stretch they have in common with their source. Each token that
/// is kept makes it longer, so the tokens of one draft are judged one by one: a copy that goes well is surer as it
/// goes on. Drifts back to its start while unused, so that an agent that turns from prose to code is tried again.
class DraftAcceptance
{
public:
    /// That the next token is right behind `matched` that agree.
    double chance(int matched) const { return m_chance[std::size_t(bucket(matched))]; }
    /// Of a draft that began behind `matched` tokens: how many were right, and whether another one was not.
    void record(int matched, int accepted, bool rejected);
    void recordUnused(int matched);

private:
    static constexpr std::array<int, 6> mostMatched{3, 5, 8, 13, 24, 1 << 30};
    static int bucket(int matched)
    {
        int at = 0;
        while (matched > mostMatched[std::size_t(at)])
            ++at;
        return at;
    }
    static constexpr std::array<double, 6> start{0.35, 0.7, 0.85, 0.93, 0.97, 0.985}; // of answers about code
    /// What one token moves. Every copy ends with a token that is wrong: where nearly all others are right, it counts
    /// less.
    static constexpr std::array<double, 6> pace{0.08, 0.08, 0.06, 0.04, 0.03, 0.02};

    std::array<double, 6> m_chance = start;
};

/// How often one agent's MTP drafts are right: by the probability that the layer gives them, and by their place in the
/// chain. A place that was hardly tried is taken to be like the one before it, so that chains which go well grow.
/// Drifts back to its start while unused.
class MtpAcceptance
{
public:
    static constexpr int deepest = 8;

    /// That a token drafted with `probability` is right.
    double chance(float probability) const { return m_chance[std::size_t(bucket(probability))]; }
    void record(float probability, bool accepted);

    /// That another pass at `depth` (0: the first) yields a token that is kept, where all before were.
    double yield(int depth) const;
    void recordPass(int depth, bool kept);
    /// A chain whose passes all yielded a token ended before `depth` as planned: what is known of the passes from there
    /// on fades, so that one is tried again some day.
    void recordUntried(int depth);
    void recordUnused();

private:
    void fade(int depth, double memory);
    static int bucket(float probability)
    {
        return probability < 0.5f ? 0 : probability < 0.8f ? 1 : probability < 0.95f ? 2 : 3;
    }
    std::array<double, 4> m_chance{0.4, 0.65, 0.85, 0.95};
    std::array<double, deepest> m_tried{}, m_kept{}; // decaying counts
};

/// What a step of a number of rows takes: a base and a cost per row, fitted to recent steps.
class StepCost
{
public:
    void record(int rows, std::int64_t durationUs);

    /// Moves what is known a little towards `oneUs`: call it where none was run because they seem dear, since a first
    /// one that the system kept waiting would seem so for ever.
    void fade(double oneUs);

    /// The cost of one more row as a share of a step of one row.
    double rowShare() const { return m_rowShare; }
    /// A step of `rows` rows; 0 until one has been seen.
    double us(int rows) const { return m_oneUs * (1.0 + m_rowShare * (rows - 1)); }

private:
    double m_weight = 0.0, m_rows = 0.0, m_us = 0.0, m_rowsRows = 0.0, m_rowsUs = 0.0; // decaying sums
    static constexpr double usualShare = 0.15;
    double m_rowShare = usualShare; // until steps of different sizes have been seen
    double m_oneUs = 0.0;
    int m_beyond = 0; // the newest steps in a row that took far longer (negative: shorter) than expected
};

/// Rows of a step so far, for rowPays().
struct StepPlan {
    int rows = 0;               ///< of all agents
    double expectedTokens = 0;  ///< of all agents
};

/// Whether a further row that is right with `chance` makes more tokens per time than the step as planned.
bool rowPays(const StepPlan& plan, double chance, const StepCost& cost);

/// Tokens per time, in units of a step of one row, of one agent alone that writes with drafts: each costs `draftCost`
/// and is right with `chance` where those before were. The best length up to `most` counts.
double bestRate(double chance, double draftCost, int most);
/// The same for a copy behind `matched` tokens.
double bestRate(const DraftAcceptance& copies, int matched, double draftCost, int most);

/// How many passes of the MTP layer make the most tokens per time when `chains` start from it beside `plan`, which
/// holds their first rows already. `passShare`: what a pass takes of a step of one row.
int passesThatPay(const StepPlan& plan, std::span<const MtpAcceptance* const> chains, const StepCost& cost,
                  double passShare, int most);

} // namespace octavo::engine
