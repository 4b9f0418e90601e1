#pragma once

/// The scene of the pictures: eight panes in eight states, over seven contexts, on two devices.

#include "agents/workbench.h"

namespace octavo::ui::test {

void playScene(agents::Workbench* workbench);

} // namespace octavo::ui::test
