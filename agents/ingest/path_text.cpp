#include "agents/ingest/path_text.h"

#include <QList>
#include <QStringDecoder>

#include <algorithm>

namespace octavo::agents {

namespace {

void appendEscaped(QString& out, uchar byte)
{
    static constexpr char digits[] = "0123456789abcdef";
    out += QLatin1String("\\x");
    out += QLatin1Char(digits[byte >> 4]);
    out += QLatin1Char(digits[byte & 15]);
}

/// Length of the valid UTF-8 character at `at`, 0 where there is none.
int characterLength(const QByteArray& bytes, qsizetype at)
{
    const auto lead = uchar(bytes[at]);
    const int length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || at + length > bytes.size())
        return 0;
    QStringDecoder decoder(QStringDecoder::Utf8, QStringDecoder::Flag::Stateless);
    const QString text = decoder.decode(QByteArrayView(bytes).sliced(at, length));
    return decoder.hasError() || text.isEmpty() ? 0 : length;
}

bool mustEscape(const QString& character)
{
    const char32_t c = character.toUcs4().value(0);
    const auto category = QChar::category(c);
    return category == QChar::Other_Control || category == QChar::Other_Format || category == QChar::Separator_Line ||
           category == QChar::Separator_Paragraph || category == QChar::Other_NotAssigned ||
           category == QChar::Other_PrivateUse;
}

} // namespace

QString displayPath(const QByteArray& path)
{
    const QString decoded = QString::fromUtf8(path);
    const bool normalised = decoded == decoded.normalized(QString::NormalizationForm_C);
    QString out;
    out.reserve(path.size());
    for (qsizetype at = 0; at < path.size();) {
        const int length = characterLength(path, at);
        const QString character = length > 0 ? QString::fromUtf8(path.constData() + at, length) : QString();
        const char first = path[at];
        if (first == '\\')
            out += QLatin1String("\\\\");
        else if (first == '\n')
            out += QLatin1String("\\n");
        else if (first == '\t')
            out += QLatin1String("\\t");
        else if (first == '\r')
            out += QLatin1String("\\r");
        else if (length == 0 || mustEscape(character) || (length > 1 && !normalised)) {
            for (int i = 0; i < std::max(length, 1); ++i)
                appendEscaped(out, uchar(path[at + i]));
        } else
            out += character;
        at += std::max(length, 1);
    }
    return out;
}

} // namespace octavo::agents
