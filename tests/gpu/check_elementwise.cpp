#include "tests/gpu/checks.h"

#include "kernels/cuda/elementwise.h"

namespace octavo::gpu
{

using namespace kernels::cuda;

void checkElementwise(Report& report)
{
    Random random(4);
    for (const int tokens : {0, 1, 7}) {
        for (const int dim : {8, 520, 5120, 16384}) {
            for (const bool withDelta : {false, true}) {
                const std::vector<float> hidden = randomBf16(random, std::size_t(tokens) * dim);
                const std::vector<float> delta = randomBf16(random, std::size_t(tokens) * dim);
                std::vector<float> weight(dim);
                for (float& value : weight)
                    value = float(random.uniform(0.5, 1.5));
                DeviceArray<__nv_bfloat16> hiddenDevice(toBf16(hidden)), y(hidden.size());
                const DeviceArray<__nv_bfloat16> deltaDevice(toBf16(delta));
                const DeviceArray<float> weightDevice(weight);
                const MatrixView<const __nv_bfloat16> deltaView{withDelta ? deltaDevice.data() : nullptr, tokens, dim,
                                                                dim};
                OCTAVO_REQUIRE(launchAddRmsNorm(denseView(hiddenDevice.data(), tokens, dim), deltaView,
                                                weightDevice.data(), 1e-6f, denseView(y.data(), tokens, dim), nullptr));
                std::vector<double> wantHidden(hidden.begin(), hidden.end()), want(hidden.size());
                referenceAddRmsNorm(wantHidden.data(), withDelta ? delta.data() : nullptr, weight.data(), 1e-6, tokens,
                                    dim, want.data());
                const std::string name = "rmsnorm tokens=" + std::to_string(tokens) + " dim=" + std::to_string(dim);
                compare(report, name, toFloat(y.download()), want, 6e-3);
                compare(report, name + " hidden", toFloat(hiddenDevice.download()), wantHidden, withDelta ? 4e-3 : 0.0);
            }
        }
    }

    std::vector<float> frequencies(32);
    for (int j = 0; j < 32; ++j)
        frequencies[j] = float(std::pow(1e7, -2.0 * j / 64));
    for (const auto& [heads, kvHeads] : {std::pair{4, 2}, {24, 4}}) {
        const std::vector<std::int32_t> positions = {0, 1, 4095, 250000, 262143};
        const int tokens = int(positions.size());
        const std::vector<float> queryGate = randomBf16(random, std::size_t(tokens) * heads * 512);
        const std::vector<float> key = randomBf16(random, std::size_t(tokens) * kvHeads * 256);
        std::vector<float> queryNorm(256), keyNorm(256);
        for (int i = 0; i < 256; ++i)
            queryNorm[i] = float(random.uniform(0.5, 1.5)), keyNorm[i] = float(random.uniform(0.5, 1.5));
        const DeviceArray<__nv_bfloat16> queryGateDevice(toBf16(queryGate)), keyDevice(toBf16(key));
        const DeviceArray<float> queryNormDevice(queryNorm), keyNormDevice(keyNorm), frequenciesDevice(frequencies);
        const DeviceArray<std::int32_t> positionsDevice(positions);
        DeviceArray<__nv_bfloat16> queryOut(std::size_t(tokens) * heads * 256), keyOut(key.size());
        const QkRopeArgs args{queryGateDevice.data(),
                              heads * 512,
                              keyDevice.data(),
                              kvHeads * 256,
                              queryNormDevice.data(),
                              keyNormDevice.data(),
                              positionsDevice.data(),
                              frequenciesDevice.data(),
                              queryOut.data(),
                              keyOut.data(),
                              tokens,
                              heads,
                              kvHeads,
                              1e-6f};
        OCTAVO_REQUIRE(launchQkNormRope(args, nullptr));
        std::vector<double> wantQuery(std::size_t(tokens) * heads * 256), wantKey(key.size());
        for (int t = 0; t < tokens; ++t) {
            for (int h = 0; h < heads; ++h)
                referenceHeadNormRope(&queryGate[(std::size_t(t) * heads + h) * 512], queryNorm.data(), 1e-6,
                                      positions[t], frequencies.data(), &wantQuery[(std::size_t(t) * heads + h) * 256]);
            for (int h = 0; h < kvHeads; ++h)
                referenceHeadNormRope(&key[(std::size_t(t) * kvHeads + h) * 256], keyNorm.data(), 1e-6, positions[t],
                                      frequencies.data(), &wantKey[(std::size_t(t) * kvHeads + h) * 256]);
        }
        compare(report, "rope query", toFloat(queryOut.download()), wantQuery, 4e-3);
        compare(report, "rope key", toFloat(keyOut.download()), wantKey, 4e-3);
    }

    for (const int dim : {8, 1536, 17408}) {
        const int tokens = 3;
        const std::vector<float> gateUp = randomBf16(random, std::size_t(tokens) * 2 * dim, 3.0);
        const DeviceArray<__nv_bfloat16> gateUpDevice(toBf16(gateUp));
        DeviceArray<__nv_bfloat16> y(std::size_t(tokens) * dim);
        const MatrixView<const __nv_bfloat16> view{gateUpDevice.data(), tokens, 2 * dim, 2 * dim};
        OCTAVO_REQUIRE(launchSiluMul(view, denseView(y.data(), tokens, dim), nullptr));
        std::vector<double> want;
        for (int t = 0; t < tokens; ++t)
            for (int i = 0; i < dim; ++i)
                want.push_back(
                    referenceSiluMul(gateUp[std::size_t(t) * 2 * dim + i], gateUp[std::size_t(t) * 2 * dim + dim + i]));
        compare(report, "silu mul dim=" + std::to_string(dim), toFloat(y.download()), want, 4e-3);
    }

    for (const auto& [outputs, inputs] : {std::pair{1, 8}, {96, 5120}, {33, 264}}) {
        for (const int rows : {1, 8, 9, 64}) {
            const std::vector<float> x = randomBf16(random, std::size_t(rows) * inputs);
            const std::vector<float> weights = randomBf16(random, std::size_t(outputs) * inputs);
            const DeviceArray<__nv_bfloat16> xDevice(toBf16(x)), weightsDevice(toBf16(weights));
            DeviceArray<__nv_bfloat16> y(std::size_t(rows) * outputs);
            const MatrixView<const __nv_bfloat16> xView{xDevice.data(), rows, inputs, inputs};
            const MatrixView<const __nv_bfloat16> weightsView{weightsDevice.data(), outputs, inputs, inputs};
            OCTAVO_REQUIRE(launchBf16Gemv(xView, weightsView, y.data(), outputs, GemmOutput::Bf16, nullptr));
            std::vector<double> want(std::size_t(rows) * outputs, 0.0);
            for (int m = 0; m < rows; ++m)
                for (int n = 0; n < outputs; ++n)
                    for (int k = 0; k < inputs; ++k)
                        want[std::size_t(m) * outputs + n] +=
                            double(x[std::size_t(m) * inputs + k]) * weights[std::size_t(n) * inputs + k];
            compare(report, "bf16 gemv", toFloat(y.download()), want, 4e-3);
        }
    }

    const std::vector<float> table = randomBf16(random, 10 * 520);
    const DeviceArray<__nv_bfloat16> tableDevice(toBf16(table));
    const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{9, 0, 9, 4});
    DeviceArray<__nv_bfloat16> rows(4 * 520);
    const MatrixView<const __nv_bfloat16> tableView{tableDevice.data(), 10, 520, 520};
    OCTAVO_REQUIRE(launchEmbedding(tableView, ids.data(), denseView(rows.data(), 4, 520), nullptr));
    std::vector<double> want;
    for (const int id : {9, 0, 9, 4})
        want.insert(want.end(), table.begin() + id * 520, table.begin() + (id + 1) * 520);
    compare(report, "embedding", toFloat(rows.download()), want, 0.0);
}

} // namespace octavo::gpu
