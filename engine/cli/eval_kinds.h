#pragma once

/// The kinds of `octavo-engine eval` that have a file of their own; eval.cpp has the others and the command.

#include "engine/cli/command.h"

#include <nlohmann/json.hpp>

namespace octavo::cli
{

/// How far sparse decoding strays from dense attention over int8 rows, on text and on the dense path's own answers:
/// `samples`, `mean`, `p99`, `top1` of the default way on text; every way under a name of its own.
Result<nlohmann::ordered_json> evalKld(const Arguments& arguments, Streams& streams);

/// Values hidden in a text, or questions about a folder's files, and which of them are found: `correct`, `total`,
/// `misses`. A folder is asked both densely and sparsely; those three are the sparse answers'.
Result<nlohmann::ordered_json> evalRecall(const Arguments& arguments, Streams& streams);

} // namespace octavo::cli
