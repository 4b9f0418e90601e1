#pragma once

/// Which rows of the host tier a buffer near the compute would hold, replaced by windowed CLOCK.
///
/// Every row knows the step that used it last. The hand passes over rows used within the last `window` steps and
/// evicts the first older one; a hand that comes full circle halves the window, a step that evicts with little search
/// lets it grow. So the window follows what the buffer can hold, and a hit costs one store. A row of the current step
/// is never evicted: when all are, a row finds no place and is counted as read from the tier each time.
///
/// Rows     are read where the tier has them, which is the same memory for a processor: what is kept here is the policy
///          and the count of what would have crossed a link. GPUs have a buffer with rows in it
///          (kernels/cuda/hot_buffer.h).
/// Lanes    one per list of picks: a sequence's layer, or one KV head of it. A lane has 4 bytes per token.
/// Thread   one owner.

#include "engine/result.h"

#include <cstdint>
#include <span>
#include <vector>

namespace octavo::engine {

struct HotCounters {
    std::int64_t hits = 0, misses = 0, evictions = 0;
    std::int64_t bytesRead = 0; ///< from the host tier

    HotCounters& operator+=(const HotCounters& other);
};

class HotBuffer
{
public:
    enum class LaneId : std::int32_t {};

    /// A buffer of the rows of `rowBytes` that fit in `budgetBytes`. Fails with InvalidArgument where none does.
    static Result<HotBuffer> create(std::size_t rowBytes, std::int64_t budgetBytes);

    std::int64_t capacity() const { return std::int64_t(m_slots.size()); }

    LaneId addLane(std::int64_t maxTokens);
    void removeLane(LaneId lane);
    /// Forgets the rows of tokens from `length` on, which are about to be written anew.
    void truncate(LaneId lane, std::int64_t length);

    void beginStep();

    /// Takes in that the rows of `tokens` (ascending, none twice) are read. Returns how many of them the lane's step
    /// before had read too, as far as they are still held, or this step already.
    std::int64_t read(LaneId lane, std::span<const std::int32_t> tokens);

    bool holds(LaneId lane, std::int32_t token) const
    {
        return m_lanes[std::size_t(lane)].lastStep[std::size_t(token)] != 0;
    }
    const HotCounters& counters(LaneId lane) const { return m_lanes[std::size_t(lane)].counters; }
    const HotCounters& stepCounters(LaneId lane) const { return m_lanes[std::size_t(lane)].step; }
    const HotCounters& total() const { return m_total; }
    std::int64_t rowsInUse() const { return m_used; }

private:
    struct Slot {
        std::int32_t lane = -1; // -1: free
        std::int32_t token = 0;
    };
    struct Lane {
        std::vector<std::uint32_t> lastStep; // by token, 0: not here
        HotCounters counters, step;
        std::uint32_t stepNumber = 0; // that `step` counts
        std::int64_t endToken = 0;    // one past the largest token ever here
        bool inUse = false;
    };

    HotBuffer() = default;
    /// A slot to put a row in, or -1.
    std::int32_t findSlot();

    std::size_t m_rowBytes = 0;
    std::vector<Slot> m_slots;
    std::vector<Lane> m_lanes;
    std::vector<std::int32_t> m_missing; // of the read() at hand, kept so that it allocates nothing
    std::int64_t m_used = 0, m_hand = 0;
    std::uint32_t m_step = 1, m_window = 8;
    std::int64_t m_probes = 0, m_victims = 0; // of this step
    HotCounters m_total;
};

} // namespace octavo::engine
