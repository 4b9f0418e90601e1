#pragma once

#include <cstdint>
#include <string>

namespace octavo::engine {

/// "1 token", "2 tokens": for sentences in which the number may be one.
inline std::string counted(std::int64_t number, const std::string& noun)
{
    return std::to_string(number) + ' ' + noun + (number == 1 ? "" : "s");
}

} // namespace octavo::engine
