#pragma once

#include "engine/result.h"

#include <cstdint>

namespace octavo::engine {

/// How many rows sparse attention reads and how much it keeps at hand.
struct SparseSettings {
    int topK = 2048;
    int sinks = 64;                    ///< first tokens always attended; the backend may take more
    int recent = 1024;                 ///< last tokens always attended; the backend may take more
    bool perHead = true;               ///< one list per KV head; else one per layer
    std::int64_t hotBufferBytes = std::int64_t{64} << 20;
    /// Tokens whose whole sketch is looked at, as a multiple of the picks and for each query head; its first coordinates,
    /// of all tokens, say which. 0: all tokens.
    double lookAt = 2.0;
    bool adaptive = false;             ///< raise K where the tail estimate is large
    /// A row whose picks leave a head more than this share of what it could pick from gets twice as many, up to 4 * topK.
    /// The sketch's scores of that row decide, so drafts that are rejected change nothing.
    double adaptiveTail = 0.25;
    /// SparseMode::Auto decodes densely below this many tokens. Measured on the demo model, 2 cores, ms per step dense /
    /// sparse: 2.25 / 2.35 at 16,384, 4.84 / 2.83 at 49,152 (tests/bench/RESULTS.md).
    std::int64_t threshold = 32768;

    /// Fails with InvalidArgument, naming the setting, what was found and what is possible.
    Result<void> check() const;
};

} // namespace octavo::engine
