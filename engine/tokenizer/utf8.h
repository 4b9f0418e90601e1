#pragma once

/// Strict UTF-8 decoding: no overlong forms, no surrogates, nothing above U+10FFFF.

#include <cstdint>
#include <string_view>

namespace octavo::engine {

struct Utf8Step {
    enum class Kind {
        Character, ///< `length` bytes are one valid character
        Bad,       ///< `length` bytes can never become a character (a maximal subpart, Unicode 15, section 3.9)
        Cut,       ///< `length` bytes up to the end of the text may still become one
    };
    Kind kind = Kind::Bad;
    int length = 1;
    char32_t codePoint = 0; ///< of a Character
};

/// What stands at the front of `text`, which must not be empty.
inline Utf8Step decodeUtf8(std::string_view text)
{
    const auto byte = [&](std::size_t i) { return std::uint8_t(text[i]); };
    const std::uint8_t lead = byte(0);
    if (lead < 0x80)
        return {Utf8Step::Kind::Character, 1, lead};
    if (lead < 0xC2 || lead > 0xF4)
        return {Utf8Step::Kind::Bad, 1, 0};
    const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    // Only the second byte's range depends on the first.
    std::uint8_t low = 0x80, high = 0xBF;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    char32_t codePoint = lead & (0xFF >> (length + 1));
    for (int i = 1; i < length; ++i) {
        if (std::size_t(i) >= text.size())
            return {Utf8Step::Kind::Cut, i, 0};
        if (byte(std::size_t(i)) < low || byte(std::size_t(i)) > high)
            return {Utf8Step::Kind::Bad, i, 0};
        codePoint = (codePoint << 6) | (byte(std::size_t(i)) & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    return {Utf8Step::Kind::Character, length, codePoint};
}

} // namespace octavo::engine
