#pragma once

/// The kinds of `octavo-engine bench`; each stands in a file of its own and is one line in bench.cpp.

#include "engine/cli/command.h"
#include "engine/types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace octavo::cli {

/// Any ordinary tokens will do for speed; each seed gives others, so that nothing is shared.
std::vector<engine::TokenId> uniqueTokens(std::int64_t count, engine::TokenId endId, std::uint64_t seed);

/// The command line that was given, ready to be given again: `octavo-engine bench mixed --agents 4`.
std::string reproducingCommand(const Arguments& arguments);

/// Reads a context, again and again: tokens/s beside the roofline.
Result<void> runBenchPrefill(const Arguments& arguments, Streams& streams);
/// Steps of one row for each agent at a given context: tokens/s beside the roofline.
Result<void> runBenchDecode(const Arguments& arguments, Streams& streams);
/// One agent reads a long context beside others that write: worst gap, throughput.
Result<void> runBenchMixed(const Arguments& arguments, Streams& streams);
/// Questions about source files, answered without drafts, with each source of drafts and with both, in turns.
Result<void> runBenchSpeculation(const Arguments& arguments, Streams& streams);
/// Opens a saved context again and asks: time to the first token, and what a commit that changes its end reads again.
Result<void> runBenchReopen(const Arguments& arguments, Streams& streams);
/// Cancels while an agent reads and while it writes: time until the engine is idle.
Result<void> runBenchCancel(const Arguments& arguments, Streams& streams);

/// Decodes a text behind a long context of it and replays the picks through buffers of several sizes: hit rates.
Result<void> runBenchTier(const Arguments& arguments, Streams& streams);

} // namespace octavo::cli
