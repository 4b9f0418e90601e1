#pragma once

/// Priority sampling (Duffield, Lund and Thorup, 2007) of the tokens that attention reads.
///
/// Of n tokens with keys c (the log of the largest share of attention that a head gives them, by their sketches) those
/// k with the largest c + boost are taken. With tau the largest sum that is not, a token is taken with probability
/// min(1, e^(c - tau)): whether its boost, -log of an even number from 0 to 1, reaches tau - c. Every token that is
/// taken enters each head's softmax with its exact score plus lift = max(0, tau - c), so that it stands for all those
/// like it, and sums of e^score and of values are right on average, however wrong the keys. Where attention is peaked
/// nearly all are taken for sure and count once; where it is flat nearly all are a well spread sample.
///
/// Keys are not known of all tokens: the leads say of which. They take part in the same way, by the same boosts: a
/// token is a candidate if its boost reaches what its leads lack to their limit, and lift is the larger of what both
/// ask for.

#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/sparse_select.h"

#include <cstdint>
#include <vector>

namespace octavo::kernels::cpu {

/// Which tokens are candidates, by the score of their leads: those that lack no more than their boost of any query's
/// limit. What a token lacks is counted as mostLack at most, so that the leads turn none down for good.
struct LeadRule {
    const std::int32_t* limits = nullptr; ///< (numQueries)
    const float* units = nullptr;         ///< (numQueries): nats of one
    float mostLack = 0.0f;
    /// (numQueries, boostPeriod), by fillBoostedLimits(): turns most tokens down by their place in a period alone.
    const std::int32_t* boostedLimits = nullptr;
};

/// What a token lacks, in nats, 0 or more. scores: of its leads, (numQueries).
float lackOf(const LeadRule& rule, const std::int32_t* scores, int numQueries);

/// out[p] = the least score by the leads that a candidate at place p of a period can have. out: (boostPeriod)
void fillBoostedLimits(Path path, std::int32_t limit, float unit, float mostLack, std::int32_t* out);

/// Adds to n scores by the leads, of any tokens, the boosts of the first period again and again: numbers spread as
/// evenly as can be, so that a limit for all tokens can be told from a few.
void addBoosts(Path path, float unit, std::int32_t* scores, std::int64_t n);

/// What is known of n tokens.
struct PriorityTokens {
    SharedScores shared;
    std::int64_t n = 0;
    const std::int32_t* tokens = nullptr; ///< (n) ascending; null: first, first + 1, ...
    std::int32_t first = 0;
    const float* lacks = nullptr; ///< (n): of candidates; null: none
    float floor = 0.0f;           ///< keys below count as this
};

struct PriorityScratch {
    std::vector<float> keys, boosted;
    SelectScratch select;
};

/// Takes `k` of the tokens: their indices, ascending, and lifts. All of them, with no lift but their lack, where k >=
/// n. Of equal sums the lower index wins.
void selectByPriority(Path path, const PriorityTokens& of, std::int64_t k, PriorityScratch& scratch,
                      std::vector<std::int32_t>& picks, std::vector<float>& lifts);

/// out[i] = a[i] + b[i].
void addLifts(Path path, const float* scores, const float* lifts, std::int64_t n, float* out);

} // namespace octavo::kernels::cpu
