#pragma once

/// What several commands share: the options for model and device, and JSON lines.

#include "engine/cli/command.h"
#include "engine/engine.h"
#include "engine/memory/sparse_settings.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace octavo::cli {

/// No context is longer, in tokens: what a bound must be before anything of that size is allocated.
inline constexpr std::int64_t longestContext = std::int64_t{1} << 24;

OptionSpec modelOption();   ///< --model DIR
OptionSpec jsonOption();    ///< --json
/// --device, --threads, --context, --cpu-path, --sparse: how an engine is set up.
std::vector<OptionSpec> engineOptions();

/// `options` followed by `more`.
std::vector<OptionSpec> joined(std::vector<OptionSpec> options, std::vector<OptionSpec> more);

/// --model, or the bundled demo model. Fails with NotFound where there is neither.
Result<std::filesystem::path> modelDir(const Arguments& arguments);

/// EngineOptions from modelOption() and engineOptions(). Fails with InvalidArgument, or with FileUnwritable where
/// contexts cannot be kept in the folder named.
Result<engine::EngineOptions> readEngineOptions(const Arguments& arguments);

/// How rows are picked, from --pick-rule. Fails with InvalidArgument.
Result<engine::PickRule> readPickRule(const Arguments& arguments);

/// The folder that `option` names, made where it is missing. Fails with InvalidArgument where it names none and with
/// FileUnwritable where nothing can be kept there.
Result<std::filesystem::path> keptFolder(const char* option, const std::string& given);

/// The engine for those options; says on `err` what is loaded.
Result<std::unique_ptr<engine::Engine>> openEngine(const Arguments& arguments, Streams& streams);

/// Reads token ids: numbers in JSON brackets or apart by blanks, commas or lines; "-" reads `in`. Fails with
/// FileUnreadable, FormatInvalid, or InvalidArgument where there are none. Which are valid is for the caller to check.
Result<std::vector<engine::TokenId>> readIds(const std::string& file, std::istream& in);

/// Fails with InvalidArgument where an id is negative or not below `endId`.
Result<void> checkIds(std::span<const engine::TokenId> ids, engine::TokenId endId);

/// All of a stream or file as bytes. Fails with FileUnreadable, or with FormatInvalid beyond 256 MiB.
Result<std::string> readAll(std::istream& in);
Result<std::string> readFile(const std::filesystem::path& file);

} // namespace octavo::cli
