#include "engine/memory/hot_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace octavo::engine {

namespace {
constexpr std::uint32_t maxWindow = 4096;
}

HotCounters& HotCounters::operator+=(const HotCounters& other)
{
    hits += other.hits;
    misses += other.misses;
    evictions += other.evictions;
    bytesRead += other.bytesRead;
    return *this;
}

Result<HotBuffer> HotBuffer::create(std::size_t rowBytes, std::size_t tierRowBytes, std::int64_t budgetBytes)
{
    HotBuffer buffer;
    const std::int64_t rows = std::min<std::int64_t>(budgetBytes / std::int64_t(rowBytes + sizeof(Slot)), INT32_MAX);
    if (rows < 1)
        return Error{ErrorCode::InvalidArgument, "a hot buffer of " + std::to_string(budgetBytes) +
                                                     " bytes holds no row; at least " +
                                                     std::to_string(rowBytes + sizeof(Slot)) + " are needed"};
    void* arena = mmap(nullptr, std::size_t(rows) * rowBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED)
        return Error{ErrorCode::OutOfMemory,
                     "no memory for a hot buffer of " + std::to_string(budgetBytes >> 20) + " MiB; give it less"};
    madvise(arena, std::size_t(rows) * rowBytes, MADV_HUGEPAGE);
    buffer.m_rowBytes = rowBytes;
    buffer.m_tierRowBytes = tierRowBytes;
    buffer.m_arena = static_cast<std::uint8_t*>(arena);
    buffer.m_slots.resize(std::size_t(rows));
    return buffer;
}

HotBuffer::HotBuffer(HotBuffer&& other) noexcept
{
    *this = std::move(other);
}

HotBuffer& HotBuffer::operator=(HotBuffer&& other) noexcept
{
    if (this == &other)
        return *this;
    release();
    m_rowBytes = other.m_rowBytes;
    m_tierRowBytes = other.m_tierRowBytes;
    m_arena = std::exchange(other.m_arena, nullptr);
    m_slots = std::exchange(other.m_slots, {});
    m_lanes = std::exchange(other.m_lanes, {});
    m_missing = std::exchange(other.m_missing, {});
    m_used = std::exchange(other.m_used, 0);
    m_hand = std::exchange(other.m_hand, 0);
    m_step = other.m_step;
    m_window = other.m_window;
    m_probes = other.m_probes;
    m_victims = other.m_victims;
    m_total = other.m_total;
    return *this;
}

HotBuffer::~HotBuffer()
{
    release();
}

void HotBuffer::release() noexcept
{
    if (m_arena)
        munmap(m_arena, m_slots.size() * m_rowBytes);
    m_arena = nullptr;
}

HotBuffer::LaneId HotBuffer::addLane(std::int64_t maxTokens)
{
    auto lane = std::find_if(m_lanes.begin(), m_lanes.end(), [](const Lane& some) { return !some.inUse; });
    if (lane == m_lanes.end())
        lane = m_lanes.emplace(m_lanes.end());
    *lane = Lane();
    lane->inUse = true;
    lane->slotOf.assign(std::size_t(maxTokens), -1);
    return LaneId(lane - m_lanes.begin());
}

void HotBuffer::removeLane(LaneId lane)
{
    truncate(lane, 0);
    m_lanes[std::size_t(lane)] = Lane();
}

void HotBuffer::truncate(LaneId lane, std::int64_t length)
{
    Lane& state = m_lanes[std::size_t(lane)];
    for (std::int64_t token = length; token < state.endToken; ++token) {
        if (const std::int32_t slot = state.slotOf[std::size_t(token)]; slot >= 0)
            freeSlot(slot);
    }
    state.endToken = std::min(state.endToken, length);
}

void HotBuffer::freeSlot(std::int32_t index)
{
    Slot& slot = m_slots[std::size_t(index)];
    m_lanes[std::size_t(slot.lane)].slotOf[std::size_t(slot.token)] = -1;
    slot.lane = -1;
    --m_used;
}

void HotBuffer::beginStep()
{
    if (m_victims > 0 && m_probes < 2 * m_victims)
        m_window = std::min(m_window + 1, maxWindow);
    m_probes = m_victims = 0;
    ++m_step;
}

std::int32_t HotBuffer::findSlot()
{
    std::int64_t sinceTurn = 0;
    for (;;) {
        const auto index = std::int32_t(m_hand);
        m_hand = m_hand + 1 < capacity() ? m_hand + 1 : 0;
        ++m_probes;
        const Slot& slot = m_slots[std::size_t(index)];
        if (slot.lane < 0)
            return index;
        const std::uint32_t age = m_step - slot.lastStep;
        if (age >= m_window && age > 0) {
            ++m_victims;
            return index;
        }
        if (++sinceTurn == capacity()) {
            if (m_window == 1)
                return -1;
            m_window /= 2;
            sinceTurn = 0;
        }
    }
}

void HotBuffer::acquire(LaneId laneId, std::span<const std::int32_t> tokens, std::span<Row> out)
{
    Lane& lane = m_lanes[std::size_t(laneId)];
    HotCounters counted;
    m_missing.clear();
    // Hits first, so that room for a miss never takes a row which this very list needs. Index and slots lie anywhere in
    // memory: what is looked at later is asked for now.
    constexpr std::size_t slotAhead = 12, indexAhead = 24;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i + indexAhead < tokens.size())
            __builtin_prefetch(&lane.slotOf[std::size_t(tokens[i + indexAhead])]);
        if (i + slotAhead < tokens.size()) {
            const std::int32_t ahead = lane.slotOf[std::size_t(tokens[i + slotAhead])];
            __builtin_prefetch(&m_slots[std::size_t(std::max(ahead, 0))], 1);
        }
        const std::int32_t slot = lane.slotOf[std::size_t(tokens[i])];
        if (slot < 0) {
            m_missing.push_back(std::int32_t(i));
            continue;
        }
        m_slots[std::size_t(slot)].lastStep = m_step;
        out[i] = {m_arena + std::size_t(slot) * m_rowBytes, false};
    }
    counted.misses = std::int64_t(m_missing.size());
    counted.hits = std::int64_t(tokens.size()) - counted.misses;
    bool full = false;
    for (const std::int32_t i : m_missing) {
        const std::int32_t token = tokens[std::size_t(i)];
        const std::int32_t slot = full ? -1 : findSlot();
        if (slot < 0) {
            full = true;
            out[std::size_t(i)] = {nullptr, true};
            continue;
        }
        if (m_slots[std::size_t(slot)].lane >= 0) {
            freeSlot(slot);
            ++counted.evictions;
        }
        m_slots[std::size_t(slot)] = {std::int32_t(laneId), token, m_step};
        lane.slotOf[std::size_t(token)] = slot;
        lane.endToken = std::max(lane.endToken, std::int64_t(token) + 1);
        ++m_used;
        out[std::size_t(i)] = {m_arena + std::size_t(slot) * m_rowBytes, true};
    }
    counted.bytesRead = counted.misses * std::int64_t(m_tierRowBytes);
    if (lane.stepNumber != m_step) {
        lane.step = HotCounters();
        lane.stepNumber = m_step;
    }
    lane.step += counted;
    lane.counters += counted;
    m_total += counted;
}

} // namespace octavo::engine
