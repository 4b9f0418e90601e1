#include "engine/memory/hot_buffer.h"

#include <algorithm>
#include <cassert>

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

Result<HotBuffer> HotBuffer::create(std::size_t rowBytes, std::int64_t budgetBytes)
{
    HotBuffer buffer;
    const std::int64_t rows = std::min<std::int64_t>(budgetBytes / std::int64_t(rowBytes), INT32_MAX);
    if (rows < 1)
        return Error{ErrorCode::InvalidArgument, "a hot buffer of " + std::to_string(budgetBytes) +
                                                     " bytes holds no row; at least " + std::to_string(rowBytes) +
                                                     " are needed"};
    buffer.m_rowBytes = rowBytes;
    buffer.m_slots.resize(std::size_t(rows));
    return buffer;
}

HotBuffer::LaneId HotBuffer::addLane(std::int64_t maxTokens)
{
    auto lane = std::find_if(m_lanes.begin(), m_lanes.end(), [](const Lane& some) { return !some.inUse; });
    if (lane == m_lanes.end())
        lane = m_lanes.emplace(m_lanes.end());
    *lane = Lane();
    lane->inUse = true;
    lane->lastStep.assign(std::size_t(maxTokens), 0);
    return LaneId(lane - m_lanes.begin());
}

void HotBuffer::removeLane(LaneId lane)
{
    for (Slot& slot : m_slots) {
        if (slot.lane == std::int32_t(lane)) {
            slot.lane = -1;
            --m_used;
        }
    }
    m_lanes[std::size_t(lane)] = Lane();
}

void HotBuffer::truncate(LaneId lane, std::int64_t length)
{
    Lane& state = m_lanes[std::size_t(lane)];
    if (length >= state.endToken)
        return;
    for (Slot& slot : m_slots) {
        if (slot.lane == std::int32_t(lane) && slot.token >= length) {
            slot.lane = -1;
            --m_used;
        }
    }
    std::fill(state.lastStep.begin() + length, state.lastStep.begin() + state.endToken, 0);
    state.endToken = length;
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
    constexpr std::int64_t ahead = 4; // rows' steps lie anywhere
    std::int64_t sinceTurn = 0;
    for (;;) {
        const auto index = std::int32_t(m_hand);
        m_hand = m_hand + 1 < capacity() ? m_hand + 1 : 0;
        ++m_probes;
        if (const Slot& soon = m_slots[std::size_t(std::min(m_hand + ahead, capacity() - 1))]; soon.lane >= 0)
            __builtin_prefetch(&m_lanes[std::size_t(soon.lane)].lastStep[std::size_t(soon.token)]);
        const Slot& slot = m_slots[std::size_t(index)];
        if (slot.lane < 0)
            return index;
        const std::uint32_t age = m_step - m_lanes[std::size_t(slot.lane)].lastStep[std::size_t(slot.token)];
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

std::int64_t HotBuffer::read(LaneId laneId, std::span<const std::int32_t> tokens)
{
    Lane& lane = m_lanes[std::size_t(laneId)];
    std::uint32_t* const lastStep = lane.lastStep.data();
    const std::uint32_t before = lane.stepNumber;
    HotCounters counted;
    m_missing.resize(std::max(m_missing.size(), tokens.size()));
    // Hits first, so that room for a miss never takes a row which this very list needs.
    constexpr std::size_t ahead = 24;
    std::int64_t repeated = 0;
    std::size_t missing = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (i + ahead < tokens.size())
            __builtin_prefetch(&lastStep[tokens[i + ahead]], 1);
        std::uint32_t& last = lastStep[tokens[i]];
        const bool held = last != 0;
        repeated += held && (last == before || last == m_step);
        m_missing[missing] = tokens[i];
        missing += held ? 0 : 1;
        last = held ? m_step : 0;
    }
    counted.misses = std::int64_t(missing);
    counted.hits = std::int64_t(tokens.size()) - counted.misses;
    for (std::size_t i = 0; i < missing; ++i) {
        const std::int32_t index = findSlot();
        if (index < 0)
            break;
        Slot& slot = m_slots[std::size_t(index)];
        if (slot.lane >= 0) {
            m_lanes[std::size_t(slot.lane)].lastStep[std::size_t(slot.token)] = 0;
            ++counted.evictions;
        } else {
            ++m_used;
        }
        slot = {std::int32_t(laneId), m_missing[i]};
        lastStep[m_missing[i]] = m_step;
        lane.endToken = std::max(lane.endToken, std::int64_t(m_missing[i]) + 1);
    }
    counted.bytesRead = counted.misses * std::int64_t(m_rowBytes);
    if (lane.stepNumber != m_step) {
        lane.step = HotCounters();
        lane.stepNumber = m_step;
    }
    lane.step += counted;
    lane.counters += counted;
    m_total += counted;
    return repeated;
}

} // namespace octavo::engine
