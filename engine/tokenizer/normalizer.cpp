#include "engine/tokenizer/normalizer.h"

#include "engine/tokenizer/utf8.h"

#include <utf8proc.h>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace octavo::engine {

namespace {

constexpr int maxCombiningRun = 256;

// `run` is valid UTF-8.
void appendNfc(std::string& out, std::string_view run)
{
    if (isAscii(run)) {
        out += run;
        return;
    }
    utf8proc_uint8_t* buffer = nullptr;
    const auto length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(run.data()), utf8proc_ssize_t(run.size()), &buffer,
                     utf8proc_option_t(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(buffer, &std::free);
    if (length < 0)
        out += run;
    else
        out.append(reinterpret_cast<const char*>(buffer), std::size_t(length));
}

} // namespace

bool isAscii(std::string_view text)
{
    std::size_t i = 0;
    for (; i + 8 <= text.size(); i += 8) {
        std::uint64_t word;
        std::memcpy(&word, text.data() + i, 8);
        if (word & 0x8080808080808080u)
            return false;
    }
    for (; i < text.size(); ++i) {
        if (std::uint8_t(text[i]) >= 0x80)
            return false;
    }
    return true;
}

std::string toNfc(std::string_view text)
{
    std::string out;
    out.reserve(text.size());
    std::size_t begin = 0, pos = 0;
    int combining = 0;
    while (pos < text.size()) {
        const Utf8Step step = decodeUtf8(text.substr(pos));
        if (step.kind != Utf8Step::Kind::Character) {
            appendNfc(out, text.substr(begin, pos - begin));
            out += text.substr(pos, std::size_t(step.length));
            begin = pos += std::size_t(step.length);
            combining = 0;
            continue;
        }
        const bool marks = step.codePoint >= 0x300 &&
                           utf8proc_get_property(utf8proc_int32_t(step.codePoint))->combining_class != 0;
        combining = marks ? combining + 1 : 0;
        if (combining > maxCombiningRun) {
            appendNfc(out, text.substr(begin, pos - begin));
            begin = pos;
            combining = 1;
        }
        pos += std::size_t(step.length);
    }
    appendNfc(out, text.substr(begin));
    return out;
}

} // namespace octavo::engine
