#pragma once

/// A context made ready: its token ids, and its lines for looking things up.

#include "agents/citations/source_index.h"
#include "agents/prompt/prompt_builder.h"
#include "agents/values.h"

#include <atomic>
#include <functional>
#include <memory>

namespace octavo::agents {

struct ContextData {
    PromptBuilder::Ids ids; ///< from position 0 to the end of the system turn
    std::shared_ptr<const SourceIndex> index;
};

/// Reads the packed files of `result` again by their blob ids. The repository may be elsewhere in time: only the
/// blobs matter. Fails with RepositoryInvalid, NotFound (a blob is gone) or Cancelled. Thread: any.
Result<std::shared_ptr<const ContextData>> buildContext(const IngestOptions& options, const IngestResult& result,
                                                        const PromptBuilder& prompt, const std::atomic<bool>* cancel);

} // namespace octavo::agents
