#pragma once

/// The scene of the pictures: eight panes in eight states, over seven contexts, on two devices.

#include "agents/workbench.h"

namespace octavo::ui::test {

void playScene(agents::Workbench* workbench);

/// An answer of about `tokens` tokens: prose, a table of 80 rows and code of 2,000 lines among it.
QString longAnswer(int tokens);

} // namespace octavo::ui::test
