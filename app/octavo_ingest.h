#pragma once

#include "engine/cli/command.h"

namespace octavo::app {

/// `octavo ingest`: what of a commit would be read. Loads the model's tokenizer and nothing else of it.
cli::Command ingestCommand();

} // namespace octavo::app
