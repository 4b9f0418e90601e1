#pragma once

#include "engine/cli/command.h"

#include <nlohmann/json.hpp>

namespace octavo::cli
{

/// Asks questions about source files in contexts of 1,024 tokens to --context, each twice as long as the one before, in
/// all the ways an answer can come about, and counts the greedy answers that differ from those of an engine that has
/// just started: after others, with drafts, beside seven others, from disk after a restart, on two workers. Minutes.
Result<nlohmann::ordered_json> evalParity(const Arguments& arguments, Streams& streams);

} // namespace octavo::cli
