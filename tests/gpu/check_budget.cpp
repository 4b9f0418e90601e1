#include "tests/gpu/check_backend.h"

#include "tests/gpu/backend_driver.h"
#include "tests/gpu/noise_basis.h"

#include "engine/backend/cuda_backend.h"
#include "engine/evaluation/memory_plan.h"
#include "engine/model/model_shapes.h"
#include "engine/model/random_weights.h"

#include <utility>

namespace octavo::gpu
{

/// The 27B shape with fewer layers and words, so that it is there soon; four agents of 250,000 tokens and what else the
/// plan has room for.
void checkBudget(Report& report)
{
    auto shape = modelShape("qwen3.5-27b");
    if (!report.expect(shape.has_value(), "budget: no shape"))
        return;
    ModelConfig& config = shape->config;
    config.numLayers = 8;
    config.layerTypes.resize(8);
    config.vocabSize = 65536;
    const auto weights = std::make_shared<const ModelWeights>(randomWeights(*shape));
    const TemporaryBasis basis(config, weights->hash);

    MemoryPlanRequest request;
    request.config = config;
    for (const LinearWeight* weight : weights->linears()) // as doctor counts a folder's; random MTP is int4
        request.weightBytes += weight->storedBytes();
    request.mtp = true;
    request.agents = 4;
    request.contextTokens = 250'000;
    request.ramBytes = std::int64_t{64} << 30;
    request.deviceBytes = std::int64_t{7} << 30;
    MemoryPlan plan = planMemory(request);
    plan.device.hotBuffer += std::exchange(plan.device.reading, 0); // nothing is read here

    BackendOptions options;
    options.device = "cuda:0";
    options.sparse = SparseMode::On;
    options.sketchBasis = basis.file();
    options.contextLimit = request.contextTokens;
    options.sequences = request.agents;
    options.prefillBlocks = false;  // takes what it finds
    options.quantizeDrafts = false; // as on a card that has what is planned for
    options.memoryBudgetBytes = request.deviceBytes - plan.device.weights - plan.device.workSpace;
    std::size_t freeBefore = 0, freeAfter = 0, total = 0;
    OCTAVO_REQUIRE(cudaMemGetInfo(&freeBefore, &total));
    auto made = CudaBackend::create(config, weights, options);
    if (!report.expect(made.has_value(), "budget: %s", made ? "" : made.error().message.c_str()))
        return;
    auto& backend = static_cast<CudaBackend&>(**made);
    Driver driver(report, backend);
    for (int agent = 0; agent < request.agents; ++agent) {
        const SlotId slot = driver.create(request.contextTokens);
        for (int checkpoint = 0; checkpoint < 2; ++checkpoint)
            driver.fork(slot, 0);
    }
    OCTAVO_REQUIRE(cudaMemGetInfo(&freeAfter, &total));
    const CudaBackend::MemoryParts parts = backend.memoryParts();
    std::int64_t planned = 0, taken = 0;
    const auto term = [&](const char* name, std::int64_t plannedBytes, std::int64_t takenBytes) {
        report.line("budget: %-22s %8.1f MiB planned, %8.1f MiB taken", name, double(plannedBytes) / (1 << 20),
                    double(takenBytes) / (1 << 20));
        report.expect(std::abs(takenBytes - plannedBytes) * 20 <= plannedBytes + (1 << 22),
                      "budget: %s takes %lld MiB, planned %lld", name, static_cast<long long>(takenBytes >> 20),
                      static_cast<long long>(plannedBytes >> 20));
        planned += plannedBytes;
        taken += takenBytes;
    };
    term("weights", plan.device.weights, parts.weights);
    term("key sketches", plan.device.sketch, parts.sketches);
    term("newest rows", plan.device.recent, parts.rows);
    term("states", plan.device.state + plan.device.checkpoints, parts.states);
    term("work space", plan.device.workSpace, parts.workSpace);
    term("hot buffers", plan.device.hotBuffer, parts.hotBuffers);
    report.line("budget: %-22s %8.1f MiB planned, %8.1f MiB taken, %8.1f MiB less free", "all",
                double(planned) / (1 << 20), double(taken) / (1 << 20), double(freeBefore - freeAfter) / (1 << 20));
    report.expect(backend.stats().memoryUsedBytes == taken, "budget: the parts are not what is counted");
    report.expect(std::abs(double(freeBefore - freeAfter) - double(planned)) <= 0.05 * double(planned),
                  "budget: %.0f MiB went, planned %.0f", double(freeBefore - freeAfter) / (1 << 20),
                  double(planned) / (1 << 20));
}

} // namespace octavo::gpu
