#pragma once

/// Words that the CPU backend's errors have in common.

#include "engine/types.h"

#include <cstdint>
#include <string>

namespace octavo::engine
{

/// "12 MiB", rounded up.
inline std::string mib(std::int64_t bytes)
{
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

/// "Sequence 3"
inline std::string name(SlotId slot)
{
    return "Sequence " + std::to_string(std::int32_t(slot));
}

} // namespace octavo::engine
