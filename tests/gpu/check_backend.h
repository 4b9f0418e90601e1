#pragma once

/// The whole model on the GPU: golden answers, and parity of every way to run the same tokens.

#include "tests/gpu/gpu_harness.h"

#include <string>

namespace octavo::gpu
{

/// `modelDir`: the demo model; `goldens`: tests/data/goldens/prompts.json.
void checkBackend(Report& report, const std::string& modelDir, const std::string& goldens);

} // namespace octavo::gpu
