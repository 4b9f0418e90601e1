#pragma once

/// The kinds of `octavo-engine bench`; each stands in a file of its own and is one line in bench.cpp.

#include "engine/cli/command.h"

namespace octavo::cli {

/// Reads a context, again and again: tokens/s beside the roofline.
Result<void> runBenchPrefill(const Arguments& arguments, Streams& streams);
/// Steps of one row for each agent at a given context: tokens/s beside the roofline.
Result<void> runBenchDecode(const Arguments& arguments, Streams& streams);
/// One agent reads a long context beside others that write: worst gap, throughput.
Result<void> runBenchMixed(const Arguments& arguments, Streams& streams);
/// Questions about source files, answered without drafts, with each source of drafts and with both, in turns.
Result<void> runBenchSpeculation(const Arguments& arguments, Streams& streams);

} // namespace octavo::cli
