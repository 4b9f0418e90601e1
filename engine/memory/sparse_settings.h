#pragma once

#include "engine/result.h"

#include <algorithm>
#include <cstdint>

namespace octavo::engine {

/// Which rows sparse attention reads.
enum class PickRule {
    Largest,  ///< those with the largest keys; the rest is left out
    Priority, ///< a sample by keys, whose rows stand for the rest (sparse_attention.h)
};

/// How many rows sparse attention reads and how much it keeps at hand.
struct SparseSettings {
    int topK = 2048;
    /// On a GPU, instead of topK where picks come from longRange tokens or more, if it is larger; 0: never. Nats on
    /// text at 32,768 tokens with 2,048 picks 0.0006, at 245,000 with 2,048 0.0021, with 3,584 0.0011. A round of
    /// drafts and their verify takes 3.6 / 3.4 / 8% longer for 1 / 4 / 8 agents with 3,072; 3,584 was not timed
    /// (tests/bench/RESULTS.md).
    int longTopK = 3584;
    std::int64_t longRange = 131072;
    /// On a CPU at most so many instead of topK; 0: topK. It keeps a list for each KV head, whose picks are nearer to
    /// dense than as many for all heads. Nats on text from dense over the same rows at 32,768 tokens with 2,048 / 1,536
    /// / 1,024 picks 0.0001 / 0.0002 / 0.0004, at 65,536 with 1,024 0.0009 (tests/bench/RESULTS.md).
    int cpuTopK = 1536;
    int sinks = 64;                    ///< first tokens always attended; the backend may take more
    int recent = 1024;                 ///< last tokens always attended; the backend may take more
    bool perHead = true;               ///< one list per KV head; else one per layer
    std::int64_t hotBufferBytes = std::int64_t{64} << 20;
    /// Tokens whose whole sketch is looked at, as a multiple of the picks and for each query head; its first
    /// coordinates, of all tokens, say which. 0, or where the largest are picked: all tokens.
    double lookAt = 2.0;
    /// By priority, nats of text from dense attention over the same rows: on the CPU at 32,768 tokens 0.0001 (the
    /// largest and an even sample of 512: 0.0002); on a GPU, which keeps one list for all heads, at 32,768 / 245,000
    /// tokens 0.0006 / 0.0021 (the largest: 0.0026 / 0.0262; tests/bench/RESULTS.md).
    PickRule pickRule = PickRule::Priority;
    /// Of a priority sample about this share goes to all tokens alike, whatever the sketch thinks of them: so none that
    /// it thinks too little of stands for very many. Between 0.05 and 0.2 errors are alike, 0 and 0.5 are worse.
    double priorityFloor = 0.1;
    bool adaptive = false;             ///< raise K where the tail estimate is large
    /// A row whose picks leave a head more than this share of what it could pick from gets twice as many, up to 4 *
    /// topK. The sketch's scores of that row decide, so drafts that are rejected change nothing.
    double adaptiveTail = 0.25;
    /// SparseMode::Auto decodes densely below this many tokens. Measured on the demo model, 2 cores, ms per step dense
    /// / sparse: 2.25 / 2.35 at 16,384, 4.84 / 2.83 at 49,152 (tests/bench/RESULTS.md).
    std::int64_t threshold = 32768;

    /// So that topK rows are picked everywhere.
    void onlyTopK() { longTopK = cpuTopK = 0; }

    /// Rows that a GPU picks from so many tokens, unless there are fewer.
    int topKOf(std::int64_t tokens) const { return tokens < longRange ? topK : std::max(topK, longTopK); }
    /// The same on a CPU.
    int topKOnCpu() const { return cpuTopK > 0 ? std::min(topK, cpuTopK) : topK; }

    /// Fails with InvalidArgument, naming the setting, what was found and what is possible.
    Result<void> check() const;
};

} // namespace octavo::engine
