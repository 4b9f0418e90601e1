#pragma once

/// What went wrong, in the language of the interface.
///
/// The layers below speak plain English sentences with figures and names in them. The frequent ones are known here by
/// their pattern; one that is not known stays as it is, which is better than a general word for it.

#include "engine/result.h"

#include <QString>

namespace octavo::ui {

/// errorTitle(), translated.
QString problemTitle(ErrorCode code);

/// A problem of a pane, a context or a save, or why a file was left out.
QString problemText(const QString& sentence);
inline QString problemText(const Error& error)
{
    return problemText(QString::fromStdString(error.message));
}

/// The sentences that are known, with %1, %2, ... for what varies.
QStringList knownProblems();

} // namespace octavo::ui
