#pragma once

#include "engine/types.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace octavo::engine {

/// How a token is drawn from logits. temperature 0 is greedy (ties go to the lowest id) and ignores the rest.
struct SamplingParams {
    float temperature = 0.0f;
    int topK = 0;         ///< 0: off
    float topP = 1.0f;    ///< 1: off
    float minP = 0.0f;    ///< 0: off
    std::uint64_t seed = 0;

    bool greedy() const { return temperature <= 0.0f; }
};

/// Draws tokens for one request. Same seed and same logits give the same tokens on every machine.
/// Order: temperature, top-k, top-p, min-p. Non-finite logits are never drawn. Thread: one owner.
class Sampler
{
public:
    explicit Sampler(const SamplingParams& params);

    /// `logits`: (vocab), not modified; ids >= `endId` (padding rows of the vocabulary) are never drawn.
    /// Gives nothing when no finite logit is left, which is a fault of the model or device.
    std::optional<TokenId> sample(std::span<const float> logits, TokenId endId);

    static std::optional<TokenId> argmax(std::span<const float> logits, TokenId endId);

private:
    SamplingParams m_params;
    std::uint64_t m_state;
    std::vector<std::pair<float, TokenId>> m_candidates; // reused, so that a step allocates nothing
};

} // namespace octavo::engine
