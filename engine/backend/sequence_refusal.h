#pragma once

#include "engine/counted.h"
#include "engine/result.h"

namespace octavo::engine {

/// Why a backend has no sequence of `maxTokens`: its model allows `most`, and where it is a fork, what it begins with
/// holds `held`.
inline Error sequenceRefusal(std::int64_t maxTokens, std::int64_t held, std::int64_t most)
{
    const std::string why = maxTokens > most ? "the model allows " + std::to_string(most)
                            : held > 0       ? "what it begins with holds " + std::to_string(held)
                                             : "at least 1 is needed";
    return {ErrorCode::InvalidArgument, "A sequence of " + counted(maxTokens, "token") + " was asked for, " + why};
}

} // namespace octavo::engine
