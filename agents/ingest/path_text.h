#pragma once

/// Paths are bytes; people and prompts see one escaped form of them.

#include <QByteArray>
#include <QString>

namespace octavo::agents {

/// `path` as text, so that different paths give different texts and none holds a control character.
///
/// Valid UTF-8 in NFC stays as it is. A backslash is doubled; tab, newline and return become \t, \n, \r; other control
/// characters, direction marks and bytes that are not UTF-8 become \xNN. A path that is not in NFC has all its
/// non-ASCII bytes escaped: a tokenizer normalises, and two names would become one.
QString displayPath(const QByteArray& path);

} // namespace octavo::agents
