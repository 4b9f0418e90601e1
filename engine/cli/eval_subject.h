#pragma once

/// What the evaluations of `octavo-engine eval` work on: a model, and a text or a repository's files as token ids.

#include "engine/backend/backend_factory.h"
#include "engine/cli/command.h"
#include "engine/engine.h"
#include "engine/evaluation/reading.h"
#include "engine/evaluation/repository_questions.h"
#include "engine/model/weights.h"

#include <filesystem>
#include <memory>
#include <ostream>
#include <vector>

namespace octavo::cli
{

/// A model, how to run it, and the ids that are read.
struct EvalSubject {
    std::filesystem::path dir;
    engine::ModelConfig config;
    std::shared_ptr<const engine::ModelWeights> weights;
    std::vector<engine::TokenId> ids;
    engine::EngineOptions options;

    /// One with room for the ids and 4,096 tokens more.
    Result<std::unique_ptr<engine::Backend>> backend(engine::SparseMode sparse,
                                                     const engine::SparseSettings& settings = {}) const;
};

/// From --model and --text FILE or --ids FILE, cut to --context. Fails with InvalidArgument, or as reading them does.
Result<EvalSubject> openEvalSubject(const Arguments& arguments, Streams& streams);

/// A context of a repository, the text that goes on after it, and questions about it.
struct EvalRepository {
    EvalSubject subject; ///< ids: what is read
    std::vector<engine::TokenId> next;
    std::vector<engine::Lookup> lookups;
    std::vector<std::vector<engine::TokenId>> prompts;
    engine::TokenId endOfTurn = 0;
    std::filesystem::path state; ///< a folder for what was read; may be empty

    std::filesystem::path stateFile(const char* name) const { return state.empty() ? state : state / name; }
};

/// From --text DIR: `samples` tokens behind the context, and as many questions as asked for.
Result<EvalRepository> openEvalRepository(const Arguments& arguments, std::int64_t samples, std::int64_t questions);

/// Says on `err` how many percent are done, once per percent.
engine::EvaluationHooks progressTo(std::ostream& err);

/// A model that gives NaN was not measured: FormatInvalid names the position.
Result<void> checkFinite(std::span<const float> values, const std::filesystem::path& model);
Result<void> checkFinite(std::span<const double> values, const std::filesystem::path& model);

} // namespace octavo::cli
