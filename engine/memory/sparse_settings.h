#pragma once

#include <cstdint>

namespace octavo::engine {

/// How many rows sparse attention reads and how much it keeps at hand.
struct SparseSettings {
    int topK = 2048;
    int sinks = 64;                    ///< first tokens always attended; the backend may take more
    int recent = 1024;                 ///< last tokens always attended; the backend may take more
    bool perHead = true;               ///< one list per KV head; else one per layer
    std::int64_t hotBufferBytes = std::int64_t{64} << 20;
    bool adaptive = false;             ///< raise K where the tail estimate is large
    double adaptiveTail = 0.25;        ///< a layer above this share gets twice as many picks, up to 4 * topK
    std::int64_t threshold = 16384;    ///< SparseMode::Auto decodes densely below this many tokens
};

} // namespace octavo::engine
