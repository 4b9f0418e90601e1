#include "agents/store/message_codec.h"

#include "agents/ingest/path_text.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QtEndian>

namespace octavo::agents {

namespace {

QString compact(const QJsonDocument& document)
{
    return QString::fromUtf8(document.toJson(QJsonDocument::Compact));
}

QJsonDocument parse(const QString& json)
{
    return QJsonDocument::fromJson(json.toUtf8());
}

QString base64(const QByteArray& bytes)
{
    return QString::fromLatin1(bytes.toBase64());
}

QByteArray fromBase64(const QJsonValue& value)
{
    return QByteArray::fromBase64(value.toString().toLatin1());
}

} // namespace

QString encodeFigures(const AnswerFigures& f)
{
    return compact(QJsonDocument(QJsonObject{{"prompt", f.promptTokens},
                                             {"reused", f.reusedTokens},
                                             {"new", f.newTokens},
                                             {"accepted", f.acceptedDrafts},
                                             {"ttft_ms", f.ttftMs},
                                             {"tokens_per_s", f.tokensPerSecond},
                                             {"worst_gap_ms", f.worstGapMs}}));
}

AnswerFigures decodeFigures(const QString& json)
{
    const QJsonObject o = parse(json).object();
    AnswerFigures f;
    f.promptTokens = o["prompt"].toInteger();
    f.reusedTokens = o["reused"].toInteger();
    f.newTokens = o["new"].toInteger();
    f.acceptedDrafts = o["accepted"].toInteger();
    f.ttftMs = o["ttft_ms"].toDouble(-1);
    f.tokensPerSecond = o["tokens_per_s"].toDouble(-1);
    f.worstGapMs = o["worst_gap_ms"].toDouble(-1);
    return f;
}

QString encodeCitations(const QList<Citation>& citations)
{
    QJsonArray out;
    for (const Citation& c : citations)
        out.append(
            QJsonArray{int(c.kind), int(c.state), base64(c.path), c.line, c.lastLine, c.textStart, c.textLength});
    return compact(QJsonDocument(out));
}

QList<Citation> decodeCitations(const QString& json)
{
    QList<Citation> out;
    for (const QJsonValue& value : parse(json).array()) {
        const QJsonArray row = value.toArray();
        Citation c;
        c.kind = CitationKind(row[0].toInt());
        c.state = CitationState(row[1].toInt());
        c.path = fromBase64(row[2]);
        c.displayPath = displayPath(c.path);
        c.line = row[3].toInt();
        c.lastLine = row[4].toInt();
        c.textStart = row[5].toInt();
        c.textLength = row[6].toInt();
        out.append(c);
    }
    return out;
}

QString encodeOptions(const IngestOptions& options)
{
    QJsonArray unchecked;
    for (const QByteArray& path : options.unchecked)
        unchecked.append(base64(path));
    return compact(QJsonDocument(QJsonObject{{"repository", options.repository},
                                             {"ref", options.ref},
                                             {"include", QJsonArray::fromStringList(options.include)},
                                             {"exclude", QJsonArray::fromStringList(options.exclude)},
                                             {"unchecked", unchecked},
                                             {"trusted", options.trusted},
                                             {"budget", options.tokenBudget}}));
}

IngestOptions decodeOptions(const QString& json)
{
    const QJsonObject o = parse(json).object();
    IngestOptions options;
    options.repository = o["repository"].toString();
    options.ref = o["ref"].toString();
    options.include = o["include"].toVariant().toStringList();
    options.exclude = o["exclude"].toVariant().toStringList();
    for (const QJsonValue& path : o["unchecked"].toArray())
        options.unchecked.append(fromBase64(path));
    options.trusted = o["trusted"].toBool();
    options.tokenBudget = o["budget"].toInteger();
    return options;
}

QByteArray encodeIds(const std::vector<engine::TokenId>& ids)
{
    QByteArray out(qsizetype(ids.size() * 4), Qt::Uninitialized);
    for (std::size_t i = 0; i < ids.size(); ++i)
        qToLittleEndian(ids[i], out.data() + i * 4);
    return out;
}

std::vector<engine::TokenId> decodeIds(const QByteArray& bytes)
{
    std::vector<engine::TokenId> out(std::size_t(bytes.size() / 4));
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = qFromLittleEndian<engine::TokenId>(bytes.constData() + i * 4);
    return out;
}

} // namespace octavo::agents
