#include "kernels/cpu/sparse_priority.h"

#include "kernels/cpu/sparse_boost.h"

#include <algorithm>
#include <limits>

namespace octavo::kernels::cpu {

namespace {

// What every score reaches.
constexpr std::int32_t always = std::numeric_limits<std::int32_t>::min();
constexpr float lowest = -std::numeric_limits<float>::infinity();

// Added to sums of keys and boosts, which are between -60 and 60 where they matter: numbers of the same few exponents
// are spread evenly over selectLargest()'s bins.
constexpr float shift = 96.0f;

// Of a period's places, by which every row of queries asks: boostBound(), and boostOf() of the first period.
struct PeriodBoosts {
    float bounds[boostPeriod], boosts[boostPeriod];

    PeriodBoosts()
    {
        for (std::int32_t p = 0; p < boostPeriod; ++p) {
            bounds[p] = boostBound(p);
            boosts[p] = boostOf(p);
        }
    }
};

const PeriodBoosts& periodBoosts()
{
    static const PeriodBoosts period;
    return period;
}

// Loops that every path compiles for itself: of the same operations in the same order, so of the same bits.

[[gnu::always_inline]] inline void fillGeneric(std::int32_t limit, float unit, float mostLack, std::int32_t* out)
{
    const float inverse = 1.0f / unit;
    const float* bounds = periodBoosts().bounds;
    for (std::int32_t p = 0; p < boostPeriod; ++p) {
        const std::int32_t least = limit - std::int32_t(bounds[p] * inverse) - 1;
        out[p] = bounds[p] >= mostLack ? always : least;
    }
}

[[gnu::always_inline]] inline void addBoostsGeneric(float unit, std::int32_t* scores, std::int64_t n)
{
    const float inverse = 1.0f / unit;
    const float* boosts = periodBoosts().boosts;
    for (; n > 0; scores += boostPeriod, n -= boostPeriod) {
        for (std::int64_t i = 0; i < (n < boostPeriod ? n : boostPeriod); ++i)
            scores[i] += std::int32_t(boosts[i] * inverse);
    }
}

[[gnu::always_inline]] inline void keysGeneric(const PriorityTokens& of, float* keys, float* boosted)
{
    const std::int64_t n = of.n;
    const float floor = of.floor;
    for (std::int64_t i = 0; i < n; ++i)
        keys[i] = floor;
    for (int h = 0; h < of.shared.numHeads; ++h) {
        const float* scores = of.shared.scores[h];
        const float logSum = of.shared.logSums[h];
        for (std::int64_t i = 0; i < n; ++i) {
            const float share = scores[i] - logSum;
            keys[i] = share > keys[i] ? share : keys[i]; // a NaN is none
        }
    }
    if (of.tokens) {
        for (std::int64_t i = 0; i < n; ++i)
            boosted[i] = keys[i] + boostOf(of.tokens[i]) + shift;
    } else {
        for (std::int64_t i = 0; i < n; ++i)
            boosted[i] = keys[i] + boostOf(of.first + std::int32_t(i)) + shift;
    }
}

[[gnu::always_inline]] inline void addLiftsGeneric(const float* scores, const float* lifts, std::int64_t n, float* out)
{
    for (std::int64_t i = 0; i < n; ++i)
        out[i] = scores[i] + lifts[i];
}

#if defined(__x86_64__)
#define OCTAVO_FOR_AVX2 __attribute__((target("avx2"), optimize("O3")))
#define OCTAVO_FOR_AVX512                                                                                              \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"), optimize("O3")))

OCTAVO_FOR_AVX2 void fillAvx2(std::int32_t limit, float unit, float mostLack, std::int32_t* out)
{
    fillGeneric(limit, unit, mostLack, out);
}
OCTAVO_FOR_AVX512 void fillAvx512(std::int32_t limit, float unit, float mostLack, std::int32_t* out)
{
    fillGeneric(limit, unit, mostLack, out);
}
OCTAVO_FOR_AVX2 void addBoostsAvx2(float unit, std::int32_t* scores, std::int64_t n)
{
    addBoostsGeneric(unit, scores, n);
}
OCTAVO_FOR_AVX512 void addBoostsAvx512(float unit, std::int32_t* scores, std::int64_t n)
{
    addBoostsGeneric(unit, scores, n);
}
OCTAVO_FOR_AVX2 void keysAvx2(const PriorityTokens& of, float* keys, float* boosted)
{
    keysGeneric(of, keys, boosted);
}
OCTAVO_FOR_AVX512 void keysAvx512(const PriorityTokens& of, float* keys, float* boosted)
{
    keysGeneric(of, keys, boosted);
}
OCTAVO_FOR_AVX2 void addLiftsAvx2(const float* scores, const float* lifts, std::int64_t n, float* out)
{
    addLiftsGeneric(scores, lifts, n, out);
}
OCTAVO_FOR_AVX512 void addLiftsAvx512(const float* scores, const float* lifts, std::int64_t n, float* out)
{
    addLiftsGeneric(scores, lifts, n, out);
}
#endif

void fillKeys(Path path, const PriorityTokens& of, float* keys, float* boosted)
{
    switch (path) {
#if defined(__x86_64__)
    case Path::Avx512: return keysAvx512(of, keys, boosted);
    case Path::Avx2: return keysAvx2(of, keys, boosted);
#endif
    default: return keysGeneric(of, keys, boosted);
    }
}

} // namespace

float lackOf(const LeadRule& rule, const std::int32_t* scores, int numQueries)
{
    float lack = rule.mostLack;
    for (int q = 0; q < numQueries; ++q)
        lack = std::min(lack, float(rule.limits[q] - scores[q]) * rule.units[q]);
    return std::max(lack, 0.0f);
}

void fillBoostedLimits(Path path, std::int32_t limit, float unit, float mostLack, std::int32_t* out)
{
    switch (path) {
#if defined(__x86_64__)
    case Path::Avx512: return fillAvx512(limit, unit, mostLack, out);
    case Path::Avx2: return fillAvx2(limit, unit, mostLack, out);
#endif
    default: return fillGeneric(limit, unit, mostLack, out);
    }
}

void addBoosts(Path path, float unit, std::int32_t* scores, std::int64_t n)
{
    switch (path) {
#if defined(__x86_64__)
    case Path::Avx512: return addBoostsAvx512(unit, scores, n);
    case Path::Avx2: return addBoostsAvx2(unit, scores, n);
#endif
    default: return addBoostsGeneric(unit, scores, n);
    }
}

void addLifts(Path path, const float* scores, const float* lifts, std::int64_t n, float* out)
{
    switch (path) {
#if defined(__x86_64__)
    case Path::Avx512: return addLiftsAvx512(scores, lifts, n, out);
    case Path::Avx2: return addLiftsAvx2(scores, lifts, n, out);
#endif
    default: return addLiftsGeneric(scores, lifts, n, out);
    }
}

void selectByPriority(Path path, const PriorityTokens& of, std::int64_t k, PriorityScratch& scratch,
                      std::vector<std::int32_t>& picks, std::vector<float>& lifts)
{
    if (std::int64_t(scratch.keys.size()) < of.n) {
        scratch.keys.resize(std::size_t(of.n));
        scratch.boosted.resize(std::size_t(of.n));
    }
    fillKeys(path, of, scratch.keys.data(), scratch.boosted.data());
    const float* boosted = scratch.boosted.data();
    const float none = 0.0f;
    float unused = 0.0f;
    selectLargest(path, {&boosted, &none, 1}, of.n, k + 1, scratch.select, picks, &unused);
    float tau = lowest;
    if (std::int64_t(picks.size()) > k) {
        // The one too many: the least, of several the last.
        auto least = picks.begin();
        for (auto pick = picks.begin(); pick != picks.end(); ++pick)
            least = boosted[*pick] <= boosted[*least] ? pick : least;
        tau = boosted[*least] - shift;
        picks.erase(least);
    }
    lifts.resize(picks.size());
    for (std::size_t i = 0; i < picks.size(); ++i) {
        const float lift = std::max(0.0f, tau - scratch.keys[std::size_t(picks[i])]);
        lifts[i] = of.lacks ? std::max(lift, of.lacks[picks[i]]) : lift;
    }
}

} // namespace octavo::kernels::cpu
