#pragma once

#include "agents/values.h"

#include <initializer_list>
#include <utility>

namespace octavo::ui::test {

/// Files as an ingestion gives them, by path and tokens.
inline QList<agents::PackedFile> packedFiles(std::initializer_list<std::pair<const char*, qint64>> entries)
{
    QList<agents::PackedFile> out;
    for (const auto& [path, tokens] : entries) {
        agents::PackedFile file;
        file.path = path;
        file.displayPath = QString::fromUtf8(path);
        file.tokens = tokens;
        out += file;
    }
    return out;
}

} // namespace octavo::ui::test
