#pragma once

/// Unicode normalization form C.

#include <string>
#include <string_view>

namespace octavo::engine {

bool isAscii(std::string_view text);

/// `text` in NFC. Bytes that are not UTF-8 stay as they are and part what stands before them from what follows; so does
/// a run of more than 256 combining marks, which no language writes and whose ordering would take quadratic time.
std::string toNfc(std::string_view text);

} // namespace octavo::engine
