#pragma once

/// How the lists and figures inside a row are written: JSON for what people may read, raw ids for tokens.

#include "agents/values.h"

#include <vector>

namespace octavo::agents {

QString encodeFigures(const AnswerFigures& figures);
AnswerFigures decodeFigures(const QString& json);

QString encodeCitations(const QList<Citation>& citations);
QList<Citation> decodeCitations(const QString& json);

QString encodeOptions(const IngestOptions& options);
IngestOptions decodeOptions(const QString& json);

QByteArray encodeIds(const std::vector<engine::TokenId>& ids); ///< little-endian, four bytes each
std::vector<engine::TokenId> decodeIds(const QByteArray& bytes);

} // namespace octavo::agents
