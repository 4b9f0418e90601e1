#include "agents/ingest/file_text.h"

#include <QLocale>

#include <algorithm>
#include <cstring>

namespace octavo::agents {

namespace {

constexpr qsizetype binaryProbe = 8000; // as git looks
constexpr qsizetype maxLineBytes = 20'000;
constexpr qsizetype minMinifiedBytes = 50'000;

} // namespace

QString byteText(qint64 bytes)
{
    return QLocale::c().formattedDataSize(bytes, bytes < 10 * 1024 ? 0 : 1, QLocale::DataSizeIecFormat);
}

qsizetype validUtf8Prefix(const QByteArray& bytes)
{
    const auto* s = reinterpret_cast<const uchar*>(bytes.constData());
    const qsizetype size = bytes.size();
    qsizetype i = 0;
    while (i < size) {
        if (s[i] < 0x80) {
            ++i;
            continue;
        }
        int length = 0;
        uchar low = 0x80, high = 0xbf; // bounds of the second byte: no overlongs, no surrogates, nothing past U+10FFFF
        if (s[i] >= 0xc2 && s[i] <= 0xdf)
            length = 2;
        else if (s[i] >= 0xe0 && s[i] <= 0xef) {
            length = 3;
            low = s[i] == 0xe0 ? 0xa0 : low;
            high = s[i] == 0xed ? 0x9f : high;
        } else if (s[i] >= 0xf0 && s[i] <= 0xf4) {
            length = 4;
            low = s[i] == 0xf0 ? 0x90 : low;
            high = s[i] == 0xf4 ? 0x8f : high;
        }
        if (length == 0 || i + length > size || s[i + 1] < low || s[i + 1] > high)
            return i;
        for (int k = 2; k < length; ++k) {
            if ((s[i + k] & 0xc0) != 0x80)
                return i;
        }
        i += length;
    }
    return i;
}

QString rejectContent(const QByteArray& content)
{
    if (content.startsWith("version https://git-lfs.github.com/spec/") && content.size() < 1024) {
        const qsizetype at = content.indexOf("\nsize ");
        const qint64 size = at < 0 ? 0 : content.mid(at + 6, content.indexOf('\n', at + 6) - at - 6).toLongLong();
        return size > 0 ? QStringLiteral("Git LFS pointer, content not fetched (%1)").arg(byteText(size))
                        : QStringLiteral("Git LFS pointer, content not fetched");
    }
    if (content.startsWith("\xff\xfe") || content.startsWith("\xfe\xff"))
        return QStringLiteral("encoding not known (looks like UTF-16)");
    if (std::memchr(content.constData(), 0, std::size_t(std::min(content.size(), binaryProbe))) != nullptr)
        return QStringLiteral("binary");
    const qsizetype valid = validUtf8Prefix(content);
    if (valid < content.size()) {
        return QStringLiteral("encoding not known (byte 0x%1 at %2 is not UTF-8)")
            .arg(uint(uchar(content[valid])), 2, 16, QLatin1Char('0'))
            .arg(valid);
    }
    if (content.contains('\0'))
        return QStringLiteral("binary");
    if (content.size() > minMinifiedBytes) {
        qsizetype longest = 0;
        for (qsizetype from = 0; from < content.size();) {
            qsizetype end = content.indexOf('\n', from);
            if (end < 0)
                end = content.size();
            longest = std::max(longest, end - from);
            from = end + 1;
        }
        if (longest > maxLineBytes)
            return QStringLiteral("minified or generated (a line of %1)").arg(byteText(longest));
    }
    return {};
}

} // namespace octavo::agents
