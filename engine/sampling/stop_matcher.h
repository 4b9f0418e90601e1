#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace octavo::engine {

/// Finds stop strings in streamed text. Text that may be the beginning of a stop string is held back, so that a
/// reader never sees part of one. Thread: one owner.
class StopMatcher
{
public:
    explicit StopMatcher(std::vector<std::string> stopStrings = {});

    struct Output {
        std::string text;     ///< safe to show
        bool stopped = false; ///< a stop string was met; it and all after it is dropped
    };

    Output append(std::string_view text);
    /// Releases what is held back at the end of the stream.
    std::string finish();

private:
    std::vector<std::string> m_stops;
    std::string m_held;
    bool m_stopped = false;
};

} // namespace octavo::engine
