#pragma once

/// What the bytes of a tracked file are: text that can be packed, or something to list.

#include <QByteArray>
#include <QString>

namespace octavo::agents {

/// Larger files are listed, never read: counting stays quick and one file cannot fill a context.
inline constexpr qint64 maxFileBytes = 1024 * 1024;

/// Empty where `content` is text to be packed, else why it is not, in words.
///
/// Text is valid UTF-8 (U+FFFD is a character like any other) without NUL. One rule for bad bytes: the file is listed
/// with the first of them, never packed with replacements. A line of more than 20,000 bytes in a file of more than
/// 50,000 marks minified or generated content.
QString rejectContent(const QByteArray& content);

/// "3.4 MiB".
QString byteText(qint64 bytes);

/// Length of the longest valid UTF-8 prefix of `bytes`.
qsizetype validUtf8Prefix(const QByteArray& bytes);

} // namespace octavo::agents
