#pragma once

/// Ids that the whole engine shares. Each is a type of its own, so that one can't be passed for another.

#include <cstdint>

namespace octavo::engine {

/// Index into the model's vocabulary; negative is never valid.
using TokenId = std::int32_t;

/// A live or frozen sequence inside one backend.
enum class SlotId : std::int32_t {};
inline constexpr SlotId noSlot = SlotId{-1};

/// One generation request; unique for the life of an Engine.
enum class RequestId : std::uint64_t {};

/// The pane (or script) a request belongs to. Requests of one agent run one after another.
enum class AgentId : std::uint32_t {};

} // namespace octavo::engine
