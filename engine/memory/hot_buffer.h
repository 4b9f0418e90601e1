#pragma once

/// Rows kept near the compute: copies of host tier rows, replaced by windowed CLOCK.
///
/// Every slot knows the step that used it last. The hand passes over slots used within the last `window` steps and
/// evicts the first older one; a hand that comes full circle halves the window, a step that evicts with little search
/// lets it grow. So the window follows what the buffer can hold, and a hit costs one store. A row of the current step
/// is never evicted: when all are, acquire() gives no slot and the caller works on a row of its own.
///
/// Lanes    one per list of picks: a sequence's layer, or one KV head of it. A lane's index has 4 bytes per token.
/// Memory   the arena is taken at once, lazily backed; rows are copies, so dropping one loses nothing.
/// Thread   one owner. Rows that acquire() returned stay in place until the next beginStep().

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

    /// A buffer of the rows that fit in `budgetBytes` (with their 12 bytes of bookkeeping); `rowBytes` in the buffer,
    /// `tierRowBytes` as read from the host tier for a miss. Fails with OutOfMemory.
    static Result<HotBuffer> create(std::size_t rowBytes, std::size_t tierRowBytes, std::int64_t budgetBytes);

    HotBuffer(HotBuffer&& other) noexcept;
    HotBuffer& operator=(HotBuffer&& other) noexcept;
    ~HotBuffer();

    std::int64_t capacity() const { return std::int64_t(m_slots.size()); }
    std::int64_t arenaBytes() const { return capacity() * std::int64_t(m_rowBytes + sizeof(Slot)); }

    LaneId addLane(std::int64_t maxTokens);
    void removeLane(LaneId lane);
    /// Forgets the rows of tokens from `length` on, which are about to be written anew.
    void truncate(LaneId lane, std::int64_t length);

    void beginStep();

    /// One row of acquire(). `row` is null where no slot could be freed; `fill` says that it must be filled.
    struct Row {
        std::uint8_t* row = nullptr;
        bool fill = false;
    };
    /// Finds or makes room for the rows of `tokens` (ascending, none twice). out: (tokens).
    void acquire(LaneId lane, std::span<const std::int32_t> tokens, std::span<Row> out);

    const HotCounters& counters(LaneId lane) const { return m_lanes[std::size_t(lane)].counters; }
    const HotCounters& stepCounters(LaneId lane) const { return m_lanes[std::size_t(lane)].step; }
    const HotCounters& total() const { return m_total; }
    std::int64_t rowsInUse() const { return m_used; }

private:
    struct Slot {
        std::int32_t lane = -1; // -1: free
        std::int32_t token = 0;
        std::uint32_t lastStep = 0;
    };
    struct Lane {
        std::vector<std::int32_t> slotOf; // by token, -1: not here
        HotCounters counters, step;
        std::uint32_t stepNumber = 0; // that `step` counts
        std::int64_t endToken = 0;    // one past the largest token ever here
        bool inUse = false;
    };

    HotBuffer() = default;
    void release() noexcept;
    /// A slot to put a row in, or -1.
    std::int32_t findSlot();
    void freeSlot(std::int32_t slot);

    std::size_t m_rowBytes = 0, m_tierRowBytes = 0;
    std::uint8_t* m_arena = nullptr;
    std::vector<Slot> m_slots;
    std::vector<Lane> m_lanes;
    std::vector<std::int32_t> m_missing; // of the acquire() at hand, kept so that it allocates nothing
    std::int64_t m_used = 0, m_hand = 0;
    std::uint32_t m_step = 1, m_window = 8;
    std::int64_t m_probes = 0, m_victims = 0; // of this step
    HotCounters m_total;
};

} // namespace octavo::engine
