#pragma once

/// The whole model on the GPU: golden answers, and parity of every way to run the same tokens.

#include "tests/gpu/gpu_harness.h"

#include "engine/model/model_config.h"
#include "engine/model/weights.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <memory>
#include <string>

namespace octavo::gpu
{

/// `modelDir`: the demo model; `goldens`: tests/data/goldens/prompts.json.
void checkBackend(Report& report, const std::string& modelDir, const std::string& goldens);

/// The draft chain: against reference values, and the same however its sequence came about. `golden`: mtp.json.
void checkMtp(Report& report, const engine::ModelConfig& config,
              const std::shared_ptr<const engine::ModelWeights>& weights, const std::filesystem::path& golden);

/// How steps are run, beside what they give: graphs are recorded once; a head in int4.
void checkSteps(Report& report, const engine::ModelConfig& config,
                const std::shared_ptr<const engine::ModelWeights>& weights, const nlohmann::json& prompts);

/// What doctor plans for a shape, and what the backend takes of the device for it.
void checkBudget(Report& report);

/// Saved sequences: what another backend opens answers bit for bit as what was saved.
void checkImages(Report& report, const engine::ModelConfig& config,
                 const std::shared_ptr<const engine::ModelWeights>& weights, const nlohmann::json& prompts);

/// The engine's workers: speculation changes no answer, two workers answer as one does, and one that fails leaves the
/// other alone. On two GPUs where there are two, else both on one.
void checkWorkers(Report& report, const std::string& modelDir, const nlohmann::json& prompts);

} // namespace octavo::gpu
