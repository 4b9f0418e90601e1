#pragma once

/// The options that name a repository and what of it is read, shared by `octavo ask` and `octavo ingest`.

#include "agents/values.h"
#include "engine/cli/command.h"

#include <ostream>

namespace octavo::app {

/// --repo, --ref, --include, --exclude, --budget, --trust.
std::vector<cli::OptionSpec> repositoryOptions();

/// Fails with InvalidArgument where --repo is missing or a glob is broken or empty.
Result<agents::IngestOptions> readRepositoryOptions(const cli::Arguments& arguments);

/// `error` of reading that repository, with the option that helps: --trust for another user's, --ref where HEAD leads
/// to no commit.
Error withHint(Error error, const agents::IngestOptions& options);

/// `text` for a terminal: control characters other than newline and tab become U+FFFD and marks that turn the
/// direction of writing "<U+202E>", so that nothing read from a repository or written by a model can steer the terminal
/// or show code in another order than it has.
std::string terminalText(const QString& text);

} // namespace octavo::app
