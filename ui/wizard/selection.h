#pragma once

/// The rules of the wizard's second page, without widgets: globs as typed, what fits a budget, what reading will cost.

#include "agents/values.h"

#include <QSet>
#include <QStringList>

namespace octavo::ui {

class FileTreeModel;

/// An answer, with its question, is taken to need this many tokens.
inline constexpr qint64 tokensPerAnswer = 512;

/// "**/*.py, csrc/**/*.{cu,h}" as a list: commas and spaces separate, save within braces.
QStringList splitGlobs(const QString& text);

/// The paths to leave out so that the rest takes at most `budget` tokens: README and sources are kept first, then
/// tests, then what is vendored or generated. Empty where all fits.
QSet<QByteArray> uncheckedToFit(const QList<agents::PackedFile>& files, qint64 budget);

/// `all` reduced to what `tree` has packed: the rest moves to the skipped files with a reason.
agents::IngestResult packedOf(const agents::IngestResult& all, const FileTreeModel& tree);

/// "2 h ago", "yesterday", "3 May 2024".
QString agoText(const QDateTime& time, const QDateTime& now);

/// "reads in about 62 s · 4.2 GiB of RAM · shared by all panes on this commit"; what is not known is left a dash.
QString costText(qint64 tokens, double tokensPerSecond, qint64 bytesPerToken);

} // namespace octavo::ui
