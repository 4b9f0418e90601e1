#include "engine/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace octavo::engine {

namespace {

// splitmix64 (Steele, Lea, Flood 2014): integer arithmetic only, so the same everywhere.
std::uint64_t nextRandom(std::uint64_t& state)
{
    state += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

constexpr std::size_t expBlock = 8;

// exp(x) for x <= 0 out of additions and multiplications alone: libm's last bit differs between machines, and one bit
// can decide a draw. Relative error below 1e-15. A block at a time, since the terms of one value wait for each other.
void portableExp(double* values)
{
    constexpr double inverseLn2 = 1.4426950408889634, ln2High = 0.693147180369123816490,
                     ln2Low = 1.90821492927058770002e-10;
    double power[expBlock], rest[expBlock], sum[expBlock];
    for (std::size_t i = 0; i < expBlock; ++i) {
        const double x = std::max(values[i], -700.0);
        const auto k = std::int64_t(x * inverseLn2 - 0.5); // rounded: x is not positive
        power[i] = std::bit_cast<double>(std::uint64_t(k + 1023) << 52);
        rest[i] = (x - double(k) * ln2High) - double(k) * ln2Low; // |rest| <= ln2 / 2
        sum[i] = 1.0;
    }
    for (int n = 15; n >= 1; --n) {
        const double inverse = 1.0 / n;
        for (std::size_t i = 0; i < expBlock; ++i)
            sum[i] = 1.0 + sum[i] * rest[i] * inverse;
    }
    for (std::size_t i = 0; i < expBlock; ++i)
        values[i] = values[i] < -700.0 ? 0.0 : sum[i] * power[i];
}

// A total order over finite logits: larger first, then the lower id.
bool comesFirst(const std::pair<float, TokenId>& a, const std::pair<float, TokenId>& b)
{
    return a.first != b.first ? a.first > b.first : a.second < b.second;
}

bool comesLast(const std::pair<float, TokenId>& a, const std::pair<float, TokenId>& b)
{
    return comesFirst(b, a);
}

/// Rank of what is never drawn.
constexpr std::int32_t never = std::numeric_limits<std::int32_t>::min();

/// Integers in the order of the floats, both zeros alike.
std::int32_t rank(float logit)
{
    const auto bits = std::bit_cast<std::int32_t>(logit + 0.0f);
    return (bits & 0x7f800000) == 0x7f800000 ? never : bits ^ ((bits >> 31) & 0x7fffffff);
}

std::size_t drawable(std::span<const float> logits, TokenId endId)
{
    return std::min(logits.size(), std::size_t(std::max<TokenId>(endId, 0)));
}

} // namespace

Sampler::Sampler(const SamplingParams& params) : m_params(params), m_state(params.seed) {}

std::optional<TokenId> Sampler::argmax(std::span<const float> logits, TokenId endId)
{
    // Block by block, since a maximum alone is found several lanes at a time; its place is looked for once.
    constexpr std::size_t blockSize = 256;
    const std::size_t count = drawable(logits, endId);
    std::int32_t best = never;
    std::size_t bestBegin = 0;
    for (std::size_t begin = 0; begin < count; begin += blockSize) {
        const float* block = logits.data() + begin;
        std::int32_t highest = never;
        if (count - begin >= blockSize) {
            for (std::size_t i = 0; i < blockSize; ++i)
                highest = std::max(highest, rank(block[i]));
        } else {
            for (std::size_t i = 0; i < count - begin; ++i)
                highest = std::max(highest, rank(block[i]));
        }
        if (highest > best) {
            best = highest;
            bestBegin = begin;
        }
    }
    if (best == never)
        return std::nullopt;
    std::size_t i = bestBegin;
    while (rank(logits[i]) != best)
        ++i;
    return TokenId(i);
}

std::optional<TokenId> Sampler::sample(std::span<const float> logits, TokenId endId)
{
    const std::optional<TokenId> best = argmax(logits, endId);
    if (m_params.greedy() || !best)
        return best;

    const double inverseTemperature = 1.0 / double(m_params.temperature);
    const double maximum = double(logits[std::size_t(*best)]);
    static thread_local std::vector<double> weights; // reused, so that a step allocates nothing
    const auto weigh = [&] { // of the candidates, in their order; gives their sum
        const std::size_t count = m_candidates.size();
        weights.assign((count + expBlock - 1) / expBlock * expBlock, -1e9);
        for (std::size_t i = 0; i < count; ++i)
            weights[i] = (double(m_candidates[i].first) - maximum) * inverseTemperature;
        for (std::size_t i = 0; i < count; i += expBlock)
            portableExp(weights.data() + i);
        double sum = 0.0;
        for (std::size_t i = 0; i < count; ++i)
            sum += weights[i];
        return sum;
    };
    const auto weight = [&](float logit) {
        double block[expBlock] = {(double(logit) - maximum) * inverseTemperature};
        portableExp(block);
        return block[0];
    };

    m_candidates.clear();
    for (std::size_t i = 0; i < drawable(logits, endId); ++i) {
        if (std::isfinite(logits[i]))
            m_candidates.emplace_back(logits[i], TokenId(i));
    }
    if (m_params.topK > 0 && std::size_t(m_params.topK) < m_candidates.size()) {
        const auto end = m_candidates.begin() + m_params.topK;
        std::nth_element(m_candidates.begin(), end, m_candidates.end(), comesFirst);
        m_candidates.erase(end, m_candidates.end());
        std::sort(m_candidates.begin(), m_candidates.end(), comesFirst);
    }
    double total = weigh();

    if (m_params.topP < 1.0f) {
        // The fewest tokens that reach topP of the mass, one at least: taken off a heap, since they are few.
        const double wanted = double(std::max(m_params.topP, 0.0f)) * total;
        double kept = 0.0;
        std::make_heap(m_candidates.begin(), m_candidates.end(), comesLast);
        auto heapEnd = m_candidates.end();
        do {
            std::pop_heap(m_candidates.begin(), heapEnd, comesLast);
            --heapEnd;
            kept += weight(heapEnd->first);
        } while (kept < wanted && heapEnd != m_candidates.begin());
        m_candidates.erase(m_candidates.begin(), heapEnd);
    }
    if (m_params.minP > 0.0f) {
        const double least = std::min(double(m_params.minP), 1.0);
        std::erase_if(m_candidates, [&](const auto& candidate) { return weight(candidate.first) < least; });
    }
    if (m_params.topP < 1.0f || m_params.minP > 0.0f)
        total = weigh();

    const double drawn = double(nextRandom(m_state) >> 11) * 0x1p-53 * total;
    double reached = 0.0;
    TokenId last = *best;
    for (std::size_t i = 0; i < m_candidates.size(); ++i) {
        reached += weights[i];
        if (weights[i] > 0.0)
            last = m_candidates[i].second;
        if (drawn < reached)
            break;
    }
    return last;
}

} // namespace octavo::engine
