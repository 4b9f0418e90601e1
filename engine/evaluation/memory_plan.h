#pragma once

/// What a model and its agents take in device memory and in RAM, before anything is loaded.
///
/// Sizes    per token and KV head: int4 row 272 B in the host tier, rank-64 sketch 34 B on a GPU (32 B on the CPU),
///          int8 row 528 B near the compute of a CPU (head_dim 256). Per sequence: recurrent state in float32. The hot
///          buffer takes whatever is left; on a GPU a gibibyte stays free.
/// Source   design, "Memory tiers"; the row formats of kernels/cpu/sparse_rows.h and sparse_sketch.h; for a GPU what
///          CudaBackend allocates, which tests/gpu holds this to.

#include "engine/model/model_config.h"

#include <cstdint>

namespace octavo::engine
{

struct MemoryPlanRequest {
    ModelConfig config;
    std::int64_t weightBytes = 0;
    bool mtp = false;       ///< the MTP layer keeps rows of its own
    bool floatHead = false; ///< drafts of a GPU may then take a copy of it in int4
    int agents = 8;
    std::int64_t contextTokens = 250'000;
    std::int64_t deviceBytes = 0; ///< of the GPU; 0: the CPU backend, everything lies in RAM
    std::int64_t deviceTotalBytes = 0; ///< where deviceBytes are those that are free; 0: they are all
    std::int64_t ramBytes = 0;    ///< what this process may have
};

/// Bytes of one place. `needed()` must fit; what is left of a device becomes hot buffer.
struct DevicePlan {
    std::int64_t total = 0;
    std::int64_t weights = 0;
    std::int64_t sketch = 0;      ///< of all agents
    std::int64_t recent = 0;      ///< sinks and newest rows; int8, on a GPU int4
    std::int64_t state = 0;       ///< live recurrent and convolution states and what drafts need beside them
    std::int64_t checkpoints = 0; ///< on a GPU: frozen states, as RamPlan::checkpoints
    std::int64_t workSpace = 0;   ///< activations of a prefill slice, logits
    std::int64_t reading = 0;     ///< on a GPU: of slices of a prompt, beside workSpace
    std::int64_t hotBuffer = 0;   ///< what is left; 0 where nothing is
    double hotShare = 0.0;        ///< of all rows, those that fit into the hot buffer, at most 1

    std::int64_t needed() const { return weights + sketch + recent + state + checkpoints + workSpace + reading; }
    bool fits() const { return needed() <= total; }
};

struct RamPlan {
    std::int64_t total = 0;
    std::int64_t hostTier = 0; ///< all rows of all agents, as if none shared a context
    /// Frozen states: where each agent's context and its last turn end; more are dropped first. 0 with a GPU.
    std::int64_t checkpoints = 0;
    std::int64_t device = 0; ///< DevicePlan::needed() on the CPU backend, else 0

    std::int64_t needed() const { return hostTier + checkpoints + device; }
    bool fits() const { return needed() <= total; }
};

struct MemoryPlan {
    std::int64_t hostBytesPerToken = 0;
    std::int64_t stateBytesPerSequence = 0;
    DevicePlan device;
    RamPlan ram;
    std::int64_t longestContext = 0; ///< tokens per agent that would fit with as many agents; 0: not even an empty one

    bool fits() const { return device.fits() && ram.fits(); }
};

MemoryPlan planMemory(const MemoryPlanRequest& request);

} // namespace octavo::engine
