#pragma once

#include <QString>

namespace octavo::ui {

/// What the layers below call a stage of loading, cloning or counting, in the language of the interface. A stage that
/// is not known here stays as it is.
QString stageText(const QString& stage);

} // namespace octavo::ui
