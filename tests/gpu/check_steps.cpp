#include "tests/gpu/check_backend.h"

#include "tests/gpu/backend_driver.h"

#include "engine/backend/backend_factory.h"
#include "engine/backend/cuda_backend.h"
#include "engine/model/quantized_linear.h"

#include <nlohmann/json.hpp>

#include <memory>

namespace octavo::gpu
{

namespace
{

/// Steps of one shape are recorded once, at their second coming, and replayed from then on; so are passes of drafts.
void checkGraphs(Report& report, const ModelConfig& config, const std::shared_ptr<const ModelWeights>& weights,
                 std::span<const TokenId> ids, bool mtp)
{
    BackendOptions options;
    options.device = "cuda:0";
    options.sparse = SparseMode::On;
    options.sparseSettings.recent = 256;
    options.contextLimit = 8192;
    options.mtp = mtp;
    const auto made = makeBackend(config, weights, options);
    if (!report.expect(made.has_value(), "graphs: %s", made ? "" : made.error().message.c_str()))
        return;
    const auto& backend = static_cast<const CudaBackend&>(**made);
    Driver driver(report, **made);
    const SlotId slot = driver.create(8192), other = driver.create(8192);
    driver.prefill(slot, ids);
    driver.prefill(other, ids);
    const std::vector<TokenId> one{ids[0]}, five(5, ids[0]);
    constexpr int steps = 40;
    const auto records = [&](const char* what, int most, auto&& step) {
        const CudaBackend::PassCounts before = backend.passCounts();
        for (int i = 0; i < steps; ++i)
            step();
        const CudaBackend::PassCounts after = backend.passCounts();
        const auto direct = int(after.direct - before.direct), recorded = int(after.recorded - before.recorded),
                   replayed = int(after.replayed - before.replayed);
        report.expect(direct <= most && recorded <= most && direct + replayed >= steps,
                      "graphs: %d times %s took %d passes one by one, %d recordings and %d replays", steps, what,
                      direct, recorded, replayed);
    };
    if (!mtp) {
        records("a step of one row", 1, [&] { driver.step(slot, one); });
        records("a step of two rows of two sequences", 1, [&] {
            driver.step({StepEntry{slot, one}, StepEntry{other, one}});
        });
        records("five rows verified", 1, [&] {
            driver.step(slot, five);
            driver.commit(slot, 2);
        });
    } else {
        // A pass drafts behind none to four rows that wait for MTP; verifying is the sixth shape.
        int kept = 0;
        records("a round of three drafts", 6, [&] {
            driver.draft(slot, ids[0], 3);
            driver.step(slot, five);
            driver.commit(slot, 1 + kept++ % 4);
        });
    }
    driver.destroy(slot);
    driver.destroy(other);
}

/// A head that is quantised while loading is the head of a checkpoint that holds it so.
void checkQuantizedHead(Report& report, const ModelConfig& config, const std::shared_ptr<const ModelWeights>& weights,
                        std::span<const TokenId> ids)
{
    const auto int4 = quantizeInt4(weights->head(), 4);
    if (!report.expect(int4.has_value(), "int4 head: %s", int4 ? "" : int4.error().message.c_str()))
        return;
    const auto stored = std::make_shared<ModelWeights>(*weights);
    stored->lmHead = int4->weight;
    BackendOptions options;
    options.device = "cuda:0";
    options.contextLimit = 4096;
    auto plain = makeBackend(config, weights, options), loaded = makeBackend(config, stored, options);
    options.quantizeHead = true;
    auto quantized = makeBackend(config, weights, options);
    if (!report.expect(plain && loaded && quantized, "int4 head: no backend"))
        return;
    Driver plainDriver(report, **plain), loadedDriver(report, **loaded), quantizedDriver(report, **quantized);
    const auto rows = [&](Driver& driver) {
        const SlotId slot = driver.create(2048);
        std::vector<std::vector<float>> logits{driver.prefill(slot, ids)};
        for (int i = 0; i < 16; ++i)
            logits.push_back(driver.step(slot, {ids[std::size_t(i)]}));
        driver.destroy(slot);
        return logits;
    };
    const auto want = rows(loadedDriver), got = rows(quantizedDriver), exact = rows(plainDriver);
    report.expect(got == want, "int4 head: logits are not those of a checkpoint with that head");
    double difference = 0.0, norm = 0.0;
    int sameToken = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        for (std::size_t j = 0; j < exact[i].size(); ++j) {
            difference += (double(exact[i][j]) - got[i][j]) * (double(exact[i][j]) - got[i][j]);
            norm += double(exact[i][j]) * exact[i][j];
        }
        sameToken += argmax(exact[i]) == argmax(got[i]);
    }
    report.line("int4 head: logits %.3f (relative) from those of the head as stored, %d of %zu tokens the same",
                std::sqrt(difference / norm), sameToken, exact.size());
}

} // namespace

void checkSteps(Report& report, const ModelConfig& config, const std::shared_ptr<const ModelWeights>& weights,
                const nlohmann::json& prompts)
{
    std::vector<TokenId> ids;
    for (std::size_t p = 0; ids.size() < 600 && p < prompts.size(); ++p) {
        const auto more = prompts[p]["prompt_ids"].get<std::vector<TokenId>>();
        ids.insert(ids.end(), more.begin(), more.end());
    }
    ids.resize(600);
    for (const bool mtp : {false, true})
        checkGraphs(report, config, weights, ids, mtp);
    checkQuantizedHead(report, config, weights, ids);
}

} // namespace octavo::gpu
