#pragma once

/// Writes a file as a whole or not at all, away from the GUI thread.

#include "engine/result.h"

#include <QByteArray>
#include <QFuture>
#include <QString>

namespace octavo::ui {

/// Fails with FileUnwritable; a file that was there before is then unchanged.
QFuture<Result<void>> writeFile(const QString& path, const QByteArray& content);

} // namespace octavo::ui
